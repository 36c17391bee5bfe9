"""Losses per row, from the score of the label and those of some other classes.

Each is minus the value of the same name in ``reference/bounds.py`` or ``reference/estimators.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from bigcat.torch.noise import Noise, derivative

#: Log weight of a class that does not count.  Finite, so that gradients are 0 and not NaN.
NEVER = -1e30
_LARGE = 1e30
#: Entropy at scale 1, and inverse Fisher information of the location, of variational families.
_ENTROPY = {"gaussian": 0.5 * math.log(2.0 * math.pi * math.e), "logistic": 2.0}
_GAIN = {"gaussian": 1.0, "logistic": 3.0}
#: With fewer than 8 nodes the bound may exceed the log-likelihood by more than 1e-4 nats.
_N_NODES = 8
#: The trapezoid rule in v, e = mode + width sinh(v): errors of 1e-5 and of 1e-9.
_SPACING = {torch.float32: 0.25, torch.float64: 0.125}
_LAST = 6.0
#: Natural-gradient steps to within 2e-3 nats of the best bound.
_N_STEPS = 6
#: Largest ratio of eta's estimate from the same draws to eta.
_MAX_RATIO = 4.0


class Scores(NamedTuple):
    """Scores of a batch of rows.

    ``label`` has the shape (n,); ``others`` and ``log_weights``, the logarithm of how many classes
    each of the others stands for, are (n, m); ``label_log_weight`` is that of the label if it were
    drawn as the others are, (n,).
    """

    label: Tensor
    others: Tensor
    log_weights: Tensor
    label_log_weight: Tensor

    @property
    def differences(self) -> Tensor:
        """Scores of the others above that of the label."""
        return self.others - self.label[:, None]

    @property
    def log_terms(self) -> Tensor:
        """Logarithms of the terms of the softmax's normaliser, relative to that of the label."""
        return self.differences + self.log_weights

    @property
    def weights(self) -> Tensor:
        """Classes that each of the others stands for."""
        return self.log_weights.exp()


def log_eta(scores: Scores) -> Tensor:
    """Return log(1 + sum_k c_k exp(psi_k - psi_y)), estimated from the sample."""
    rest = scores.log_terms.logsumexp(1)
    return torch.logaddexp(torch.zeros_like(rest), rest)


def complementary(noise: Noise, scores: Scores) -> Tensor:
    """Minus the log-probability with an unbiased sum in it (Botev et al., 2017)."""
    return log_eta(scores) if noise.is_gumbel else -log_integral(noise, scores)


def importance(noise: Noise, scores: Scores) -> Tensor:
    """Return the sampled-softmax loss: scores minus the logarithm of the expected draws."""
    log_weights = scores.log_weights - scores.label_log_weight[:, None]
    return log_eta(scores._replace(log_weights=log_weights))


def one_vs_each(noise: Noise, scores: Scores) -> Tensor:
    """One-vs-each bound: sum_k c_k log sigmoid(psi_y - psi_k), negated."""
    return (scores.weights * softplus(scores.differences)).sum(1)


def noise_contrastive(noise: Noise, scores: Scores) -> Tensor:
    """Noise-contrastive estimation with a normaliser of one."""
    label = scores.label + scores.label_log_weight
    draws = scores.others + scores.log_weights
    chance = torch.exp(-scores.label_log_weight)
    return -logsigmoid(label) - chance * logsigmoid(-label) - logsigmoid(-draws).sum(1)


# Any noise: log phi(e) + sum_k c_k log Phi(e + psi_y - psi_k) and what is made of it.


def _log_joint(noise: Noise, scores: Scores, e: Tensor) -> Tensor:
    gaps = e[:, None] - scores.differences
    log_cdf = noise.log_cdf(gaps).clamp_min(-_LARGE)
    return noise.log_pdf(e) + (scores.weights * log_cdf).sum(1)


def _gradient_of_joint(noise: Noise, scores: Scores, e: Tensor) -> Tensor:
    gaps = e[:, None] - scores.differences
    gradients = derivative(noise.log_cdf, gaps).clamp_max(_LARGE)
    return derivative(noise.log_pdf, e) + (scores.weights * gradients).sum(1)


@torch.no_grad()
def _mode_and_width(noise: Noise, scores: Scores) -> tuple[Tensor, Tensor]:
    """Return the mode of the log joint, by bisection in asinh(e), and the width there."""
    low = torch.full_like(scores.label, -20.0)
    high = -low
    for _ in range(26):
        middle = 0.5 * (low + high)
        rises = _gradient_of_joint(noise, scores, middle.sinh()) > 0.0
        low, high = torch.where(rises, middle, low), torch.where(rises, high, middle)
    mode = (0.5 * (low + high)).sinh()
    step = 1e-2
    fall = _gradient_of_joint(noise, scores, mode - step) - _gradient_of_joint(
        noise, scores, mode + step
    )
    return mode, (fall / (2.0 * step)).clamp(1e-4, 1e8).rsqrt()


