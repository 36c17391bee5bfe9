"""Safetensors files with a JSON header in their metadata, and SHA-256 digests of all content.

The metadata has one key, since the safetensors library writes several in random order.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bigcat._io.atomic import replacing_path

#: Metadata key of the header, and its maximal length in characters.
KEY, MAX_HEADER_LENGTH = "bigcat", 40_000_000
#: Supported NumPy types and their names in safetensors.
DTYPES = {
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    "bool": "BOOL",
}


class BrokenFileError(ValueError):
    """A file whose content is not what was written."""


def seal(content: dict[str, Any]) -> str:
    """Return JSON of `content` with its own digest under the key ``sha256``."""
    return json.dumps({**content, "sha256": _text_digest(content)})


def unseal(text: str) -> dict[str, Any]:
    """Return the content passed to :func:`seal`; raise BrokenFileError for any other text."""
    try:
        content: dict[str, Any] = json.loads(text, object_pairs_hook=_without_repeats)
        if content.pop("sha256") == _text_digest(content):
            return content
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise BrokenFileError(f"its header is not JSON with a digest: {error!r}") from error
    raise BrokenFileError("its header does not match its digest")


def _text_digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def write_tensors(target: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write arrays and a header to a file, atomically."""
    arrays = {k: np.asarray(a, a.dtype.newbyteorder("<"), order="C") for k, a in arrays.items()}
    tensors = {
        name: {"dtype": a.dtype.name, "shape": list(a.shape), "sha256": _digest(a)}
        for name, a in arrays.items()
    }
    text = seal({**header, "tensors": tensors})
    if len(text) > MAX_HEADER_LENGTH:
        raise ValueError(
            f"the header of {target} would have {len(text):,} characters, more than "
            f"{MAX_HEADER_LENGTH:,}; store fewer values beside the arrays, such as a smaller extra"
        )
    try:
        with replacing_path(target) as path:
            save_file(arrays, path, {KEY: text})
    except (OSError, SafetensorError) as error:
        found = re.search(r"os error (\d+)", str(error))  # of the library, for a full disk
        number = getattr(error, "errno", None) or (int(found[1]) if found else errno.EIO)
        size = len(text) + sum(array.nbytes for array in arrays.values())
        raise OSError(
            number,
            f"could not write {target}: {os.strerror(number)}; it takes {size:,} bytes: free some "
            "space or choose another folder (nothing was changed there)",
        ) from error


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


class TensorFile:
    """Open file with a verified header and tensors verified on reading.

    Attributes
    ----------
    header : dict
        As given to :func:`write_tensors`, with the type, shape and digest of each tensor under
        ``tensors``.
    """

    def __init__(self, file: Any, content: IO[bytes]) -> None:
        text = (file.metadata() or {}).get(KEY)
        if text is None:
            raise BrokenFileError("its metadata were not written by bigcat")
        self.header = unseal(text)
        self._tensors: dict[str, Any] = self.header["tensors"]
        self._left = set(file.keys())
        if differing := self._left ^ set(self._tensors):
            raise BrokenFileError(f"header and file hold different tensors: {sorted(differing)}")
        self._content, self._starts = content, dict[str, int]()
        self._arrays: dict[str, np.ndarray] = {}  # views of the file
        pages = np.asarray(np.memmap(content, np.uint8, "r"))
        end = len(pages)  # of the last tensor; there is no gap between them
        for name in reversed(file.offset_keys()):
            expected, found = self._tensors[name], file.get_slice(name)
            dtype, shape = expected["dtype"], expected["shape"]
            if (found.get_dtype(), found.get_shape()) != (DTYPES[dtype], shape):
                raise BrokenFileError(f"{name} is {found.get_dtype()} of shape {found.get_shape()}")
            start = end - np.dtype(dtype).itemsize * math.prod(shape)
            self._arrays[name] = array = pages[start:end].view(dtype).reshape(shape)
            if not array.flags.aligned:
                raise BrokenFileError(
                    f"{name} begins at byte {start}, which is not aligned for its type"
                )
            self._starts[name] = end = start

    def read(self, name: str) -> np.ndarray:
        """Return a tensor as an array in memory; each tensor can be read once."""
        if name not in self._left:
            raise BrokenFileError(f"{name} is not a tensor of the file or is used twice")
        self._left.remove(name)
        view = self._arrays[name]
        self._content.seek(self._starts[name])
        array = np.fromfile(self._content, view.dtype, view.size).reshape(view.shape)
        self._compare(name, array)
        return array

    def view(self, name: str, verify: bool = False) -> np.ndarray:
        """Return a read-only view of a tensor, mapped to the file."""
        if verify:
            self._compare(name, self._arrays[name])
        return self._arrays[name]

    def check(self) -> None:
        """Raise BrokenFileError unless the digests of all tensors match."""
        for name, array in self._arrays.items():
            self._compare(name, array)

    def _compare(self, name: str, array: np.ndarray) -> None:
        if _digest(array) != self._tensors[name]["sha256"]:
            raise BrokenFileError(f"the content of {name} does not match its digest")
        if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
            raise BrokenFileError(f"{name} holds values other than true and false")


@contextmanager
def open_tensors(path: str | os.PathLike[str]) -> Iterator[TensorFile]:
    """Open a file written by :func:`write_tensors`; raise BrokenFileError for any other."""
    try:
        with safe_open(path, framework="numpy") as file, open(path, "rb") as content:
            yield TensorFile(file, content)
    except SafetensorError as error:
        raise BrokenFileError(str(error)) from error
