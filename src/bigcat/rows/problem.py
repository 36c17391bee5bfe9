"""What a fit is about: the rows, their labels and weights, and how large they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from bigcat.rows.forms import Rows, is_sparse
from bigcat.rows.sums import squared_norms

#: A squared length that counts as far out, in medians.
MAX_SIZE_RATIO = 16.0
#: The parts of the rows that are not longer than `Problem.typical_size` and `usual_size` say.
TYPICAL_QUANTILE, USUAL_QUANTILE = 0.95, 0.75


class Sizes(NamedTuple):
    """How large a problem is: all that choices and forecasts go by."""

    n_rows: int
    n_features: int
    n_classes: int
    n_values: int  # non-zeros, or all entries of dense rows
    sparse: bool
    row_values: int = 0  # the most non-zeros of a row; of dense rows, all

    @classmethod
    def of(cls, X: Any, n_classes: int) -> Self:
        """Those of checked data."""
        if scipy.sparse.issparse(X):
            most = int(np.diff(X.indptr).max(initial=1))
            return cls(X.shape[0], X.shape[1], n_classes, X.nnz, True, most)
        return cls(X.shape[0], X.shape[1], n_classes, X.size, False, X.shape[1])


@dataclass(frozen=True)
class Problem:
    """Rows with encoded labels and weights; everything checked already."""

    rows: Rows
    labels: np.ndarray  # int64, 0..n_classes-1
    row_weights: np.ndarray  # float64
    n_features: int
    n_classes: int
    l2: float = 0.0
    fit_intercept: bool = True
    unit_rows: bool = False  # are rows multiplied by `unit` before they are scored?
    head: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # kept exact

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    @cached_property
    def sizes(self) -> Sizes:
        sparse = is_sparse(self.rows)
        most = self.n_features
        if is_sparse(self.rows):
            most = int(np.diff(self.rows.indptr).max(initial=1))
        n_values = self.rows.values.size
        return Sizes(self.n_rows, self.n_features, self.n_classes, n_values, sparse, most)

    @cached_property
    def mean_size(self) -> float:
        """Mean |x|^2 of the rows; 1 where all are empty.

        Rows that are many times as long as most count as that many: one of them must not decide
        how large the others' steps are.
        """
        norms = np.minimum(squared_norms(self.rows), MAX_SIZE_RATIO * self._size_of_most(0.5))
        mean = float(norms @ self.row_weights / self.row_weights.sum())
        return mean if mean > 0.0 else 1.0

    @cached_property
    def typical_size(self) -> float:
        """|x|^2 that nearly all rows as they are scored stay below, for rates in their units.

        A quantile: a step of that rate is too long for a few rows at most, and no few rows decide
        it.  1 where all are empty.
        """
        return 1.0 if self.unit_rows else self._size_of_most(TYPICAL_QUANTILE)

    @cached_property
    def usual_size(self) -> float:
        """|x|^2 that most rows as they are scored stay below; 1 where all are empty."""
        return 1.0 if self.unit_rows else self._size_of_most(USUAL_QUANTILE)

    def _size_of_most(self, part: float) -> float:
        """|x|^2 that this part of the rows stays below, by weight and without empty ones."""
        norms = squared_norms(self.rows)
        order = np.argsort(norms)
        order = order[norms[order] > 0.0]
        so_far = np.cumsum(self.row_weights[order])
        if not len(order) or so_far[-1] == 0.0:
            return 1.0
        return float(norms[order[np.searchsorted(so_far, part * so_far[-1])]])

    @property
    def scored_size(self) -> float:
        """Mean |x|^2 of the rows as they are scored: 1 where they are multiplied by `unit`."""
        return 1.0 if self.unit_rows else self.mean_size

    @property
    def unit(self) -> float:
        """What makes the rows' mean |x|^2 1."""
        return self.mean_size**-0.5

    def class_weights(self) -> np.ndarray:
        """Sum of the rows' weights, a class each."""
        return np.bincount(self.labels, self.row_weights, self.n_classes)
