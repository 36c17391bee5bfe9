"""Scalar functions with good tails, for use inside kernels (and, uncompiled, anywhere)."""

import math

from bigcat._jit import device

SQRT_HALF = math.sqrt(0.5)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# Below this the Gaussian distribution function comes from its asymptotic series: six terms are
# good to 1e-16 there, while erfc would underflow at -37.6.
_ASYMPTOTIC_BELOW = -25.0
# Above this the series for the upper tail is cheaper than erfc, and good to 1e-10 of what is then
# less than 1e-32.
_ASYMPTOTIC_ABOVE = 12.0


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
def log_add_exp(x, y):
    """log(exp(x) + exp(y)) without overflow; either may be -inf."""
    high = max(x, y)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(-abs(x - y)))


@device
def softplus_inverse(y):
    """The x with log(1 + exp(x)) = y, for y > 0."""
    return y + math.log(-math.expm1(-y))


@device
def _mills_series(x):
    """|x| Phi(-|x|) / phi(x) for large |x|: 1 - 1/x^2 + 3/x^4 - 15/x^6 + ..."""
    r = 1.0 / (x * x)
    return 1.0 - r * (1.0 - r * (3.0 - r * (15.0 - r * (105.0 - r * (945.0 - r * 10395.0)))))


@device
def log_ndtr_with_grad(x):
    """log Phi(x) and its derivative phi(x) / Phi(x), the inverse Mills ratio."""
    if x < _ASYMPTOTIC_BELOW:
        series = _mills_series(x)
        return -0.5 * x * x - LOG_SQRT_2PI + math.log(series / -x), -x / series
    density = math.exp(-0.5 * x * x - LOG_SQRT_2PI)
    if x < 1.0:
        lower = 0.5 * math.erfc(-x * SQRT_HALF)
        return math.log(lower), density / lower
    if x < _ASYMPTOTIC_ABOVE:
        upper = 0.5 * math.erfc(x * SQRT_HALF)
    else:
        upper = density * _mills_series(x) / x
    return math.log1p(-upper), density / (1.0 - upper)
