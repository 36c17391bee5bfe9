"""Augment and reduce (Ruiz, Titsias, Dieng and Blei, 2018), for any noise.

log p(y) >= E_q[log phi(e) + sum_k log Phi(e + psi_y - psi_k) - log q(e)]        (equation 7)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr, roots_hermitenorm

from bigcat.bounds._base import Bound, check_start
from bigcat.compile import device, implement
from bigcat.noise import Noise
from bigcat.numerics import random as _random
from bigcat.numerics.special import (
    exp_differences,
    log1p_exp,
    log_sum_exp,
    negative_sum,
    sigmoid,
    softplus_inverse,
)
from bigcat.probabilities import joint_mode, log_joint_grad
from bigcat.verbs import (
    at_local,
    fit_local,
    local_floor,
    log_cdf,
    log_cdf_grad,
    log_cdf_with_grad,
    log_pdf,
    log_pdf_grad,
    step,
)


class Family(NamedTuple):
    """Location-scale family of the variational distribution q."""

    code: int  # for draws inside kernels
    entropy: float  # of the standard member
    centre: float  # mean of the standard member
    gain: float  # inverse of the Fisher information of the location, at scale 1
    from_gaussian: Callable[[np.ndarray], np.ndarray]  # quantile function of Phi(z)


FAMILIES = {
    "gaussian": Family(0, 0.5 * math.log(2.0 * math.pi * math.e), 0.0, 1.0, lambda z: z),
    "logistic": Family(1, 2.0, 0.0, 3.0, lambda z: log_ndtr(z) - log_ndtr(-z)),
    "gumbel": Family(2, 1.0 + np.euler_gamma, np.euler_gamma, 1.0, lambda z: -np.log(-log_ndtr(z))),
}


class SoftmaxAugmentReduceTag(NamedTuple):
    """Tag for the softmax, in closed form."""

    band: float


class QuadratureAugmentReduceTag(NamedTuple):
    """Tag for other noises, with expectations by quadrature."""

    noise: Any
    nodes: np.ndarray  # of the standard q
    weights: np.ndarray
    entropy: float
    centre: float
    gain: float


class SampledAugmentReduceTag(NamedTuple):
    """Tag for other noises, with expectations by one Monte-Carlo sample."""

    noise: Any
    nodes: np.ndarray  # for the optimum of the local parameters only
    weights: np.ndarray
    entropy: float
    centre: float
    gain: float
    local_rate: float
    family: int


@dataclass(frozen=True, repr=False)
class AugmentReduce(Bound):
    """Augmented bound with one or two local parameters per row.

    Parameters
    ----------
    expectation : {"quadrature", "sample"}, default="quadrature"
        Method for expectations over q without a closed form (all noises but Gumbel).
        "quadrature": Gauss-Hermite nodes, with natural-gradient steps on q's location and scale,
        which need no step size. "sample": the paper's Algorithm 2, one Monte-Carlo sample and
        plain gradient steps (equation 9, with the entropy's gradient).
    n_nodes : int, default=8
        Number of Gauss-Hermite nodes. With few of them the value is slightly too high, which does
        not harm training; `lower_bound` uses at least 20.
    variational : {"auto", "gaussian", "logistic", "gumbel"}, default="auto"
        Family of q. "auto" follows the paper: logistic for logistic noise, else Gaussian. Take
        "gumbel" for heavy-tailed noise: its bound is much tighter.
    local_rate : float, default=0.01
        Size of the plain gradient steps: 0.01 in the paper's text, 0.001 in the authors' code.
    band : float, default=inf
        Softmax only: keep eta within this factor of the row's fresh estimate, so that it cannot
        become stale; infinity is the paper's running average. The value is a bound for any eta,
        but with a finite band eta depends on the sample, and the *sampled* value is slightly too
        high.
    start : {"best", "zero"}, default="best"
        Softmax only: start log eta at the optimum of the starting intercepts, or at 0 as in the
        code of the unbiased-softmax paper, which makes first steps K times as large.
    local_decay : float or "auto", default="auto"
        Local steps have size (1 + t)^-local_decay in epoch t. The paper uses 0.9, which keeps
        much of the first epochs. "auto" is 0.6, with larger steps if most classes are drawn.

    Examples
    --------
    >>> from bigcat.bounds import AugmentReduce
    >>> AugmentReduce(expectation="sample").deterministic
    False
    """

    name: ClassVar[str] = "augment-reduce"
    summary: ClassVar[str] = "bound for every noise; tight for the softmax"
    n_local: ClassVar[int] = 2
    expectation: str = "quadrature"
    n_nodes: int = 8
    variational: str = "auto"
    local_rate: float = 0.01
    band: float = math.inf
    start: str = "best"
    local_decay: float | str = "auto"

    def __post_init__(self) -> None:
        decay = self.local_decay
        if decay != "auto" and (isinstance(decay, str) or not 0.0 < decay <= 1.0):
            raise ValueError(f"local_decay={decay!r} must be above 0 and at most 1, or 'auto'")
        if self.expectation not in ("quadrature", "sample"):
            raise ValueError(
                f"expectation={self.expectation!r} is not known; choose 'quadrature' or 'sample'"
            )
        if self.variational not in ("auto", *FAMILIES):
            raise ValueError(
                f"variational={self.variational!r} is not known; choose one of "
                f"{', '.join(map(repr, ('auto', *FAMILIES)))}"
            )
        check_start(self.start)
        if not isinstance(self.n_nodes, int | np.integer) or self.n_nodes < 1:
            raise ValueError(f"n_nodes={self.n_nodes!r} must be a whole number of at least 1")
        if not self.band >= 1.0:
            raise ValueError(f"band={self.band!r} must be at least 1; math.inf switches it off")
        object.__setattr__(self, "deterministic", self.expectation == "quadrature")

    def local_progress(self, epoch: int, share: float) -> float:
        """Return the size of the local steps in an epoch."""
        if isinstance(self.local_decay, str):
            return super().local_progress(epoch, share)
        return float((2.0 + epoch) ** -self.local_decay)

    def to_full_precision(self) -> AugmentReduce:
        """Return the bound with quadrature and at least 20 nodes."""
        return replace(self, expectation="quadrature", n_nodes=max(20, self.n_nodes))

    def starts_at_zero(self, noise: Noise) -> bool:
        """Return True for the softmax with ``start="zero"``."""
        return self.start == "zero" and noise.softmax

    def lower(self, noise: Noise) -> Any:
        """Return the tag for the noise."""
        if noise.softmax:
            return SoftmaxAugmentReduceTag(float(self.band))
        name = noise.variational if self.variational == "auto" else self.variational
        family = FAMILIES[name]
        nodes, weights = gauss_hermite(self.n_nodes, family)
        moments = (family.entropy, family.centre, family.gain)
        shared = (noise.lower(), nodes, weights, *moments)
        if self.expectation == "sample":
            return SampledAugmentReduceTag(*shared, float(self.local_rate), family.code)
        return QuadratureAugmentReduceTag(*shared)


def gauss_hermite(n: int, family: Family) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for expectations over the standard member of a family.

    The Gaussian's nodes z go through u = quantile(Phi(z)): an exact change of variables, and a
    nearly linear one.
    """
    z, w = roots_hermitenorm(n)
    return family.from_gaussian(z), w / w.sum()


# Softmax: q = Gumbel(log eta, 1), closed form (equation 8).  The local parameter is log eta, which
# cannot overflow.


@implement(fit_local, SoftmaxAugmentReduceTag)
def _(bound, local, label_score, others, counts, n):
    local[0] = log_sum_exp(0.0, label_score, others, counts, n)


@implement(local_floor, SoftmaxAugmentReduceTag)
def _(bound, label_score, others, n):
    return log_sum_exp(0.0, label_score, others, None, n)


@implement(at_local, SoftmaxAugmentReduceTag)
def _(bound, u, label_score, others, counts, n, grads):
    total = math.exp(-u)
    for c in range(n):
        term = counts[c] * math.exp(others[c] - label_score - u)
        grads[c] = -term
        total += term
    grads[n] = negative_sum(grads, n)
    return 1.0 - u - total, total - 1.0


@implement(step, SoftmaxAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    total, high = exp_differences(others, label_score, counts, n, grads)
    # The fresh estimate of eta is total exp(high). All quantities are relative to the old eta: few
    # exponentials, no overflow.
    log_eta = local[0]
    relative = math.exp(min(high - log_eta, 600.0))
    fresh = total * relative
    value = 1.0 - log_eta - fresh
    # eta <- (1 - a) eta + a eta~, a natural gradient step
    change = 1.0 + progress * (fresh - 1.0)
    if bound.band < math.inf and progress > 0.0:
        change = min(max(change, fresh / bound.band), fresh * bound.band)
    scale = relative / change
    if progress > 0.0:
        if high - log_eta <= 600.0:
            local[0] = log_eta + math.log(change)
        else:  # the old eta is nothing beside the fresh one
            local[0] = high + math.log(progress * total)
            scale = 1.0 / (progress * total)
    for c in range(n):
        grads[c] *= -scale
    grads[n] = negative_sum(grads, n)
    return value


# Other noises: q has location mu = local[0] and scale s = local[1], e = mu + s u.  With f(e) = log
# phi(e) + sum_k counts_k log Phi(e + psi_y - psi_k) the ELBO is E[f] + log s + entropy, stationary
# where E[f'] = 0 and E[u f'] = -1/s.  The natural step
#
#     1/s^2 <- (1 - a) / s^2 - a E[(u - E u) f'] / s,     mu <- mu + a gain s_new^2 E[f']
#
# has that as its fixed point, and gain s^2 is the inverse Fisher information of the location.  For
# a Gaussian q it is the natural gradient, since -E[u f']/s is then -E[f''] (Bonnet and Price);
# unlike a plain gradient it needs no step size.


@device
def move_natural(local, progress, gain, mean_grad, mean_u_grad):
    """Move the local parameters of a row along the natural gradient."""
    scale = local[1]
    precision = (1.0 - progress) / (scale * scale)
    # Negative only for noise that is not log-concave; then the scale grows, but stays finite.
    precision += progress * max(-mean_u_grad / scale, 1e-3 / (scale * scale))
    shift = progress * gain * mean_grad / precision
    # Far from the optimum f' is not linear: no further than a few scales at a time.
    limit = 4.0 * max(scale, 1.0) + 0.5 * abs(local[0])
    local[0] += min(max(shift, -limit), limit)
    local[1] = 1.0 / math.sqrt(precision)


@device
def _move_gradient(local, rate, mean_grad, mean_u_grad):
    """Take a plain gradient step on mu and gamma, s = softplus(gamma) (equation 9)."""
    gamma = softplus_inverse(local[1])
    local[0] += rate * mean_grad
    gamma += rate * (mean_u_grad + 1.0 / local[1]) * sigmoid(gamma)
    local[1] = max(log1p_exp(gamma), 1e-6)


@device
def _mean_grads(bound, location, scale, label_score, others, counts, n):
    """Return E[f'] and E[(u - E u) f'] by quadrature."""
    mean_grad, mean_u_grad = 0.0, 0.0
    for q in range(bound.nodes.shape[0]):
        u = bound.nodes[q]
        e = location + scale * u
        grad = bound.weights[q] * log_joint_grad(bound.noise, e, label_score, others, counts, n)
        mean_grad += grad
        mean_u_grad += (u - bound.centre) * grad
    return mean_grad, mean_u_grad


@device
def _value(bound, location, scale, label_score, others, counts, n):
    """Return the ELBO by quadrature."""
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
    """Take natural-gradient steps from the mode, halved until the ELBO does not fall."""
    local[0], local[1] = joint_mode(bound.noise, label_score, others, counts, n)
    value = _value(bound, local[0], local[1], label_score, others, counts, n)
    for _ in range(100):
        location, scale = local[0], local[1]
        grad, u_grad = _mean_grads(bound, location, scale, label_score, others, counts, n)
        progress = 1.0
        while True:
            local[0], local[1] = location, scale
            move_natural(local, progress, bound.gain, grad, u_grad)
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


# Training reports the value at the local parameters *before* their move. They do not depend on the
# classes drawn now, so the sampled value is unbiased.


@implement(step, QuadratureAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    value = bound.entropy + math.log(local[1])
    mean_grad, mean_u_grad = 0.0, 0.0
    for q in range(bound.nodes.shape[0]):
        u, weight = bound.nodes[q], bound.weights[q]
        e = local[0] + local[1] * u
        f = log_pdf(bound.noise, e)
        grad = log_pdf_grad(bound.noise, e)
        for c in range(n):
            g, h = log_cdf_with_grad(bound.noise, e + label_score - others[c])
            f += counts[c] * g
            grad += counts[c] * h
        value += weight * f
        mean_grad += weight * grad
        mean_u_grad += weight * (u - bound.centre) * grad
    if progress > 0.0:
        move_natural(local, progress, bound.gain, mean_grad, mean_u_grad)
    for c in range(n):
        class_grad = 0.0
        for q in range(bound.nodes.shape[0]):
            e = local[0] + local[1] * bound.nodes[q]
            class_grad += bound.weights[q] * log_cdf_grad(bound.noise, e + label_score - others[c])
        grads[c] = -counts[c] * class_grad
    grads[n] = negative_sum(grads, n)
    return value


@device
def _standard_draw(family, rng):
    if family == 1:
        return _random.standard_logistic(rng)
    if family == 2:
        return _random.standard_gumbel(rng)
    return _random.standard_normal(rng)


@implement(step, SampledAugmentReduceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    # Algorithm 2: one draw for the local step, a new one for the weights.
    u = _standard_draw(bound.family, rng)
    e = local[0] + local[1] * u
    value = bound.entropy + math.log(local[1]) + log_pdf(bound.noise, e)
    grad = log_pdf_grad(bound.noise, e)
    for c in range(n):
        g, h = log_cdf_with_grad(bound.noise, e + label_score - others[c])
        value += counts[c] * g
        grads[c] = -counts[c] * h
        grad += counts[c] * h
    if progress > 0.0:
        _move_gradient(local, progress * bound.local_rate, grad, u * grad)
        e = local[0] + local[1] * _standard_draw(bound.family, rng)
        for c in range(n):
            grads[c] = -counts[c] * log_cdf_grad(bound.noise, e + label_score - others[c])
    grads[n] = negative_sum(grads, n)
    return value
