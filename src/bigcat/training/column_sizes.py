"""Do the sizes of dense columns say something?

Columns come in any units, so they are scaled to one size.  But where they are of one unit, as
principal components or the activities of genes are, the larger ones tell more, and in scaled
columns a ridge, or few passes, hold all of them back alike.  Half-way, each keeps the root of its
size.

Rows decide, by a fit that takes no time: the ridge regression of the classes' indicators, whose
errors of each row without itself are known in closed form.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from bigcat.machine import one_blas_thread
from bigcat.rows import Columns
from bigcat.training.sample import Sample

#: What is left of the size of a column, as a power of it.
LEFT = 0.5
#: Rows and classes that decide.
MOST_ROWS, MOST_CLASSES = 500, 50
#: Ridges that are tried, in units of the columns' mean square.
RIDGES = 10.0 ** np.arange(-3, 6)
#: Columns are taken as of one size whose quantiles differ by no more than this factor.
QUANTILES, ALIKE = (0.1, 0.9), 1.25
#: What is explained has to grow by this part, and by so many standard errors.
LEAST_GAIN, LEAST_ERRORS = 0.05, 3.0


def factors_of_sizes(columns: Columns, scaled: Sample) -> np.ndarray | None:
    """What scaled columns are multiplied by, of mean square 1; None where they stay as they are."""
    varies = columns.factors > 0.0
    if not varies.any():
        return None
    sizes = 1.0 / columns.factors[varies]
    low, high = np.quantile(sizes, QUANTILES)
    if high <= ALIKE * low:
        return None
    factors = np.ones(len(varies))
    factors[varies] = (sizes / sizes.max()) ** LEFT
    factors /= np.sqrt(np.mean(factors[varies] ** 2))
    some = scaled.distinct()
    some = some.take(np.random.RandomState(0).permutation(some.n_rows)[:MOST_ROWS])
    rows, weights = np.asarray(some.X[:, varies], np.float64), some.row_weights
    frequent = np.argsort(-np.bincount(some.labels, weights), kind="stable")[:MOST_CLASSES]
    shares = weights / weights.sum()
    indicators = (some.labels[:, None] == frequent).astype(np.float64)
    indicators -= shares @ indicators
    with one_blas_thread:
        as_they_are = _errors_without(rows, indicators, weights)
        resized = _errors_without(rows * factors[varies], indicators, weights)
    explained = shares @ ((indicators**2).sum(axis=1) - as_they_are)
    gains = as_they_are - resized
    gain = shares @ gains
    error = np.sqrt(shares**2 @ (gains - gain) ** 2)
    pays = gain > LEAST_GAIN * max(explained, 0.0) and gain > LEAST_ERRORS * error
    return factors if pays and explained + gain > 0.0 else None


def _errors_without(X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Squared errors of each row by the best ridge regression of all others."""
    shares = weights / weights.sum()
    roots = np.sqrt(weights)[:, None]
    X, Y = roots * (X - shares @ X), roots * Y
    if len(X) <= X.shape[1]:
        squares, U = scipy.linalg.eigh(X @ X.T)
        squares = np.maximum(squares, 0.0)
    else:
        squares, V = scipy.linalg.eigh(X.T @ X)
        known = squares > 1e-10 * squares.max()
        squares = squares[known]
        U = X @ V[:, known] / np.sqrt(squares)
    unit = squares.sum() / X.shape[1] / weights.sum()
    fitted, leverages = U.T @ Y, U**2
    best = np.full(len(X), np.inf)
    for ridge in RIDGES * unit:
        kept = squares / (squares + ridge)
        held_by_others = 1.0 - leverages @ kept - shares
        errors = (Y - U @ (kept[:, None] * fitted)) / np.maximum(held_by_others, 1e-9)[:, None]
        found = (errors**2).sum(axis=1) / weights
        if shares @ found < shares @ best:
            best = found
    return best
