"""Scalar functions with good tails, for use inside kernels (and, uncompiled, anywhere)."""

import math

import numpy as np
from scipy.special import erfcx, wrightomega

from bigcat.compile import by_precision, device, device_in_order, like, maximum
from bigcat.numerics.vector import vector_exp, vector_log

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@device
def log1p_exp(x):
    """Return log(1 + exp(x)) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@device
def sigmoid(x):
    """Return 1 / (1 + exp(-x)) without overflow."""
    e = math.exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@device
def exp_differences(scores, reference, counts, n, out):
    """Return total and high with total exp(high) = 1 + sum_c counts_c exp(scores_c - reference).

    The terms, relative to exp(high), go to `out`.
    """
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
def log_softmax_with_grads(label_score, others, counts, n, grads):
    """Return -log(1 + sum_c counts_c exp(others_c - label_score)); write gradients, label last."""
    total, high = exp_differences(others, label_score, counts, n, grads)
    for c in range(n):
        grads[c] /= -total
    grads[n] = negative_sum(grads, n)
    return -high - math.log(total)


@device
def log_sum_exp(first, reference, scores, counts, n):
    """Return log(exp(first) + sum_c counts_c exp(scores_c - reference)).

    Without counts all are 1.
    """
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
    """Return minus the sum of the first `n` values: the label's gradient of score differences."""
    total = 0.0
    for c in range(n):
        total += values[c]
    return -total


def _log_omega_coefficients() -> np.ndarray:
    """Return a polynomial in z for log(omega(z)), -5 <= z <= 4, with an error of 3e-4."""
    z = -0.5 + 4.5 * np.cos(np.pi * (np.arange(9) + 0.5) / 9)
    return np.polynomial.polynomial.polyfit(z, np.log(wrightomega(z)), 8)


_LOG_OMEGA = _log_omega_coefficients()


@device
def wright_omega(z):
    """Return the w > 0 with w + log(w) = z: the Lambert W function of exp(z), without overflow.

    A series far below; elsewhere a start with an error of 3e-4 and one step of the iteration of
    Fritsch, Shafer and Crowley (1973), which is of fourth order.
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
    """Return the x with log(1 + exp(x)) = y, for y > 0."""
    return y + math.log(-math.expm1(-y))


def _mills_coefficients(degree: int) -> np.ndarray:
    """Return a polynomial in y = (z - 5)/(z + 5) for (z + 5) R(z), R the Mills ratio, z >= 0.

    Interpolated at Chebyshev nodes. With the pole at -5 the error is 3e-15 at degree 20
    (`tests/test_noise.py`) and 1e-7 at degree 10. Coefficients stay below 2, so powers of y are
    safe.
    """
    y = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    z = 5.0 * (1.0 + y) / (1.0 - y)
    mills = np.sqrt(np.pi / 2.0) * erfcx(z * SQRT_HALF)
    chebyshev = np.polynomial.chebyshev
    return chebyshev.cheb2poly(chebyshev.chebfit(y, (z + 5.0) * mills, degree))


_SINGLE_MILLS = tuple(np.float32(c) for c in _mills_coefficients(10))
_DOUBLE_MILLS = tuple(float(c) for c in _mills_coefficients(20))


# The following have no branches and call vector functions only, so that loops over classes
# vectorise.  Constants must have the precision of x: `like`.


@device_in_order
def _mills_single(z):
    a = z + np.float32(5.0)
    y = np.float32(1.0) - np.float32(10.0) / a
    q = y * y
    m = _SINGLE_MILLS
    even = m[0] + q * (m[2] + q * (m[4] + q * (m[6] + q * (m[8] + q * m[10]))))
    odd = m[1] + q * (m[3] + q * (m[5] + q * (m[7] + q * m[9])))
    return (even + y * odd) / a


@device_in_order
def _mills_double(z):
    y = 1.0 - 10.0 / (z + 5.0)
    q = (y * y) * (y * y)
    m = _DOUBLE_MILLS
    # Four chains that run side by side.
    a = m[0] + q * (m[4] + q * (m[8] + q * (m[12] + q * (m[16] + q * m[20]))))
    b = m[1] + q * (m[5] + q * (m[9] + q * (m[13] + q * m[17])))
    c = m[2] + q * (m[6] + q * (m[10] + q * (m[14] + q * m[18])))
    d = m[3] + q * (m[7] + q * (m[11] + q * (m[15] + q * m[19])))
    return (a + y * (b + y * (c + y * d))) / (z + 5.0)


_mills = by_precision(_mills_single, _mills_double)


@device_in_order
def log_ndtr_with_grad(x):
    """Return log Phi(x) and its derivative phi(x) / Phi(x).

    Below 0 they are log phi(x) + log R and 1 / R with Mills' ratio R, above log(1 - R phi(x)) and
    phi(x) / (1 - R phi(x)).
    """
    zero, one = like(0.0, x), like(1.0, x)
    ratio = _mills(abs(x))
    exponent = like(-0.5, x) * x * x - like(LOG_SQRT_2PI, x)
    density = vector_exp(exponent)
    upper = ratio * density
    lower = one - upper
    below = ratio if x < zero else lower
    # The rounding error of `lower`, as in log1p.
    rest = exponent if x < zero else ((one - lower) - upper) / lower
    return rest + vector_log(below), (one if x < zero else density) / below


@device_in_order
def log_ndtr_grad(x):
    """Return phi(x) / Phi(x)."""
    zero, one = like(0.0, x), like(1.0, x)
    ratio = _mills(abs(x))
    density = vector_exp(like(-0.5, x) * x * x - like(LOG_SQRT_2PI, x))
    return (one if x < zero else density) / (ratio if x < zero else one - ratio * density)


@device_in_order
def log_sigmoid_with_grad(x):
    """Return log(1 / (1 + exp(-x))) and its derivative 1 / (1 + exp(x))."""
    zero, one = like(0.0, x), like(1.0, x)
    e = vector_exp(-abs(x))
    more = one + e
    log_more = vector_log(more) + (e - (more - one)) / more  # log1p(e)
    return (x if x < zero else zero) - log_more, (one if x < zero else e) / more


@device_in_order
def log_sigmoid_grad(x):
    """Return 1 / (1 + exp(x))."""
    zero, one = like(0.0, x), like(1.0, x)
    e = vector_exp(-abs(x))
    return (one if x < zero else e) / (one + e)
