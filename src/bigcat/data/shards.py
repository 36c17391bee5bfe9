"""Folders of converted rows, mapped to memory shard by shard and never held as a whole.

``index.json`` names the folder that holds the arrays.  A conversion writes other arrays and then
this one file, whole or not at all, so that a folder has the rows of before or those of after.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat._io.atomic import replacing
from bigcat._io.checks import check, is_whole
from bigcat.data.dataset import DataError, Dataset, array_of_strings, labels_of_rows

INDEX, FORMAT_VERSION = "index.json", 2
#: Default bytes of rows that a fit visits in random order at a time.
WINDOW_BYTES = 1 << 28


def _is_size(value: object) -> bool:
    return is_whole(value, 0, (1 << 62) - 1)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_size, value))


_SCHEMA: dict[str, Any] = {
    "arrays": str,
    "n_features": _is_size,
    "sparse": bool,
    "rows": _are_sizes,
    "values": _are_sizes,
    "digests": list,
    "classes": list,
    "report": dict,
    "column_names": list | None,
    "vectorizer": str | None,
}


@dataclass(frozen=True)
class Index:
    """Everything about converted rows but the rows.

    Parameters
    ----------
    arrays : str
        Name of the folder of arrays, within that of the index.
    n_features : int
    sparse : bool
    rows, values : list of int
        Where each shard ends: its last row, and its last value, both counted over all shards.
    digests : list of str
        SHA-256 of each shard.
    classes : list
        Labels in order; the numbers of the rows' labels are places in it.
    report : dict
        As in `bigcat.data.Dataset.report`.
    column_names : list of str or None
        Names of the columns of a table.
    vectorizer : str or None
        Digest of the file that holds the vectoriser of text.
    """

    arrays: str
    n_features: int
    sparse: bool
    rows: list[int]
    values: list[int]
    digests: list[str]
    classes: list[Any]
    report: dict[str, Any] = field(default_factory=dict)
    column_names: list[str] | None = None
    vectorizer: str | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows[-1]

    @property
    def n_bytes(self) -> int:
        """Bytes of rows and labels."""
        sizes = (kind.itemsize * math.prod(shape) for kind, shape in self.shapes.values())
        return sum(sizes)

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of columns and row ends: SciPy wants one for both."""
        return np.dtype(np.int32 if self.values[-1] < 1 << 31 else np.int64)

    @property
    def shapes(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Types and shapes of the arrays by name."""
        n, m, labels = self.n_rows, self.values[-1], (np.dtype(np.int32), (self.n_rows,))
        value, kind = np.dtype(np.float32), self.index_dtype
        if not self.sparse:
            return {"labels": labels, "values": (value, (n, self.n_features))}
        of_rows = {"indptr": (kind, (n + 1,)), "indices": (kind, (m,)), "values": (value, (m,))}
        return {"labels": labels, **of_rows}

    @property
    def fingerprint(self) -> str:
        """Name of the rows: the same for the same rows in the same order."""
        return digest_of({**asdict(self), "arrays": "", "report": {}})

    def class_labels(self) -> np.ndarray:
        """Return the labels as an array."""
        if all(isinstance(name, int) for name in self.classes):
            return np.array(self.classes, np.int64)
        return array_of_strings(self.classes)

    def write(self, folder: Path) -> None:
        """Replace the index of a folder."""
        content = asdict(self)
        head = {"format_version": FORMAT_VERSION, "sha256": digest_of(content)}
        with replacing(folder / INDEX) as file:
            file.write(json.dumps(head | content).encode())

    @classmethod
    def read(cls, folder: Path) -> Index:
        """Read and check the index of a folder; raise DataError for a damaged one."""
        path = folder / INDEX
        try:
            found = json.loads(path.read_bytes())
            version, digest = found.pop("format_version"), found.pop("sha256")
            if version != FORMAT_VERSION:
                raise DataError(
                    f"{path}: expected format {FORMAT_VERSION}, found {version!r}; convert the "
                    "data again"
                )
            if digest != digest_of(found):
                raise ValueError("its digest is another")
            index = cls(**found)
            index._check()
        except FileNotFoundError:
            raise DataError(
                f"{folder}: expected {INDEX}, as `bigcat convert` writes it, found none"
            ) from None
        except DataError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{path}: damaged, or not an index of rows ({error}); convert the data again"
            ) from error
        return index

    def _check(self) -> None:
        """Raise for values that could make compiled code read or write outside its arrays."""
        check("index", asdict(self), _SCHEMA)
        for ends in (self.rows, self.values):
            if any(a > b for a, b in pairwise(ends)):
                raise ValueError("the ends of shards do not rise")
        if not len(self.rows) == len(self.values) == len(self.digests) or not self.n_rows:
            raise ValueError("its shards are of different numbers, or it has no rows")
        if not self.sparse and self.values != [n * self.n_features for n in self.rows]:
            raise ValueError("a shard has other values than its rows have")
        if Path(self.arrays).name != self.arrays or self.arrays in ("", ".", ".."):
            raise ValueError("its arrays are elsewhere")
        if {type(name) for name in self.classes} not in ({int}, {str}):
            raise ValueError("it has no classes, or classes of two kinds")
        if type(self.classes[0]) is int and max(map(abs, self.classes)) >= 1 << 63:
            raise ValueError("a class is not an integer of 64 bits")
        if any(a >= b for a, b in pairwise(self.classes)):
            raise ValueError("its classes are not in order")


def digest_of(content: dict[str, Any]) -> str:
    """Return the SHA-256 of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def shard_digest(parts: list[np.ndarray]) -> str:
    """Return the SHA-256 of a shard: labels, lengths and columns of sparse rows, values."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part).view(np.uint8).reshape(-1).data)
    return found.hexdigest()


def open_shards(folder: str | PathLike[str], *, window_bytes: int = WINDOW_BYTES) -> Shards:
    """Open a folder that `bigcat.data.convert` made.

    Parameters
    ----------
    folder : path
    window_bytes : int
        Bytes of rows that a fit visits in random order at a time: at most as many as there is
        memory for.  If all rows take fewer, they are used as if they were in memory.

    Returns
    -------
    Shards
    """
    return Shards(folder, window_bytes=window_bytes)


class Shards:
    r"""Rows with labels in a folder, in random order; takes the place of X and y.

    Pass it to ``LinearClassifier.fit``, ``partial_fit``, ``predict...`` and ``score``, and to
    `bigcat.metrics.evaluate`.  Rows are read when they are needed; a shard is compared with its
    digest when it is first used.

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
        As of a `Dataset`.
    vectorizer : object or None
        The fitted vectoriser of text.
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
        self.index, self._arrays = self._mapped()
        self.fingerprint = self.index.fingerprint
        self.classes = self.index.class_labels()
        self.report = {**self.index.report, "file": str(self.folder)}
        self.shape = (self.index.n_rows, self.index.n_features)
        self.labels = self._arrays["labels"]
        self._row_edges, self._value_edges = [0, *self.index.rows], [0, *self.index.values]
        self._checked = np.zeros(len(self.index.rows), bool)

    def _mapped(self) -> tuple[Index, dict[str, np.ndarray]]:
        """Return the index and its arrays, which a conversion may replace in between."""
        index = Index.read(self.folder)
        while True:
            folder = self.folder / index.arrays
            try:
                return index, {name: _map(folder, name, *how) for name, how in index.shapes.items()}
            except DataError:
                before, index = index, Index.read(self.folder)
                if index.arrays == before.arrays:
                    raise

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n, d = self.shape
        kind = f"{self.index.values[-1] / n:.1f} per row" if self.index.sparse else "dense"
        return (
            f"Shards({n:,} rows, {d:,} features ({kind}), {len(self.classes):,} classes, "
            f"{len(self._checked):,} shards)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self.folder, self.window_bytes, self.classes, self.fingerprint)

    # Rows

    @property
    def X(self) -> Any:
        """All rows, mapped: a CSR matrix or an array that is read from the disk as it is used."""
        self._check(0, len(self))
        return self._rows(0, len(self))

    @property
    def y(self) -> np.ndarray:
        """All labels, in memory."""
        self._check(0, len(self))
        return labels_of_rows(self.classes, self.labels)

    def __getitem__(self, rows: slice) -> Dataset:
        if not isinstance(rows, slice):
            raise TypeError(f"rows of a folder are taken by slices, such as [0:100], not {rows!r}")
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise ValueError(f"slices of rows have step 1, got {step}")
        X, labels = self.run(first, max(first, last))
        return Dataset(X, self.classes[labels], dict(self.report))

    def run(self, first: int, last: int) -> tuple[Any, np.ndarray]:
        """Copy adjacent rows to memory, with the places of their labels in `classes`."""
        self._check(first, last)
        return self._rows(first, last).copy(), np.array(self.labels[first:last])

    def let_go(self) -> None:
        """Give back pages that were read, which otherwise count as memory in use.

        They stay in the system's own cache.
        """
        for array in self._arrays.values():
            mapped = getattr(array, "_mmap", None)
            if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)

    def __iter__(self) -> Iterator[Dataset]:
        """Yield shard after shard, each as a `Dataset` in memory."""
        for first, last in pairwise(self._row_edges):
            yield self[first:last]

    def _rows(self, first: int, last: int) -> Any:
        if not self.index.sparse:
            return self._arrays["values"][first:last]
        indptr, indices, values = (self._arrays[name] for name in ("indptr", "indices", "values"))
        begin, end = int(indptr[first]), int(indptr[last])
        ends = indptr[first : last + 1]
        X = sp.csr_matrix(
            (
                values[begin:end],
                indices[begin:end],
                ends - ends.dtype.type(begin) if begin else ends,
            ),
            shape=(last - first, self.shape[1]),
        )
        X.has_canonical_format = True  # as they were written
        return X

    @property
    def n_bytes(self) -> int:
        """Bytes of rows and labels on the disk."""
        return self.index.n_bytes

    @property
    def window_rows(self) -> int | None:
        """Rows that a fit visits in random order at a time; None for all."""
        if self.n_bytes <= self.window_bytes:
            return None
        return max(1, self.window_bytes * len(self) // self.n_bytes)

    @property
    def vectorizer(self) -> Any:
        """Fitted vectoriser of text, or None."""
        from bigcat.data.vectorizers import load_vectorizer

        if self.index.vectorizer is None:
            return None
        folder = self.folder / self.index.arrays
        if not folder.exists():
            raise DataError(f"{self.folder}: its rows were replaced; open it again")
        return load_vectorizer(folder, self.index.vectorizer, self.shape[1])

    @property
    def columns(self) -> Any:
        """Transformer to read other tables with these columns; None unless rows are numbers."""
        from bigcat.data.tables import numbers_only

        names = self.index.column_names
        return None if names is None else numbers_only(names)

    def with_classes(self, classes: np.ndarray) -> Shards:
        """Return the same rows with other names for the classes."""
        other = object.__new__(Shards)
        other.__dict__ = {**self.__dict__, "classes": classes}
        return other

    def _check(self, first: int, last: int) -> None:
        """Check shards before their first use; DataError for a damaged one."""
        begin = int(np.searchsorted(self._row_edges, first, side="right")) - 1
        for i in range(begin, len(self._checked)):
            if self._row_edges[i] < last and not self._checked[i]:
                cause = self._cause(i)
                if cause:
                    raise DataError(
                        f"{self.folder}: rows {self._row_edges[i]} to {self._row_edges[i + 1] - 1} "
                        f"(shard {i}) are damaged: {cause}; convert the data again"
                    )
                self._checked[i] = True

    def _cause(self, i: int) -> str:
        """Return the damage of a shard, also of one whose digest is right."""
        first, last = self._row_edges[i : i + 2]
        begin, end = self._value_edges[i : i + 2]
        labels, values = self.labels[first:last], self._arrays["values"]
        if not self.index.sparse:
            parts = [labels, values[first:last]]
        else:
            ends = self._arrays["indptr"][first : last + 1]
            parts = [labels, np.diff(ends), self._arrays["indices"][begin:end], values[begin:end]]
        if shard_digest(parts) != self.index.digests[i]:
            return "its digest is another"
        if not _within(labels, len(self.classes)):
            return "a label is not one of the classes"
        if not np.isfinite(parts[-1]).all():
            return "NaN or infinity"
        if self.index.sparse and (ends[0] != begin or ends[-1] != end or (parts[1] < 0).any()):
            return "the ends of rows do not rise"
        if self.index.sparse and not _within(parts[2], self.shape[1]):
            return "a feature is beyond the last"
        return ""


def _within(places: np.ndarray, end: int) -> bool:
    return not len(places) or bool(places.min() >= 0 and places.max() < end)


def _map(folder: Path, name: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    path = folder / f"{name}.npy"
    if 0 in shape:  # which the system does not map
        return np.empty(shape, dtype)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(f"it is of {array.dtype} and shape {array.shape}")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path}: expected an array of {dtype} and shape {shape} ({error}); convert the "
            "data again"
        ) from error
    if hasattr(mmap, "MADV_SEQUENTIAL"):  # pages that were read go first
        array._mmap.madvise(mmap.MADV_SEQUENTIAL)
    return array  # type: ignore[no-any-return]


def _opened_again(folder: Path, window_bytes: int, classes: np.ndarray, fingerprint: str) -> Shards:
    shards = Shards(folder, window_bytes=window_bytes)
    if shards.fingerprint != fingerprint:
        raise DataError(f"{folder}: its rows were replaced after the pickle was made; pickle again")
    return shards.with_classes(classes)
