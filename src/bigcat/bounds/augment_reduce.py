"""Augment and reduce (Ruiz, Titsias, Dieng and Blei, 2018), for every noise.

log p(y) >= E_q[log phi(e) + sum_k log Phi(e + psi_y - psi_k) - log q(e)]        (equation 7)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bigcat import _random
from bigcat._jit import device, implement
from bigcat._seam import fit_local, log_cdf, log_cdf_grad, log_pdf, step
from bigcat._special import log1p_exp, log_add_exp, sigmoid, softplus_inverse
from bigcat.bounds._base import Bound
from bigcat.noise import Gumbel, Noise
from bigcat.probabilities import joint_mode, joint_width, log_joint_grad

ENTROPY_GAUSSIAN = 0.5 * math.log(2.0 * math.pi * math.e)
ENTROPY_LOGISTIC = 2.0


class SoftmaxAugmentReduceTag(NamedTuple):
    band: float


class QuadratureAugmentReduceTag(NamedTuple):
    noise: Any
    nodes: np.ndarray  # of the standard q
    weights: np.ndarray
    entropy: float  # of the standard q


class SampledAugmentReduceTag(NamedTuple):
    noise: Any
    nodes: np.ndarray  # for the optimum of the local parameters only
    weights: np.ndarray
    entropy: float
    local_rate: float
    logistic: bool


@dataclass(frozen=True)
class AugmentReduce(Bound):
    """The augmented bound, with one or two local parameters a row.

    Parameters
    ----------
    expectation : {"quadrature", "sample"}
        How the expectation over q is taken where it has no closed form (every noise but
        Gumbel).  "quadrature": Gauss-Hermite nodes, and natural-gradient steps on q's location
        and scale, which need no step size.  "sample": the paper's Algorithm 2, one Monte-Carlo
        sample and plain gradient steps (equation 9, with the entropy's gradient).
    n_nodes : int
        Number of Gauss-Hermite nodes.
    local_rate : float
        Size of the plain gradient steps: 0.01 in the paper's text, 0.001 in the authors' code.
    band : float
        Softmax only: keep eta within this factor of the row's fresh estimate, so that it
        cannot go stale; infinity is the paper's running average.  Whatever eta is, the value
        is a bound; a finite band makes eta depend on the sample at hand and so the *sampled*
        value slightly optimistic.

    Examples
    --------
    >>> from bigcat.bounds import AugmentReduce
    >>> AugmentReduce(expectation="sample").deterministic
    False
    """

    name: ClassVar[str] = "augment-reduce"
    promise: ClassVar[str] = "bound for every noise; tight for the softmax"
    n_local: ClassVar[int] = 2
    expectation: str = "quadrature"
    n_nodes: int = 8
    local_rate: float = 0.01
    band: float = math.inf

    def __post_init__(self) -> None:
        if self.expectation not in ("quadrature", "sample"):
            raise ValueError(
                f"expectation={self.expectation!r} is not known; choose 'quadrature' or 'sample'"
            )
        if not self.band >= 1.0:
            raise ValueError(f"band={self.band!r} must be at least 1; math.inf switches it off")
        object.__setattr__(self, "deterministic", self.expectation == "quadrature")

    def lower(self, noise: Noise) -> Any:
        if isinstance(noise, Gumbel):
            return SoftmaxAugmentReduceTag(float(self.band))
        logistic = noise.variational == "logistic"
        nodes, weights = gauss_hermite(self.n_nodes, logistic)
        entropy = ENTROPY_LOGISTIC if logistic else ENTROPY_GAUSSIAN
        shared = (noise.lower(), nodes, weights, entropy)
        if self.expectation == "sample":
            return SampledAugmentReduceTag(*shared, float(self.local_rate), logistic)
        return QuadratureAugmentReduceTag(*shared)


def gauss_hermite(n: int, logistic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for expectations over the standard Gaussian or logistic distribution.

    For the logistic one the Gaussian's nodes z go through u = logit(Phi(z)): an exact change of
    variables, and a nearly linear one.
    """
    from scipy.special import log_ndtr, roots_hermitenorm

    z, w = roots_hermitenorm(n)
    return (log_ndtr(z) - log_ndtr(-z)) if logistic else z, w / w.sum()


# Softmax: q = Gumbel(log eta, 1), closed form (equation 8).  The local parameter is log eta, which
# cannot overflow.


@device
def _log_eta_fresh(label_score, others, counts, n):
    """log(1 + sum_k counts_k exp(psi_k - psi_y))."""
    high = 0.0
    for c in range(n):
        high = max(high, others[c] - label_score)
    total = math.exp(-high)
    for c in range(n):
        total += counts[c] * math.exp(others[c] - label_score - high)
    return high + math.log(total)


@implement(fit_local, SoftmaxAugmentReduceTag)
def _(bound, local, label_score, others, counts, n):
    local[0] = _log_eta_fresh(label_score, others, counts, n)


@implement(step, SoftmaxAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
    high = 0.0
    for c in range(n):
        high = max(high, others[c] - label_score)
    total = math.exp(-high)
    for c in range(n):
        slopes[c] = counts[c] * math.exp(others[c] - label_score - high)
        total += slopes[c]
    fresh = high + math.log(total)
    log_eta = np.float64(local[0])
    if progress >= 1.0:
        log_eta = fresh
    elif progress > 0.0:  # eta <- (1 - a) eta + a eta~, a natural gradient step
        log_eta = log_add_exp(math.log1p(-progress) + log_eta, math.log(progress) + fresh)
        if bound.band < math.inf:
            reach = math.log(bound.band)
            log_eta = min(max(log_eta, fresh - reach), fresh + reach)
    local[0] = log_eta
    # Without a local step (progress = 0) a stale eta could overflow here; 700 keeps it finite.
    scale = -math.exp(min(high - log_eta, 700.0))
    for c in range(n):
        slopes[c] *= scale
    return 1.0 - log_eta - math.exp(min(fresh - log_eta, 700.0))


# Every other noise: q of location mu = local[0] and scale s = local[1], e = mu + s u.  With
# f(e) = log phi(e) + sum_k counts_k log Phi(e + psi_y - psi_k) the ELBO is E[f] + log s + entropy,
# and it is stationary where E[f'] = 0 and E[u f'] = -1/s.  The natural step
#
#     1/s^2 <- (1 - a) / s^2 - a E[u f'] / s,     mu <- mu + a s_new^2 E[f']
#
# has that as its fixed point.  For a Gaussian q it is the natural gradient, since -E[u f']/s is
# then -E[f''] (Bonnet and Price); unlike a plain gradient it needs no step size.


@device
def _move_natural(local, progress, mean_grad, mean_u_grad):
    scale = local[1]
    precision = (1.0 - progress) / (scale * scale)
    # Negative only for noise that is not log-concave; then the scale grows, but stays finite.
    precision += progress * max(-mean_u_grad / scale, 1e-3 / (scale * scale))
    shift = progress * mean_grad / precision
    # Far from the optimum f' is not linear: no further than a few scales at a time.
    reach = 4.0 * max(scale, 1.0) + 0.5 * abs(local[0])
    local[0] += min(max(shift, -reach), reach)
    local[1] = 1.0 / math.sqrt(precision)


@device
def _move_gradient(local, rate, mean_grad, mean_u_grad):
    """Equation 9: a plain gradient step on mu and gamma, s = softplus(gamma)."""
    gamma = softplus_inverse(local[1])
    local[0] += rate * mean_grad
    gamma += rate * (mean_u_grad + 1.0 / local[1]) * sigmoid(gamma)
    local[1] = max(log1p_exp(gamma), 1e-6)


@device
def _mean_grads(bound, location, scale, label_score, others, counts, n):
    """E[f'] and E[u f'] by quadrature."""
    mean_grad, mean_u_grad = 0.0, 0.0
    for q in range(bound.nodes.shape[0]):
        u = bound.nodes[q]
        e = location + scale * u
        grad = bound.weights[q] * log_joint_grad(bound.noise, e, label_score, others, counts, n)
        mean_grad += grad
        mean_u_grad += u * grad
    return mean_grad, mean_u_grad


@device
def _value(bound, location, scale, label_score, others, counts, n):
    """The ELBO by quadrature."""
    value = bound.entropy + math.log(scale)
    for q in range(bound.nodes.shape[0]):
        e = location + scale * bound.nodes[q]
        f = log_pdf(bound.noise, e)
        for c in range(n):
            f += counts[c] * log_cdf(bound.noise, e + label_score - others[c])
        value += bound.weights[q] * f
    return value


@device
def _fit_location_scale(bound, local, label_score, others, counts, n):
    """Natural steps from the mode, each halved until the ELBO does not fall."""
    local[0] = joint_mode(bound.noise, label_score, others, counts, n)
    local[1] = joint_width(bound.noise, local[0], label_score, others, counts, n)
    value = _value(bound, local[0], local[1], label_score, others, counts, n)
    for _ in range(100):
        location, scale = local[0], local[1]
        grad, u_grad = _mean_grads(bound, location, scale, label_score, others, counts, n)
        progress = 1.0
        while True:
            local[0], local[1] = location, scale
            _move_natural(local, progress, grad, u_grad)
            new = _value(bound, local[0], local[1], label_score, others, counts, n)
            if new >= value or progress < 1e-6:
                break
            progress *= 0.5
        if new < value:
            local[0], local[1] = location, scale
            return
        gain = new - value
        value = new
        if gain <= 1e-13 * (1.0 + abs(value)):
            return


@implement(fit_local, QuadratureAugmentReduceTag)
def _(bound, local, label_score, others, counts, n):
    _fit_location_scale(bound, local, label_score, others, counts, n)


@implement(fit_local, SampledAugmentReduceTag)
def _(bound, local, label_score, others, counts, n):
    _fit_location_scale(bound, local, label_score, others, counts, n)


@implement(step, QuadratureAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
    if progress > 0.0:
        grad, u_grad = _mean_grads(bound, local[0], local[1], label_score, others, counts, n)
        _move_natural(local, progress, grad, u_grad)
    for c in range(n):
        slopes[c] = 0.0
    value = bound.entropy + math.log(local[1])
    for q in range(bound.nodes.shape[0]):
        e = local[0] + local[1] * bound.nodes[q]
        weight = bound.weights[q]
        f = log_pdf(bound.noise, e)
        for c in range(n):
            t = e + label_score - others[c]
            f += counts[c] * log_cdf(bound.noise, t)
            slopes[c] -= weight * counts[c] * log_cdf_grad(bound.noise, t)
        value += weight * f
    return value


@device
def _standard_draw(bound, rng):
    return _random.standard_logistic(rng) if bound.logistic else _random.standard_normal(rng)


@implement(step, SampledAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
    if progress > 0.0:  # Algorithm 2: one draw for the local step, a new one for the weights
        u = _standard_draw(bound, rng)
        e = local[0] + local[1] * u
        grad = log_joint_grad(bound.noise, e, label_score, others, counts, n)
        _move_gradient(local, progress * bound.local_rate, grad, u * grad)
    e = local[0] + local[1] * _standard_draw(bound, rng)
    value = bound.entropy + math.log(local[1]) + log_pdf(bound.noise, e)
    for c in range(n):
        t = e + label_score - others[c]
        value += counts[c] * log_cdf(bound.noise, t)
        slopes[c] = -counts[c] * log_cdf_grad(bound.noise, t)
    return value
