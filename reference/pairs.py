"""Weights of single pairs in plain numpy: the softmax over all classes, one row per step."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def together(X: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Which features and classes occur together in a row, (n_features, n_classes)."""
    found = np.zeros((X.shape[1], n_classes), bool)
    for x, label in zip(X, labels):
        found[x != 0.0, label] = True
    return found


def train(X, labels, row_weights, order, known, base, rate):
    """Weights, (n_features, n_classes), and the sum of the log-likelihoods before each step."""
    weights = np.zeros(known.shape)
    total = 0.0
    for i in order:
        log_p = log_softmax(X[i] @ weights + base)
        total += row_weights[i] * log_p[labels[i]]
        slopes = np.exp(log_p)
        slopes[labels[i]] -= 1.0
        weights -= known * (rate * row_weights[i] * np.outer(X[i], slopes))
    return weights, total
