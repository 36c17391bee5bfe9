"""What a model file holds of a `LinearClassifier`: its weights, in as many bytes as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from bigcat.bounds import REGISTRY as BOUNDS
from bigcat.bounds import AugmentReduce, Bound
from bigcat.combinations import resolve_method
from bigcat.files.checks import WEIGHT_TYPES, check_floats
from bigcat.files.parameters import pack_parameter, unpack_parameter
from bigcat.files.tensors import Tensors
from bigcat.files.values import pack_labels, unpack_labels
from bigcat.linear import weights_from

if TYPE_CHECKING:
    from bigcat.estimators import History, LinearClassifier

#: Weights that are rounded at a time.
_BLOCK = 1 << 22


def check_dtype(dtype: DTypeLike) -> None:
    if dtype not in WEIGHT_TYPES:
        raise ValueError(
            f"dtype={dtype!r} is none of {', '.join(map(repr, WEIGHT_TYPES))}; choose one"
        )


# --- fewer bytes --------------------------------------------------------------------------------


def shrink(weights: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights in `dtype`, in the same order in memory, and for int8 what a unit is in each row."""
    if weights.dtype.kind == "i":
        return weights, None
    if dtype == "float32":
        return weights.astype(np.float32, copy=False), None
    if weights.ndim == 1:  # single weights, of no class or feature whose unit they could share
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
    """The inverse of `shrink` but for what was rounded off: float32."""
    if stored.dtype.kind == "i" and scale is None:
        return stored
    weights = stored.astype(np.float32, copy=False)
    if scale is not None:
        weights *= scale[:, None]
    return weights


# --- in a file ----------------------------------------------------------------------------------


def pack_linear(
    tensors: dict[str, np.ndarray], model: LinearClassifier, dtype: str
) -> dict[str, Any]:
    """Put the arrays of a fitted model into `tensors`; what else there is, as JSON."""
    weights = model.linear_model().weights
    if not (weights.is_finite and np.isfinite(model.intercept_).all()):
        raise ValueError("the weights of the model hold NaN or infinity; fit it again")
    header: dict[str, Any] = {"weights_dtype": dtype, "weights": list(weights.names())}
    feature_major = []
    for name, array in weights.arrays().items():
        stored, scale = shrink(array, dtype)
        # The order of the axes in memory is that of training, which predictions need not copy.
        if stored.flags.f_contiguous and not stored.flags.c_contiguous:
            feature_major.append(name)
            stored = stored.T
        tensors[name] = stored
        if scale is not None:
            tensors[f"{name}.scale"] = scale
    header["transposed"] = feature_major
    header["rank"] = weights.kind.rank
    tensors["intercept"] = np.asarray(model.intercept_, np.float32)
    if hasattr(model, "bound_"):
        header["bound"] = _pack_bound(model.bound_, tensors)
    if hasattr(model, "exact_classes_"):
        header["exact_classes"] = pack_labels(tensors, "exact_classes", model.exact_classes_)
    return header


def unpack_linear(
    read: Tensors,
    read_weights: Tensors,
    header: dict[str, Any],
    model: LinearClassifier,
    classes: np.ndarray,
    history: History,
    *,
    finite: bool = True,
) -> None:
    """Give the model what the file holds; ValueError where it does not fit together.

    Without `finite` nobody looks at every weight, so that mapped ones stay on the disk.
    """
    shape = (len(classes), header["n_features_in"])
    arrays = {name: _stored_array(name, read, read_weights, header) for name in header["weights"]}
    weights = weights_from(arrays.get)
    if set(weights.names()) != set(arrays):
        raise ValueError(f"weights are {', '.join(arrays)}, which are none of the known kinds")
    weights.check()
    if (*weights.shape, weights.kind.rank) != (*shape, header["rank"]):
        found = f"{weights.shape[0]} classes and {weights.shape[1]} features"
        raise ValueError(
            f"the weights are of {found} and rank {weights.kind.rank}, but the header is of "
            f"{shape[0]} classes and {shape[1]} features and rank {header['rank']}"
        )
    intercept = read_weights("intercept")
    if intercept.shape != shape[:1]:
        raise ValueError(f"intercept has shape {intercept.shape}, not {shape[:1]}")
    check_floats("intercept", intercept)
    if finite and not weights.is_finite:
        raise ValueError("the weights hold NaN or infinity")
    model.restore(weights, intercept.astype(np.float32, copy=False), classes, history)
    bound = _unpack_bound(header, model, read)
    if bound is not None:
        model.bound_ = bound
    if "exact_classes" in header:
        model.exact_classes_ = unpack_labels(read, "exact_classes", header["exact_classes"])


def _pack_bound(bound: Bound, tensors: dict[str, np.ndarray]) -> Any:
    """A bound by name and options; None for one of the user's own."""
    try:
        return pack_parameter("LinearClassifier", "method", bound, tensors)
    except TypeError:
        return None


def _unpack_bound(header: dict[str, Any], model: LinearClassifier, read: Tensors) -> Bound | None:
    """The bound of the fit; None where the file could not hold it."""
    if "bound" in header:
        stored = header["bound"]
        if stored is None:
            return None
        bound: Bound = unpack_parameter("LinearClassifier", "method", stored, read)
        return bound
    # A file from before bounds were stored: the method's, or that of what was chosen.
    from bigcat.estimators.linear import bound_of

    if model.method != "auto":
        return resolve_method(model.method).bound
    chosen = (model.history_.choice or {}).get("bound")
    return bound_of(BOUNDS[chosen](), was_chosen=True) if chosen in BOUNDS else AugmentReduce()


def _stored_array(
    name: str, read: Tensors, read_weights: Tensors, header: dict[str, Any]
) -> np.ndarray:
    """One array of the weights in float32, in the order of axes that it was saved in."""
    array, stored = read_weights(name), header["weights_dtype"]
    known = [stored]
    if stored == "float32":
        known.append("float64")  # weights that somebody had set were once stored as they were
    if array.ndim == 1:  # of pairs: numbers of classes and places, or weights that have no unit
        known = ["int32", "int64", "float32" if stored == "float32" else "float16"]
    if array.ndim > 2 or array.dtype.name not in known:
        raise ValueError(
            f"{name} has shape {array.shape} of {array.dtype} among weights of {stored}"
        )
    if array.ndim == 1:
        return expand(array, None)
    array = array.T if name in header["transposed"] else array
    if stored != "int8":
        return expand(array, None)
    scale = read(f"{name}.scale")
    if scale.shape != array.shape[:1]:
        raise ValueError(f"{name}.scale has shape {scale.shape}, not {array.shape[:1]}")
    check_floats(f"{name}.scale", scale)
    return expand(array, scale)
