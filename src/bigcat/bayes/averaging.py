"""How much of each likelihood: the Bayesian average of the two models.

Both models have the same prior and the same posterior approximation q, so these cancel between
their evidence bounds, and the weight of the conditioned one is sigmoid(D) with

    D = E_q[log p_CBC(y | B) - log p_CBM(y | B)].

The paper estimates each bound with its own draws of B, which keeps the noise of the terms that
cancel.  Here both likelihoods see the same draws; and since D is a sum over rows, only the
distribution of a row's K scores matters: independent Gaussians with means x.mu_k and variances
x'Sigma_k x.  Drawing these afresh for each row has the same expectation as drawing weights, much
less noise (the rows' errors are independent), and costs one product for the means.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from bigcat.bayes.likelihoods import log_conditioned, log_marginalised
from bigcat.bayes.posterior import Posterior

#: Scores drawn in all.  Where that does not suffice rows have fewer draws each, and where one
#: draw is too many D is estimated from a sample of the rows.
MOST_SCORES = 1 << 25


def averaging_weight(
    posterior: Posterior,
    X: Any,
    labels: np.ndarray,
    rng: np.random.RandomState,
    n_draws: int = 100,
    n_rows: int | None = None,
) -> float:
    """Weight of the conditioned likelihood.

    Parameters
    ----------
    posterior : Posterior
    X : array or CSR matrix of shape (n, n_features)
    labels : array of shape (n,)
        Class numbers.
    n_draws : int, default=100
        Most draws of each row's scores.
    n_rows : int, optional
        Rows that D stands for, where X is a part of the data.
    """
    n = X.shape[0]
    total = n if n_rows is None else n_rows
    most = max(100, MOST_SCORES // posterior.n_classes)
    if n > most:
        chosen = np.sort(rng.choice(n, most, replace=False))
        X, labels, n = X[chosen], labels[chosen], most
    n_draws = max(1, min(n_draws, MOST_SCORES // max(1, n * posterior.n_classes)))
    differences = [
        _differences(posterior, eta, variance, labels[rows], rng, n_draws)
        for rows, eta, variance in posterior.score_blocks(X, variances=True)
    ]
    mean = np.concatenate(differences).mean() if differences else 0.0
    return float(expit(total * mean))


def _differences(posterior, eta, variance, labels, rng, n_draws: int) -> np.ndarray:
    """Mean over draws of log p_CBC(y_i) - log p_CBM(y_i), (rows,)."""
    deviations = np.sqrt(variance)
    own = np.arange(len(labels)), labels
    total = np.zeros(len(labels))
    for _ in range(n_draws):
        draw = eta + deviations * rng.standard_normal(eta.shape)
        total += log_conditioned(posterior.link, draw)[own]
        total -= log_marginalised(posterior.link, draw)[own]
    return total / n_draws
