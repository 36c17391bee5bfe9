"""Checkpoints of an estimator, and the identity of its fits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from bigcat._version import __version__
from bigcat.compile import source_hash
from bigcat.estimators.checkpoint_folder import Checkpoint, FolderCheckpointer
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer

#: Parameters that do not change the result of a fit.
_OF_NO_MATTER = (
    "checkpoint",
    "progress",
    "client",
)
_BLOCK_BYTES = 1 << 24
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def of(estimator: Any, resume: bool) -> Checkpoint | None:
    """Return the `checkpoint` of an estimator, checked."""
    given = estimator.checkpoint
    if resume and given is None:
        raise ValueError(
            "resume=True needs a checkpoint to resume from; set checkpoint to its folder"
        )
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


def checkpointer_for(
    estimator: Any, random_state: np.random.RandomState, resume: bool, data: dict[str, Any]
) -> Checkpointer:
    """Return the checkpointer of a fit of the estimator to these data."""
    checkpoint = of(estimator, resume)
    if checkpoint is None:
        return NO_CHECKPOINTS
    digests = {name: digest(value) for name, value in data.items()}
    identity = {"parameters": _parameters(estimator), "data": digests}
    return FolderCheckpointer(checkpoint, identity, random_state, resume=resume)


def _parameters(estimator: Any) -> dict[str, str]:
    found = {"bigcat": __version__, "compiled code": source_hash()[:12]}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            value = "a RandomState"  # where it began is in the checkpoint
        if name not in _OF_NO_MATTER:
            found[name] = _ADDRESS.sub("", repr(value))
    return found


def digest(*values: Any) -> str:
    """Return a digest of the content of arrays and sparse matrices; None is a value, too."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        for array in _arrays_of(value):
            found.update(f"{array.dtype.str}{array.shape}".encode())
            if array.dtype.hasobject:
                found.update(repr(array.tolist()).encode())
            else:
                content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                for start in range(0, len(content), _BLOCK_BYTES):
                    found.update(content[start : start + _BLOCK_BYTES].data)
    return found.hexdigest()


def _arrays_of(value: Any) -> Iterator[np.ndarray]:
    if value is None:
        yield np.empty(0)
    elif hasattr(value, "fingerprint"):  # rows in files, whose content is not read for it
        yield np.array(value.fingerprint)
    elif scipy.sparse.issparse(value):
        yield np.array(value.shape)
        yield from (value.indptr, value.indices, value.data)
    else:
        yield np.asarray(value)
