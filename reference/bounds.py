"""Lower bounds on log p(y) for one row, with their slopes.

Each function takes the score ``psi_y`` of the observed class, the scores ``psi`` of other classes
and a weight for each of those. With all K - 1 others and weights of one it returns the bound; with
a sample of them and the sampler's weights an unbiased estimate of it (the exact softmax and
Bouchard's optimal alpha excepted: those are not sums over classes). Every slope in psi_y is minus
the sum of the slopes in psi, because only differences of scores matter.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import expit, log_expit, log_ndtr, logsumexp

from .noise import Noise
from .probabilities import find_mode


class Bound(NamedTuple):
    """A value and its derivatives in psi_y and in each of psi."""

    value: float
    slope_y: float
    slopes: np.ndarray


# The softmax: exact, one-vs-each, Bouchard


def exact(psi_y: float, psi: np.ndarray) -> Bound:
    """log softmax: minus log(1 + sum exp(psi_k - psi_y)) (OVE, equation 3)."""
    d = np.append(psi - psi_y, 0.0)
    log_total = logsumexp(d)
    slopes = -np.exp(d[:-1] - log_total)
    return Bound(-log_total, -slopes.sum(), slopes)


def one_vs_each(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> Bound:
    """sum_k log sigmoid(psi_y - psi_k) (OVE, equations 4, 15 and 16)."""
    slopes = -weights * expit(psi - psi_y)
    return Bound(weights @ log_expit(psi_y - psi), -slopes.sum(), slopes)


def exact_times_one_vs_each(
    psi_y: float, psi_exact: np.ndarray, psi: np.ndarray, weights: np.ndarray
) -> Bound:
    """The exact softmax over a set C times one-vs-each over the rest (OVE, equation 6).

    The slopes are those of C first, then those of the rest.
    """
    head, tail = exact(psi_y, psi_exact), one_vs_each(psi_y, psi, weights)
    slopes = np.append(head.slopes, tail.slopes)
    return Bound(head.value + tail.value, -slopes.sum(), slopes)


def bouchard_alpha(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> float:
    """The alpha that makes Bouchard's bound tightest: a root of a decreasing function.

    The condition is sum_m c_m sigmoid(f_m - alpha) = 1 over all classes, c_y = 1 (OVE, appendix A).
    Were all scores equal to f, alpha would be f + log(sum_m c_m - 1): the smallest and the largest
    score so give a bracket. Newton's step is taken where it stays inside, a bisection elsewhere.
    """
    f, c = np.append(psi, psi_y), np.append(weights, 1.0)
    low, high = np.array([f.min(), f.max()]) + np.log(weights.sum())
    alpha = 0.5 * (low + high)
    for _ in range(200):
        s = expit(f - alpha)
        excess = c @ s - 1.0
        low, high = (alpha, high) if excess > 0 else (low, alpha)
        slope = c @ (s * (1.0 - s))
        step = alpha + excess / slope if slope > 0 else np.nan
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - alpha) <= 1e-15 * max(1.0, abs(alpha)):
            break
        alpha = new
    return float(alpha)


def bouchard(psi_y: float, psi: np.ndarray, weights: np.ndarray, alpha: float | None = None):
    """f_y - alpha - sum_m log(1 + exp(f_m - alpha)), m over all classes (OVE, equations 11, 12).

    Without ``alpha`` at its optimum; the slopes in the scores are then those at a fixed alpha
    (envelope theorem).
    """
    if alpha is None:
        alpha = bouchard_alpha(psi_y, psi, weights)
    value = log_expit(psi_y - alpha) + weights @ log_expit(alpha - psi)
    return Bound(value, expit(alpha - psi_y), -weights * expit(psi - alpha))


# Augment and reduce for the softmax


def log_eta_estimate(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> float:
    """log of 1 + sum_k w_k exp(psi_k - psi_y): the optimal eta, or its estimate (A&R, 3.1)."""
    return float(logsumexp(np.append(psi - psi_y, 0.0), b=np.append(weights, 1.0)))


def softmax_augment_reduce(
    psi_y: float, psi: np.ndarray, weights: np.ndarray, log_eta: float
) -> Bound:
    """1 - log eta - (1 + sum_k exp(psi_k - psi_y)) / eta (A&R, equation 8), in terms of log eta."""
    with np.errstate(over="ignore"):  # minus infinity is the bound of an eta that is far too small
        value = 1.0 - log_eta - np.exp(log_eta_estimate(psi_y, psi, weights) - log_eta)
        slopes = -weights * np.exp(psi - psi_y - log_eta)
    return Bound(value, -slopes.sum(), slopes)


def softmax_local_step(log_eta: float, log_eta_new: float, step: float) -> float:
    """eta <- (1 - a) eta + a eta~, the natural-gradient step (A&R, Algorithm 1), in logarithms."""
    return float(logsumexp([log_eta, log_eta_new], b=[1.0 - step, step]))


# Augment and reduce for any noise: q has a location mu and a scale s = softplus(gamma)


def softplus(gamma: float) -> float:
    """log(1 + exp(gamma))."""
    return float(np.logaddexp(0.0, gamma))


def inverse_softplus(scale: float) -> float:
    """The gamma whose softplus is ``scale``."""
    return float(scale + np.log(-np.expm1(-scale)))


ENTROPY = {  # at scale one
    "gaussian": 0.5 * np.log(2.0 * np.pi * np.e),
    "logistic": 2.0,
    "gumbel": 1.0 + np.euler_gamma,
}


FROM_GAUSSIAN = {
    "gaussian": lambda z: z,
    "logistic": lambda z: log_ndtr(z) - log_ndtr(-z),
    "gumbel": lambda z: -np.log(-log_ndtr(z)),
}


def quadrature(family: str, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes u and weights for expectations over the standard member of a location-scale family.

    Gauss-Hermite for the Gaussian. If z is standard Gaussian then logit(Phi(z)) is standard
    logistic and -log(-log Phi(z)) standard Gumbel: the same weights serve at the nodes moved by
    that map. With few nodes the result can lie above the bound, and so be none: three nodes are
    some 0.04 too high for logistic noise and a thousand classes, eight 1e-4.
    """
    z, w = np.polynomial.hermite_e.hermegauss(n_nodes)
    return FROM_GAUSSIAN[family](z), w / w.sum()


