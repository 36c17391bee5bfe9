"""Models without covariates: K free scores, K counts (OVE, sections 2.2 and 2.3)."""

from collections.abc import Callable

import numpy as np
from scipy import optimize
from scipy.special import log_expit


def fit_counts(row: Callable, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the scores that maximise sum_k N_k row(f, k), of mean zero, and the maximum.

    ``row(f, k)`` returns a bound on log p(y = k) and its gradient in f. For the exact softmax and
    for one-vs-each the answer is known, log N_k plus a constant (OVE, equation 8, Proposition 2);
    for Bouchard's bound with two classes it is 2 log N_k plus a constant (Proposition 3).
    """
    counts = np.asarray(counts, float)

    def negative(f):
        rows = [row(f, k) for k in range(counts.size)]
        value = counts @ [value for value, _ in rows]
        return -value / counts.sum(), -(counts @ [grad for _, grad in rows]) / counts.sum()

    options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-11}
    start = np.zeros(counts.size)
    found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    return found.x - found.x.mean(), -found.fun * counts.sum()


def log_likelihood(probabilities: np.ndarray, counts: np.ndarray) -> float:
    """Return sum_k N_k log p_k over the classes that occur (OVE, equation 7)."""
    seen = counts > 0
    return float(counts[seen] @ np.log(probabilities[seen]))


def one_vs_each_bound(scores: np.ndarray, counts: np.ndarray) -> float:
    """Return sum_k N_k sum_(m != k) log sigmoid(f_k - f_m) (OVE, equation 9)."""
    pairs = log_expit(scores[:, None] - scores)
    np.fill_diagonal(pairs, 0.0)
    return float(counts @ pairs.sum(axis=1))
