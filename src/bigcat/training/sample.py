"""Rows with their labels and weights, before they are in the form that kernels take."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.model_selection import train_test_split

from bigcat.rows import Columns
from bigcat.training.sparse_columns import SparseColumns

if TYPE_CHECKING:
    from bigcat.training.row_space import RowSpace

#: Rows of the same values and label are copies up to so many of them.
MOST_COPIES = 8


class Sample(NamedTuple):
    """Checked rows, the numbers of their classes, and how much each counts.

    And where rows depend on each other, numbers that are the same for rows that belong together,
    such as those of one person: they stay on one side of every split (`Kinds`).
    """

    X: Any
    labels: np.ndarray
    row_weights: np.ndarray
    groups: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> Sample:
        groups = None if self.groups is None else self.groups[rows]
        return Sample(self.X[rows], self.labels[rows], self.row_weights[rows], groups)

    def standard_error(self, values: np.ndarray) -> float:
        """Of the weighted mean of values, one per row; rows of a group are one observation."""
        return standard_error(values, self.row_weights, self.groups)

    def that_counts(self) -> Sample:
        """Without rows of weight 0, which are as if they were not there; no copy if all count."""
        return self if self.row_weights.all() else self.take(self.row_weights > 0.0)

    def distinct(self) -> Sample:
        """Equal rows as one row that counts for all of them, in the order they came."""
        return self._merged(_with_labels(equal_values(self.X), self.labels))

    def without_copies(self) -> Sample:
        """The same for those equal rows that are copies (`kinds_of_rows`)."""
        return self._merged(kinds_of_rows(self).of_row)

    def _merged(self, kind: np.ndarray) -> Sample:
        first = np.unique(kind, return_index=True)[1]
        if len(first) == self.n_rows:
            return self
        order = np.argsort(first)
        total = np.bincount(kind, self.row_weights)
        return self.take(first[order])._replace(row_weights=total[order])

    def renumbered(self, number: np.ndarray) -> Sample:
        """With class k called ``number[k]``."""
        return self._replace(labels=number[self.labels])

    def multiplied(self, factors: np.ndarray) -> Sample:
        """With dense columns times these."""
        return self._replace(X=self.X * factors.astype(self.X.dtype))

    def turned(self, by: Columns | SparseColumns | RowSpace) -> Sample:
        """With rows as a fit sees them."""
        return self._replace(X=by.turned(self.X))


def standard_error(
    values: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None
) -> float:
    """Of a weighted mean; values of one group, if there are groups, count as one observation."""
    shares = weights / weights.sum()
    parts = shares * (values - shares @ values)
    if groups is not None:
        parts = np.bincount(np.unique(groups, return_inverse=True)[1], parts)
    return float(np.sqrt(parts @ parts))


class Kinds(NamedTuple):
    """Which rows stay on one side of every split.

    Parameters
    ----------
    of_row : array of shape (n,)
        The number of each row's kind: copies of a row have the same.
    searched : array of shape (number of kinds,) or None
        Kinds all of whose rows are known, so that they can be held out; None for all.
    told : mapping
        For people: what makes more than copies of rows of one kind; empty where nothing does.
    """

    of_row: np.ndarray
    searched: np.ndarray | None = None
    told: Mapping[str, Any] = MappingProxyType({})

    @property
    def n_kinds(self) -> int:
        return int(self.of_row.max()) + 1

    @property
    def depend(self) -> bool:
        """Whether rows of a kind say something of each other that they do not say of new rows."""
        return bool(self.told)


def rows_together(sample: Sample) -> Kinds:
    """The groups of a sample, or copies of rows where it has none."""
    if sample.groups is None:
        return kinds_of_rows(sample)
    numbers = np.unique(sample.groups, return_inverse=True)[1]
    return Kinds(numbers, told={"groups": int(numbers.max()) + 1})


def kinds_of_rows(sample: Sample) -> Kinds:
    """Which rows are copies of each other.

    Copies must not be on both sides of a split, where one would say nothing about the fit to the
    other; and a row twice must be as good as a row of weight 2.  But rows that are equal since
    there is little to tell of each, such as the one category it has, are no copies: without the
    others of its category a held-out row says nothing about new ones.  Such rows are many, or their
    labels differ.
    """
    values = equal_values(sample.X)
    equal = _with_labels(values, sample.labels)
    first = np.unique(equal, return_index=True)[1]
    n_labels = np.bincount(values[first])  # of the rows with these values
    are_copies = ((n_labels == 1) & (np.bincount(values) <= MOST_COPIES))[values]
    each = len(first) + np.arange(sample.n_rows)
    return Kinds(np.unique(np.where(are_copies, equal, each), return_inverse=True)[1])


def _with_labels(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A number for each row, the same for rows of the same values and label."""
    return np.unique(values * (labels.max() + 1) + labels, return_inverse=True)[1]


def equal_values(X: Any) -> np.ndarray:
    """A number for each row, the same for rows of the same values."""
    return np.unique(row_sums(X, row_factors(X.shape[1])), return_inverse=True)[1]


def row_factors(n_features: int) -> np.ndarray:
    """What columns are multiplied by in `row_sums`."""
    return np.random.RandomState(0).standard_normal(n_features)


def row_sums(X: Any, factors: np.ndarray) -> np.ndarray:
    """Numbers that are the same for rows of the same values, and for hardly any others."""
    if scipy.sparse.issparse(X):
        # Sums of each row in the same order, so that copies give the same bits.
        products = np.append(X.data * factors[X.indices], 0.0)
        sums = np.add.reduceat(products, X.indptr[:-1])
        sums[np.diff(X.indptr) == 0] = 0.0
        return np.asarray(sums)
    step = max(1, (1 << 20) // max(X.shape[1], 1))
    blocks = (X[i : i + step] for i in range(0, len(X), step))
    return np.concatenate([(block * factors).sum(axis=1) for block in blocks])


def hold_out(
    sample: Sample,
    n_classes: int,
    fraction: float,
    random_state: np.random.RandomState,
    remedy: str,
    kinds: Kinds | None = None,
) -> tuple[Sample, Sample]:
    """What is left, and validation rows none of whose classes is missing in it.

    Rows of one kind stay together, which are groups or copies unless you know more.
    """
    labels = sample.labels
    kinds = rows_together(sample) if kinds is None else kinds
    numbers = np.arange(kinds.of_row.max() + 1)
    size: float = fraction
    if kinds.searched is not None:
        most = int(np.count_nonzero(kinds.searched)) - 1
        size = min(int(np.ceil(fraction * len(numbers))), most)
        numbers = numbers[kinds.searched]
    try:
        _, held_kinds = train_test_split(numbers, test_size=size, random_state=random_state)
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} leaves no rows on one side of {len(numbers)}; {remedy}"
        ) from error
    is_held = np.isin(kinds.of_row, held_kinds)
    kept, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
    missing = np.bincount(labels[kept], minlength=n_classes) == 0
    back = missing[labels[held]]
    kept, held = np.sort(np.concatenate([kept, held[back]])), held[~back]
    if not len(held):
        raise ValueError(
            f"no validation row has a class that is left in the training rows; {remedy}"
        )
    return sample.take(kept), sample.take(held)
