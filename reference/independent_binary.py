"""Categorical from binary: K independent binary regressions by coordinate ascent (IB-CAVI).

Equation numbers are those of Wojnowicz et al. (2022). X is (n, M) with its column of ones, if any;
``labels`` are class numbers; means are (K, M). The prior of each class is N(0, P^-1) with an (M, M)
precision P. Everything is dense, n x K arrays included: the clearest form, not the quickest.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp

LOG_2PI = np.log(2.0 * np.pi)


class Posterior(NamedTuple):
    """Gaussian posterior of the weights."""

    mean: np.ndarray  # (K, M)
    covariance: np.ndarray  # (M, M) for the probit, (K, M, M) for the logit


def signs(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Return 1 for the row's class and -1 for others, (n, K)."""
    return np.where(labels[:, None] == np.arange(n_classes), 1.0, -1.0)


def log_ndtr_grad(t: np.ndarray) -> np.ndarray:
    """Return phi(t) / Phi(t)."""
    return np.exp(-0.5 * t * t - 0.5 * LOG_2PI - log_ndtr(t))


def probit_cavi(
    X: np.ndarray, labels: np.ndarray, n_classes: int, precision: np.ndarray, n_iterations: int
) -> Posterior:
    """Fit a probit: means from zero, E[z] (D.3.6), the mean (D.3.5a), one covariance (D.3.5b)."""
    s = signs(labels, n_classes)
    covariance = np.linalg.inv(precision + X.T @ X)
    mean = np.zeros((n_classes, X.shape[1]))
    for _ in range(n_iterations):
        eta = X @ mean.T
        expected = eta + s * log_ndtr_grad(s * eta)
        mean = (covariance @ (X.T @ expected)).T
    return Posterior(mean, covariance)


def probit_elbo(X: np.ndarray, labels: np.ndarray, precision: np.ndarray, q: Posterior) -> float:
    """Return (D.3.8), term by term, with q(z) at its best for the means."""
    n_classes, m = q.mean.shape
    s = signs(labels, n_classes)
    eta = X @ q.mean.T
    grad = s * log_ndtr_grad(s * eta)
    variance = np.einsum("im,ml,il->i", X, q.covariance, X)[:, None]
    joint = -0.5 * (LOG_2PI + 1.0) + 0.5 * eta * grad - 0.5 * variance  # (A)
    # (C), the entropy of a truncated normal: log(sqrt(2 pi e) Phi) - t phi / (2 Phi)  (D.1.7)
    entropy_z = 0.5 * (LOG_2PI + 1.0) + log_ndtr(s * eta) - 0.5 * eta * grad
    return float((joint + entropy_z).sum() + weight_terms(precision, q, n_classes, m))


def logit_cavi(
    X: np.ndarray, labels: np.ndarray, n_classes: int, precision: np.ndarray, n_iterations: int
) -> Posterior:
    """Fit by Algorithm 3: xi (E.3.3b), covariances (E.3.4a), means (E.3.4b).

    The authors start from means of zero and the probit's covariance.
    """
    half = 0.5 * signs(labels, n_classes)  # y - 1/2
    mean = np.zeros((n_classes, X.shape[1]))
    covariance = np.repeat(np.linalg.inv(precision + X.T @ X)[None], n_classes, axis=0)
    for _ in range(n_iterations):
        xi = logit_xi(X, Posterior(mean, covariance))
        omega = np.tanh(0.5 * xi) / (2.0 * xi)
        covariance = np.linalg.inv(np.einsum("ik,im,il->kml", omega, X, X) + precision)
        mean = np.einsum("kml,lk->km", covariance, X.T @ half)
    return Posterior(mean, covariance)


def logit_xi(X: np.ndarray, q: Posterior) -> np.ndarray:
    """Return sqrt(x' Sigma_k x + (x.mu_k)^2), (n, K) (E.3.3b)."""
    variance = np.einsum("im,kml,il->ik", X, q.covariance, X)
    return np.sqrt(variance + (X @ q.mean.T) ** 2)


def logit_elbo(X: np.ndarray, labels: np.ndarray, precision: np.ndarray, q: Posterior) -> float:
    """Return (E.3.9)."""
    n_classes, m = q.mean.shape
    xi = logit_xi(X, q)
    rows = 0.5 * signs(labels, n_classes) * (X @ q.mean.T) + log_expit(xi) - 0.5 * xi
    return float(rows.sum() + weight_terms(precision, q, n_classes, m))


def weight_terms(precision: np.ndarray, q: Posterior, n_classes: int, m: int) -> float:
    """Return terms (B) and (D): minus the divergence of q(B) from its prior."""
    covariance = np.broadcast_to(q.covariance, (n_classes, m, m))
    squares = np.einsum("km,ml,kl->", q.mean, precision, q.mean)
    traces = np.einsum("ml,klm->", precision, covariance)
    logs = np.linalg.slogdet(covariance)[1].sum() + n_classes * np.linalg.slogdet(precision)[1]
    return 0.5 * (n_classes * m + logs - squares - traces)


def log_marginalised(link: str, eta: np.ndarray) -> np.ndarray:
    """Return CBM (2.4.1), (n, K)."""
    logs = log_ndtr(eta) if link == "probit" else log_expit(eta)
    return logs - logsumexp(logs, axis=1, keepdims=True)


def log_conditioned(link: str, eta: np.ndarray) -> np.ndarray:
    """Return CBC (2.4.2): H(eta_k) prod_(j != k) (1 - H(eta_j)), normalised."""
    log_cdf = log_ndtr if link == "probit" else log_expit
    no = log_cdf(-eta)
    logs = log_cdf(eta) + no.sum(axis=1, keepdims=True) - no
    return logs - logsumexp(logs, axis=1, keepdims=True)


def averaging_weight(
    X: np.ndarray, labels: np.ndarray, link: str, q: Posterior, rng: np.random.Generator, n: int
) -> float:
    """Return the weight of the conditioned likelihood from `n` common draws of the weights."""
    n_classes, m = q.mean.shape
    roots = np.linalg.cholesky(np.broadcast_to(q.covariance, (n_classes, m, m)))
    own = np.arange(len(labels)), labels
    difference = 0.0
    for _ in range(n):
        weights = q.mean + np.einsum("kml,kl->km", roots, rng.standard_normal((n_classes, m)))
        eta = X @ weights.T
        difference += (log_conditioned(link, eta)[own] - log_marginalised(link, eta)[own]).sum()
    return float(expit(difference / n))
