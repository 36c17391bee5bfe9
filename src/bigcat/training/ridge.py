"""The ridge of small problems: penalised maximum likelihood along a path, by cross-validation.

From strong to weak, each fit begins where that of the last ridge ended.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat.linear import LinearModel
from bigcat.solvers import LBFGS
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.fit import FitResult, Start

#: Ridges in units of the columns' mean square: the strongest, the weakest, and their ratio.
STRONGEST, WEAKEST, RATIO = 100.0, 1e-4, 10.0**-0.5
#: The path ends when so many ridges in a row have not gained this much, in nats per row.
PATIENCE, MIN_GAIN_NATS = 2, 1e-4
#: Trials are less exact than the fit.
TOL_OF_TRIALS, MAX_ITERATIONS_OF_TRIALS = 1e-4, 60


class Tried(NamedTuple):
    """A ridge and the mean log-likelihood of the validation rows."""

    l2: float
    log_likelihood: float


class Path(NamedTuple):
    """The best ridge, the models of its folds, and all that were tried."""

    l2: float
    models: list[LinearModel]
    tried: list[Tried]


def search(
    config: FitConfig,
    data: TrainingData,
    folds: Sequence[tuple[TrainingData, TrainingData]],
    fit: Callable[[FitConfig, TrainingData, Start | None], FitResult],
) -> Path:
    """Find the ridge that predicts the rows best that its fits have not seen.

    Parameters
    ----------
    folds : sequence of (TrainingData, TrainingData)
        Rows to fit and validation rows.
    fit : callable
        Called with settings, rows, and where to start.
    """
    total = data.row_weights.sum()
    kept, held_out = zip(*folds)
    ends: list[Start | None] = [None for _ in folds]
    l2 = STRONGEST * unit_of(data)
    best, stale, tried = Path(l2, [], []), 0, list[Tried]()
    iterations = min(config.max_epochs, MAX_ITERATIONS_OF_TRIALS)
    solver = config.parts.solver
    assert isinstance(solver, LBFGS)
    rough = replace(solver, tol=max(solver.tol, TOL_OF_TRIALS))
    trial = replace(config.with_solver(rough), max_epochs=iterations)
    while stale < PATIENCE and l2 >= 0.999 * WEAKEST * unit_of(data):
        models, values = [], []
        for i, (rows, others) in enumerate(zip(kept, held_out)):
            # A ridge on a sum is the stronger the shorter the sum is.
            share = float(rows.row_weights.sum() / total)
            with warnings.catch_warnings():  # the fit that counts may still warn
                warnings.simplefilter("ignore", ConvergenceWarning)
                end = fit(replace(trial, l2=share * l2), rows, ends[i])
            ends[i] = end.weights, end.intercept
            models.append(LinearModel(end.weights, end.intercept, config.parts.noise))
            values.append(models[-1].mean_log_likelihood(*others[:3]))
        weights = [others.row_weights.sum() for others in held_out]
        tried.append(Tried(l2, float(np.average(values, weights=weights))))
        before = max((t.log_likelihood for t in tried[:-1]), default=-np.inf)
        stale = 0 if tried[-1].log_likelihood > before + MIN_GAIN_NATS else stale + 1
        if tried[-1].log_likelihood > before:
            best = Path(l2, models, tried)
        l2 *= RATIO
    return best


def unit_of(data: TrainingData) -> float:
    """Mean square of the values of sparse rows; 1 for dense ones, whose columns are scaled."""
    if not scipy.sparse.issparse(data.X) or not np.any(data.X.data):
        return 1.0
    values = data.X.data[data.X.data != 0.0].astype(np.float64)
    largest = float(np.abs(values).max())  # so that squares stay finite
    return float(np.mean((values / largest) ** 2)) * largest * largest