def _with_gradient(value: Tensor, scores: Scores, gradient: Tensor) -> Tensor:
    """Return a value whose gradient in the differences of the scores is given, (n, m)."""
    moves = scores.differences - scores.differences.detach()
    return value.detach() + (gradient * moves).sum(1)


def log_integral(noise: Noise, scores: Scores) -> Tensor:
    """Return log p(y) by quadrature (A&R, equation 5); exact where all other classes are given."""
    with torch.no_grad():  # values and gradients node by node: nothing is kept for each node
        mode, width = _mode_and_width(noise, scores)
        spacing = _SPACING[mode.dtype]
        v = np.arange(-_LAST, _LAST + 0.5 * spacing, spacing).tolist()
        heights = [
            _log_joint(noise, scores, mode + width * math.sinh(x)) + math.log(math.cosh(x))
            for x in v
        ]
        masses = torch.stack(heights, 1)
        total = masses.logsumexp(1)
        shares = torch.exp(masses - total[:, None])
        gradient = torch.zeros_like(scores.others)
        for q, x in enumerate(v):
            gaps = (mode + width * math.sinh(x))[:, None] - scores.differences
            gradient -= shares[:, q, None] * derivative(noise.log_cdf, gaps).clamp_max(_LARGE)
        total = total + torch.log(width * spacing)
    return _with_gradient(total, scores, gradient * scores.weights)


# Augment and reduce.  The local parameter of a softmax row is log eta; for any other noise q(e) has
# a location and a scale.


def _nodes(family: str) -> list[tuple[float, float]]:
    """Return nodes and weights of expectations under the standard member of a family."""
    z, w = np.polynomial.hermite_e.hermegauss(_N_NODES)
    if family == "logistic":
        z = special.log_ndtr(z) - special.log_ndtr(-z)
    return list(zip(z.tolist(), (w / w.sum()).tolist()))


def bound_at(noise: Noise, scores: Scores, local: Tensor) -> Tensor:
    """Return the bound (A&R, equation 7) at local parameters of shape (n, 1 or 2), negated."""
    if noise.is_gumbel:
        log_eta = local[:, 0]
        terms = torch.exp(scores.log_terms - local)
        return log_eta - 1.0 + torch.exp(-log_eta) + terms.sum(1)
    mu, scale = local.unbind(1)
    value = torch.log(scale) + _ENTROPY[noise.variational]
    for node, weight in _nodes(noise.variational):
        value = value + weight * _log_joint(noise, scores, mu + scale * node)
    return -value


@torch.no_grad()
def best_local(noise: Noise, scores: Scores) -> Tensor:
    """Return the best local parameters, by natural-gradient steps unless the noise is Gumbel."""
    if noise.is_gumbel:
        return log_eta(scores)[:, None]
    gain, nodes = _GAIN[noise.variational], _nodes(noise.variational)
    mu, scale = _mode_and_width(noise, scores)
    scale = scale * gain**-0.5
    for _ in range(_N_STEPS):
        first, second = torch.zeros_like(mu), torch.zeros_like(mu)
        for node, weight in nodes:
            gradient = _gradient_of_joint(noise, scores, mu + scale * node)
            first, second = first + weight * gradient, second + weight * node * gradient
        # At most by a factor of four, lest a noise that is not log-concave makes it negative.
        precision = 0.4 / scale**2 - 0.6 * second / scale
        precision = torch.maximum(precision, 0.25 / scale**2)
        mu, scale = mu + 0.6 * gain * first / precision, precision.rsqrt()
    return torch.stack([mu, scale], 1)


def at_best_local(noise: Noise, scores: Scores) -> Tensor:
    """Return the bound with the best local parameters, negated."""
    return bound_at(noise, scores, best_local(noise, scores))


def cross_fitted(noise: Noise, scores: Scores) -> Tensor:
    """Augment and reduce with local parameters from one half of the draws, terms from the other.

    So a local parameter is independent of the terms that it meets: on average over the draws the
    loss is above minus the log-probability, and the gradient of a row is that of the softmax
    times one number.  Classes that are always drawn are in both halves.
    """
    total = torch.zeros_like(scores.label)
    even = torch.arange(scores.others.shape[1], device=total.device) % 2 == 0
    halves = []
    for kept in (even, ~even):
        always = scores.log_weights <= 0.0
        doubled = (scores.log_weights + math.log(2.0)).masked_fill(~kept, NEVER)
        log_weights = torch.where(always, scores.log_weights, doubled)
        halves.append(scores._replace(log_weights=log_weights))
    for here, there in (halves, halves[::-1]):
        local = best_local(noise, there)
        if noise.is_gumbel:
            # Never far below what the terms say, lest a class that only they hold explodes.
            local = torch.maximum(local, best_local(noise, here) - math.log(_MAX_RATIO))
        total = total + bound_at(noise, here, local)
    return 0.5 * total


