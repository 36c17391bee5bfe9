"""Training data: rows, classes, weights and groups."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bigcat.rows import ColumnScaling, SparseColumnScaling

#: Number of rows up to which each is predicted once, by a fit without its fold.
MAX_ROWS_OF_FOLDS = 10_000
#: Maximal number of identical rows that count as duplicates; more are a category.
MAX_DUPLICATES = 8


class TrainingData(NamedTuple):
    """Checked rows, the numbers of their classes, their weights, and their groups if known.

    Rows of one group stay on the same side of every split.
    """

    X: Any
    labels: np.ndarray
    row_weights: np.ndarray
    groups: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def take(self, rows: np.ndarray) -> TrainingData:
        """Return some of the rows."""
        groups = None if self.groups is None else self.groups[rows]
        return TrainingData(self.X[rows], self.labels[rows], self.row_weights[rows], groups)

    def mean(self, values: np.ndarray) -> float:
        """Return the weighted mean of values, one per row."""
        return float(np.average(values, weights=self.row_weights))

    def standard_error(self, values: np.ndarray) -> float:
        """Return the standard error of the weighted mean of values; a group is one observation."""
        shares = self.row_weights / self.row_weights.sum()
        parts = shares * (values - shares @ values)
        if self.groups is not None:
            parts = np.bincount(np.unique(self.groups, return_inverse=True)[1], parts)
        return float(np.sqrt(parts @ parts))

    def that_counts(self) -> TrainingData:
        """Drop rows of weight 0; no copy if there are none."""
        return self if self.row_weights.all() else self.take(self.row_weights > 0.0)

    def renumbered(self, number: np.ndarray) -> TrainingData:
        """Call class k ``number[k]``."""
        return self._replace(labels=number[self.labels])

    def turned(self, by: ColumnScaling | SparseColumnScaling) -> TrainingData:
        """Scale the columns."""
        return self._replace(X=by.turned(self.X))


def without_duplicates(data: TrainingData) -> TrainingData:
    """Merge duplicates of small data: a row twice is a row of weight 2, in every split.

    Rows that are equal because they have few features, such as one category each, are not
    duplicates: they are many, or their labels differ.  The order of the merged rows depends on
    their values alone.
    """
    n = data.n_rows
    if n > MAX_ROWS_OF_FOLDS or data.groups is not None:
        return data
    # A random projection is the same for equal rows, and for hardly any others.
    factors = np.random.RandomState(0).standard_normal(data.X.shape[1])
    if scipy.sparse.issparse(data.X):
        products = np.append(data.X.data * factors[data.X.indices], 0.0)
        sums = np.add.reduceat(products, data.X.indptr[:-1])
        sums[np.diff(data.X.indptr) == 0] = 0.0
    else:
        sums = (data.X * factors).sum(axis=1)
    _, value, count = np.unique(sums, return_inverse=True, return_counts=True)
    lowest, highest = np.full(len(count), n), np.full(len(count), -1)
    np.minimum.at(lowest, value, data.labels)
    np.maximum.at(highest, value, data.labels)
    are_duplicates = (count <= MAX_DUPLICATES) & (lowest == highest)
    places = np.lexsort([data.labels, value])
    value = value[places]
    is_first = np.append(True, value[1:] != value[:-1]) | ~are_duplicates[value]
    weights = np.bincount(np.cumsum(is_first) - 1, data.row_weights[places])
    return data.take(places[is_first])._replace(row_weights=weights)
