"""Weight of each likelihood in their Bayesian average (section 2.5, equation 2.5.4).

Both models have the same prior and the same posterior approximation q, so these cancel between
their evidence bounds, and the weight of the conditioned one is sigmoid(D) with

    D = E_q[log p_CBC(y | B) - log p_CBM(y | B)].

The paper estimates each bound with its own draws of B, which keeps the noise of the terms that
cancel.  Here both likelihoods see the same draws; and since D is a sum over rows, only the
distribution of a row's K scores matters: independent Gaussians with means x.mu_k and variances
x'Sigma_k x.  Drawing these for each row has the same expectation as drawing weights, much less
noise (the rows' errors are independent), and costs one product for the means.

A row's random numbers are made from its own features.  So equal rows have equal draws: a row of
weight 2 is a row twice exactly, and the order of the rows does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import expit

from bigcat.bayes.binary.likelihoods import log_conditioned, log_marginalised
from bigcat.bayes.binary.posterior import BinaryPosterior
from bigcat.numerics.random import fill_normal, new_state

#: Scores drawn in all.  Where that does not suffice rows have fewer draws each, and where one
#: draw is too many D is estimated from a sample of the rows.
MAX_SCORES = 1 << 25
#: Numbers of dense rows that become sparse at a time for the rows' keys, four times as large.
KEYS_CHUNK = 1 << 18


def averaging_weight(
    posterior: BinaryPosterior,
    X: Any,
    labels: np.ndarray,
    row_weights: np.ndarray,
    rng: np.random.RandomState,
    n_draws: int = 100,
    n_rows: float | None = None,
) -> float:
    """Weight of the conditioned likelihood.

    Parameters
    ----------
    posterior : BinaryPosterior
    X : array or CSR matrix of shape (n, n_features)
    labels : array of shape (n,)
        Class numbers.
    row_weights : array of shape (n,)
        How often each row counts.
    n_draws : int, default=100
        Most draws of each row's scores.
    n_rows : float, optional
        Rows that D stands for, where X is a part of the data.
    """
    n = X.shape[0]
    total = row_weights.sum() if n_rows is None else n_rows
    most = max(100, MAX_SCORES // posterior.n_classes)
    if n > most:
        chosen = np.sort(rng.choice(n, most, replace=False))
        X, labels, row_weights, n = X[chosen], labels[chosen], row_weights[chosen], most
    n_draws = max(1, min(n_draws, MAX_SCORES // max(1, n * posterior.n_classes)))
    states = _row_keys(X) + new_state(rng)
    differences = [
        _differences(posterior, eta, variance, labels[rows], states[rows], n_draws)
        for rows, eta, variance in posterior.score_blocks(X, variances=True)
    ]
    mean = np.average(np.concatenate(differences), weights=row_weights) if differences else 0.0
    return float(expit(total * mean))


def _differences(
    posterior: BinaryPosterior,
    eta: np.ndarray,
    variance: np.ndarray,
    labels: np.ndarray,
    states: np.ndarray,
    n_draws: int,
) -> np.ndarray:
    """Mean over draws of log p_CBC(y_i) - log p_CBM(y_i), (rows,)."""
    deviations = np.sqrt(variance)
    own = np.arange(len(labels)), labels
    total, noise = np.zeros(len(labels)), np.empty(eta.shape)
    for _ in range(n_draws):
        fill_normal(states, noise)
        draw = eta + deviations * noise
        total += log_conditioned(posterior.link, draw)[own]
        total -= log_marginalised(posterior.link, draw)[own]
    return total / n_draws


def _row_keys(X: Any) -> np.ndarray:
    """Return a number for each row that depends on its non-zero features only, (n,)."""
    n, m = X.shape
    # Sparse products add the values of a row in one order, so equal rows have the same bits.
    factors = np.random.RandomState(0).standard_normal(m)
    step = max(1, KEYS_CHUNK // max(1, m) if not scipy.sparse.issparse(X) else n)
    keys = [
        scipy.sparse.csr_array(X[start : start + step], dtype=np.float64) @ factors
        for start in range(0, n, step)
    ]
    return np.concatenate([np.empty(0), *keys]).view(np.uint64)
