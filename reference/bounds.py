"""Lower bounds on log p(y) for one row, with their gradients.

Each function takes the score ``psi_y`` of the observed class, the scores ``psi`` of other classes
and a weight for each of those. With all K - 1 others and weights of one it returns the bound; with
a sample of them and the sampler's weights an unbiased estimate of it (the exact softmax and
Bouchard's optimal alpha excepted: those are not sums over classes). Every gradient in psi_y is
minus the sum of the gradients in psi, because only differences of scores matter.
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import expit, log_expit, log_ndtr, logsumexp

from .noise import Noise
from .probabilities import find_mode


class Bound(NamedTuple):
    """Value of a bound and its derivatives in psi_y and in each of psi."""

    value: float
    grad_y: float
    grads: np.ndarray


# The softmax: exact, one-vs-each, Bouchard


def exact(psi_y: float, psi: np.ndarray) -> Bound:
    """Return the log softmax: minus log(1 + sum exp(psi_k - psi_y)) (OVE, equation 3)."""
    d = np.append(psi - psi_y, 0.0)
    log_total = logsumexp(d)
    grads = -np.exp(d[:-1] - log_total)
    return Bound(-log_total, -grads.sum(), grads)


def one_vs_each(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> Bound:
    """Return sum_k log sigmoid(psi_y - psi_k) (OVE, equations 4, 15 and 16)."""
    grads = -weights * expit(psi - psi_y)
    return Bound(weights @ log_expit(psi_y - psi), -grads.sum(), grads)


def exact_times_one_vs_each(
    psi_y: float, psi_exact: np.ndarray, psi: np.ndarray, weights: np.ndarray
) -> Bound:
    """Return the exact softmax over a set C times one-vs-each over the rest (OVE, equation 6).

    The gradients are those of C first, then those of the rest.
    """
    head, tail = exact(psi_y, psi_exact), one_vs_each(psi_y, psi, weights)
    grads = np.append(head.grads, tail.grads)
    return Bound(head.value + tail.value, -grads.sum(), grads)


def bouchard_alpha(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> float:
    """Return the alpha with the tightest Bouchard bound: a root of a decreasing function.

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
        grad = c @ (s * (1.0 - s))
        step = alpha + excess / grad if grad > 0 else np.nan
        new = step if low < step < high else 0.5 * (low + high)
        if abs(new - alpha) <= 1e-15 * max(1.0, abs(alpha)):
            break
        alpha = new
    return float(alpha)


def bouchard(psi_y: float, psi: np.ndarray, weights: np.ndarray, alpha: float | None = None):
    """Return psi_y - alpha - sum_m log(1 + exp(psi_m - alpha)) over all m (OVE, 11 and 12).

    Without ``alpha`` at its optimum; the gradients in the scores are then those at a fixed alpha
    (envelope theorem).
    """
    if alpha is None:
        alpha = bouchard_alpha(psi_y, psi, weights)
    value = log_expit(psi_y - alpha) + weights @ log_expit(alpha - psi)
    return Bound(value, expit(alpha - psi_y), -weights * expit(psi - alpha))


# Augment and reduce for the softmax


