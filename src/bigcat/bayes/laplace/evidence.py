"""The log-evidence: Laplace's approximation, corrected by importance sampling where it can be.

log p(y) = log p(y | m) + log p(m) + (K M / 2) log 2 pi - 1/2 log |H|, with the mode m, the prior
and the curvature H at the same precisions P.  The softmax has the curvature

    H = B - U U',   B = diag_k(P_k + sum_n s_n p_nk x_n x_n'),   U_n = sqrt(s_n) (p_n (x) x_n),

so log |H| = sum_k log |B_k| + log |I - V' V| with V = B^-1/2 U, and V' V or V V' is as small as the
rows or the weights are few.

That is too low by some nats per thousand weights with few rows each.  Where a root of H fits into
memory, log p(y) is Laplace's plus the logarithm of the mean of the importance weights of draws from
the Gaussian.  With many weights these differ by many orders of magnitude, but their logarithms are
nearly normal, and the logarithm of the mean follows from the first three cumulants of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import logsumexp

from bigcat.bayes._arrays import Floats
from bigcat.bayes.covariance import BlockSums
from bigcat.bayes.laplace.forms import PRODUCTS_OF_INTEGRAL
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.mode import find_mode
from bigcat.bayes.laplace.whitening import JointWhitening, Whitening, joint_precision

#: Multiplications that the determinant may take: seconds.
MAX_PRODUCTS = 3e11
#: Weights whose Gaussian is drawn from, and pairs of draws at the least and most.
MAX_SAMPLED_WEIGHTS, MIN_PAIRS, MAX_PAIRS = 2_048, 256, 4_096
#: Minimal number of effective draws for a mean of importance weights.  With fewer, their logarithms
#: must be nearly normal: the third cumulant may change the result by this many nats at most.
MIN_EFFECTIVE, MAX_THIRD = 50.0, 1.0
#: Multiplications that these draws may take.
PRODUCTS_OF_DRAWS = 1e10
#: Numbers of draws that are held at a time.
MAX_NUMBERS = 1 << 20


class Evidence(NamedTuple):
    """A log-evidence in nats, or NaN and the reason why there is none."""

    value: float
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Evidence:
        """Return NaN with a reason."""
        return cls(np.nan, reason)


def log_evidence(
    likelihood: Likelihood,
    precision: Floats,
    prior_mean: Floats,
    near: Floats,
    rng: np.random.RandomState,
) -> Evidence:
    """Return the log-evidence, from the mode at these precisions; its search starts at `near`."""
    n, size = likelihood.design.n, near.size
    of_fisher = 1 if likelihood.noise.softmax else likelihood.n_classes
    is_sampled = size <= MAX_SAMPLED_WEIGHTS and float(n) * size**2 * of_fisher <= MAX_PRODUCTS
    reason = None if is_sampled else _why_not(likelihood)
    if reason is not None:
        return Evidence.none(reason)
    mode, _ = find_mode(likelihood, precision, prior_mean[None], near)

    def log_density(stack: Floats) -> Floats:
        away = stack - prior_mean
        prior = np.broadcast_to(precision, mode.shape)
        of_prior = 0.5 * (np.log(prior).sum() - (prior * away * away).sum(axis=(1, 2)))
        found: Floats = likelihood.values(stack) + of_prior
        return found

    at_mode = float(log_density(mode[None])[0])
    if is_sampled:
        whitening = JointWhitening(mode, joint_precision(likelihood, mode, precision))
        laplace = at_mode - float(np.log(np.diag(whitening.root)).sum())
        of_score = mode.shape[1] if likelihood.noise.softmax else PRODUCTS_OF_INTEGRAL
        products = 2.0 * n * len(mode) * of_score
        n_pairs = int(np.clip(PRODUCTS_OF_DRAWS / products, MIN_PAIRS, MAX_PAIRS))
        gain = _log_mean_weight(log_density, whitening, n_pairs, rng, at_mode)
        return Evidence(laplace + gain)
    return Evidence(at_mode - 0.5 * softmax_log_determinant(likelihood, mode, precision))


def _log_mean_weight(
    log_density: Callable[[Floats], Floats],
    whitening: Whitening,
    n_pairs: int,
    rng: np.random.RandomState,
    at_mode: float,
) -> float:
    """Return log E[w / w(mode)], w being the density over that of the Gaussian.

    0, which leaves Laplace's value, where the draws cannot tell.
    """
    shape = whitening.mode.shape
    together = max(1, MAX_NUMBERS // whitening.mode.size)
    logs = []
    for start in range(0, n_pairs, together):
        u = rng.standard_normal((min(together, n_pairs - start), *shape))
        squares = 0.5 * np.square(u).sum(axis=(1, 2))
        for sign in (1.0, -1.0):
            logs.append(log_density(whitening.to_weights(sign * u)) + squares - at_mode)
    found = np.concatenate(logs)
    raw = float(logsumexp(found) - np.log(len(found)))
    effective = np.exp(2.0 * logsumexp(found) - logsumexp(2.0 * found))
    if effective >= MIN_EFFECTIVE:
        return raw
    mean, variance = float(found.mean()), float(found.var(ddof=1))
    third = float(np.power(found - mean, 3).mean()) / 6.0
    return mean + 0.5 * variance + third if abs(third) <= MAX_THIRD else 0.0


def _why_not(likelihood: Likelihood) -> str | None:
    n, n_weights = likelihood.design.n, likelihood.n_classes * likelihood.design.n_columns
    remedy = "compare the log-likelihood of held-out rows"
    if not likelihood.noise.softmax:
        return f"the curvature of {n_weights:,} weights is for the softmax alone; {remedy}"
    if float(n) * n_weights * min(n, n_weights) > MAX_PRODUCTS:
        return f"the determinant of {n_weights:,} weights from {n:,} rows takes long; {remedy}"
    return None


def softmax_log_determinant(likelihood: Likelihood, mode: Floats, precision: Floats) -> float:
    """Return log |H| of all weights together."""
    design, (n_classes, n_columns) = likelihood.design, mode.shape
    n, n_weights = design.n, mode.size
    everything = slice(0, n)
    p = likelihood.probabilities(mode, everything)
    root_weights = np.sqrt(design.row_weights)
    rows, total = design.dense(everything), 0.0
    by_rows = n <= n_weights
    gram = np.eye(n) if by_rows else np.empty((0, 0))
    whitened = np.empty((n, 0 if by_rows else n_weights))
    for k in range(n_classes):
        sums = BlockSums(1, n_columns, np.float64)
        sums.add(design.row_weights[:, None] * p[:, k : k + 1], rows)
        own = precision[k] if len(precision) > 1 else precision[0]
        root = np.linalg.cholesky(sums.matrices(own)[0])
        total += 2.0 * float(np.log(np.diag(root)).sum())
        part = scipy.linalg.solve_triangular(root, rows.T, lower=True).T
        part *= (root_weights * p[:, k])[:, None]
        if by_rows:
            gram -= part @ part.T
        else:
            whitened[:, k * n_columns : (k + 1) * n_columns] = part
    if not by_rows:
        gram = np.eye(n_weights) - whitened.T @ whitened
    return total + float(np.linalg.slogdet(gram)[1])
