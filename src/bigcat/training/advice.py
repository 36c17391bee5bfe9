"""Warnings about fits that predict badly, with remedies."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bigcat._warnings import warn_caller
from bigcat.linear import LinearModel
from bigcat.noise import Noise
from bigcat.rows import ColumnScaling, SparseColumnScaling
from bigcat.solvers import Solver
from bigcat.training.data import TrainingData
from bigcat.training.fit import FitResult, rows_per_look
from bigcat.training.stacking import PRODUCTS_OF_NODES

#: Rows whose columns are measured, and ratios of sizes that are reported for passes and L-BFGS.
MAX_ROWS_MEASURED, MAX_RATIO, MAX_RATIO_OF_LBFGS = 1_000, 30.0, 1_000.0
#: Nats per row below class frequencies, and nats that features move a log-probability by, beyond
#: which a fit is reported; a gain over class frequencies that needs no look.
MAX_LOSS, MIN_MOVE, MIN_GAIN = 1.0, 1e-3, 1e-2


def warn_of_far_out(columns: ColumnScaling, X: np.ndarray) -> None:
    """Warn if values are so far from the others of their column that they are clipped."""
    n, column, value = columns.far_out(X)
    if n:
        warn_caller(
            f"{n:,} of {len(X):,} rows have values that are very far from all others of their "
            f"column, such as {value:.3g} in column {column}; in training they count as the "
            "farthest usual ones"
        )


def warn_of_unscaled(data: TrainingData, solver: Solver, streams: bool = False) -> None:
    """Warn if a few columns decide the length of rows, so that the others learn nothing.

    A solver that makes passes has one rate for all columns; L-BFGS stops at a gradient that is
    small for rows of that length.  Rows that `streams` take from files are never scaled.
    """
    some = data.take(np.arange(0, data.n_rows, max(1, data.n_rows // MAX_ROWS_MEASURED)))
    largest, off = _out_of_scale(some)
    if max(largest, off) > (MAX_RATIO if solver.stochastic else MAX_RATIO_OF_LBFGS):
        what = "one column is" if largest >= off else "the columns' means are"
        remedy = (
            "scale the columns before the conversion, or open the folder with a window_bytes that "
            "holds all rows, which 'auto' can scale"
            if streams
            else "scale the columns, for example by scikit-learn's StandardScaler, or leave "
            "method, solver and l2 to 'auto'"
        )
        warn_caller(
            f"{what} {max(largest, off):,.0f} times as large as the columns' usual deviations, and "
            f"what differs in the others is hardly learned; {remedy}"
        )


def _out_of_scale(some: TrainingData) -> tuple[float, float]:
    """Return the ratios of the largest column and of the means to the usual size."""
    if scipy.sparse.issparse(some.X):
        found = SparseColumnScaling.of(some.X, some.row_weights)
        return (1.0 if found is None else float(1.0 / found.factors.min())), 0.0
    columns = ColumnScaling.of(some.X, some.row_weights, centred=True)
    varies = columns.factors > 0.0
    sizes, centres = 1.0 / columns.factors[varies], columns.centres[varies]
    if not len(sizes):
        return 1.0, 0.0
    off = np.linalg.norm(centres / sizes.max()) / np.linalg.norm(sizes / sizes.max())
    return float(sizes.max() / np.median(sizes)), float(off)


def warn_if_useless(
    result: FitResult, data: TrainingData, n_classes: int, noise: Noise, advice: str, l2: float
) -> None:
    """Warn of a fit that predicts training rows worse than class frequencies.

    The last epoch's own value often suffices.  With a ridge, the best weights may be nearly zero.
    """
    by_frequency = np.bincount(data.labels, data.row_weights, n_classes) / data.row_weights.sum()
    known = by_frequency[by_frequency > 0.0]
    usual = float(known @ np.log(known))
    if not result.history:
        return
    last = result.history[-1]
    # An estimator's objective is on a scale of its own, and has the true value beside it.
    estimate = last["objective"] if np.isnan(last["log_likelihood"]) else last["log_likelihood"]
    if estimate >= usual + MIN_GAIN or (l2 > 0.0 and estimate >= usual - MAX_LOSS):
        return
    n = rows_per_look(n_classes, 1 if noise.softmax else PRODUCTS_OF_NODES)
    some = data.take(np.arange(0, data.n_rows, -(-data.n_rows // n)))
    with np.errstate(over="ignore", invalid="ignore"):
        model = LinearModel(result.weights, result.intercept, noise)
        each = model.log_proba_of(some.X, some.labels, quick=True)
        without = model.log_proba_of(0.0 * some.X, some.labels, quick=True)
        found = float(some.row_weights @ each / some.row_weights.sum())
        moved = float(np.abs(each - without).max())
    of_some = float(some.row_weights @ np.log(by_frequency[some.labels]) / some.row_weights.sum())
    if found < of_some - MAX_LOSS or np.isnan(found):
        warn_caller(
            f"the fit is worse than no fit: the mean log-probability of training rows is "
            f"{found:,.4g}, and class frequencies alone give {of_some:,.4g}; {advice}"
        )
    elif l2 == 0.0 and moved < MIN_MOVE:
        values = some.X.data if scipy.sparse.issparse(some.X) else some.X
        if np.any(values):
            warn_caller(
                f"the fit has learned nothing from the features: they move no log-probability of "
                f"{some.n_rows:,} training rows by more than {moved:.2g}; scale the columns of X, "
                f"whose largest value there is {np.abs(values).max():.2g}, or raise learning_rate"
            )
