"""What a model file holds of a `LinearClassifier`: its weights, in as many bytes as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.files.values import Tensors, pack_labels, unpack_labels

if TYPE_CHECKING:
    from bigcat.estimators import History, LinearClassifier

#: In which numbers weights can be stored.
DTYPES = ("float32", "float16", "int8")
#: Weights that are rounded at a time.
_BLOCK = 1 << 22


def check_dtype(dtype: Any) -> None:
    if dtype not in DTYPES:
        raise ValueError(f"dtype={dtype!r} is none of {', '.join(map(repr, DTYPES))}; choose one")


def weights_of(model: LinearClassifier) -> dict[str, np.ndarray]:
    """The weights of a fitted model under their names, without the underscore; rows are classes
    or, in `embedding`, features.
    """
    names = ("embedding", "class_embedding") if hasattr(model, "embedding_") else ("coef",)
    return {name: getattr(model, f"{name}_") for name in names}


# --- fewer bytes --------------------------------------------------------------------------------


def shrink(weights: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights in `dtype`, in the same order in memory, and for int8 what a unit is in each row."""
    if dtype == "float32":
        return weights, None
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
    weights = stored.astype(np.float32, copy=False)
    if scale is not None:
        weights *= scale[:, None]
    return weights


# --- in a file ----------------------------------------------------------------------------------


def pack_linear(
    tensors: dict[str, np.ndarray], model: LinearClassifier, dtype: str
) -> dict[str, Any]:
    """Put the arrays of a fitted model into `tensors`; what else there is, as JSON."""
    header: dict[str, Any] = {"weights_dtype": dtype}
    for name, weights in weights_of(model).items():
        stored, scale = shrink(weights, dtype)
        if name == "coef":
            feature_major = stored.flags.f_contiguous and not stored.flags.c_contiguous
            header["coef_layout"] = "feature-major" if feature_major else "class-major"
            stored = stored.T if feature_major else stored
        else:
            header["rank"] = stored.shape[1]
        tensors[name] = stored
        if scale is not None:
            tensors[f"{name}.scale"] = scale
    tensors["intercept"] = np.asarray(model.intercept_)
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
) -> None:
    """Give the model what the file holds; ValueError where shapes do not fit together."""
    n_classes, n_features = len(classes), header["n_features_in"]
    shapes: dict[str, tuple[int, ...]] = {"intercept": (n_classes,)}
    if "rank" in header:
        shapes["embedding"] = (n_features, header["rank"])
        shapes["class_embedding"] = (n_classes, header["rank"])
    else:
        shapes["coef"] = (n_classes, n_features)
    for name, shape in shapes.items():
        array = read_weights(name)
        if name == "coef" and header["coef_layout"] == "feature-major":
            array = array.T
        if array.shape != shape:
            raise ValueError(
                f"{name} has shape {array.shape}, but {n_classes} classes and {n_features} "
                f"features need {shape}"
            )
        if header.get("weights_dtype") == "int8" and name != "intercept":
            scale = read(f"{name}.scale")
            if scale.shape != shape[:1]:
                raise ValueError(f"{name}.scale has shape {scale.shape}, not {shape[:1]}")
        else:
            scale = None
        setattr(model, f"{name}_", expand(array, scale))
    model.classes_, model.history_ = classes, history
    if "exact_classes" in header:
        model.exact_classes_ = unpack_labels(read, "exact_classes", header["exact_classes"])
