"""One scale for all weights and one for the intercepts, at the values that maximise the ELBO.

The ELBO depends on a precision t of N weights by N/2 log t - t/2 sum E[w^2], so the best one given
q(w) is t = N / sum E[w^2], where E[w^2] is mean^2 + variance: the variance of the prior is the mean
square of the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.priors import PriorState, Sharing

#: Where rows say that all weights are 0, or nothing bounds them.
LEAST_PRECISION, MOST_PRECISION = 1e-8, 1e8


def best_precision(count: float, squares: float) -> float:
    """Of `count` weights with the sum `squares` of their expected squares."""
    return float(np.clip(count / max(squares, 1e-300), LEAST_PRECISION, MOST_PRECISION))


class OneScaleState(PriorState):
    """For binary regressions: scales that all classes share."""

    sharing: Sharing = "shared"
    learnt = True

    def __init__(self, n_classes: int, n_columns: int, intercept: bool) -> None:
        self.n_classes, self.n_features = n_classes, n_columns - intercept
        self.mean = np.zeros(n_columns)
        self.values = np.ones(n_columns)  # precisions

    def precision(self, block: Block) -> Floats:
        return self.values[:, None]

    def absorb(self, block: Block, mean: Floats, covariance: Covariance) -> Any:
        return (mean * mean + covariance.variances(block)).sum(axis=0)

    def energy(self, absorbed: Sequence[Any]) -> float:
        squares = np.sum(absorbed, axis=0)
        for part in (slice(0, self.n_features), slice(self.n_features, None)):
            count = self.n_classes * squares[part].size
            self.values[part] = best_precision(count, squares[part].sum())
        logs = self.n_classes * np.log(self.values)
        return 0.5 * float((logs - self.values * squares).sum())
