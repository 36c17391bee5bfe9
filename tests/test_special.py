"""Scalar functions with good tails, against scipy and many digits."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp, wrightomega

from bigcat.compile import kernel
from bigcat.numerics.special import log_sum_exp, negative_sum, wright_omega

SCORES = np.array([1.3, -0.8, 0.1, -2.5, 2.2])
COUNTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])


@kernel
def map_wright_omega(z, out):
    for i in range(z.shape[0]):
        out[i] = wright_omega(z[i])


def compiled_wright_omega(z):
    found = np.empty(1)
    map_wright_omega(np.array([z]), found)
    return found[0]


@kernel
def call_log_sum_exp(first, reference, scores, counts, n):
    return log_sum_exp(first, reference, scores, counts, n)


@kernel
def call_negative_sum(values, n):
    return negative_sum(values, n)


def test_wright_omega_agrees_with_scipy():
    z = np.concatenate(
        [
            np.linspace(-700.0, -20.0, 2001),
            np.linspace(-20.0, 20.0, 40_001),  # over the seams of its three pieces
            np.linspace(20.0, 1e3, 2001),
            np.geomspace(1e3, 1e6, 2001),
            np.nextafter([-5.0, -5.0, 4.0, 4.0], [-9.0, 9.0, -9.0, 9.0]),
        ]
    )
    found = np.empty_like(z)
    map_wright_omega(z, found)
    np.testing.assert_allclose(found, wrightomega(z), rtol=1e-12, atol=0.0)
    assert (np.diff(found[:-4]) >= 0.0).all()  # as the function, which is increasing


@pytest.mark.parametrize("z", [-700.0, -30.0, -5.0, -4.999, -1.0, 0.0, 1.0, 3.999, 4.0, 37.0, 1e6])
def test_wright_omega_to_many_digits(z):
    with mpmath.workdps(400):
        exact = mpmath.lambertw(mpmath.exp(mpmath.mpf(z))).real if z < 700 else None
        if exact is None:  # exp(z) is no number any more, but w + log(w) = z is
            exact = mpmath.findroot(lambda w: w + mpmath.log(w) - mpmath.mpf(z), z)
        assert compiled_wright_omega(z) == pytest.approx(float(exact), rel=1e-12)


def test_wright_omega_beyond():
    """Nothing overflows: it is exp(z) far below and z - log(z) far above."""
    assert compiled_wright_omega(-1e9) == 0.0
    for z in (1e9, 1e150):
        assert compiled_wright_omega(z) == pytest.approx(z - math.log(z), rel=1e-12)


@pytest.mark.parametrize("reference", [0.0, -1.7, 900.0])
def test_log_sum_exp(reference):
    for n in range(SCORES.size + 1):
        for first in (0.0, -800.0, 950.0):
            terms = np.append(SCORES[:n] + 900.0 - reference, first)
            for counts in (COUNTS, None):
                weights = np.append(np.ones(n) if counts is None else counts[:n], 1.0)
                found = call_log_sum_exp(first, reference, SCORES + 900.0, counts, n)
                assert found == pytest.approx(logsumexp(terms, b=weights), rel=1e-13, abs=1e-13)
    assert call_log_sum_exp(0.0, -1e9, SCORES, None, 5) == pytest.approx(1e9)
    assert call_log_sum_exp(0.0, 1e9, SCORES, None, 5) == 0.0


def test_negative_sum():
    assert [call_negative_sum(SCORES, n) for n in (0, 1, 5)] == pytest.approx([0.0, -1.3, -0.3])
