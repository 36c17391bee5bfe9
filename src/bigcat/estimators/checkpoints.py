"""Which fit a checkpoint belongs to, in terms of an estimator and its data."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from bigcat._version import __version__
from bigcat.compile import source_hash
from bigcat.training.checkpoint import Checkpoint, FolderCheckpointer, Identity, digest
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer

#: Parameters that change nothing of what a fit gives.
_OF_NO_MATTER = (
    "checkpoint",
    "progress",
    "client",
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def of(estimator: Any, resume: bool) -> Checkpoint | None:
    """Return the `checkpoint` of an estimator, checked."""
    given = estimator.checkpoint
    if resume and (given is None or getattr(given, "folder", given) is None):
        raise ValueError(
            "resume=True needs a checkpoint to go on from; set checkpoint to its folder"
        )
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def checkpointer_for(
    estimator: Any, random_state: np.random.RandomState, resume: bool, data: dict[str, Any]
) -> Checkpointer:
    """Return who writes down a fit of the estimator to these data."""
    checkpoint = of(estimator, resume)
    if checkpoint is None or checkpoint.folder is None:
        return NO_CHECKPOINTS
    digests = {name: digest(value) for name, value in data.items()}
    identity = Identity(_parameters(estimator), digests)
    return FolderCheckpointer(checkpoint, identity, random_state, resume=resume)


def _parameters(estimator: Any) -> dict[str, str]:
    found = {"bigcat": __version__, "compiled code": source_hash()[:12]}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            value = "a RandomState"  # where it began is in the checkpoint
        if name not in _OF_NO_MATTER:
            found[name] = _ADDRESS.sub("", repr(value))
    return found
