"""Class probabilities of y = argmax_k psi_k + e_k, to rounding error.

With t the largest utility, h = phi / Phi and S(t) = sum_j log Phi(t - psi_j), equation 5 of A&R is

    p(y = k) = integral of h(t - psi_k) exp(S(t)) dt.

Summed over k the integrand is the density of the largest utility, so all K probabilities come out
of the nodes of that one density and add up to one if, and only if, the quadrature is right. A class
far below the others has its mass where that density has none; ``log_prob_of`` puts the nodes
around the class's own integrand instead.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax, logsumexp

from .noise import GAUSSIAN, Noise

DROP = 45.0  # exp(-45) = 3e-20: beyond that the integrand adds nothing


def over_classes(function: Callable, reduce: Callable, t: np.ndarray, psi: np.ndarray):
    """Return reduce_j function(t - psi_j) for every t, in blocks to bound the memory."""
    block = max(1, 10**6 // psi.size)
    parts = [t[i : i + block] for i in range(0, t.size, block)]
    return np.concatenate([reduce(function(part[:, None] - psi), axis=1) for part in parts])


def find_mode(log_f: Callable, low: float, high: float, hints: np.ndarray) -> float:
    """Return the maximiser of log_f: search a grid, zoom into the best cell, repeat.

    Plain, but it does not mind the minus infinities and plateaus that defeat a Newton or a
    golden-section search.
    """
    while high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        inside = hints[(hints >= low) & (hints <= high)]
        grid = np.union1d(np.linspace(low, high, 65), inside)
        best = int(np.argmax(log_f(grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    return 0.5 * (low + high)


def half_width(log_f: Callable, mode: float) -> float:
    """Return the distance from the mode, within a factor of two, at which log_f drops by one."""
    steps = max(1.0, abs(mode)) * 1e-9 * 2.0 ** np.arange(64)
    top = log_f(np.array([mode]))[0]
    right = steps[np.argmax(log_f(mode + steps) < top - 1.0)]
    left = steps[np.argmax(log_f(mode - steps) < top - 1.0)]
    return 0.5 * (left + right)


def integrate(log_f: Callable, low: float, high: float, hints: np.ndarray):
    """Return the log of the integral of exp(log_f), with nodes and log-weights.

    The trapezoid rule in v, t = mode + width * sinh(v), with the step halved until the value does
    not change: it converges exponentially for smooth integrands, and sinh reaches the far tails of
    a heavy-tailed noise in a few steps. ``low`` and ``high`` enclose the mode, ``hints`` are
    points where further modes may be. The log-weights contain log_f: integral of g exp(log_f) is
    sum g(t) exp(log_weight).
    """
    mode = find_mode(log_f, low, high, hints)
    width = half_width(log_f, mode)

    def log_g(v):
        return log_f(mode + width * np.sinh(v)) + np.log(width * np.cosh(v))

    top = log_g(np.zeros(1))[0]
    hints = np.append(np.arcsinh((hints - mode) / width), 0.0)
    hints = hints[log_g(hints) >= top - DROP]
    steps = np.arange(1, 400) * 0.25
    v_high = hints.max() + steps[np.argmax(log_g(hints.max() + steps) < top - DROP)]
    v_low = hints.min() - steps[np.argmax(log_g(hints.min() - steps) < top - DROP)]

    previous = np.inf
    for n in 2 ** np.arange(7, 17):
        v, step = np.linspace(v_low, v_high, n + 1, retstep=True)
        log_weights = log_g(v) + np.log(step)
        value = logsumexp(log_weights)
        if abs(value - previous) <= 1e-14 * max(1.0, abs(value)):
            break
        previous = value
    return value, mode + width * np.sinh(v), log_weights


def _reach(noise: Noise, n_classes: int) -> float:
    """Return the maximal distance of the largest utility's mode above the largest score."""
    return max(10.0, 2.0 * float(noise.quantile(1.0 - 0.1 / n_classes)))


