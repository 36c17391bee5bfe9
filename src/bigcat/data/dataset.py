"""What every reader returns, and the one error they raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp


class DataError(ValueError):
    """A data file that cannot be used: says which file, where, and what was expected."""


class LineError(DataError):
    """The error of one line of a text file, which knows its place."""

    def __init__(self, path: str | PathLike[str], line: int, expected: str, found: object) -> None:
        super().__init__(path, line, expected, found)  # what a process hands on to another

    def __str__(self) -> str:
        path, line, expected, found = self.args
        return f"{path}, line {line}: expected {expected}, found {found}"

    def further_down(self, lines: int) -> LineError:
        """The same error, where so many lines come before those that were read."""
        path, line, expected, found = self.args
        return LineError(path, line + lines, expected, found)


def error_at(path: str | PathLike[str], line: int, expected: str, found: object) -> LineError:
    """The error of one line of a text file."""
    return LineError(path, line, expected, f"{found}")


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
    columns : bigcat.data.tables.TableEncoder or None
        Of a table: the names of its columns, and how they became ``X``.
    groups : ndarray of shape (n_rows,) or None
        Of a table: which rows belong together, where `group_column` was given.

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
    """A data set with its report filled in."""
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


def integers_or_strings(labels: list[str]) -> np.ndarray:
    """int64 where every label is an integer in its plain spelling ("7", not "007"), else str."""
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return array_of_strings(labels)
    if all(str(number) == label for number, label in zip(numbers, labels)):
        try:
            return np.array(numbers, dtype=np.int64)
        except OverflowError:
            pass
    return array_of_strings(labels)


#: An array of fixed width may be so many times as large as its strings, or as large as this.
_WIDTH_FACTOR, _WIDTH_FLOOR = 16, 1 << 26


def array_of_strings(words: list[str]) -> np.ndarray:
    """An array of fixed width, or of objects where one long string would make it enormous."""
    sizes = [len(word) for word in words]
    width = 4 * len(words) * max(sizes, default=0)
    wasteful = width > max(_WIDTH_FLOOR, _WIDTH_FACTOR * 4 * sum(sizes))
    return np.array(words, dtype=object if wasteful else np.str_)


def check_columns(path: str | PathLike[str], found: int, n_features: int | None) -> None:
    """Raise where the file's width is not the one that was asked for."""
    if n_features is not None and found != n_features:
        raise DataError(f"{path}: expected n_features={n_features} columns, found {found}")
