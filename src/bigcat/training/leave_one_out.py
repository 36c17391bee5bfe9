"""The ridge of few rows and weights: how well would each row be predicted without it?

A fit without a row is one Newton step away from the fit with it, and the step is known from the
curvature that the fit has anyway (approximate leave-one-out; Rad and Maleki, 2020).  So every row
judges every ridge at the price of one fit per ridge, where five folds take five fits, and judge by
fits to fewer rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.special import log_softmax

from bigcat.machine import one_blas_thread
from bigcat.training.recipe import Recipe
from bigcat.training.sample import Sample

#: Weights and intercepts, at most: a step takes their cube, and their square for each row.
MOST_WEIGHTS = 512
MOST_PRODUCTS = 1 << 26
#: A stronger ridge is taken that is worse by no more than this part of the difference's standard
#: error.  On nine kinds of small made-up data, twelve draws each, it lost least, or as little.
#: Folds need none: their fits have fewer rows, and so want a stronger ridge anyway.
CAUTION = 0.25
#: A fit ends where a step gains less than this, in nats per row, or after so many steps.
ENOUGH, MOST_STEPS = 1e-5, 50
#: Intercepts have next to no ridge: only their differences mean anything.
RIDGE_OF_INTERCEPTS = 1e-7
ROUNDING, SMALLEST_UNIT = 1e-11, 1e-100


def judge(recipe: Recipe, data: Sample, n_classes: int) -> LeaveOneOut | None:
    """Every row as a judge; None where that takes long, or where no row can be spared."""
    n_weights = (data.X.shape[1] + recipe.fit_intercept) * n_classes
    if not recipe.parts.noise.softmax or n_weights > MOST_WEIGHTS:
        return None
    if data.n_rows * n_weights**2 > MOST_PRODUCTS:
        return None
    distinct = data.distinct()
    if distinct.n_rows < data.without_copies().n_rows:
        return None  # of a category with few rows one decides much: no single step says how much
    found = LeaveOneOut(distinct, n_classes, recipe.fit_intercept)
    return found if found.judges.any() and len(np.unique(found.labels)) > 1 else None


class LeaveOneOut:
    """Log-likelihoods of rows by fits without them, one ridge after another.

    A row that is the only one of its class is in every fit, and says nothing of any.

    Parameters
    ----------
    data : Sample
        Without copies of rows, which would not be left out together.
    n_classes : int
    fit_intercept : bool
    """

    def __init__(self, data: Sample, n_classes: int, fit_intercept: bool) -> None:
        X, labels, self.row_weights, _ = data
        X = np.asarray(X.toarray() if scipy.sparse.issparse(X) else X, np.float64)
        ones = np.ones((len(labels), int(fit_intercept)))
        # In units in which no square is too large, and the curvature of no column vanishes.
        self.unit = float(np.abs(X).max(initial=SMALLEST_UNIT))
        self.X, self.labels = np.hstack([X / self.unit, ones]), labels
        self.has_ridge = np.arange(self.X.shape[1]) < X.shape[1]
        self.n_classes = n_classes
        self.judges = np.bincount(self.labels, minlength=n_classes)[self.labels] > 1
        self.fitted = np.zeros((self.X.shape[1], n_classes))

    @property
    def groups(self) -> None:
        """Each row is left out by itself."""

    @property
    def weights(self) -> np.ndarray:
        of_judges: np.ndarray = self.row_weights[self.judges]
        return of_judges

    def of_frequencies(self) -> np.ndarray:
        counts = np.bincount(self.labels, self.row_weights, self.n_classes)
        others = counts[self.labels] - self.row_weights
        logs = np.log(others[self.judges] / (counts.sum() - self.weights))
        return np.asarray(logs)

    def log_likelihoods(self, l2: float, best: np.ndarray | None = None) -> np.ndarray:
        """Of each row that judges, by the fit of this ridge to all others."""
        with one_blas_thread:
            now = self._fit(self._ridge(l2))
            factor = scipy.linalg.cho_factor(now.curvature)
            inverse = scipy.linalg.cho_solve(factor, np.eye(self.fitted.size))
            found: np.ndarray = self._log_likelihoods_by(self._scores_without(now, inverse))
        of_judges: np.ndarray = found[self.judges]
        return of_judges

    def _ridge(self, l2: float) -> np.ndarray:
        """Per row of the weights."""
        of_weights = l2 / self.unit / self.unit
        return np.where(self.has_ridge, of_weights, RIDGE_OF_INTERCEPTS * self.row_weights.sum())

    def _log_likelihoods_by(self, scores: np.ndarray) -> np.ndarray:
        found: np.ndarray = log_softmax(scores, axis=1)[np.arange(len(scores)), self.labels]
        return found

    def _fit(self, ridge: np.ndarray) -> _Look:
        """Newton's steps from where the last ridge ended, halved where they go too far."""
        now = self._look(self.fitted, ridge)
        for _ in range(MOST_STEPS):
            factor = scipy.linalg.cho_factor(now.curvature)
            step = scipy.linalg.cho_solve(factor, now.slope.ravel(order="F"))
            gain = 0.5 * float(step @ now.slope.ravel(order="F"))
            if gain <= ENOUGH * self.row_weights.sum():
                break
            size, step = 1.0, step.reshape(self.fitted.shape, order="F")
            while self._value(self.fitted + size * step, ridge) < now.value and size > 1e-3:
                size *= 0.5
            self.fitted = self.fitted + size * step
            now = self._look(self.fitted, ridge)
        return now

    def _value(self, fitted: np.ndarray, ridge: np.ndarray) -> float:
        logs = self._log_likelihoods_by(self.X @ fitted)
        return float(self.row_weights @ logs - 0.5 * (ridge @ fitted**2).sum())

    def _look(self, fitted: np.ndarray, ridge: np.ndarray) -> _Look:
        X, weights, n = self.X, self.row_weights, len(self.labels)
        scores = X @ fitted
        p = np.exp(log_softmax(scores, axis=1))
        errors = -p
        errors[np.arange(n), self.labels] += 1.0
        slope = X.T @ (weights[:, None] * errors) - ridge[:, None] * fitted
        # Blocks of features by classes: of row i, weight (diag(p) - p p') times x x'.
        products = (np.sqrt(weights)[:, None] * p)[:, :, None] * X[:, None, :]
        products = products.reshape(n, -1)
        curvature = -(products.T @ products)
        d = X.shape[1]
        for k in range(self.n_classes):
            block = slice(k * d, (k + 1) * d)
            curvature[block, block] += X.T @ ((weights * p[:, k])[:, None] * X) + np.diag(ridge)
        # So that rounding leaves it positive definite where columns depend on each other.
        curvature[np.diag_indices_from(curvature)] *= 1.0 + ROUNDING
        return _Look(self._value(fitted, ridge), slope, curvature, scores, p, errors)

    def _scores_without(self, now: _Look, inverse: np.ndarray) -> np.ndarray:
        """Scores of each row by the fit without it."""
        X, k, d = self.X, self.n_classes, self.X.shape[1]
        reach = np.empty((len(X), k, k))  # how far scores move, by class, with a push on a class
        for j in range(k):
            moved = (X @ inverse[j * d : (j + 1) * d]).reshape(len(X), k, d)
            reach[:, j] = np.einsum("nkd,nd->nk", moved, X)
        reach *= self.row_weights[:, None, None]
        curvatures = now.p[:, :, None] * (np.eye(k) - now.p[:, None, :])
        pushes = np.einsum("nkl,nl->nk", reach, now.errors)
        without = np.eye(k) - reach @ curvatures
        return now.scores - np.linalg.solve(without, pushes[:, :, None])[:, :, 0]


class _Look(NamedTuple):
    """The penalised log-likelihood at some weights, and what a row's part in it is."""

    value: float
    slope: np.ndarray  # (features, classes)
    curvature: np.ndarray  # of what is minimised, by class and feature
    scores: np.ndarray
    p: np.ndarray
    errors: np.ndarray
