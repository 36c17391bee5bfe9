"""Values in a model file: plain ones and parts of bigcat as JSON, arrays as tensors.

JSON objects with one key that begins with ``$`` stand for what JSON lacks; see `to_json`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bigcat._io.tensors import DTYPES
from bigcat.data.dataset import array_of_strings
from bigcat.part import Part

Arrays = dict[str, np.ndarray]
Read = Callable[[str], np.ndarray]


def to_json(value: Any, arrays: Arrays, name: str = "") -> Any:
    """Return JSON of a value, and put the arrays in it into `arrays` under names from `name`."""
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case np.ndarray():
            return _array_to_json(value, arrays, name)
        case list():
            return [to_json(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]
        case tuple():
            return {"$tuple": to_json(list(value), arrays, name)}
        case set() | frozenset():
            return {"$set": to_json(sorted(value), arrays, name)}
        case dict() if any(not isinstance(key, str) or key.startswith("$") for key in value):
            return {"$items": to_json([list(item) for item in value.items()], arrays, name)}
        case dict():
            start = f"{name}." if name else ""
            return {key: to_json(item, arrays, start + key) for key, item in value.items()}
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def _array_to_json(array: np.ndarray, arrays: Arrays, name: str) -> dict[str, Any]:
    while name in arrays or f"{name}.utf8" in arrays:
        name += "_"
    if array.dtype.name in DTYPES:
        # The order of the axes in memory decides the last bits of a product.
        transposed = array.flags.f_contiguous and not array.flags.c_contiguous
        arrays[name] = array.T if transposed else array
        return {"$transposed" if transposed else "$array": name}
    words = array.tolist()
    odd = [word for word in words if not isinstance(word, str)] if array.ndim == 1 else [words]
    if odd:
        raise TypeError(
            f"{name} holds {odd[0]!r} of type {type(odd[0]).__name__}; a model file holds numbers "
            "or strings: convert the labels before fitting"
        )
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    arrays[f"{name}.utf8"] = np.frombuffer(b"".join(encoded), np.uint8)
    arrays[f"{name}.ends"] = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    return {"$objects" if array.dtype.kind == "O" else "$strings": name}


def from_json(value: Any, read: Read) -> Any:
    """Return what `to_json` was given; `read` gives an array by its name."""
    if isinstance(value, list):
        return [from_json(item, read) for item in value]
    if not isinstance(value, dict):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: from_json(item, read) for key, item in value.items()}
    ((tag, content),) = value.items()
    match tag:
        case "$float":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
        case "$array":
            return read(content)
        case "$transposed":
            return read(content).T
        case "$strings":
            return array_of_strings(_words(content, read))
        case "$objects":
            return np.array(_words(content, read), dtype=object)
        case "$tuple":
            return tuple(from_json(content, read))
        case "$set":
            return set(from_json(content, read))
        case "$items":
            return dict(from_json(content, read))
    raise ValueError(f"{tag} is not known")


def _words(name: str, read: Read) -> list[str]:
    """Cut the bytes of strings where each one ends, in order, so that none is used twice."""
    ends, content = read(f"{name}.ends"), read(f"{name}.utf8")
    good = ends.dtype == np.int64 and content.dtype == np.uint8 and ends.ndim == content.ndim == 1
    starts = np.concatenate([[0], ends[:-1]]) if good and len(ends) else ends
    if not good or (ends < starts).any() or (ends[-1] if len(ends) else 0) != len(content):
        raise ValueError(f"{name}.ends do not cut {name}.utf8 into strings")
    text = content.tobytes()
    return [
        text[i:j].decode("utf-8", "surrogatepass") for i, j in zip(starts.tolist(), ends.tolist())
    ]


def describe_part(estimator: str, parameter: str, value: Any) -> Any:
    """Return a part by name and options; TypeError for one of the user's own.

    Other values are returned as they are, and registered methods by their name.
    """
    from bigcat.combinations import Method, resolve_method

    if isinstance(value, Method):
        try:
            return value.name if resolve_method(value.name) == value else value
        except ValueError:
            return value
    if not isinstance(value, Part):
        return value
    known = _registry(estimator, parameter).items()
    name = next((name for name, kind in known if kind is type(value)), None)
    if name is None:
        raise TypeError(f"a {type(value).__name__} is not one of bigcat's")
    options = value.options()
    for option in [option for option, content in options.items() if isinstance(content, Part)]:
        content = options.pop(option)
        if option != "noise" and content != type(value)().options()[option]:  # noises lie apart
            raise TypeError(f"{option}={content!r} of a {type(value).__name__} is not stored")
    return {"part": name, "options": options}


def make_part(estimator: str, parameter: str, value: Any) -> Any:
    """Return what `describe_part` was given."""
    if not (isinstance(value, dict) and value.keys() == {"part", "options"}):
        return value
    return _registry(estimator, parameter)[value["part"]](**value["options"])


def _registry(estimator: str, parameter: str) -> Mapping[str, type]:
    """Return the parts that a parameter of an estimator may be, by name."""
    from bigcat import bayes, bounds, samplers, solvers
    from bigcat.training.stopping import EarlyStopping

    registries: dict[tuple[str, str], Mapping[str, type]] = {
        ("LinearClassifier", "method"): bounds.REGISTRY,
        ("LinearClassifier", "solver"): solvers.REGISTRY,
        ("LinearClassifier", "sampler"): samplers.REGISTRY,
        ("LinearClassifier", "early_stopping"): {"early-stopping": EarlyStopping},
        ("BayesianClassifier", "method"): bayes.METHODS,
        ("BayesianClassifier", "prior"): bayes.PRIORS,
    }
    return registries.get((estimator, parameter), {})
