"""Heads of safetensors files: what they say of tensors, held to the bytes that follow.

The format is 8 bytes with the length of a JSON object, that object (for each tensor its type, shape
and place, and text of our own) and the tensors, without a gap.  This is the one parser of it: who
reads or maps a tensor by what it finds stays inside the file.
"""

from __future__ import annotations

import json
import math
import os
from typing import IO, Any, NamedTuple

import numpy as np

#: The names that the safetensors format gives to the types we write.
TYPE_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_TYPES = {name: np.dtype(kind).newbyteorder("<") for kind, name in TYPE_NAMES.items()}
#: The key under which the format keeps text, and how long its JSON may be.
TEXTS, LONGEST_HEAD = "__metadata__", 100_000_000


class BrokenFileError(ValueError):
    """A file that is not what its own head says."""


class Place(NamedTuple):
    """Where a tensor lies, and what it is."""

    type_name: str
    shape: tuple[int, ...]
    start: int  # in the file
    n_bytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return _TYPES[self.type_name]


def read_head(file: IO[bytes]) -> tuple[dict[str, str], dict[str, Place]]:
    """Texts and places; BrokenFileError where they do not account for every byte of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head_bytes = int.from_bytes(file.read(8), "little")
    data = 8 + head_bytes
    if size < 8 or head_bytes > min(size - 8, LONGEST_HEAD):
        raise BrokenFileError(f"its head would end at byte {data} of {size}")
    try:
        index = strict_json(file.read(head_bytes).decode())
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"its head is not JSON: {error}") from error
    if not isinstance(index, dict):
        raise BrokenFileError("its head is no JSON object")
    texts = index.pop(TEXTS, {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise BrokenFileError("its texts are no strings")
    places = {name: _place(name, entry, data) for name, entry in index.items()}
    end = data
    for name, place in sorted(places.items(), key=lambda item: (item[1].start, item[1].n_bytes)):
        if place.start != end:
            raise BrokenFileError(f"{name} does not begin where the tensor before it ends")
        end += place.n_bytes
    if end != size:
        raise BrokenFileError(f"its tensors end at byte {end} of {size}")
    return texts, places


def _place(name: str, entry: Any, data: int) -> Place:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise BrokenFileError(f"{name} has no type, shape and place")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (_are_sizes(shape) and _are_sizes(offsets) and len(offsets) == 2 and len(shape) <= 8):
        raise BrokenFileError(f"{name} has the shape {shape} at {offsets}")
    if not isinstance(entry["dtype"], str) or entry["dtype"] not in _TYPES:
        raise BrokenFileError(f"{name} has the type {entry['dtype']!r}, which is unknown")
    n_bytes = offsets[1] - offsets[0]
    if math.prod(shape) * _TYPES[entry["dtype"]].itemsize != n_bytes:
        raise BrokenFileError(f"{name} takes {n_bytes} bytes, which do not make its shape {shape}")
    return Place(entry["dtype"], tuple(shape), data + offsets[0], n_bytes)


def _are_sizes(values: Any) -> bool:
    """Are these whole numbers that an array can have as its sizes?"""
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 48 for v in values)


def strict_json(text: str) -> Any:
    """JSON in which no key comes twice and every number is finite; ValueError for other text."""
    return json.loads(
        text,
        object_pairs_hook=_without_repeats,
        parse_constant=_finite,
        parse_float=_finite,
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value