def log_eta_estimate(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> float:
    """Return the log of 1 + sum_k w_k exp(psi_k - psi_y): the best eta, estimated (A&R, 3.1)."""
    return float(logsumexp(np.append(psi - psi_y, 0.0), b=np.append(weights, 1.0)))


def softmax_augment_reduce(
    psi_y: float, psi: np.ndarray, weights: np.ndarray, log_eta: float
) -> Bound:
    """Return 1 - log eta - (1 + sum_k exp(psi_k - psi_y)) / eta (A&R, equation 8)."""
    with np.errstate(over="ignore"):  # minus infinity is the bound of an eta that is far too small
        value = 1.0 - log_eta - np.exp(log_eta_estimate(psi_y, psi, weights) - log_eta)
        grads = -weights * np.exp(psi - psi_y - log_eta)
    return Bound(value, -grads.sum(), grads)


def softmax_local_step(log_eta: float, log_eta_new: float, step: float) -> float:
    """Return log eta after eta <- (1 - a) eta + a eta~, a natural-gradient step (A&R, 1)."""
    return float(logsumexp([log_eta, log_eta_new], b=[1.0 - step, step]))


# Augment and reduce for any noise: q has a location mu and a scale s = softplus(gamma)


def softplus(gamma: float) -> float:
    """Return log(1 + exp(gamma))."""
    return float(np.logaddexp(0.0, gamma))


def inverse_softplus(scale: float) -> float:
    """Return the gamma whose softplus is ``scale``."""
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
    """Return nodes u and weights for expectations over the standard member of a family.

    Gauss-Hermite for the Gaussian. If z is standard Gaussian then logit(Phi(z)) is standard
    logistic and -log(-log Phi(z)) standard Gumbel: the same weights serve at the nodes moved by
    that map. With few nodes the result can lie above the bound, and so be none: three nodes are
    some 0.04 too high for logistic noise and a thousand classes, eight 1e-4.
    """
    z, w = np.polynomial.hermite_e.hermegauss(n_nodes)
    return FROM_GAUSSIAN[family](z), w / w.sum()


def one_sample(family: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a single draw with weight one, in the form of ``quadrature`` (A&R, equation 9)."""
    return FROM_GAUSSIAN[family](rng.standard_normal(1)), np.ones(1)


def _log_joint(noise: Noise, e, psi_y, psi, weights):
    """Return log phi(e) + sum_k w_k log Phi(e + psi_y - psi_k) and its derivative (A&R, 6)."""
    x = np.asarray(e)[:, None] + psi_y - psi
    value = noise.log_pdf(e) + noise.log_cdf(x) @ weights
    return value, noise.log_pdf_grad(e) + noise.log_cdf_grad(x) @ weights


def augment_reduce(
    noise: Noise, psi_y: float, psi, weights, mu: float, gamma: float, rule
) -> Bound:
    """Return E_q[log phi(e) + sum_k log Phi(e + psi_y - psi_k)] + entropy of q (A&R, 7).

    ``rule`` holds the nodes and weights over u, e = mu + s u: ``quadrature`` or ``one_sample``.
    """
    u, w = rule
    scale = softplus(gamma)
    e = mu + scale * u
    value = w @ _log_joint(noise, e, psi_y, psi, weights)[0] + np.log(scale) + ENTROPY[noise.family]
    grads = -weights * (w @ noise.log_cdf_grad(e[:, None] + psi_y - psi))
    return Bound(value, -grads.sum(), grads)


def local_gradient(noise: Noise, psi_y: float, psi, weights, mu: float, gamma: float, rule):
    """Return the derivatives of ``augment_reduce`` in (mu, gamma) (A&R, equation 9).

    d/dmu = E[f'(e)], d/ds = E[u f'(e)] + 1/s, the last term from the entropy of q, and
    ds/dgamma = sigmoid(gamma).
    """
    u, w = rule
    scale = softplus(gamma)
    grad = _log_joint(noise, mu + scale * u, psi_y, psi, weights)[1]
    return np.array([w @ grad, (w @ (u * grad) + 1.0 / scale) * expit(gamma)])


def local_natural_step(
    noise: Noise, psi_y: float, psi, weights, mu, gamma, rule, step: float, gain: float = 1.0
):
    """Take a natural step of size a for (mu, gamma), in precision and location.

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
    grad = _log_joint(noise, mu + scale * u, psi_y, psi, weights)[1]
    precision = (1.0 - step) / scale**2 - step * (w @ (u * grad)) / scale
    if precision <= 0:
        raise ValueError(
            f"the step {step} leads to the precision {precision:.3g}; take a smaller step, or "
            "local_gradient, whose scale cannot become negative"
        )
    return mu + step * gain * (w @ grad) / precision, inverse_softplus(precision**-0.5)


def optimal_local(noise: Noise, psi_y: float, psi, weights, rule) -> tuple[float, float]:
    """Return the (mu, gamma) with the largest bound, by quasi-Newton steps from a mode."""

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
