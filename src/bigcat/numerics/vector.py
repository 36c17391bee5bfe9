"""Exponential and logarithm that compilers turn into vector instructions.

Calls to the C library prevent vectorisation. These functions consist of arithmetic and bit shifts,
so loops over them use the full width of the registers.

With n = round(x / log 2) and r = x - n log 2, exp(x) = 2^n exp(r), with a polynomial for exp(r),
|r| <= (log 2)/2. The result is computed as 2^(n-1) times 2 exp(r), so that the power does not
overflow before the largest results do.

The logarithm splits x = 2^n m, with m between sqrt(1/2) and sqrt(2), and log(m) = 2 artanh(s), s =
(m - 1)/(m + 1), which is 2 s + s^3 times a polynomial in s^2.
"""

import math

import numpy as np

from bigcat.compile import bits_of_float, by_precision, device_in_order, float_of_bits

_LOG2_E = 1.0 / math.log(2.0)


def _twice_exp(degree: int) -> np.ndarray:
    """Return a polynomial for 2 exp(r), interpolated at Chebyshev nodes; 2 and 2 are exact."""
    r = 0.5 * math.log(2.0) * 1.0001 * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    rest = np.array([2.0 * math.fsum(x**k / math.factorial(k + 2) for k in range(20)) for x in r])
    fit = np.polynomial.Chebyshev.fit(r, rest, degree - 2).convert(kind=np.polynomial.Polynomial)
    return np.concatenate([[2.0, 2.0], fit.coef])


_SINGLE = tuple(np.float32(c) for c in _twice_exp(6))
_DOUBLE = tuple(float(c) for c in _twice_exp(11))
# log 2 in two parts: products of the first with whole numbers n are exact.
_SINGLE_HIGH, _SINGLE_LOW = np.float32(0.693359375), np.float32(math.log(2.0) - 0.693359375)
_DOUBLE_HIGH, _DOUBLE_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Beyond these limits 2^(n-1) is 0 and the result infinite.
_SINGLE_LOWEST, _SINGLE_HIGHEST = np.float32(-87.5), np.float32(88.8)
_DOUBLE_LOWEST, _DOUBLE_HIGHEST = -708.5, 709.8


@device_in_order
def _exp_single(x):
    # In this order of the comparisons a NaN stays one.
    x = _SINGLE_LOWEST if x < _SINGLE_LOWEST else x
    x = _SINGLE_HIGHEST if x > _SINGLE_HIGHEST else x
    # Positive, so that cutting the fraction off rounds x / log 2: 126 is the exponent of 2^-1.
    exponent = np.int32(x * np.float32(_LOG2_E) + np.float32(126.5))
    n = np.float32(exponent) - np.float32(126.0)  # not in integers, which numba widens
    r = (x - n * _SINGLE_HIGH) - n * _SINGLE_LOW
    c0, c1, c2, c3, c4, c5, c6 = _SINGLE
    twice = c0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * c6)))))
    return twice * float_of_bits(np.int32(exponent << np.int32(23)))


@device_in_order
def _exp_double(x):
    x = _DOUBLE_LOWEST if x < _DOUBLE_LOWEST else x
    x = _DOUBLE_HIGHEST if x > _DOUBLE_HIGHEST else x
    # Through int32, for which there are vector instructions everywhere.
    exponent = np.int32(x * _LOG2_E + 1022.5)
    n = np.float64(exponent) - 1022.0
    r = (x - n * _DOUBLE_HIGH) - n * _DOUBLE_LOW
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 = _DOUBLE
    high = c6 + r * (c7 + r * (c8 + r * (c9 + r * (c10 + r * c11))))
    twice = c0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * high)))))
    return twice * float_of_bits(np.int64(exponent) << np.int64(52))


_chosen_exp = by_precision(_exp_single, _exp_double)


@device_in_order
def vector_exp(x):
    """Return exp(x) within two units in the last place, for float32 or float64.

    Results below about twice the smallest normal number are 0, since denormal numbers are slow.
    Results beyond the largest are infinite, and NaN stays NaN.
    """
    return _chosen_exp(x)


def _artanh_rest(degree: int) -> np.ndarray:
    """Return a polynomial in u = s^2 for (2 artanh(s) - 2 s) / s^3, |s| <= 3 - sqrt(8)."""
    widest = 1.001 * (3.0 - math.sqrt(8.0)) ** 2
    u = widest * (0.5 + 0.5 * np.cos(np.pi * (np.arange(40) + 0.5) / 40))
    rest = [math.fsum(2.0 * x**k / (2 * k + 3) for k in range(30)) for x in u]
    return np.polynomial.Chebyshev.fit(u, rest, degree).convert(kind=np.polynomial.Polynomial).coef


_SINGLE_ARTANH = tuple(np.float32(c) for c in _artanh_rest(3))
_DOUBLE_ARTANH = tuple(float(c) for c in _artanh_rest(7))
# Bits of sqrt(1/2), how far they are below those of 1, and the fraction's.
_SINGLE_HALF = np.float32(math.sqrt(0.5)).view(np.int32)
_DOUBLE_HALF = np.float64(math.sqrt(0.5)).view(np.int64)
_SINGLE_RISE, _DOUBLE_RISE = np.int32((127 << 23) - _SINGLE_HALF), (1023 << 52) - _DOUBLE_HALF
_SINGLE_FRACTION, _DOUBLE_FRACTION = np.int32((1 << 23) - 1), np.int64((1 << 52) - 1)


@device_in_order
def _log_single(x):
    bits = np.int32(bits_of_float(x) + _SINGLE_RISE)
    n = np.float32(np.int32(bits >> np.int32(23))) - np.float32(127.0)
    m = float_of_bits(np.int32((bits & _SINGLE_FRACTION) + _SINGLE_HALF))
    s = (m - np.float32(1.0)) / (m + np.float32(1.0))
    u = s * s
    c0, c1, c2, c3 = _SINGLE_ARTANH
    rest = c0 + u * (c1 + u * (c2 + u * c3))
    return n * _SINGLE_HIGH + (n * _SINGLE_LOW + s * (np.float32(2.0) + u * rest))


@device_in_order
def _log_double(x):
    bits = bits_of_float(x) + _DOUBLE_RISE
    n = np.float64(np.int32(np.uint64(bits) >> np.uint64(52))) - 1023.0
    m = float_of_bits((bits & _DOUBLE_FRACTION) + _DOUBLE_HALF)
    s = (m - 1.0) / (m + 1.0)
    u = s * s
    c0, c1, c2, c3, c4, c5, c6, c7 = _DOUBLE_ARTANH
    rest = c0 + u * (c1 + u * (c2 + u * (c3 + u * (c4 + u * (c5 + u * (c6 + u * c7))))))
    return n * _DOUBLE_HIGH + (n * _DOUBLE_LOW + s * (2.0 + u * rest))


_chosen_log = by_precision(_log_single, _log_double)


@device_in_order
def vector_log(x):
    """Return log(x) within three units in the last place, for a normal number above 0.

    Results for other numbers are undefined.
    """
    return _chosen_log(x)