# Local parameters by row.  Each function returns the loss and the new local parameters.


class Local(NamedTuple):
    """Local parameters of the rows of a batch, and what their step depends on.

    ``fresh`` are those that are best for the sample; ``old`` are the same at the first visit.
    """

    old: Tensor
    fresh: Tensor
    rate: float
    squared_norm: Tensor


def blended(noise: Noise, scores: Scores, local: Local) -> tuple[Tensor, Tensor]:
    """Augment and reduce, Algorithm 1, at the local parameters after their step."""
    old, fresh, rate, _ = local
    if noise.is_gumbel:  # the mean of eta, not of its logarithm
        new = torch.logaddexp(old + math.log1p(-rate), fresh + math.log(rate))
    else:
        new = torch.lerp(old, fresh, rate)
    return bound_at(noise, scores, new), new


def umax(noise: Noise, scores: Scores, local: Local) -> tuple[Tensor, Tensor]:
    """U-max (Fagan and Iyengar, 2018): raise u where it is too low, then a plain gradient step."""
    # A sum without weights is never above the full one.
    floor = best_local(noise, scores._replace(log_weights=scores.log_weights.clamp_max(0.0)))
    u = torch.where(local.old < floor - 1.0, floor, local.old)
    new = (u + local.rate * torch.expm1(local.fresh - u)).clamp_min(0.0)
    return bound_at(noise, scores, u), new


def implicit(noise: Noise, scores: Scores, local: Local) -> tuple[Tensor, Tensor]:
    """Implicit SGD (Fagan and Iyengar, 2018): gradient at the end of the proximal step of a row.

    With P = sum_k p_k, p_k = rate c_k exp(d_k - s (p_k + P) - u) and s the squared norm, the step
    solves u = u_old - rate (1 - exp(-u)) + P.  At z = u + s P every s p_k is a Wright omega
    function, and the rest is a root in z.
    """
    u_old, fresh, rate, s = local.old[:, 0], local.fresh[:, 0], local.rate, local.squared_norm
    with torch.no_grad():
        at_zero = scores.log_terms + (math.log(rate) + s.log())[:, None]
        low = u_old - rate
        high = torch.maximum(u_old, fresh) + (s + 1.0) * rate
        for _ in range(60):
            z = 0.5 * (low + high)
            moved = _wright_omega(at_zero - z[:, None]).sum(1) / s
            u = z - s * moved
            is_high = u - u_old - rate * torch.expm1(-u) > moved
            low, high = torch.where(is_high, low, z), torch.where(is_high, z, high)
        gradient = _wright_omega(at_zero - z[:, None]) / (s * rate)[:, None]
        value = bound_at(noise, scores, u[:, None])
    return _with_gradient(value, scores, gradient), u[:, None]


def _wright_omega(x: Tensor) -> Tensor:
    """Return w with w + log w = x, by Newton's method for log w."""
    t = torch.where(x > 1.0, x.clamp_min(1.0).log(), x)
    for _ in range(6):
        w = t.exp()
        t = t - (w + t - x) / (w + 1.0)
    return t.exp()


class HeadMethod(NamedTuple):
    """Loss of a method, and what holds for it.

    ``loss`` takes noise and scores; ``by_row`` takes `Local` too, and returns new local parameters
    beside the loss.  A method with neither visits all classes.
    """

    loss: Callable[[Noise, Scores], Tensor] | None = None
    by_row: Callable[[Noise, Scores, Local], tuple[Tensor, Tensor]] | None = None
    any_noise: bool = False  # or Gumbel alone
    bound: Callable[[Noise, Scores], Tensor] | None = None  # at the best local parameters


METHODS = {
    "exact": HeadMethod(any_noise=True, bound=complementary),
    "complementary": HeadMethod(complementary, any_noise=True),
    "augment-reduce": HeadMethod(cross_fitted, blended, any_noise=True, bound=at_best_local),
    "one-vs-each": HeadMethod(one_vs_each, bound=one_vs_each),
    "importance": HeadMethod(importance),
    "umax": HeadMethod(by_row=umax, bound=at_best_local),
    "implicit": HeadMethod(by_row=implicit, bound=at_best_local),
    "nce": HeadMethod(noise_contrastive),
}
