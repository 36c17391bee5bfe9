"""Damped steps on the exact softmax, row by row, with their average."""

import numpy as np
from scipy import optimize
from scipy.special import softmax

INTERCEPT_SHARE = 0.2


def shortening(q: float, whole: float) -> float:
    """Return the u in (0, 1] with u (1 - q + q exp((1 - q) whole u)) = 1.

    A step of u times the gradient raises the label's score by (1 - q) whole u; after it the label
    has odds q/(1 - q) times the exponential of that, so that its gradient is u (1 - q).
    """

    def excess(u):
        with np.errstate(over="ignore"):
            return u * (1.0 - q + q * np.exp((1.0 - q) * whole * u)) - 1.0

    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-15))


def train(X, y, n_classes, order, rate, n_steps, W, b):
    """Visit rows in the given order with a relative rate that falls to zero over `n_steps`."""
    W, b = W.copy(), b.copy()
    size = np.mean(np.sum(X**2, axis=1))
    share = INTERCEPT_SHARE * size
    for t, i in enumerate(order):
        step = rate / (size + share) * max(0.0, 1.0 - t / n_steps)
        p = softmax(W @ X[i] + b)
        grads = -p
        grads[y[i]] += 1.0
        u = shortening(p[y[i]], step * (X[i] @ X[i] + share))
        W += step * u * np.outer(grads, X[i])
        b += step * u * share * grads
    return W, b


def average(iterates):
    """Return the average in which the k-th iterate has the share 4 / (k + 3)."""
    mean = np.zeros_like(iterates[0])
    for k, iterate in enumerate(iterates, start=1):
        mean += 4.0 / (k + 3.0) * (iterate - mean)
    return mean
