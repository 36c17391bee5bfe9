"""Dense columns as people have them: of any mean, any scale, with single values that are far out.

A stochastic fit has one learning rate for all columns, so it wants them around 0 and of about the
same size.  Weights are turned back afterwards, and people never see the scaled columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

#: Rows that say what is usual in a column, and those of them that quantiles are taken of.
MAX_ROWS, MAX_QUANTILE_ROWS = 20_000, 5_000
#: Values count as far out that lie this many times the distance between these quantiles beyond
#: them.
QUANTILES, OUTLIER_RANGES = (0.005, 0.995), 3.0
#: A column counts as mostly zero that has no more of other values.
MAX_NONZERO_SHARE = 0.5
#: Columns of less than this have nothing to say: their weights would be more than float32 holds.
MIN_COLUMN_SIZE = 1e-36
#: Deviations, in units of the last place of a column's mean, that are rounding and no more.
ROUNDING_UNITS = 2.0
#: How many times the usual size is too large, in a column that this part of the rows has.
MIN_SIZE_RATIO, MIN_ROW_SHARE = 10.0, 0.05
#: Values that are turned at a time.
_BLOCK = 1 << 20
#: Sums of weights that should be equal differ by less than this part of all.
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
    """Of each column, the first value up to which there is such a part of the weights.

    NumPy's own weighted quantiles took four fifths of a fit of 9,000 images.
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
    """What is taken off each column, what it is multiplied by, and where its values are cut."""

    centres: np.ndarray
    factors: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, row_weights: np.ndarray, centred: bool) -> Self:
        """From some of the rows; `centred` where there are intercepts to make up for it."""
        step = max(1, -(-len(X) // MAX_ROWS))
        some = np.asarray(X[::step], np.float64)
        # In units that are powers of two, so that squares of huge values stay finite, and no bit is
        # lost.
        largest = np.abs(some).max(axis=0, initial=0.0)
        unit = np.exp2(np.floor(np.log2(np.where(largest > 0.0, largest, 1.0))))
        some = some / unit
        weights = row_weights[::step] / row_weights[::step].sum()
        fewer = slice(None, None, -(-len(some) // MAX_QUANTILE_ROWS))
        counts = weights[fewer] > 0.0
        low, high = _quantiles(some[fewer][counts], weights[fewer][counts])
        reach = OUTLIER_RANGES * (high - low)
        # A column that is nearly always the same, such as a rare yes among noes, is not cut.
        usual = reach > 0.0
        lowest = np.where(usual, low - reach, -np.inf)
        highest = np.where(usual, high + reach, np.inf)
        some = np.clip(some, lowest, highest)
        means = weights @ some
        centres = means if centred else np.zeros(X.shape[1])
        sizes = np.sqrt(weights @ (some - centres) ** 2)
        # What is mostly zero, such as a pixel at the edge or a yes and no, has the size of the
        # rest: by its deviation a value would count for more the rarer it is.
        share = weights @ (some != 0.0)
        rare = (share < MAX_NONZERO_SHARE) & (share > 0.0)
        sizes[rare] = np.sqrt((weights @ some**2)[rare] / share[rare])
        # Where all values are the same there is nothing to learn, and rounding must not be scaled.
        kept = varies(sizes, means, np.float32) & (sizes * unit > MIN_COLUMN_SIZE)
        sizes = np.where(kept, sizes * unit, 1.0)
        factors = np.where(kept, 1.0 / sizes, 0.0 if centred else 1.0)
        return cls(centres * unit, factors, lowest * unit, highest * unit)

    def turned(self, X: np.ndarray) -> np.ndarray:
        """A scaled copy, cut where values are far out."""
        out = np.empty_like(X, order="C")
        for rows, part in self._cut(X):
            out[rows] = (part - self.centres) * self.factors
        return out

    def far_out(self, X: np.ndarray) -> tuple[int, int, float]:
        """Return how many rows have values that are cut, and the column and value of one."""
        n, column, value = 0, -1, np.nan
        for rows, part in self._cut(X):
            outside = part != X[rows]
            n += int(outside.any(axis=1).sum())
            if n and column < 0:
                row, column = (int(place) for place in np.argwhere(outside)[0])
                value = float(X[rows][row, column])
        return n, column, value

    def _cut(self, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Some rows at a time, without what is far out."""
        step = max(1, _BLOCK // max(X.shape[1], 1))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            yield rows, np.clip(X[rows].astype(np.float64), self.lowest, self.highest)


class SparseColumnScaling(NamedTuple):
    """What each sparse column is multiplied by: large numbers among others, such as incomes.

    They decide how long rows are, and then one learning rate, or one ridge, suits them and not the
    others.  Columns that most others are far smaller than, and that are in many rows, are scaled
    down to what is usual; zeros stay zeros, so nothing is centred.  All else stays as it is: that a
    rare word has a large value is meant.
    """

    factors: np.ndarray

    @property
    def centres(self) -> None:
        """Nothing is taken off."""

    @classmethod
    def of(cls, X: Any, row_weights: np.ndarray) -> SparseColumnScaling | None:
        """None where no column is far too large.

        A column's size is the geometric mean of its values that are not zero, and what is usual the
        median over all such values.
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
        """A scaled copy."""
        if not scipy.sparse.issparse(X):
            return np.asarray(X) * self.factors
        data = (X.data * self.factors[X.indices]).astype(X.data.dtype)
        return type(X)((data, X.indices, X.indptr), shape=X.shape)