def one_sample(family: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A single draw with weight one: equation 9's estimator, in the shape of ``quadrature``."""
    return FROM_GAUSSIAN[family](rng.standard_normal(1)), np.ones(1)


def _log_joint(noise: Noise, e, psi_y, psi, weights):
    """log phi(e) + sum_k w_k log Phi(e + psi_y - psi_k) and its derivative (A&R, equation 6)."""
    x = np.asarray(e)[:, None] + psi_y - psi
    value = noise.log_pdf(e) + noise.log_cdf(x) @ weights
    return value, noise.log_pdf_grad(e) + noise.log_cdf_grad(x) @ weights


def augment_reduce(
    noise: Noise, psi_y: float, psi, weights, mu: float, gamma: float, rule
) -> Bound:
    """E_q[log phi(e) + sum_k log Phi(e + psi_y - psi_k)] + entropy of q (A&R, equation 7).

    ``rule`` holds the nodes and weights over u, e = mu + s u: ``quadrature`` or ``one_sample``.
    """
    u, w = rule
    scale = softplus(gamma)
    e = mu + scale * u
    value = w @ _log_joint(noise, e, psi_y, psi, weights)[0] + np.log(scale) + ENTROPY[noise.family]
    slopes = -weights * (w @ noise.log_cdf_grad(e[:, None] + psi_y - psi))
    return Bound(value, -slopes.sum(), slopes)


def local_gradient(noise: Noise, psi_y: float, psi, weights, mu: float, gamma: float, rule):
    """Derivatives of ``augment_reduce`` in (mu, gamma) (A&R, equation 9).

    d/dmu = E[f'(e)], d/ds = E[u f'(e)] + 1/s, the last term from the entropy of q, and
    ds/dgamma = sigmoid(gamma).
    """
    u, w = rule
    scale = softplus(gamma)
    slope = _log_joint(noise, mu + scale * u, psi_y, psi, weights)[1]
    return np.array([w @ slope, (w @ (u * slope) + 1.0 / scale) * expit(gamma)])


def local_natural_step(
    noise: Noise, psi_y: float, psi, weights, mu, gamma, rule, step: float, gain: float = 1.0
):
    """One step of size a for (mu, gamma), in the precision 1/s^2 and the location.

        1/s^2 <- (1 - a)/s^2 - a E[u f'(e)]/s,    mu <- mu + a gain s_new^2 E[f'(e)].

    For a Gaussian q this is the natural gradient: by Bonnet's and Price's theorems E[f'] and
    E[f''] = E[u f']/s are the derivatives of E[f] in the mean and in half the variance. For any
    location-scale q its fixed points are the zeros of ``local_gradient``. ``gain`` is the inverse
    Fisher information of the location at s = 1: one for the Gaussian, three for the logistic,
    where a gain of one converges several times more slowly. The new precision is positive if f is
    strictly concave where the nodes are and u has mean zero: so not always with one sample, with a
    noise that is not log-concave, or (step one) where all classes are so far above that f is a
    straight line to rounding.
    """
    u, w = rule
    scale = softplus(gamma)
    slope = _log_joint(noise, mu + scale * u, psi_y, psi, weights)[1]
    precision = (1.0 - step) / scale**2 - step * (w @ (u * slope)) / scale
    if precision <= 0:
        raise ValueError(
            f"the step {step} leads to the precision {precision:.3g}; take a smaller step, or "
            "local_gradient, whose scale cannot become negative"
        )
    return mu + step * gain * (w @ slope) / precision, inverse_softplus(precision**-0.5)


def optimal_local(noise: Noise, psi_y: float, psi, weights, rule) -> tuple[float, float]:
    """The (mu, gamma) with the largest bound: quasi-Newton from the mode of the joint."""

    def log_joint(e):
        return _log_joint(noise, e, psi_y, psi, weights)[0]

    top = max(0.0, psi.max() - psi_y)
    reach = max(10.0, 2.0 * float(noise.quantile(1.0 - 0.1 / (1.0 + weights.sum()))))
    start = find_mode(log_joint, -10.0, top + reach, np.array([0.0, top]))
    found = optimize.minimize(
        lambda v: -augment_reduce(noise, psi_y, psi, weights, v[0], v[1], rule).value,
        x0=[start, 0.0],
        jac=lambda v: -local_gradient(noise, psi_y, psi, weights, v[0], v[1], rule),
        method="BFGS",
        options={"gtol": 1e-10},
    )
    return float(found.x[0]), float(found.x[1])
