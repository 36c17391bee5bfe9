"""The ridge of small problems: penalised maximum likelihood along a path, by cross-validation.

Ridges go from strong to weak, and each fit starts at the optimum of the one before.
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
from bigcat.training.stopping import EarlyStopping

#: Ridges in units of the columns' mean square: the strongest, the weakest, and their ratio.
STRONGEST, WEAKEST, RATIO = 100.0, 1e-4, 10.0**-0.5
#: The path ends after this many ridges without a gain.
PATIENCE = 2


class Path(NamedTuple):
    """The best ridge, and the models of its folds."""

    l2: float
    models: list[LinearModel]


def search(
    config: FitConfig,
    data: TrainingData,
    folds: Sequence[tuple[TrainingData, TrainingData]],
    fit: Callable[[FitConfig, TrainingData, Start | None], FitResult],
) -> Path:
    """Find the ridge with the highest log-likelihood of the validation rows.

    `folds` are pairs of training and validation rows; `fit` is called with settings, rows and
    starting weights.
    """
    total, unit = data.row_weights.sum(), unit_of(data)
    ends: list[Start | None] = [None for _ in folds]
    l2 = STRONGEST * unit
    best, tried, rule = Path(l2, []), list[float](), EarlyStopping(patience=PATIENCE)
    solver = config.parts.solver
    assert isinstance(solver, LBFGS)
    # Trials are less exact than the fit.
    trial = config.with_solver(replace(solver, tol=max(solver.tol, LBFGS.tol)))
    while not rule.is_over(tried) and l2 >= 0.999 * WEAKEST * unit:
        models, values = [], []
        for i, (rows, others) in enumerate(folds):
            # The likelihood is a sum over rows, so the ridge falls with their share.
            share = float(rows.row_weights.sum() / total)
            with warnings.catch_warnings():  # the fit that counts may still warn
                warnings.simplefilter("ignore", ConvergenceWarning)
                end = fit(replace(trial, l2=share * l2), rows, ends[i])
            ends[i] = end.weights, end.intercept
            models.append(LinearModel(end.weights, end.intercept, config.parts.noise))
            values.append(models[-1].mean_log_likelihood(*others[:3]))
        weights = [others.row_weights.sum() for _, others in folds]
        value = float(np.average(values, weights=weights))
        if value > max(tried, default=-np.inf):
            best = Path(l2, models)
        tried.append(value)
        l2 *= RATIO
    return best


def unit_of(data: TrainingData) -> float:
    """Return the mean square of sparse values; 1 for dense rows, whose columns are scaled."""
    if not scipy.sparse.issparse(data.X) or not np.any(data.X.data):
        return 1.0
    values = data.X.data[data.X.data != 0.0].astype(np.float64)
    largest = float(np.abs(values).max())  # so that squares stay finite
    return float(np.mean((values / largest) ** 2)) * largest * largest
