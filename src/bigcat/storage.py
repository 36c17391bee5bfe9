"""Storage of arrays as large as the weights: memory or memory-mapped files.

Every such array of a fit is created by a storage, so a fit larger than memory differs only in its
storage.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike

_GIB = 1 << 30
#: Bytes written at a time on systems that cannot reserve space.
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class Storage:
    """Arrays in memory."""

    #: True if arrays take disk space, and memory only as available.
    on_disk = False

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return a zero array."""
        return np.zeros(shape, dtype)

    def copy(self, array: np.ndarray, dtype: DTypeLike | None = None) -> np.ndarray:
        """Return a copy with the memory order of the original, C or Fortran."""
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return self.copy(array.T, dtype).T
        copied = self.zeros(array.shape, array.dtype if dtype is None else dtype)
        copied[...] = array
        return copied

    def contiguous(self, array: np.ndarray, dtype: DTypeLike) -> np.ndarray:
        """Return the array in C order and the given dtype, without a copy if possible."""
        if array.flags.c_contiguous and array.dtype == dtype:
            return array
        made = self.zeros(array.shape, dtype)
        made[...] = array
        return made

    def settle(self, array: np.ndarray) -> None:
        """Announce that an array is trained and will now be read, mostly in order."""

    def check_room(self, n_bytes: int) -> None:
        """Raise OSError if the disk lacks space; `bigcat.training.memory` checks memory."""


MEMORY = Storage()


@dataclass(frozen=True)
class MappedFiles(Storage):
    """Arrays in unnamed memory-mapped files, removed with the last reference to each.

    A killed process leaves no files either: on Linux they never have a name, elsewhere they lose it
    once made. Disk space is reserved up front, because running out of it later, on writing a page,
    would kill the process without a message.

    Parameters
    ----------
    folder : Path
        On a disk, since a file in memory would gain nothing.
    """

    folder: Path
    on_disk = True

    @classmethod
    def of(cls, folder: Any) -> MappedFiles:
        """Return the storage for a folder; raise if it is missing or not writable."""
        if not isinstance(folder, str | os.PathLike):
            raise ValueError(f"weights_folder={folder!r} must be the name of a folder, or None")
        storage = cls(Path(folder))
        if not storage.folder.is_dir():
            raise FileNotFoundError(
                errno.ENOENT,
                f"weights_folder={os.fspath(folder)!r} is no folder; make it first, on a disk that "
                "has room for the weights",
            )
        storage.zeros((1,), np.uint8)
        return storage

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        if not n_bytes:
            return np.zeros(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                reserve(file, n_bytes)
                pages = mmap.mmap(file.fileno(), n_bytes)
        except OSError as error:
            cause = os.strerror(error.errno or 0)
            raise OSError(
                error.errno,
                f"could not make a file of {n_bytes:,} bytes for weights in {self.folder}: "
                f"{cause}; choose another weights_folder, or make room in this one",
            ) from error
        # Training touches few numbers per page; read-ahead would fetch megabytes around each.
        _advise(pages, "MADV_RANDOM")
        # Not numpy.memmap: joblib would try to reopen the file by name.
        return np.frombuffer(pages, dtype).reshape(shape)

    def settle(self, array: np.ndarray) -> None:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview):
            _advise(base.obj, "MADV_NORMAL")

    def check_room(self, n_bytes: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if n_bytes > free:
            raise OSError(
                errno.ENOSPC,
                f"the fit needs {n_bytes / _GIB:.2f} GiB for its weights in {self.folder}, where "
                f"{free / _GIB:.2f} GiB are free; choose another weights_folder, or make room in "
                "this one",
            )


def _advise(pages: Any, advice: str) -> None:
    """Give the operating system a hint on access patterns; results do not depend on it."""
    if hasattr(mmap, advice):
        pages.madvise(getattr(mmap, advice))


def reserve(file: IO[bytes], n_bytes: int) -> None:
    """Extend an empty file to `n_bytes` zeros; raise OSError if the disk is full."""
    if hasattr(os, "posix_fallocate"):
        if n_bytes:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    zeros = bytes(min(n_bytes, _BLOCK_BYTES))
    for start in range(0, n_bytes, _BLOCK_BYTES):
        file.write(zeros[: n_bytes - start])
    file.flush()
