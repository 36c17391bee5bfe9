"""Ridge problems whose optimum is known, for tests of where named methods end."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy import optimize
from scipy.special import log_expit, logsumexp
from sklearn.linear_model import LogisticRegression


@dataclass(frozen=True)
class RidgeProblem:
    """Rows of a length, classes that depend on them, and the ridge for rows of length 1.

    `spread` is the standard deviation of the logarithm of the rows' lengths, `rare` how unequal
    the classes are, `density` that of sparse rows.
    """

    n_rows: int
    n_features: int
    n_classes: int
    length: float
    ridge: float
    seed: int
    density: float | None = None
    spread: float = 0.0
    rare: float = 0.0

    @cached_property
    def data(self) -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        shape = (self.n_rows, self.n_features)
        X: Any = rng.normal(size=shape) / np.sqrt(self.n_features)
        if self.density is not None:
            X = X * (rng.random(shape) < self.density) / np.sqrt(self.density)
        W = 3.0 * rng.normal(size=(self.n_classes, self.n_features))
        scores = X @ W.T - self.rare * np.log1p(np.arange(self.n_classes))
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        y[: self.n_classes] = np.arange(self.n_classes)
        X = X * self.length * np.exp(self.spread * rng.normal(size=(self.n_rows, 1)))
        if self.density is not None:
            X = scipy.sparse.csr_array(X.astype(np.float32))
        return X, y

    @property
    def l2(self) -> float:
        return self.ridge * self.length**2

    def value(self, coef: np.ndarray, intercept: np.ndarray, of_scores: Any = None) -> float:
        """The penalised objective: of the likelihood, or of another function of scores and y."""
        X, y = self.data
        W = np.asarray(coef, float)
        scores = X.astype(np.float64) @ W.T + np.asarray(intercept, float)
        return float((of_scores or log_likelihood)(scores, y)[0]) - 0.5 * self.l2 * np.sum(W**2)

    @cached_property
    def best(self) -> float:
        """The largest penalised log-likelihood, by scikit-learn in units of the rows' length."""
        X, y = self.data
        model = LogisticRegression(C=1.0 / self.ridge, tol=1e-7, max_iter=20_000)
        model.fit(X.astype(np.float64) / self.length, y)
        return self.value(model.coef_ / self.length, model.intercept_)

    @cached_property
    def frequencies(self) -> float:
        """The log-likelihood of the class frequencies."""
        counts = np.bincount(self.data[1])
        return float(counts @ np.log(counts / counts.sum()))

    def best_of(self, of_scores: Any) -> float:
        """The largest penalised value of another function of scores and y, by scipy."""
        X, y = self.data
        X, shape = X.astype(np.float64) / self.length, (self.n_classes, self.n_features + 1)

        def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
            W, b = theta.reshape(shape)[:, :-1], theta.reshape(shape)[:, -1]
            value, gradients = of_scores(X @ W.T + b, y)
            gradient = np.column_stack(
                [(X.T @ gradients).T - self.ridge * W, gradients.sum(axis=0)]
            )
            return 0.5 * self.ridge * np.sum(W**2) - value, -gradient.ravel()

        options = {"maxiter": 5_000, "maxfun": 10_000, "ftol": 1e-12, "gtol": 1e-5}
        start = np.zeros(shape[0] * shape[1])
        found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
        return -float(found.fun)


# Functions of the scores of all rows and their labels: the sum of values, and its gradients.


def log_likelihood(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    rows = np.arange(len(y))
    normaliser = logsumexp(scores, axis=1)
    gradients = -np.exp(scores - normaliser[:, None])
    gradients[rows, y] += 1.0
    return (scores[rows, y] - normaliser).sum(), gradients


def one_vs_each(scores: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    rows = np.arange(len(y))
    lead = scores[rows, y][:, None] - scores
    gradients = -np.exp(log_expit(-lead))
    gradients[rows, y] = 0.0
    gradients[rows, y] = -gradients.sum(axis=1)
    return log_expit(lead).sum() - len(y) * log_expit(0.0), gradients
