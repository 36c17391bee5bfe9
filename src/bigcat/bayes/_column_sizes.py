"""How large the values of each column are: the units in which a learnt scale is one for all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design
from bigcat.rows import SMALLEST

#: A column counts as mostly zero that has no more of other values.
MOSTLY_ZERO = 0.5


class ColumnSizes(NamedTuple):
    """Squared sizes of the columns, and what they add up to in a row.

    Parameters
    ----------
    sizes : array of shape (n_features,)
        Mean squares, or variances where columns are centred.  What is mostly zero has the mean
        square of the rest: else a word would count for more the rarer it is.
    squared_length : float
        The mean of sum_m x_m^2 / sizes_m: the variance of a score whose weights have variance
        1 / sizes_m.
    """

    sizes: Floats
    squared_length: float

    @classmethod
    def of(cls, design: Design) -> ColumnSizes:
        return cls.of_sums(ColumnSums.of(design))

    @classmethod
    def of_sums(cls, sums: ColumnSums) -> ColumnSizes:
        squares, share = sums.squares / sums.weight, sums.counts / sums.weight
        rare = (share < MOSTLY_ZERO) & (share > 0.0)
        sizes = np.where(rare, squares / np.where(rare, share, 1.0), squares)
        # A column without values: any will do.  Nor has one anything to say that is too small.
        sizes = np.where(sizes > SMALLEST**2, sizes, 1.0)
        return cls(sizes, max(float((squares / sizes).sum()), 1e-12))


class ColumnSums(NamedTuple):
    """Sums over rows, which those of other rows can be added to.

    Parameters
    ----------
    squares, counts : arrays of shape (n_features,)
        Of squared values, and of values that are not zero.
    weight : float
        Of the rows.
    """

    squares: Floats
    counts: Floats
    weight: float

    @classmethod
    def of(cls, design: Design) -> ColumnSums:
        n_features = design.n_columns - design.intercept
        squares = design.squared_sums()[:n_features]
        if design.sparse:
            rows = design.rows
            of_values = np.repeat(design.row_weights, np.diff(rows.indptr)) * (rows.data != 0.0)
            counts: Any = np.bincount(rows.indices, of_values, minlength=design.n_columns)
        else:
            counts = design.row_weights @ (design.rows != 0.0)
        return cls(squares, counts[:n_features], design.total_weight)


def column_means(X: object, row_weights: Floats) -> Floats | None:
    """What is taken off each column of dense rows; None for sparse rows, which stay sparse."""
    if scipy.sparse.issparse(X):
        return None
    means: Floats = row_weights @ np.asarray(X, np.float64) / row_weights.sum()
    return means
