"""Column scaling: dense columns of any mean and scale, with outliers.

Stochastic fits have one learning rate for all columns, so they need columns of mean 0 and similar
size. Weights are transformed back after the fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

#: Maximal number of rows for means and sizes, and for quantiles.
MAX_ROWS, MAX_QUANTILE_ROWS = 20_000, 5_000
#: Quantiles, and the distance beyond them from which on values are outliers, in ranges between the
#: two.
QUANTILES, OUTLIER_RANGES = (0.005, 0.995), 3.0
#: Share of non-zeros below which a column is scaled by its non-zeros.
MAX_NONZERO_SHARE = 0.5
#: Minimal size of a column with weights within float32.
MIN_COLUMN_SIZE = 1e-36
#: Deviations that are rounding errors, in units in the last place of the column mean.
ROUNDING_UNITS = 2.0
#: Size ratio above which a sparse column is scaled down, if it is in this share of the rows.
MIN_SIZE_RATIO, MIN_ROW_SHARE = 10.0, 0.05
#: Values transformed at a time.
_BLOCK = 1 << 20
#: Relative tolerance on sums of weights.
_ROUNDING = 1e-9


def varies(deviations: np.ndarray, means: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return True for columns whose deviations are more than the rounding of a type.

    Rounding moves a value, and a mean of values, by half a unit in the last place.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.rows import varies
    >>> varies(np.array([1e-17, 1e-12]), np.array([0.1, 0.1]), np.float64).tolist()
    [False, True]
    """
    found: np.ndarray = deviations > ROUNDING_UNITS * np.finfo(dtype).eps * np.abs(means)
    return found & (deviations > 0.0)


def _quantiles(X: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Return the weighted quantiles of each column.

    NumPy's weighted quantiles took four fifths of a fit of 9,000 images.
    """
    by_column = np.ascontiguousarray(X.T)
    parts = [q - _ROUNDING for q in QUANTILES]
    if (weights == weights[0]).all():
        places = [int(np.ceil(len(X) * part)) - 1 for part in parts]
        by_column.partition(places, axis=1)
        return [by_column[:, place] for place in places]
    order = np.argsort(by_column, axis=1)
    cumulated = np.cumsum(weights[order], axis=1)
    first = [(cumulated < part * cumulated[:, -1:]).sum(axis=1) for part in parts]
    rows = np.arange(len(order))
    return [by_column[rows, order[rows, place]] for place in first]


class ColumnScaling(NamedTuple):
    """Centres, factors and clipping limits of dense columns."""

    centres: np.ndarray
    factors: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, row_weights: np.ndarray, centred: bool) -> Self:
        """Compute the scaling from some of the rows.

        `centred` requires intercepts, which compensate for it.
        """
        step = max(1, -(-len(X) // MAX_ROWS))
        some = np.asarray(X[::step], np.float64)
        # Powers of two keep squares of huge values finite without rounding.
        largest = np.abs(some).max(axis=0, initial=0.0)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0.0, largest, 1.0))))
        some = some / unit
        weights = row_weights[::step] / row_weights[::step].sum()
        fewer = slice(None, None, -(-len(some) // MAX_QUANTILE_ROWS))
        counts = weights[fewer] > 0.0
        low, high = _quantiles(some[fewer][counts], weights[fewer][counts])
        reach = OUTLIER_RANGES * (high - low)
        # Nearly constant columns, such as rare indicators, are not clipped.
        usual = reach > 0.0
        lowest = np.where(usual, low - reach, -np.inf)
        highest = np.where(usual, high + reach, np.inf)
        some = np.clip(some, lowest, highest)
        means = weights @ some
        centres = means if centred else np.zeros(X.shape[1])
        sizes = np.sqrt(weights @ (some - centres) ** 2)
        # Mostly zero columns, such as indicators, are scaled by their non-zeros: by the deviation,
        # a value would count for more the rarer it is.
        share = weights @ (some != 0.0)
        rare = (share < MAX_NONZERO_SHARE) & (share > 0.0)
        sizes[rare] = np.sqrt((weights @ some**2)[rare] / share[rare])
        # Constant columns carry no information, and rounding errors must not be scaled up.
        kept = varies(sizes, means, np.float32) & (sizes * unit > MIN_COLUMN_SIZE)
        sizes = np.where(kept, sizes * unit, 1.0)
        factors = np.where(kept, 1.0 / sizes, 0.0 if centred else 1.0)
        return cls(centres * unit, factors, lowest * unit, highest * unit)

    def turned(self, X: np.ndarray) -> np.ndarray:
        """Return a scaled copy with outliers clipped."""
        out = np.empty_like(X, order="C")
        for rows, part in self._cut(X):
            out[rows] = (part - self.centres) * self.factors
        return out

    def far_out(self, X: np.ndarray) -> tuple[int, int, float]:
        """Return the number of rows with outliers, and the column and value of one."""
        n, column, value = 0, -1, np.nan
        for rows, part in self._cut(X):
            outside = part != X[rows]
            n += int(outside.any(axis=1).sum())
            if n and column < 0:
                row, column = (int(place) for place in np.argwhere(outside)[0])
                value = float(X[rows][row, column])
        return n, column, value

    def _cut(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield blocks of rows with outliers clipped."""
        step = max(1, _BLOCK // max(X.shape[1], 1))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            yield rows, np.clip(X[rows].astype(np.float64), self.lowest, self.highest)


class SparseColumnScaling(NamedTuple):
    """Factors of sparse columns, such as incomes among indicators.

    Few columns of large numbers would decide the length of rows, and with it one learning rate or
    ridge for all. Columns far larger than most and present in many rows are scaled down to the
    usual size. Zeros stay zeros, so nothing is centred. Other columns are unchanged: large values
    of rare words are intended.
    """

    factors: np.ndarray

    @property
    def centres(self) -> None:
        """Return None: sparse columns are not centred."""

    @classmethod
    def of(cls, X: Any, row_weights: np.ndarray) -> SparseColumnScaling | None:
        """Compute the factors; None if no column is far too large.

        The size of a column is the geometric mean of its non-zeros; the usual size is the median
        over all non-zeros.
        """
        weights = np.repeat(row_weights, np.diff(X.indptr)) * (X.data != 0.0)
        n = np.bincount(X.indices, weights, X.shape[1])
        logs = np.log(np.abs(np.where(X.data != 0.0, X.data, 1.0)).astype(np.float64))
        sums = np.bincount(X.indices, weights * logs, X.shape[1])
        used = n > 0.0
        if not used.any():
            return None
        sizes = sums[used] / n[used]
        order = np.argsort(sizes)
        cumulated = np.cumsum(n[used][order])
        usual = sizes[order][np.searchsorted(cumulated, 0.5 * cumulated[-1])]
        in_many = n[used] >= MIN_ROW_SHARE * row_weights.sum()
        far = in_many & (sizes - usual > np.log(MIN_SIZE_RATIO))
        if not far.any():
            return None
        factors = np.ones(X.shape[1])
        factors[np.flatnonzero(used)[far]] = np.exp(usual - sizes[far])
        return cls(factors)

    def turned(self, X: Any) -> Any:
        """Return a scaled copy."""
        if not scipy.sparse.issparse(X):
            return np.asarray(X) * self.factors
        data = (X.data * self.factors[X.indices]).astype(X.data.dtype)
        return type(X)((data, X.indices, X.indptr), shape=X.shape)
