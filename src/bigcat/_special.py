"""Scalar functions with good tails, for use inside kernels (and, uncompiled, anywhere)."""

import math

import numpy as np
from scipy.special import erfcx, wrightomega

from bigcat._jit import device, maximum
from bigcat._vector import vector_exp

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@device
def log1p_exp(x):
    """log(1 + exp(x)) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@device
def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@device
def exp_differences(scores, reference, counts, n, out):
    """1 + sum_c counts_c exp(scores_c - reference) as total * exp(high), the terms in `out`."""
    high = 0.0
    for c in range(n):
        high = maximum(high, scores[c] - reference)
    total = math.exp(-high)
    for c in range(n):
        term = counts[c] * vector_exp(scores[c] - reference - high)
        out[c] = term
        total += term
    return total, high


@device
def log_softmax_with_slopes(label_score, others, counts, n, slopes):
    """-log(1 + sum_c counts_c exp(others_c - label_score)), its slopes, the label's last."""
    total, high = exp_differences(others, label_score, counts, n, slopes)
    for c in range(n):
        slopes[c] /= -total
    slopes[n] = negative_sum(slopes, n)
    return -high - math.log(total)


@device
def log_sum_exp(first, reference, scores, counts, n):
    """log(exp(first) + sum_c counts_c exp(scores_c - reference)); no counts are counts of 1."""
    high = first
    for c in range(n):
        high = max(high, scores[c] - reference)
    total = math.exp(first - high)
    for c in range(n):
        count = 1.0 if counts is None else counts[c]
        total += count * math.exp(scores[c] - reference - high)
    return high + math.log(total)


@device
def negative_sum(values, n):
    """Minus the sum of the first `n` values: the label's slope where only differences count."""
    total = 0.0
    for c in range(n):
        total += values[c]
    return -total


def _log_omega_coefficients() -> np.ndarray:
    """Polynomial in z for log(omega(z)), -5 <= z <= 4, to about 1e-5."""
    z = -0.5 + 4.5 * np.cos(np.pi * (np.arange(9) + 0.5) / 9)
    return np.polynomial.polynomial.polyfit(z, np.log(wrightomega(z)), 8)


_LOG_OMEGA = _log_omega_coefficients()


@device
def wright_omega(z):
    """The w > 0 with w + log(w) = z: the Lambert W function of exp(z), which cannot overflow.

    A series far below; elsewhere a start that is good to 1e-4 and one step of Fritsch, Shafer
    and Crowley's iteration (1973), which is of fourth order.
    """
    if z < -5.0:
        e = math.exp(z)
        series = 125 / 24 - e * (54 / 5 - e * (16807 / 720 - e * 52.0126984))
        return e * (1.0 - e * (1.0 - e * (1.5 - e * (8 / 3 - e * series))))
    if z > 1e8:
        return z - math.log(z)
    if z < 4.0:
        log_w = _LOG_OMEGA[8]
        for k in range(7, -1, -1):
            log_w = log_w * z + _LOG_OMEGA[k]
        w = math.exp(log_w)
    else:
        log_z = math.log(z)
        ratio = log_z / z
        w = z - log_z + ratio + 0.5 * ratio * (log_z - 2.0) / z
        log_w = math.log(w)
    rest = z - w - log_w
    a = 1.0 + w
    b = a * (a + (2.0 / 3.0) * rest)
    return w * (1.0 + rest / a * (b - 0.5 * rest) / (b - rest))


@device
def softplus_inverse(y):
    """The x with log(1 + exp(x)) = y, for y > 0."""
    return y + math.log(-math.expm1(-y))


def _mills_coefficients() -> np.ndarray:
    """Polynomial in y = (z - 5)/(z + 5) for (z + 5) R(z), R the Mills ratio, z from 0 to infinity.

    Interpolated at Chebyshev nodes; with the pole at -5 degree 20 is good to 3e-15 everywhere
    (`tests/test_noise.py`), and the coefficients stay below 2, so powers of y are safe.
    """
    y = np.cos(np.pi * (np.arange(21) + 0.5) / 21)
    z = 5.0 * (1.0 + y) / (1.0 - y)
    mills = np.sqrt(np.pi / 2.0) * erfcx(z * SQRT_HALF)
    chebyshev = np.polynomial.chebyshev
    return chebyshev.cheb2poly(chebyshev.chebfit(y, (z + 5.0) * mills, 20))


_ALL_BELOW = 9.0  # where 1 - Phi is below 1e-18: log(1 - u) = -u and Phi = 1 to rounding
_MILLS = _mills_coefficients()


@device
def inverse_mills(z):
    """phi(z) / Phi(-z) for z >= 0, without a transcendental function."""
    y = 1.0 - 10.0 / (z + 5.0)
    q = (y * y) * (y * y)
    # Four chains that run side by side.
    a, b, c, d = _MILLS[20], 0.0, 0.0, 0.0
    for k in range(16, -1, -4):
        a = a * q + _MILLS[k]
        b = b * q + _MILLS[k + 1]
        c = c * q + _MILLS[k + 2]
        d = d * q + _MILLS[k + 3]
    return (z + 5.0) / (a + y * (b + y * (c + y * d)))


@device
def log_ndtr_with_grad(x):
    """log Phi(x) and its derivative phi(x) / Phi(x)."""
    ratio = inverse_mills(abs(x))
    exponent = -0.5 * x * x - LOG_SQRT_2PI
    if x < 0.0:
        return exponent - math.log(ratio), ratio
    density = math.exp(exponent)
    upper = density / ratio
    if x > _ALL_BELOW:
        return -upper, density
    return math.log1p(-upper), density / (1.0 - upper)


@device
def log_ndtr_grad(x):
    """phi(x) / Phi(x)."""
    ratio = inverse_mills(abs(x))
    if x < 0.0:
        return ratio
    density = math.exp(-0.5 * x * x - LOG_SQRT_2PI)
    return density / (1.0 - density / ratio)
