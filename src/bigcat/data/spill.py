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
    """Some rows of a block, or of several."""

    labels: np.ndarray
    lengths: np.ndarray  # values of each row
    indices: np.ndarray
    values: np.ndarray

    @classmethod
    def empty(cls, n_rows: int, n_values: int, sparse: bool) -> Slice:
        """Room for rows, of dense ones without lengths and indices."""
        return cls(
            np.empty(n_rows, np.int32),
            np.empty(n_rows if sparse else 0, np.int64),
            np.empty(n_values if sparse else 0, np.int32),
            np.empty(n_values, np.float32),
        )


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

    def rows(self) -> Slice:
        rows = Slice.empty(self.n_rows, self.n_values, self.width is None)
        self.read_into(rows, 0, 0, 0, self.n_rows)
        return rows

    def read_into(
        self, rows: Slice, row: int, value: int, first: int, last: int
    ) -> tuple[int, int]:
        """Put rows `first` to `last` where there is room for them: from `row` and `value` on.

        Returns where the next ones go.  OSError for more of them than there is room for.
        """
        n, size = last - first, self.n_rows
        with open(self.path, "rb", buffering=0) as file:
            _read_into(file, 4 * first, rows.labels, row, n)
            if self.width is not None:
                n_values = n * self.width
                _read_into(file, 4 * (size + first * self.width), rows.values, value, n_values)
                return row + n, value + n_values
            before = min(first, 1)
            ends = _read(file, 4 * size + 8 * (first - before), n + before, np.int64)
            begin = int(ends[0]) if before else 0
            n_values = (int(ends[-1]) if n else begin) - begin
            rows.lengths[row : row + n] = np.diff(ends[before:], prepend=begin)
            at = 12 * size + 4 * begin
            _read_into(file, at, rows.indices, value, n_values)
            _read_into(file, at + 4 * self.n_values, rows.values, value, n_values)
        return row + n, value + n_values

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


def as_bytes(array: np.ndarray) -> memoryview:
    """What a file takes of an array, without a copy."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # type: ignore


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_arrays(path: Path, *arrays: np.ndarray) -> None:
    with open(path, "wb") as file:
        for array in arrays:
            np.save(file, array, allow_pickle=False)


def read_arrays(path: Path, n: int) -> list[np.ndarray]:
    with open(path, "rb") as file:
        return [np.load(file, allow_pickle=False) for _ in range(n)]


def _read(file: Any, offset: int, count: int, dtype: Any) -> np.ndarray:
    array = np.empty(count, dtype)
    _read_into(file, offset, array, 0, count)
    return array


def _read_into(file: Any, offset: int, array: np.ndarray, at: int, count: int) -> None:
    if not 0 <= count <= len(array) - at:
        raise OSError(f"{file.name}: changed while it was read; convert again")
    view, done = as_bytes(array[at : at + count]), 0
    while done < len(view):
        read = os.preadv(file.fileno(), [view[done:]], offset + done)
        if not read:
            raise OSError(f"{file.name}: ends before its time")
        done += read
