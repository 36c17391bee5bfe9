"""Blocks of rows on the disk while a conversion is under way.

A block is one file: labels, row ends and columns (of sparse rows), values, one array after the
other.  It is read by slices of rows, without a map or an open file that would be kept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp


class Slice(NamedTuple):
    """Some rows of a block."""

    labels: np.ndarray
    lengths: np.ndarray  # values of each row
    indices: np.ndarray
    values: np.ndarray


class Spilled(NamedTuple):
    """A block that was written down, and what is known of it."""

    path: Path
    n_rows: int
    n_values: int
    width: int | None  # of dense rows
    facts: dict[str, int]

    @classmethod
    def write(cls, path: Path, X: Any, labels: np.ndarray, facts: dict[str, int]) -> Spilled:
        """Rows with labels that are numbered by the block's own list of names."""
        sparse = sp.issparse(X)
        values = np.ascontiguousarray(X.data if sparse else X, np.float32)
        with open(path, "wb") as file:
            file.write(as_bytes(labels.astype(np.int32)))
            if sparse:
                file.write(as_bytes(X.indptr[1:].astype(np.int64)))
                file.write(as_bytes(X.indices.astype(np.int32, copy=False)))
            file.write(as_bytes(values))
        return cls(path, X.shape[0], values.size, None if sparse else X.shape[1], facts)

    @property
    def names_path(self) -> Path:
        return self.path.with_suffix(".names")

    @property
    def words_path(self) -> Path:
        return self.path.with_suffix(".words")

    @property
    def cuts_path(self) -> Path:
        return self.path.with_suffix(".cuts")

    def rows(self, first: int = 0, last: int | None = None) -> Slice:
        last = self.n_rows if last is None else last
        n, size = last - first, self.n_rows
        with open(self.path, "rb", buffering=0) as file:
            labels = _read(file, 4 * first, n, np.int32)
            if self.width is not None:
                values = _read(file, 4 * (size + first * self.width), n * self.width, np.float32)
                return Slice(labels, np.full(n, self.width), np.empty(0, np.int32), values)
            before = min(first, 1)
            ends = _read(file, 4 * size + 8 * (first - before), n + before, np.int64)
            begin = int(ends[0]) if before else 0
            end = int(ends[-1]) if n else begin
            at = 12 * size
            indices = _read(file, at + 4 * begin, end - begin, np.int32)
            values = _read(file, at + 4 * (self.n_values + begin), end - begin, np.float32)
        return Slice(labels, np.diff(ends[before:], prepend=begin), indices, values)

    def renumber(self, number: np.ndarray) -> None:
        """Call label k ``number[k]``."""
        labels = number[self.labels()].astype(np.int32)
        with open(self.path, "r+b") as file:
            file.write(as_bytes(labels))

    def labels(self) -> np.ndarray:
        with open(self.path, "rb", buffering=0) as file:
            return _read(file, 0, self.n_rows, np.int32)

    def ends(self, rows: np.ndarray) -> np.ndarray:
        """How many values there are before each of some rows, in order."""
        if self.width is not None:
            return np.asarray(rows * self.width)
        with open(self.path, "rb", buffering=0) as file:
            ends = _read(file, 4 * self.n_rows, self.n_rows, np.int64)
        found: np.ndarray = np.concatenate([[0], ends])[rows]
        return found

    def cuts(self, shard: int) -> tuple[int, int]:
        """The rows that go to a shard."""
        with open(self.cuts_path, "rb", buffering=0) as file:
            first, last = _read(file, 8 * shard, 2, np.int64)
        return int(first), int(last)


def as_matrix(rows: Slice, n_columns: int) -> sp.csr_matrix:
    """Sparse rows as a matrix, their indices as they are."""
    indptr = np.concatenate([[0], np.cumsum(rows.lengths)])
    return sp.csr_matrix((rows.values, rows.indices, indptr), shape=(len(rows.labels), n_columns))


def numbered(labels: np.ndarray | list[str]) -> tuple[np.ndarray, list[Any]]:
    """Labels as numbers, and the names that these stand for."""
    if isinstance(labels, np.ndarray):
        names, numbers = np.unique(labels, return_inverse=True)
        return numbers.reshape(-1), names.tolist()
    found: dict[str, int] = {}
    numbers = np.fromiter((found.setdefault(label, len(found)) for label in labels), np.int64)
    return numbers, list(found)


def as_bytes(array: np.ndarray) -> memoryview:
    """What a file takes of an array, without a copy."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _read(file: Any, offset: int, count: int, dtype: Any) -> np.ndarray:
    array = np.empty(count, dtype)
    view, done = memoryview(array).cast("B"), 0  # type: ignore[arg-type]
    while done < len(view):
        read = os.preadv(file.fileno(), [view[done:]], offset + done)
        if not read:
            raise OSError(f"{file.name}: ends before its time")
        done += read
    return array
