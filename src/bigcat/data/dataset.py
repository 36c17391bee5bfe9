"""Data sets, which every reader returns, and the one error that readers raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp


class DataError(ValueError):
    """Unusable data file; the message says which file, where, and what was expected."""


def error_at(path: str | PathLike[str], line: int, expected: str, found: object) -> DataError:
    """Return the error of one line of a text file."""
    return DataError(f"{path}, line {line}: expected {expected}, found {found}")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows with one label each.

    Attributes
    ----------
    X : scipy.sparse.csr_matrix or ndarray of shape (n_rows, n_features), float32
        CSR with sorted indices and no duplicates, or dense in C order.
    y : ndarray of shape (n_rows,)
        Labels as in the file: int64, or str (as objects where a few labels are so long that an
        array of fixed width would be many times the file).
    report : dict
        What was read: ``form``, ``rows``, ``features``, ``classes``, ``multi_label_rows``,
        ``rows_without_label`` (dropped), and what else the source has to say.
    vectorizer : object or None
        The fitted scikit-learn vectoriser that made ``X`` from text.
    columns : sklearn.compose.ColumnTransformer or None
        For a table: the fitted transformer that made ``X`` from its columns.
    groups : ndarray of shape (n_rows,) or None
        The group of each row: of a table, if `group_column` was given; of the corpus, its file.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.data import Dataset
    >>> Dataset(np.zeros((2, 3), np.float32), np.array(["cat", "dog"]))
    Dataset(2 rows, 3 features (dense), 2 classes)
    """

    X: Any
    y: np.ndarray
    report: dict[str, Any] = field(default_factory=dict)
    vectorizer: Any = None
    columns: Any = None
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        n, d = self.X.shape
        if sp.issparse(self.X):
            kind = f"{self.X.nnz / max(n, 1):.1f} per row"
        else:
            kind = "dense"
        classes = self.report.get("classes")
        if classes is None:
            classes = len(np.unique(self.y))
        return f"Dataset({n:,} rows, {d:,} features ({kind}), {classes:,} classes)"


@dataclass(frozen=True, eq=False)
class Split:
    """A data set in its parts.

    Attributes
    ----------
    train, test : Dataset
        With the same columns, made from the training part alone.
    validation : Dataset or None
        Where the source has a third part (``ptb``).
    report : dict
        Facts about the whole.
    """

    train: Dataset
    test: Dataset
    validation: Dataset | None = None
    report: dict[str, Any] = field(default_factory=dict, repr=False)


def make_dataset(
    X: Any, y: np.ndarray, form: str, vectorizer: Any = None, **facts: object
) -> Dataset:
    """Return a data set with its report filled in."""
    report: dict[str, Any] = {
        "form": form,
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": len(np.unique(y)),
        "multi_label_rows": 0,
        "rows_without_label": 0,
    }
    report.update(facts)
    return Dataset(X, y, report, vectorizer)


#: An array of fixed width may take this many times the bytes of its strings, or this many bytes.
_MAX_FACTOR, _MIN_BYTES = 16, 1 << 26


def array_of_strings(words: list[str]) -> np.ndarray:
    """Return an array of fixed width, or of objects if one long string would make it enormous."""
    sizes = [len(word) for word in words]
    width = 4 * len(words) * max(sizes, default=0)
    wasteful = width > max(_MIN_BYTES, _MAX_FACTOR * 4 * sum(sizes))
    return np.array(words, dtype=object if wasteful else np.str_)


def labels_of_rows(labels: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the label of each row; as objects if one long label would make them enormous."""
    if labels.dtype.kind == "U" and labels.itemsize * len(codes) > _MIN_BYTES:
        n_bytes = 4 * np.strings.str_len(labels)[codes].sum()
        if labels.itemsize * len(codes) > _MAX_FACTOR * n_bytes:
            labels = labels.astype(object)
    found: np.ndarray = labels[codes]
    return found


def check_columns(path: str | PathLike[str], found: int, n_features: int | None) -> None:
    """Raise if the file has another number of columns than asked for."""
    if n_features is not None and found != n_features:
        raise DataError(f"{path}: expected n_features={n_features} columns, found {found}")
