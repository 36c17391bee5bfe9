"""Opened data files: plain or gzipped, and never unpacked beyond a limit.

A megabyte of gzip can hold a gigabyte of zeros, and the header of an array in an archive can claim
any shape.
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from bigcat.data.dataset import DataError

#: A file may unpack to this many times its size, or to this many bytes if that is more.
MAX_FACTOR, MIN_LIMIT_BYTES = 100, 1 << 28
GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def opened(path: Path, raw: bytes | None = None, max_bytes: int | None = None) -> Iterator[IO[Any]]:
    """Open a file, or the bytes that were read of it, and unzip them as they are read."""
    file: IO[Any] = open(path, "rb") if raw is None else io.BytesIO(raw)  # noqa: SIM115
    with file:
        packed = file.read(2) == GZIP_MAGIC or path.suffix == ".gz"
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        if not packed:
            yield file
            return
        limit = unpacked_limit(size, max_bytes)
        try:
            yield io.BufferedReader(_Limited(path, gzip.GzipFile(fileobj=file), limit))
        except EOFError as error:
            raise DataError(
                f"{path}: the gzip stream is cut off before its end; fetch the file again"
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(f"{path}: expected a gzip file, found damage: {error}") from error


class _Limited(io.RawIOBase):
    """Raw stream that raises once more than `limit` bytes came out of it."""

    def __init__(self, path: Path, file: gzip.GzipFile, limit: int) -> None:
        self.path, self.file, self.limit, self.n_bytes = path, file, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self.file.readinto(buffer)
        self.n_bytes += n
        if self.n_bytes > self.limit:
            raise too_large(self.path, self.limit)
        return n


def unpacked_limit(size: int, max_bytes: int | None) -> int:
    """Return the bytes to which a packed file of that size may unpack."""
    return max(MAX_FACTOR * size, MIN_LIMIT_BYTES) if max_bytes is None else max_bytes


def too_large(path: str | PathLike[str], limit: int) -> DataError:
    """Return the error of a file that unpacks to more."""
    return DataError(
        f"{path}: unpacks to more than {limit:,} bytes; raise the limit with max_bytes= "
        "(on the command line --max-bytes)"
    )


def load_arrays(path: Path, file: IO[Any], max_bytes: int | None = None) -> dict[str, np.ndarray]:
    """Load the arrays of an ``.npz`` archive by name; DataError unless they are plain arrays."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            size = file.seek(0, io.SEEK_END)
            limit = unpacked_limit(size, max_bytes)
            if sum(member.file_size for member in members) > limit:
                raise too_large(path, limit)
            if len({member.filename for member in members}) < len(members):
                raise ValueError("a name occurs twice")
            for member in members:
                with archive.open(member) as array:
                    check_claim(member, array)
        file.seek(0)
        with np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except DataError:
        raise
    except Exception as error:  # zipfile and NumPy have no list of what they raise for damage
        raise DataError(
            f"{path}: expected a .npz archive of plain arrays ({error}); is the file cut off?"
        ) from error


def check_claim(member: zipfile.ZipInfo, array: IO[bytes]) -> None:
    """Raise if a header claims another size than the member has: NumPy allocates what it claims."""
    version = np.lib.format.read_magic(array)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{member.filename} has the unknown version {version}")
    one = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(array)
    claimed = dtype.itemsize
    for n in shape:
        claimed *= n
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} holds Python objects or has a negative length")
    if claimed != member.file_size - array.tell():
        raise ValueError(f"{member.filename} is not as long as its header says")
