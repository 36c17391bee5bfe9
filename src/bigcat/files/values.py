"""Values and labels in a model file: as JSON and plain arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bigcat.data.dataset import array_of_strings
from bigcat.files.checks import check_ends
from bigcat.files.tensors import Tensors
from bigcat.tensor_heads import TYPE_NAMES


def to_json(value: Any) -> Any:
    """JSON of plain Python values, that :func:`from_json` turns back into the same ones."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return {"array": to_json(value.tolist())}
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {"set": [to_json(item) for item in sorted(value)]}
    if isinstance(value, dict):
        return {"dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"}:
        return float(value["float"])
    if set(value) == {"array"}:
        return np.array(from_json(value["array"]))
    if set(value) == {"tuple"}:
        return tuple(from_json(item) for item in value["tuple"])
    if set(value) == {"set"}:
        return {from_json(item) for item in value["set"]}
    if set(value) == {"dict"}:
        return {from_json(key): from_json(item) for key, item in value["dict"]}
    return {key: from_json(item) for key, item in value.items()}


def pack_labels(tensors: dict[str, np.ndarray], name: str, labels: np.ndarray) -> str:
    """Put labels into tensors; strings become their UTF-8 bytes and where each one ends."""
    labels = np.asarray(labels)
    if labels.dtype.name in TYPE_NAMES:
        tensors[name] = labels
        return "numbers"
    values = labels.tolist()
    if not all(isinstance(value, str) for value in values):
        odd = next(value for value in values if not isinstance(value, str))
        raise TypeError(
            f"{name} holds {odd!r} of type {type(odd).__name__}; a model file holds numbers or "
            "strings: convert the labels before fitting"
        )
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    tensors[f"{name}.utf8"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    tensors[f"{name}.ends"] = ends
    return "objects" if labels.dtype.kind == "O" else "strings"


def unpack_labels(read: Tensors, name: str, kind: str) -> np.ndarray:
    if kind == "numbers":
        return read(name)
    ends, content = read(f"{name}.ends"), read(f"{name}.utf8")
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ValueError(f"{name}.utf8 is of {content.dtype} and shape {content.shape}, not bytes")
    check_ends(name, ends, len(content))
    text, places = content.tobytes(), ends.tolist()
    words = [
        text[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *places], places)
    ]
    return np.array(words, dtype=object) if kind == "objects" else array_of_strings(words)
