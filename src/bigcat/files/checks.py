"""What has to hold of the header and the arrays of a model file, whoever wrote it.

A digest tells damage; a file that somebody made up agrees with its digests.  So each array is held
to its type, shape and values before anything is computed from it.  All of it raises ValueError,
which the caller turns into an error that names the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

#: Numbers that weights can be stored in.
WEIGHT_TYPES = ("float32", "float16", "int8")

Check = Callable[[Any], bool]


def is_whole(value: object, least: int = 0) -> bool:
    """A whole number, which True and False are not."""
    return type(value) is int and value >= least


def is_number(value: object, least: float = -math.inf, most: float = math.inf) -> bool:
    return type(value) in (int, float) and least <= value <= most  # type: ignore[operator]


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_names(value: object) -> bool:
    """A list of strings, each of them once."""
    return isinstance(value, list) and all(map(is_text, value)) and len({*value}) == len(value)


def or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(map(is_object, value))


def _is_kind_of_labels(value: object) -> bool:
    return value in ("numbers", "strings", "objects")


def _is_noise(value: Any) -> bool:
    return (
        is_object(value)
        and is_text(value.get("name"))
        and isinstance(value.get("custom"), bool)
        and value.get("probabilities") in ("quadrature", "importance")
    )


#: What each key of a header has to be; of the estimator that it belongs to, all but optional ones.
_OF_ALL: dict[str, Check] = {
    "bigcat_version": is_text,
    "estimator": is_text,
    "parameters": is_object,
    "classes": _is_kind_of_labels,
    "n_features_in": is_whole,
    "n_iter": or_none(is_whole),
    "history": _is_rows,
    "shapes": is_object,
    "noise": or_none(_is_noise),
    "extra": is_object,
}
_OF_LINEAR: dict[str, Check] = {
    "weights_dtype": lambda value: value in WEIGHT_TYPES,
    "weights": is_names,
    "transposed": is_names,
    "rank": or_none(is_whole),  # 0 where weights of pairs are all there is
}
_OPTIONAL: dict[str, Check] = {
    "choice": or_none(is_object),
    "parameters_left_out": is_object,
    "vectorizer": is_object,
    "columns": is_object,
    "feature_names": _is_kind_of_labels,
    "exact_classes": _is_kind_of_labels,
}


def check_header(header: Mapping[str, Any]) -> None:
    """Hold a header of today's format to the types that its values have."""
    check_keys("", header, _OF_ALL)
    if header["estimator"] == "LinearClassifier":
        check_keys("", header, _OF_LINEAR)
    if header["estimator"] == "BayesianClassifier":
        check_keys("", header, {"posterior": is_object})
    check_keys("", header, _OPTIONAL, optional=True)


def check_keys(
    prefix: str,
    values: Mapping[str, Any],
    checks: Mapping[str, Check],
    optional: bool = False,
) -> None:
    """Hold the values of some keys, of which `optional` ones may be missing, to their checks."""
    for key, check in checks.items():
        if key not in values and not optional:
            raise ValueError(f"its header has no {prefix}{key}")
        if key in values and not check(values[key]):
            raise ValueError(f"{prefix}{key} is {shown(values[key])}")


def shown(value: object) -> str:
    """A value for a message, which a file may make as long as it likes."""
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."


# --- arrays -------------------------------------------------------------------------------------


def check_counts(counts: np.ndarray, n_classes: int) -> None:
    """Training rows of each class."""
    if counts.dtype != np.int64 or counts.shape != (n_classes,):
        raise ValueError(
            f"class_count has shape {counts.shape} of {counts.dtype}, not ({n_classes},) of int64"
        )
    if (counts < 0).any():
        raise ValueError(f"class_count has {counts.min()} rows of a class")


def check_classes(classes: np.ndarray) -> None:
    """Labels are found by bisection, so that they have to be in order, each of them once."""
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"classes have shape {classes.shape}, and a model has two or more")
    if not np.all(classes[:-1] < classes[1:]):  # NaN is not below anything
        raise ValueError("classes are not in ascending order, each of them once")


def check_floats(name: str, array: np.ndarray, finite: bool = True) -> None:
    """Numbers that a computation can take; without `finite` they may be infinite, not NaN."""
    if array.dtype.kind != "f":
        raise ValueError(f"{name} is of {array.dtype}, not of floating-point numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum(dtype=np.float64)
    if np.isfinite(total) or not (np.isnan(array) | (np.isinf(array) & finite)).any():
        return
    raise ValueError(f"{name} holds {'NaN or infinity' if finite else 'NaN'}")


def check_ends(name: str, ends: np.ndarray, n_bytes: int) -> None:
    """Where strings end among their bytes: in order, so that no byte is in two of them."""
    good = ends.dtype == np.int64 and ends.ndim == 1
    if good and len(ends):
        good = bool(ends[0] >= 0 and ends[-1] == n_bytes and (ends[1:] >= ends[:-1]).all())
    elif good:
        good = n_bytes == 0
    if not good:
        raise ValueError(f"{name}.ends do not cut the {n_bytes} bytes of {name}.utf8 into strings")
