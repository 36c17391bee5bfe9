"""Which fit a checkpoint belongs to, in terms of an estimator and its data."""

from __future__ import annotations

import math
import os
import re
from typing import Any

import numpy as np

from bigcat._version import __version__
from bigcat.compile import source_hash
from bigcat.training.checkpoint import Checkpoint, Identity, digest
from bigcat.training.checks import is_number
from bigcat.training.loop import KEEPS_NOTHING, Keeper

#: Parameters that change nothing of what a fit gives.
_OF_NO_MATTER = (
    "checkpoint",
    "checkpoint_every",
    "progress",
    "callbacks",
    "client",
    "weights_folder",
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def check(folder: Any, every: Any, resume: bool) -> None:
    """Raise for values that cannot be meant."""
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise ValueError(f"checkpoint={folder!r} must be the name of a folder, or None")
    if not (is_number(every) and 0.0 <= every < math.inf):
        raise ValueError(f"checkpoint_every={every!r} must be a number of seconds")
    if resume and folder is None:
        raise ValueError(
            "resume=True needs a checkpoint to go on from; set checkpoint to its folder"
        )


def keeper_for(
    estimator: Any, random_state: np.random.RandomState, resume: bool, data: dict[str, Any]
) -> Keeper:
    """Who keeps a fit of the estimator to these data: nobody, where it has no `checkpoint`."""
    check(estimator.checkpoint, estimator.checkpoint_every, resume)
    if estimator.checkpoint is None:
        return KEEPS_NOTHING
    return Checkpoint(
        estimator.checkpoint,
        Identity(_parameters(estimator), {name: digest(value) for name, value in data.items()}),
        random_state,
        every=estimator.checkpoint_every,
        resume=resume,
    )


def _parameters(estimator: Any) -> dict[str, str]:
    found = {"bigcat": __version__, "compiled code": source_hash()[:12]}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            value = "a RandomState"  # where it began is in the checkpoint
        if name not in _OF_NO_MATTER:
            found[name] = _ADDRESS.sub("", repr(value))
    return found