def class_log_probabilities(noise: Noise, psi: np.ndarray) -> np.ndarray:
    """Return log p(y = k) for all k: p_k = E[h(t - psi_k) / sum_j h(t - psi_j)].

    The expectation is over the largest utility t. Absolute accuracy is that of rounding; relative
    accuracy is lost for classes whose probability is below 1e-15 or so (see ``log_prob_of``). The
    result is not normalised: that its sum is one is a check.
    """
    psi = np.asarray(psi, float)

    def log_density(t):
        log_h = over_classes(noise.log_cdf_grad_log, logsumexp, t, psi)
        return log_h + over_classes(noise.log_cdf, np.sum, t, psi)

    top = psi.max()
    _, t, log_weights = integrate(
        log_density, top - 10.0, top + _reach(noise, psi.size), np.array([top])
    )
    keep = log_weights > log_weights.max() - DROP
    t, log_weights = t[keep], log_weights[keep]
    log_total = over_classes(noise.log_cdf_grad_log, logsumexp, t, psi)
    log_share = [noise.log_cdf_grad_log(t - score) - log_total for score in psi]
    return np.array([logsumexp(share + log_weights) for share in log_share])


def log_prob_of(
    noise: Noise, psi: np.ndarray, y: int, counts: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Return log p(y) and its gradient in psi, accurate even if p(y) is 1e-300 or less.

    Every class but y may stand for more than itself, for ``counts`` of its score.

    Nodes around the mode of equation 5's own integrand (A&R). With E the expectation under the
    normalised integrand, the posterior of t given y:

        d log p(y) / d psi_k = -E[h(t - psi_k)],  k != y,

    and the derivative in psi_y is minus their sum, because adding a constant to all scores changes
    nothing. A noise that is not log-concave has a mode near each score; those of y and of the
    largest other score are looked for, and resolved up to gaps of some thousands.
    """
    psi = np.asarray(psi, float)
    counts = np.ones(psi.size) if counts is None else np.asarray(counts, float)
    others, weights = np.delete(psi, y), np.delete(counts, y)

    def weighted(values, axis):
        return (weights * values).sum(axis=axis)

    def log_joint(t):
        return noise.log_pdf(t - psi[y]) + over_classes(noise.log_cdf, weighted, t, others)

    hints = np.array([psi[y], others.max()])
    value, t, log_weights = integrate(
        log_joint, psi[y] - 10.0, hints.max() + _reach(noise, psi.size), hints
    )
    keep = log_weights > log_weights.max() - DROP  # h may be infinite where the weight is zero
    posterior = np.exp(log_weights[keep] - value)
    gradient = np.array([-posterior @ noise.log_cdf_grad(t[keep] - score) for score in psi])
    gradient *= counts
    gradient[y] = -np.delete(gradient, y).sum()
    return float(value), gradient


def importance_sampling(
    noise: Noise, psi: np.ndarray, y: int, rng: np.random.Generator, n_samples: int = 1000
) -> tuple[float, float]:
    """Return the papers' estimate of p(y), and its standard error (A&R, section 4.2).

    Equation 5 with draws of e from a Gaussian of mean 5 and standard deviation 5.
    """
    psi = np.asarray(psi, float)
    e = rng.normal(5.0, 5.0, n_samples)
    log_ratio = noise.log_pdf(e) - (GAUSSIAN.log_pdf((e - 5.0) / 5.0) - np.log(5.0))
    log_ratio = log_ratio + over_classes(noise.log_cdf, np.sum, e + psi[y], np.delete(psi, y))
    ratio = np.exp(log_ratio)
    return ratio.mean(), ratio.std(ddof=1) / np.sqrt(n_samples)


def softmax_log_probabilities(psi: np.ndarray) -> np.ndarray:
    """Return log p(y = k) under Gumbel noise in closed form (A&R, equation 1)."""
    return log_softmax(np.asarray(psi, float))
