"""Is a fit worth anything?  One that predicts no more than class frequencies do says so."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bigcat.caller import warn_caller
from bigcat.linear import LinearModel
from bigcat.noise import Noise
from bigcat.training.data import TrainingData
from bigcat.training.fit import COST_OF_NODES, LEAST_ROWS, MOST_SCORES, FitResult

#: Nats per row that a fit may be below class frequencies: one that has just begun may well be.
WORSE = 1.0
#: Nats that features have to move the log-probability of some row by, and the gain per row over
#: class frequencies from which on nobody looks at that.
MOVED, GAINED = 1e-3, 1e-2


def warn_if_useless(
    result: FitResult, data: TrainingData, n_classes: int, noise: Noise, advice: str, l2: float
) -> None:
    """Of training rows, in their columns as the outcome sees them.

    Where the last epoch's own figure says enough nothing is computed.  With a ridge, weights that
    are nearly zero may be the best ones.
    """
    by_frequency = np.bincount(data.labels, data.row_weights, n_classes) / data.row_weights.sum()
    known = by_frequency[by_frequency > 0.0]
    usual = float(known @ np.log(known))
    if not result.history:
        return
    last = result.history[-1]
    # An estimator's objective is on a scale of its own, and has the true value beside it.
    estimate = last["objective"] if np.isnan(last["log_likelihood"]) else last["log_likelihood"]
    if estimate >= usual + GAINED or (l2 > 0.0 and estimate >= usual - WORSE):
        return
    n = max(MOST_SCORES // n_classes // (1 if noise.softmax else COST_OF_NODES), LEAST_ROWS)
    some = data.take(np.arange(0, data.n_rows, -(-data.n_rows // n)))
    with np.errstate(over="ignore", invalid="ignore"):
        model = LinearModel(result.weights, result.intercept, noise)
        each = model.log_proba_of(some.X, some.labels, quick=True)
        without = model.log_proba_of(0.0 * some.X, some.labels, quick=True)
        found = float(some.row_weights @ each / some.row_weights.sum())
        moved = float(np.abs(each - without).max())
    of_some = float(some.row_weights @ np.log(by_frequency[some.labels]) / some.row_weights.sum())
    if found < of_some - WORSE or np.isnan(found):
        warn_caller(
            f"the fit is worse than no fit: the mean log-probability of training rows is "
            f"{found:,.4g}, and class frequencies alone give {of_some:,.4g}; {advice}"
        )
    elif l2 == 0.0 and moved < MOVED:
        values = some.X.data if scipy.sparse.issparse(some.X) else some.X
        if np.any(values):
            warn_caller(
                f"the fit has learned nothing from the features: they move no log-probability of "
                f"{some.n_rows:,} training rows by more than {moved:.2g}; scale the columns of X, "
                f"whose largest value there is {np.abs(values).max():.2g}, or raise learning_rate"
            )
