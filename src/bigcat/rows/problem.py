"""Problem of a fit: rows, labels, weights and their sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from bigcat.rows.forms import Rows, is_sparse
from bigcat.rows.sums import squared_norms

#: Cap on the squared length of a row, in medians.
MAX_SIZE_RATIO = 16.0
#: Quantiles of `Problem.typical_size` and `usual_size`.
TYPICAL_QUANTILE, USUAL_QUANTILE = 0.95, 0.75


class Sizes(NamedTuple):
    """Sizes of a problem, as used for selection and forecasts."""

    n_rows: int
    n_features: int
    n_classes: int
    n_values: int  # non-zeros, or all entries of dense rows
    sparse: bool
    row_values: int = 0  # the most non-zeros of a row; of dense rows, all

    @classmethod
    def of(cls, X: Any, n_classes: int) -> Self:
        """Return the sizes of checked data."""
        if scipy.sparse.issparse(X):
            most = int(np.diff(X.indptr).max(initial=1))
            return cls(X.shape[0], X.shape[1], n_classes, X.nnz, True, most)
        return cls(X.shape[0], X.shape[1], n_classes, X.size, False, X.shape[1])


@dataclass(frozen=True)
class Problem:
    """Checked rows with encoded labels and weights."""

    rows: Rows
    labels: np.ndarray  # int64, 0..n_classes-1
    row_weights: np.ndarray  # float64
    n_features: int
    n_classes: int
    l2: float = 0.0
    fit_intercept: bool = True
    unit_rows: bool = False  # True if rows are multiplied by `unit` before scoring
    head: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # kept exact

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> Sizes:
        """Return the sizes of the problem."""
        sparse = is_sparse(self.rows)
        most = self.n_features
        if is_sparse(self.rows):
            most = int(np.diff(self.rows.indptr).max(initial=1))
        n_values = self.rows.values.size
        return Sizes(self.n_rows, self.n_features, self.n_classes, n_values, sparse, most)

    @cached_property
    def mean_size(self) -> float:
        """Return the mean |x|^2 of the rows; 1 if all are empty.

        Lengths are capped at a multiple of the median: one long row must not set the step sizes of
        the others.
        """
        norms = np.minimum(squared_norms(self.rows), MAX_SIZE_RATIO * self._size_of_most(0.5))
        mean = float(norms @ self.row_weights / self.row_weights.sum())
        return mean if mean > 0.0 else 1.0

    @cached_property
    def typical_size(self) -> float:
        """Return the 95 % quantile of |x|^2 of the rows as scored, for rates in their units.

        A step of that rate is too long for a few rows at most, and no few rows decide it. 1 if all
        are empty.
        """
        return 1.0 if self.unit_rows else self._size_of_most(TYPICAL_QUANTILE)

    @cached_property
    def usual_size(self) -> float:
        """Return the upper quartile of |x|^2 of the rows as scored; 1 if all are empty."""
        return 1.0 if self.unit_rows else self._size_of_most(USUAL_QUANTILE)

    def _size_of_most(self, part: float) -> float:
        """Return the weighted quantile of |x|^2 without empty rows."""
        norms = squared_norms(self.rows)
        order = np.argsort(norms)
        order = order[norms[order] > 0.0]
        so_far = np.cumsum(self.row_weights[order])
        if not len(order) or so_far[-1] == 0.0:
            return 1.0
        return float(norms[order[np.searchsorted(so_far, part * so_far[-1])]])

    @property
    def scored_size(self) -> float:
        """Return the mean |x|^2 of the rows as scored: 1 if they are multiplied by `unit`."""
        return 1.0 if self.unit_rows else self.mean_size

    @property
    def unit(self) -> float:
        """Return the factor that makes the rows' mean |x|^2 equal to 1."""
        return self.mean_size**-0.5

    def class_weights(self) -> np.ndarray:
        """Return the total row weight of each class."""
        return np.bincount(self.labels, self.row_weights, self.n_classes)
