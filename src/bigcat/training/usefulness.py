"""Is a fit worth anything?  One that predicts less than class frequencies do says so."""

from __future__ import annotations

import warnings

import numpy as np

from bigcat.linear import LinearModel
from bigcat.noise import Noise
from bigcat.training.fit import COST_OF_NODES, LEAST_ROWS, MOST_SCORES, Outcome
from bigcat.training.sample import Sample

#: Nats per row that a fit may be below class frequencies: one that has just begun may well be.
WORSE = 1.0


def warn_if_useless(
    outcome: Outcome, data: Sample, n_classes: int, noise: Noise, advice: str
) -> None:
    """Of training rows, in their columns as the outcome sees them.

    Where the last epoch's own figure says enough nothing is computed.
    """
    by_frequency = np.bincount(data.labels, data.row_weights, n_classes) / data.row_weights.sum()
    known = by_frequency[by_frequency > 0.0]
    usual = float(known @ np.log(known))
    last = outcome.history[-1]
    # An estimator's objective is on a scale of its own, and has the true value beside it.
    estimate = last["objective"] if np.isnan(last["log_likelihood"]) else last["log_likelihood"]
    if estimate >= usual - WORSE:
        return
    n = max(MOST_SCORES // n_classes // (1 if noise.softmax else COST_OF_NODES), LEAST_ROWS)
    some = data.take(np.arange(0, data.n_rows, -(-data.n_rows // n)))
    with np.errstate(over="ignore", invalid="ignore"):
        model = LinearModel(outcome.weights, outcome.intercept, noise)
        found = model.mean_log_likelihood(*some[:3])
    of_some = float(some.row_weights @ np.log(by_frequency[some.labels]) / some.row_weights.sum())
    if found < of_some - WORSE or np.isnan(found):
        warnings.warn(
            f"the fit is worse than no fit: the mean log-probability of training rows is "
            f"{found:,.4g}, and class frequencies alone give {of_some:,.4g}; {advice}",
            UserWarning,
            stacklevel=4,
        )
