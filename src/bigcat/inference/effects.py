"""Average marginal effects: mean derivatives of the class probabilities by the features.

With scores s = W x + b they are J W, where J is the mean over the rows of the derivatives of the
probabilities by the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import softmax

from bigcat.inference.likelihood import LikelihoodFit, _blocks, dense_design

#: Step of central differences in a score: their error is about its square.
STEP = 1e-4


def softmax_derivatives(scores: np.ndarray) -> np.ndarray:
    """Return the sum over rows of the derivatives of the softmax by the scores, (K, K)."""
    p = softmax(scores, axis=1)
    derivatives: np.ndarray = np.diag(p.sum(axis=0)) - p.T @ p
    return derivatives


def numerical_derivatives(
    log_probabilities: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the same for another model, by central differences."""

    def derivatives(scores: np.ndarray) -> np.ndarray:
        n_classes = scores.shape[1]
        found = np.empty((n_classes, n_classes))
        for k in range(n_classes):
            moved = np.stack([scores, scores])
            moved[:, :, k] += np.array([[STEP], [-STEP]])
            up, down = np.exp(log_probabilities(moved))
            found[:, k] = (up - down).sum(axis=0) / (2.0 * STEP)
        return found

    return derivatives


def average_effects(
    weights: np.ndarray,
    X: Any,
    intercept: bool,
    derivatives: Callable[[np.ndarray], np.ndarray] = softmax_derivatives,
) -> np.ndarray:
    """Return the average marginal effects of draws of the weights, (S, n_classes, n_features).

    Parameters
    ----------
    weights : array of shape (S, n_classes, M)
        The intercept's last.
    X : array or CSR matrix of shape (n, n_features)
    intercept : bool
    derivatives : callable
        Derivatives of the probabilities by the scores, summed over rows.
    """
    n_features = weights.shape[2] - int(intercept)
    effects = np.empty((*weights.shape[:2], n_features))
    for s, drawn in enumerate(weights.astype(np.float64)):
        coef, constant = drawn[:, :n_features], drawn[:, n_features:].sum(axis=1)
        total = np.zeros((len(coef), len(coef)))
        for rows in _blocks(X.shape[0], len(coef)):
            total += derivatives(np.asarray(X[rows] @ coef.T) + constant)
        effects[s] = total @ coef / X.shape[0]
    return effects


def effects_with_errors(
    fit: LikelihoodFit, X: Any, row_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return average marginal effects and their delta-method errors, each (K, n_features)."""
    rows = dense_design(X, fit.intercept)
    shares = row_weights / row_weights.sum()
    p = softmax(rows @ fit.coef.T, axis=1)
    coef = fit.coef[:, : rows.shape[1] - int(fit.intercept)]
    # The effect of row i, class k and feature j is p_ik apart[k][i, j].
    mean_weights = p @ coef
    apart = [weights - mean_weights for weights in coef]
    effects = np.array([(shares * p[:, k]) @ apart[k] for k in range(len(coef))])
    n_features = coef.shape[1]
    errors = np.empty_like(effects)
    for k in range(len(coef)):
        gradient = np.empty((len(fit.others), rows.shape[1], n_features))
        for place, other in enumerate(fit.others):
            own = shares * p[:, k] * (float(k == other) - p[:, other])
            cross = shares * p[:, k] * p[:, other]
            moved = own[:, None] * apart[k] - cross[:, None] * apart[other]
            gradient[place] = rows.T @ moved
            gradient[place, :n_features][np.diag_indices(n_features)] += own.sum()
        flat = gradient.reshape(-1, n_features)
        errors[k] = np.sqrt(((fit.best_covariance @ flat) * flat).sum(axis=0))
    return effects, errors
