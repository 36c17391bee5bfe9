"""Safetensors files as bytes on the disk: written whole or not at all, read with every check.

The format is 8 bytes with the length of a JSON object, that object (for each tensor its type, shape
and place, and text of our own) and the tensors, without a gap.  We read and write it ourselves: so
arrays go to and from the disk without a copy, a full disk is an OSError with its number, and there
is one parser whose checks are all here.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from bigcat.atomic import replacing

#: Gives an array by its name.
Tensors = Callable[[str], np.ndarray]

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
_TEXTS, _LONGEST_HEAD = "__metadata__", 100_000_000
#: Few enough that what was read is hashed while it is in the cache of the processor.
_BLOCK_BYTES = 1 << 18


class BrokenFileError(ValueError):
    """A file that is not what its own head says."""


class DigestError(ValueError):
    """Content that is not what was written."""


class Place(NamedTuple):
    """Where a tensor lies, and what it is."""

    type_name: str
    shape: tuple[int, ...]
    start: int  # in the file
    n_bytes: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return _TYPES[self.type_name]

    def digest(self) -> Any:
        """A digest of what its bytes stand for, to be updated with them."""
        return hashlib.sha256(f"{self.type_name} {list(self.shape)}\n".encode())


# --- writing ------------------------------------------------------------------------------------


def _blocks(tensor: np.ndarray) -> Iterator[memoryview]:
    """The bytes of a tensor as files have them."""
    little_endian = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    content = np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8)
    for start in range(0, len(content), _BLOCK_BYTES):
        yield content[start : start + _BLOCK_BYTES].data


def digest_of(tensor: np.ndarray) -> str:
    """What a file says about the content of a tensor: SHA-256 of its type, shape and bytes."""
    digest = Place(TYPE_NAMES[tensor.dtype.name], tensor.shape, 0, 0).digest()
    for block in _blocks(tensor):
        digest.update(block)
    return str(digest.hexdigest())


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_tensors(target: Path, texts: dict[str, str], tensors: dict[str, np.ndarray]) -> None:
    """Write a file that appears under its name when it is complete and on the disk."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)  # keeps data aligned
    index: dict[str, Any] = {_TEXTS: texts}
    offset = 0
    for name, tensor in ordered:
        end = offset + tensor.nbytes
        index[name] = {
            "dtype": TYPE_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    head = json.dumps(index, allow_nan=False).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > _LONGEST_HEAD:
        raise ValueError(
            f"what is to be stored beside the arrays takes {len(head):,} bytes, and the format "
            f"ends at {_LONGEST_HEAD:,}; keep a smaller `extra`"
        )
    size = 8 + len(head) + offset
    try:
        with replacing(target) as file:
            file.write(len(head).to_bytes(8, "little"))
            file.write(head)
            for _name, tensor in ordered:
                for block in _blocks(tensor):
                    file.write(block)
    except OSError as error:
        raise OSError(
            error.errno,
            f"could not save the model to {target}: {os.strerror(error.errno or 0)}; "
            f"it takes {size:,} bytes: free some space or choose another folder "
            "(nothing was changed there)",
        ) from error


# --- reading ------------------------------------------------------------------------------------


class TensorFile:
    """An open file: its texts, and its tensors by name.

    Attributes
    ----------
    texts : dict of str
    places : dict of Place
    digests : dict of str
        Of tensors, to hold those that are read to; the caller finds them in a text.
    """

    def __init__(self, path: str | os.PathLike[str], file: IO[bytes]) -> None:
        self.path, self._file = path, file
        self.texts, self.places = _head(file)
        self.digests: dict[str, str] = {}

    def read(self, name: str) -> np.ndarray:
        """A tensor in an array of its own."""
        place = self.places[name]
        array = np.empty(place.shape, place.dtype)
        content = array.reshape(-1).view(np.uint8)
        self._file.seek(place.start)
        digest = place.digest() if name in self.digests else None
        for start in range(0, len(content), _BLOCK_BYTES):
            block = content[start : start + _BLOCK_BYTES]
            if self._file.readinto(block.data) != len(block):  # type: ignore[attr-defined]
                raise BrokenFileError(f"it became shorter while {name} was read")
            if digest is not None:
                digest.update(block.data)
        if digest is not None:
            self._compare(name, digest)
        if place.type_name == "BOOL" and content.max(initial=0) > 1:
            raise BrokenFileError(f"{name} holds other values than true and false")
        return array.astype(place.dtype.newbyteorder("="), copy=False)

    def view(self, name: str) -> np.ndarray:
        """A tensor of float32 as a read-only view of the file, which is not held to its digest."""
        place = self.places[name]
        if place.type_name != "F32" or place.start % 4 or not place.n_bytes:
            raise ValueError(f"{name} is not float32 that lies at a multiple of 4 bytes")
        # Not a memmap itself, which every array computed from it would be too.
        return np.asarray(
            np.memmap(self.path, "<f4", mode="r", offset=place.start, shape=place.shape)
        )

    def check(self, name: str) -> None:
        """Raise DigestError where a tensor is not what was written; a block is in memory."""
        place = self.places[name]
        digest = place.digest()
        self._file.seek(place.start)
        left = place.n_bytes
        while left:
            block = self._file.read(min(left, _BLOCK_BYTES))
            if not block:
                raise BrokenFileError(f"it became shorter while {name} was read")
            digest.update(block)
            left -= len(block)
        self._compare(name, digest)

    def _compare(self, name: str, digest: Any) -> None:
        if digest.hexdigest() != self.digests[name]:
            raise DigestError(f"the content of {name} is not what was written")


@contextmanager
def open_tensors(path: str | os.PathLike[str]) -> Iterator[TensorFile]:
    with open(path, "rb") as file:
        yield TensorFile(path, file)


def _head(file: IO[bytes]) -> tuple[dict[str, str], dict[str, Place]]:
    """Texts and places; BrokenFileError where they do not account for every byte of the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head_bytes = int.from_bytes(file.read(8), "little")
    data = 8 + head_bytes
    if size < 8 or head_bytes > min(size - 8, _LONGEST_HEAD):
        raise BrokenFileError(f"its head would end at byte {data} of {size}")
    try:
        index = strict_json(file.read(head_bytes).decode())
    except (ValueError, RecursionError) as error:
        raise BrokenFileError(f"its head is not JSON: {error}") from error
    if not isinstance(index, dict):
        raise BrokenFileError("its head is no JSON object")
    texts = index.pop(_TEXTS, {})
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
