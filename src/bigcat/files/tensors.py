"""Safetensors files as bytes on the disk: written whole or not at all, read with every check.

We read and write the format (`tensor_heads.py`) ourselves: so arrays go to and from the disk
without a copy, a full disk is an OSError with its number, and there is one parser with all checks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from bigcat.atomic import replacing
from bigcat.tensor_heads import LONGEST_HEAD, TEXTS, TYPE_NAMES, BrokenFileError, read_head

#: Gives an array by its name.
Tensors = Callable[[str], np.ndarray]

#: Few enough that what was read is hashed while it is in the cache of the processor.
_BLOCK_BYTES = 1 << 18


class DigestError(ValueError):
    """Content that is not what was written."""


# --- writing ------------------------------------------------------------------------------------


def _blocks(tensor: np.ndarray) -> Iterator[memoryview]:
    """The bytes of a tensor as files have them."""
    little_endian = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    content = np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8)
    for start in range(0, len(content), _BLOCK_BYTES):
        yield content[start : start + _BLOCK_BYTES].data


def _digest(type_name: str, shape: tuple[int, ...]) -> Any:
    """A digest of what the bytes of a tensor stand for, to be updated with them."""
    return hashlib.sha256(f"{type_name} {list(shape)}\n".encode())


def digest_of(tensor: np.ndarray) -> str:
    """What a file says about the content of a tensor: SHA-256 of its type, shape and bytes."""
    digest = _digest(TYPE_NAMES[tensor.dtype.name], tensor.shape)
    for block in _blocks(tensor):
        digest.update(block)
    return str(digest.hexdigest())


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_tensors(target: Path, texts: dict[str, str], tensors: dict[str, np.ndarray]) -> None:
    """Write a file that appears under its name when it is complete and on the disk."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)  # keeps data aligned
    index: dict[str, Any] = {TEXTS: texts}
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
    if len(head) > LONGEST_HEAD:
        raise ValueError(
            f"what is to be stored beside the arrays takes {len(head):,} bytes, and the format "
            f"ends at {LONGEST_HEAD:,}; keep a smaller `extra`"
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
        self.texts, self.places = read_head(file)
        self.digests: dict[str, str] = {}

    def read(self, name: str) -> np.ndarray:
        """A tensor in an array of its own."""
        place = self.places[name]
        array = np.empty(place.shape, place.dtype)
        content = array.reshape(-1).view(np.uint8)
        self._file.seek(place.start)
        digest = _digest(place.type_name, place.shape) if name in self.digests else None
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
        digest = _digest(place.type_name, place.shape)
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
