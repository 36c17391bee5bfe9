"""Content of a model file of a `LinearClassifier`: weights in 4, 2 or 1 bytes per number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from bigcat._io.checks import check_floats
from bigcat.files.codec import Arrays, Read, describe_part, from_json, make_part, to_json
from bigcat.files.schema import WEIGHT_DTYPES
from bigcat.linear import weights_from

if TYPE_CHECKING:
    from bigcat.estimators import History, LinearClassifier

#: Weights that are rounded at a time.
_BLOCK = 1 << 22


def check_dtype(dtype: DTypeLike) -> None:
    """Raise ValueError for a type that weights cannot be stored in."""
    if dtype not in WEIGHT_DTYPES:
        known = ", ".join(map(repr, WEIGHT_DTYPES))
        raise ValueError(f"dtype={dtype!r} is none of {known}; choose one")


def shrink(weights: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return weights in `dtype`, in the same order in memory, and for int8 the unit of each row."""
    if weights.dtype.kind == "i":
        return weights, None
    if dtype == "float32":
        return weights.astype(np.float32, copy=False), None
    if weights.ndim == 1:  # of single pairs, which share no unit with others
        dtype = "float16"
        largest = np.abs(weights).max(initial=0.0, keepdims=True)
    else:
        largest = np.abs(weights).max(axis=1, initial=0.0)
    most = float(np.finfo(np.float16).max) if dtype == "float16" else np.finfo(np.float32).max
    if not (largest <= most).all():
        raise ValueError(
            f"a weight is {largest[~(largest <= most)][0]}, which {dtype} cannot hold; store the "
            "model as 'float32'"
        )
    if dtype == "float16":
        return weights.astype(np.float16), None
    scale = np.where(largest > 0.0, largest / 127.0, 1.0).astype(np.float32)
    out = np.empty_like(weights, dtype=np.int8)
    step = max(1, _BLOCK // max(1, weights.shape[1]))
    for start in range(0, len(weights), step):
        rows = slice(start, start + step)
        np.rint(weights[rows] / scale[rows, None], out=out[rows], casting="unsafe")
    return out, scale


def expand(stored: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    """Return float32 weights from the result of `shrink`."""
    if stored.dtype.kind == "i" and scale is None:
        return stored
    weights = stored.astype(np.float32, copy=False)
    if scale is not None:
        weights *= scale[:, None]
    return weights


def linear_to_json(model: LinearClassifier, dtype: str, arrays: Arrays) -> dict[str, Any]:
    """Return JSON of what a fit has found, and put its arrays into `arrays`."""
    weights = model.linear_model().weights
    stored = {"intercept": np.asarray(model.intercept_, np.float32)}
    for name, array in {**weights.arrays(), **stored}.items():
        if array.dtype.kind == "f":
            try:
                check_floats(name, array)
            except ValueError as error:
                raise ValueError(f"{error}; fit the model again") from None
    for name, array in weights.arrays().items():
        stored[name], scale = shrink(array, dtype)
        if scale is not None:
            stored[f"{name}.scale"] = scale
    try:
        bound = describe_part("LinearClassifier", "method", getattr(model, "bound_", None))
    except TypeError:  # of the user's own
        bound = None
    return {
        "dtype": dtype,
        "rank": weights.kind.rank,
        "bound": to_json(bound, arrays, "bound"),
        "arrays": to_json(stored, arrays),
    }


def restore_linear(
    model: LinearClassifier,
    stored: dict[str, Any],
    history: History,
    read: Read,
    view: Read | None = None,
    check_weights: bool = True,
) -> None:
    """Give the model what the file holds; ValueError where it does not fit together.

    `view` maps weights to memory.  Without `check_weights`, mapped ones stay on the disk.
    """
    shape, dtype = (len(model.classes_), model.n_features_in_), stored["dtype"]
    found = dict(stored["arrays"])
    intercept = from_json(found.pop("intercept"), read)
    check_floats("intercept", intercept, shape[:1])
    scales = {name: from_json(found.pop(name), read) for name in [*found] if "." in name}
    arrays = {}
    for name, described in found.items():
        array = from_json(described, view or read)
        known = [dtype]
        if array.ndim == 1:  # of pairs: numbers of classes and places, or weights without a unit
            known = ["int32", "int64", "float32" if dtype == "float32" else "float16"]
        if array.ndim > 2 or array.dtype.name not in known:
            raise ValueError(f"{name} has {array.ndim} axes of {array.dtype} among {dtype} weights")
        scale = scales.pop(f"{name}.scale") if array.dtype == np.int8 else None
        if scale is not None:
            check_floats(f"{name}.scale", scale, array.shape[:1])
        arrays[name] = expand(array, scale)
        if arrays[name].dtype.kind == "f" and check_weights:
            check_floats(name, arrays[name])
    weights = weights_from(arrays.get)
    if scales or set(weights.names()) != set(arrays):
        raise ValueError(f"weights are {', '.join([*arrays, *scales])}, which is not a known kind")
    weights.check()
    if (*weights.shape, weights.kind.rank) != (*shape, stored["rank"]):
        raise ValueError(
            f"the weights are of {weights.shape[0]} classes and {weights.shape[1]} features and "
            f"rank {weights.kind.rank}, but the header is of {shape[0]} classes and {shape[1]} "
            f"features and rank {stored['rank']}"
        )
    model.restore(weights, intercept.astype(np.float32, copy=False), model.classes_, history)
    if stored["bound"] is not None:
        bound = from_json(stored["bound"], read)
        model.bound_ = make_part("LinearClassifier", "method", bound)
