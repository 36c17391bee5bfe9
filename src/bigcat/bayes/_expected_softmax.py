"""Probabilities of a softmax, averaged over independent Gaussian scores.

A mean over draws of probabilities converges slowly: with a standard deviation of 2 the draws of one
probability differ by a factor of fifty, and the logarithm of a mean of 400 of them is too low by
half of its relative variance, 0.07.  Most of that comes from the class's own score, which is
integrated here by quadrature; only the sum over all other classes, which varies little, is drawn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtri

from bigcat.bayes._arrays import Floats

#: Nodes of the integral over a class's own score.
N_NODES = 8
#: Below exp(this) a probability is in proportion to the exponential of its score.
SMALL = -8.0
TINY = 1e-300

_nodes, _weights = np.polynomial.hermite_e.hermegauss(N_NODES)
_weights = _weights / _weights.sum()


def spread_normals(n_draws: int, n_classes: int, rng: np.random.Generator) -> Floats:
    """Return standard normal numbers, (n_draws, n_classes), evenly spread in each class.

    Each class has one number from each of `n_draws` equally probable intervals, in an order of its
    own (a Latin hypercube).  Where a number lies in its interval is drawn: with the intervals'
    middles sums of exponentials, which live on their tails, would be too small in every class.
    """
    intervals = np.broadcast_to(np.arange(n_draws, dtype=float), (n_classes, n_draws))
    places = rng.permuted(intervals, axis=1) + rng.random((n_classes, n_draws))
    found: Floats = ndtri(np.maximum(places, TINY).T / n_draws)
    return found


def log_expected_softmax(mean: Floats, deviations: Floats, normals: Floats) -> Floats:
    """Return log E[softmax(s)_k] for s_k ~ N(mean_k, deviations_k^2), (n, K); rows sum to 1."""
    top = mean.max(axis=1, keepdims=True)
    mean = mean - (top + np.log(np.exp(mean - top).sum(axis=1, keepdims=True)))
    variances = np.square(deviations)
    rows, classes = np.nonzero(mean + 1.5 * variances > SMALL)
    own = (rows, classes)
    large = np.full(len(rows), -np.inf)
    inverse = np.full(len(mean), -np.inf)  # logarithms of sums of 1 / Z
    for u in normals:
        scores = mean + deviations * u
        top = scores.max(axis=1)
        scores -= top[:, None]
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1)
        np.logaddexp(inverse, -top - np.log(sums), out=inverse)
        others = np.maximum(sums[rows] - scores[own], 1e-17 * sums[rows])
        away = mean[own] - top[rows] - np.log(others)
        np.logaddexp(large, log_expected_logistic(away, deviations[own]), out=large)
    out: Floats = mean + 0.5 * variances + inverse[:, None]
    out[own] = large
    top = out.max(axis=1, keepdims=True)
    out -= top
    out -= np.log(np.exp(out).sum(axis=1, keepdims=True))
    return out


def log_expected_logistic(mean: Floats, deviations: Floats) -> Floats:
    """Return log E[1 / (1 + exp(-s))] for s ~ N(mean, deviations^2).

    Where s is mostly negative, as the exponential's mean times an expectation under a Gaussian that
    it has moved: there the logistic function is 1 / (1 + exp(s)), which is bounded.
    """
    variances = np.square(deviations)
    log_factor = mean + 0.5 * variances
    moved = log_factor < 0.0
    start = np.where(moved, -mean - variances, mean)
    total = np.zeros(mean.shape)
    for node, weight in zip(_nodes, _weights):  # nodes are symmetric
        total += weight * expit(start + node * deviations)
    found: Floats = np.where(moved, log_factor, 0.0) + np.log(np.maximum(total, TINY))
    return found
