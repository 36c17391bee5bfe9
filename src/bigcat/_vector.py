"""An exponential function that compilers turn into vector instructions.

The C library's is a call, and a loop with a call in it works on one number at a time.  This one is
additions, multiplications and a shift of bits, so a loop over it works on as many numbers at once
as the processor's registers hold.

With n = round(x / log 2) and r = x - n log 2, exp(x) = 2^n exp(r), and a polynomial does the rest:
|r| <= (log 2)/2.  What is computed is 2^(n-1) times 2 exp(r), so that the largest results do not
need a power that has overflowed already.
"""

import math

import numpy as np

from bigcat._jit import by_precision, device_in_order, float_of_bits

_LOG2_E = 1.0 / math.log(2.0)


def _twice_exp(degree: int) -> np.ndarray:
    """Polynomial for 2 exp(r), interpolated at Chebyshev nodes; 2 and 2 are exact."""
    r = 0.5 * math.log(2.0) * 1.0001 * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    rest = np.array([2.0 * math.fsum(x**k / math.factorial(k + 2) for k in range(20)) for x in r])
    fit = np.polynomial.Chebyshev.fit(r, rest, degree - 2).convert(kind=np.polynomial.Polynomial)
    return np.concatenate([[2.0, 2.0], fit.coef])


_SINGLE = tuple(np.float32(c) for c in _twice_exp(6))
_DOUBLE = tuple(float(c) for c in _twice_exp(11))
# log 2 in two parts: products of the first with whole numbers n are exact.
_SINGLE_HIGH, _SINGLE_LOW = np.float32(0.693359375), np.float32(math.log(2.0) - 0.693359375)
_DOUBLE_HIGH, _DOUBLE_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Beyond these 2^(n-1) is 0 and the result infinite; the next numbers are the same.
_SINGLE_LOWEST, _SINGLE_HIGHEST = np.float32(-87.5), np.float32(88.8)
_DOUBLE_LOWEST, _DOUBLE_HIGHEST = -708.5, 709.8


@device_in_order
def _exp_single(x):
    # In this order of the comparisons a NaN stays one.
    x = _SINGLE_LOWEST if x < _SINGLE_LOWEST else x
    x = _SINGLE_HIGHEST if x > _SINGLE_HIGHEST else x
    # Positive, so that cutting the fraction off rounds x / log 2: 126 is the exponent of 2^-1.
    exponent = np.int32(x * np.float32(_LOG2_E) + np.float32(126.5))
    n = np.float32(exponent - np.int32(126))
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
    n = np.float64(exponent - np.int32(1022))
    r = (x - n * _DOUBLE_HIGH) - n * _DOUBLE_LOW
    c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 = _DOUBLE
    high = c6 + r * (c7 + r * (c8 + r * (c9 + r * (c10 + r * c11))))
    twice = c0 + r * (c1 + r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * high)))))
    return twice * float_of_bits(np.int64(exponent) << np.int64(52))


_chosen = by_precision(_exp_single, _exp_double)


@device_in_order
def vector_exp(x):
    """exp(x) within two units in the last place, for float32 or float64.

    Results that would be smaller than about twice the smallest normal number are 0, since denormal
    numbers are slow; those beyond the largest are infinite, and NaN stays NaN.
    """
    return _chosen(x)
