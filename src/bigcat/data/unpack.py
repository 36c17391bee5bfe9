"""Compressed files, unpacked up to a limit: gzip streams and ``.npz`` archives.

A megabyte of gzip can hold a gigabyte of zeros, and the header of an array in an archive can claim
any shape.  What is read here takes no more memory than the limit, and an array no more than the
bytes that are there for it.
"""

from __future__ import annotations

import gzip
import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import IO

import numpy as np

from bigcat.data.dataset import DataError

#: A file may unpack to so many times its size, or to so many bytes if that is more.
USUAL_FACTOR, USUAL_BYTES = 100, 1 << 28
_BLOCK_BYTES = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def gzip_errors(path: str | PathLike[str]) -> Iterator[None]:
    """Errors of a damaged gzip stream as DataError."""
    try:
        yield
    except EOFError as error:
        raise DataError(
            f"{path}: the gzip stream is cut off before its end; fetch the file again"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: expected a gzip file, found damage: {error}") from error


def gunzip(path: str | PathLike[str], raw: bytes, max_bytes: int | None) -> bytes:
    """The content of a gzip file; DataError where it is damaged or larger than the limit."""
    with gzip_errors(path), gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
        return _up_to(path, file, unpacked_limit(len(raw), max_bytes))


def read_archive(
    path: str | PathLike[str], raw: bytes, max_bytes: int | None = None
) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` archive by name; DataError where it is not one of plain arrays."""
    left = unpacked_limit(len(raw), max_bytes)
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            for member in archive.infolist():
                with archive.open(member) as file:
                    content = _up_to(path, file, left)
                left -= len(content)
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise ValueError(f"it holds {name} twice")
                arrays[name] = _array(name, content)
    except DataError:
        raise
    except Exception as error:  # zipfile fails in many ways, and each one means the file
        raise DataError(
            f"{path}: expected a .npz archive of plain arrays ({error}); is the file cut off?"
        ) from error
    return arrays


def unpacked_limit(size: int, max_bytes: int | None) -> int:
    """Bytes to which a packed file of that size may unpack."""
    return max(USUAL_FACTOR * size, USUAL_BYTES) if max_bytes is None else max_bytes


def too_large(path: str | PathLike[str], limit: int) -> DataError:
    """The error of a file that unpacks to more."""
    return DataError(
        f"{path}: unpacks to more than {limit:,} bytes; if it is meant to, raise the limit "
        "with max_bytes= (on the command line --max-bytes)"
    )


def _up_to(path: str | PathLike[str], file: IO[bytes] | gzip.GzipFile, limit: int) -> bytes:
    blocks = []
    size = 0
    while block := file.read(_BLOCK_BYTES):
        size += len(block)
        if size > limit:
            raise too_large(path, limit)
        blocks.append(block)
    return b"".join(blocks)


def _array(name: str, content: bytes) -> np.ndarray:
    """An array from the bytes of a ``.npy`` file, which is never a pickled one."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"{name} has the unknown version {version}")
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    start = file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError(f"{name} is not as long as its header says")
    flat = (
        np.frombuffer(content, dtype, offset=start) if len(content) > start else np.empty(0, dtype)
    )
    return flat.reshape(shape, order="F" if by_column else "C")
