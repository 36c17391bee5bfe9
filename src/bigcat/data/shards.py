"""Converted rows that are mapped to memory, shard by shard, and never held as a whole."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset
from bigcat.data.manifest import MANIFEST, Manifest

#: Bytes of rows that a fit visits in random order at a time.
WINDOW_BYTES = 1 << 28
#: Numbers that are checked at a time.
_LOOKED_AT = 1 << 18


def open_shards(folder: str | PathLike[str], *, window_bytes: int = WINDOW_BYTES) -> Shards:
    """Open a folder that `bigcat.data.convert` made.

    Parameters
    ----------
    folder : path
    window_bytes : int
        How many bytes of rows a fit visits in random order at a time: at most as many as there is
        memory for.  Where all rows are fewer, they are used as if they were in memory.

    Returns
    -------
    Shards
    """
    return Shards(folder, window_bytes=window_bytes)


class Shards:
    r"""Rows with labels in a folder, in random order; takes the place of X and y.

    Give it to ``LinearClassifier.fit``, ``partial_fit``, ``predict...`` and ``score``, and to
    `bigcat.metrics.evaluate`.  Nothing is read before it is needed; a shard is held to its digest
    when it is first used.

    Parameters
    ----------
    folder : path
    window_bytes : int
        As in `open_shards`.

    Attributes
    ----------
    shape : tuple of int
    classes : array
        The labels that occur, in order.
    labels : array of int32, mapped to the file
        Places of the rows' labels in `classes`.
    report : dict
        What was read, as of a `Dataset`.
    vectorizer : object or None
        What makes features of text, fitted.
    fingerprint : str
        The same for the same rows in the same order.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bigcat.data import convert
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "pets.csv").write_text("size,label\n1,cat\n2,dog\n3,dog\n")
    >>> rows = convert(folder / "pets.csv", folder / "pets")
    >>> rows
    Shards(3 rows, 1 features (dense), 2 classes, 1 shards)
    >>> sorted(rows[0:3].y.tolist())
    ['cat', 'dog', 'dog']
    """

    def __init__(self, folder: str | PathLike[str], *, window_bytes: int = WINDOW_BYTES) -> None:
        if not window_bytes > 0:
            raise ValueError(f"window_bytes={window_bytes!r} must be a number of bytes above 0")
        self.folder, self.window_bytes = Path(folder), int(window_bytes)
        self.manifest = Manifest.read(self.folder)
        self.fingerprint = self.manifest.fingerprint
        self.classes = self.manifest.class_labels()
        self.report = {**self.manifest.report, "file": str(self.folder)}
        self.shape = (self.manifest.n_rows, self.manifest.n_features)
        self._arrays = {
            name: self._map(name, dtype, shape)
            for name, (dtype, shape) in self.manifest.shapes().items()
        }
        self.labels = self._arrays["labels"]
        rows = [shard.rows for shard in self.manifest.shards]
        values = [shard.values for shard in self.manifest.shards]
        self._row_edges, self._value_edges = _edges(rows), _edges(values)
        self._checked = np.zeros(len(rows), bool)

    def _map(self, name: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        path = self.folder / self.manifest.arrays / name
        expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
        try:
            found = path.stat().st_size
        except FileNotFoundError:
            found = None
        if found != expected:
            there = "no file" if found is None else f"{found:,}"
            raise DataError(
                f"{path}: expected {expected:,} bytes, found {there}; convert the data again"
            )
        if not expected:
            return np.empty(shape, dtype)
        array = np.memmap(path, dtype, "r", shape=shape)
        if hasattr(mmap, "MADV_SEQUENTIAL"):  # pages that were read are the first to go
            array._mmap.madvise(mmap.MADV_SEQUENTIAL)  # type: ignore[attr-defined]
        return array

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        kind = f"{self.manifest.n_values / n:.1f} per row" if self.manifest.sparse else "dense"
        return (
            f"Shards({n:,} rows, {d:,} features ({kind}), {len(self.classes):,} classes, "
            f"{len(self._checked):,} shards)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self.folder, self.window_bytes, self.classes)

    # Rows

    @property
    def X(self) -> Any:
        """All rows, mapped: a CSR matrix or an array that is read from the disk as it is used."""
        self.check()
        return self._rows(0, len(self))

    @property
    def y(self) -> np.ndarray:
        """All labels, in memory."""
        self.check()
        labels: np.ndarray = self.classes[self.labels]
        return labels

    def __getitem__(self, rows: slice) -> Dataset:
        if not isinstance(rows, slice):
            raise TypeError(f"rows of a folder are taken by slices, such as [0:100], not {rows!r}")
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"slices of rows have step 1, got {step}")
        X, labels = self.run(first, max(first, last))
        return Dataset(X, self.classes[labels], dict(self.report))

    def run(self, first: int, last: int) -> tuple[Any, np.ndarray]:
        """Some rows that lie together, in memory, and the places of their labels in `classes`."""
        begin = int(np.searchsorted(self._row_edges, first, side="right")) - 1
        for i in range(begin, len(self._checked)):
            if self._row_edges[i] < last:
                self._check_shard(i)
        return self._rows(first, last).copy(), np.array(self.labels[first:last])

    def let_go(self) -> None:
        """Give back pages that were read: as long as they are mapped, they count as memory in use.

        They stay in the system's own cache.
        """
        for array in self._arrays.values():
            mapped = getattr(array, "_mmap", None)
            if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)

    def __iter__(self) -> Iterator[Dataset]:
        """Shard by shard, each as a `Dataset` in memory."""
        for first, last in zip(self._row_edges, self._row_edges[1:]):
            yield self[first:last]

    def _rows(self, first: int, last: int) -> Any:
        if not self.manifest.sparse:
            return self._arrays["values"][first:last]
        arrays = self._arrays
        whole = (arrays["indptr"], arrays["indices"], arrays["values"])
        return csr_rows(whole, first, last, self.shape[1])

    @property
    def n_bytes(self) -> int:
        """Of rows and labels, on the disk."""
        return self.manifest.n_bytes

    @property
    def window_rows(self) -> int | None:
        """Rows that a fit visits in random order at a time; None for all."""
        if self.n_bytes <= self.window_bytes:
            return None
        return max(1, self.window_bytes * len(self) // self.n_bytes)

    @property
    def vectorizer(self) -> Any:
        from bigcat.data.vectorizers import unpack_fitted

        if self.manifest.vectorizer is None:
            return None
        arrays = self.folder / self.manifest.arrays
        return unpack_fitted(self.manifest.vectorizer, arrays, self.shape[1])

    @property
    def columns(self) -> Any:
        """Of converted tables of numbers: the names, by which other tables are read."""
        from bigcat.data.tables import LABEL, TableEncoder

        if self.manifest.column_names is None or self.manifest.vectorizer is not None:
            return None
        label = self.report.get("label_column", LABEL)
        return TableEncoder(label, tuple(self.manifest.column_names))

    def with_classes(self, classes: np.ndarray) -> Shards:
        """The same rows, with other names for the classes."""
        other = object.__new__(Shards)
        other.__dict__ = {**self.__dict__, "classes": classes}
        return other

    # Checks

    def check(self) -> None:
        """Hold all shards that were not used yet to their digests; DataError for a damaged one."""
        for i in np.flatnonzero(~self._checked):
            self._check_shard(int(i))

    def _check_shard(self, i: int) -> None:
        if self._checked[i]:
            return
        rows, values = self._row_edges[i : i + 2], self._value_edges[i : i + 2]
        parts = shard_parts(self._arrays, *rows, *values)
        digest, ranges = _looked_through(parts)
        if digest != self.manifest.shards[i].sha256:
            cause = "its digest is another"
        else:
            cause = self._what_is_wrong(parts, ranges, values)
        if cause:
            raise DataError(
                f"{self.folder}: rows {rows[0]} to {rows[1] - 1} (shard {i}) are damaged: {cause}; "
                "convert the data again"
            )
        self._checked[i] = True

    def _what_is_wrong(
        self, parts: dict[str, np.ndarray], ranges: dict[str, np.ndarray], values: list[int]
    ) -> str:
        """Of arrays that are what was written: could they harm compiled code?"""
        if not _within(ranges["labels"], len(self.classes)):
            return "a label is not one of the classes"
        if not np.isfinite(ranges["values"]).all():
            return "NaN or infinity"
        if not self.manifest.sparse:
            return ""
        ends = parts["indptr"]
        rises = (np.diff(ends, prepend=ends.dtype.type(values[0])) >= 0).all()
        if not rises or (ends[-1] if len(ends) else values[0]) != values[1]:
            return "the ends of rows do not rise"
        if self._arrays["indptr"][0] != 0:
            return "the first row does not begin at 0"
        if not _within(ranges["indices"], self.shape[1]):
            return "a feature is beyond the last"
        return ""


def csr_rows(
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray], first: int, last: int, width: int
) -> sp.csr_matrix:
    """A run of rows as a matrix that shares their memory, but for the ends of rows."""
    indptr, indices, values = arrays
    begin, end = int(indptr[first]), int(indptr[last])
    ends = indptr[first : last + 1]
    X = sp.csr_matrix(
        (values[begin:end], indices[begin:end], ends - ends.dtype.type(begin) if begin else ends),
        shape=(last - first, width),
    )
    X.has_canonical_format = True  # as they were written
    return X


def shard_parts(
    arrays: dict[str, np.ndarray], first: int, last: int, begin: int, end: int
) -> dict[str, np.ndarray]:
    """Of each array what belongs to a run of rows, and to their values."""
    places = {
        "labels": slice(first, last),
        "indptr": slice(first + 1, last + 1),
        "indices": slice(begin, end),
        "values": slice(begin, end) if "indptr" in arrays else slice(first, last),
    }
    return {name: array[places[name]] for name, array in arrays.items()}


def shard_digest(parts: dict[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for array in parts.values():
        found.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
    return found.hexdigest()


def _looked_through(parts: dict[str, np.ndarray]) -> tuple[str, dict[str, np.ndarray]]:
    """The digest, and the lowest and highest numbers of each array: all in one reading.

    NaN is both.  Of an array without numbers there are none.
    """
    found, ranges = hashlib.sha256(), {}
    for name, array in parts.items():
        flat, seen = array.reshape(-1), []
        for begin in range(0, len(flat), _LOOKED_AT):
            some = np.ascontiguousarray(flat[begin : begin + _LOOKED_AT])
            found.update(some.view(np.uint8).data)
            seen += [some.min(), some.max()]
        ranges[name] = np.array([min(seen), max(seen)] if seen else [], array.dtype)
        if np.isnan(seen).any():
            ranges[name] = np.full(2, np.nan, array.dtype)
    return found.hexdigest(), ranges


def _within(numbers: np.ndarray, end: int) -> bool:
    """Are lowest and highest numbers places in so many?"""
    return not len(numbers) or bool(numbers[0] >= 0 and numbers[1] < end)


def is_folder_of_rows(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def _edges(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes, dtype=np.int64).tolist()]


def _opened_again(folder: Path, window_bytes: int, classes: np.ndarray) -> Shards:
    return Shards(folder, window_bytes=window_bytes).with_classes(classes)
