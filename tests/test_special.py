"""Scalar functions with good tails, against scipy and many digits."""

import math

import mpmath
import numpy as np
import pytest
from forms import many
from scipy.special import erfcx, expit, log_expit, log_ndtr, logsumexp, wrightomega

from bigcat.compile import kernel
from bigcat.numerics import softmax
from bigcat.numerics.special import (
    log1p_exp,
    log_ndtr_grad,
    log_ndtr_with_grad,
    log_sigmoid_grad,
    log_sigmoid_with_grad,
    log_sum_exp,
    sigmoid,
    softplus_inverse,
    wright_omega,
)

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


def test_wright_omega_agrees_with_scipy():
    z = np.concatenate(
        [
            np.linspace(-700.0, -20.0, many(2001)),
            np.linspace(-20.0, 20.0, many(40_001)),  # over the seams of its three pieces
            np.linspace(20.0, 1e3, many(2001)),
            np.geomspace(1e3, 1e6, many(2001)),
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
                found = log_sum_exp(first, reference, SCORES + 900.0, counts, n)
                assert found == pytest.approx(logsumexp(terms, b=weights), rel=1e-13, abs=1e-13)
    assert log_sum_exp(0.0, -1e9, SCORES, None, 5) == pytest.approx(1e9)
    assert log_sum_exp(0.0, 1e9, SCORES, None, 5) == 0.0


# Functions for kernels run in Python as they are written, which takes no compilation.

FAR = np.array([-1e9, -740.0, -40.0, -9.0, -2.3, -0.4, 0.0, 0.7, 3.1, 8.0, 36.0, 745.0, 1e9])


def test_softplus_and_sigmoid():
    for x in FAR:
        assert log1p_exp(x) == pytest.approx(np.logaddexp(0.0, x), rel=1e-15, abs=1e-300)
        assert sigmoid(x) == pytest.approx(expit(x), rel=1e-15, abs=1e-300)
        assert sigmoid(x) + sigmoid(-x) == pytest.approx(1.0, rel=1e-15)
    for y in (1e-12, 0.3, math.log(2.0), 2.0, 50.0):
        assert log1p_exp(softplus_inverse(y)) == pytest.approx(y, rel=1e-13)
    assert softplus_inverse(math.log(2.0)) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-13), (np.float32, 2e-6)])
@pytest.mark.parametrize("lowest", [-30.0, -3.0])
def test_logs_of_distribution_functions_in_both_precisions(dtype, rtol, lowest):
    x = np.linspace(lowest, 5.0, 71).astype(dtype)
    wide = x.astype(float)
    exact = {
        log_ndtr_with_grad: (
            log_ndtr(wide),
            math.sqrt(2.0 / math.pi) / erfcx(-wide / math.sqrt(2.0)),
        ),
        log_sigmoid_with_grad: (log_expit(wide), expit(-wide)),
    }
    for function, grad in (
        (log_ndtr_with_grad, log_ndtr_grad),
        (log_sigmoid_with_grad, log_sigmoid_grad),
    ):
        found = np.array([function(value) for value in x])
        assert found.dtype == dtype
        np.testing.assert_allclose(found[:, 0], exact[function][0], rtol=rtol)
        np.testing.assert_allclose(found[:, 1], exact[function][1], rtol=rtol)
        np.testing.assert_allclose([grad(value) for value in x], found[:, 1], rtol=rtol)


# The softmax by blocks


def test_a_label_that_is_nearly_certain_keeps_its_gradient():
    """1 minus the probability would be 0."""
    log_p, others, _ = softmax.finish(50.0, 2.0, 3.0)
    assert others == pytest.approx(3.0 * math.exp(-48.0), rel=1e-14)
    assert log_p == pytest.approx(-others, rel=1e-4) or log_p == 0.0


def test_what_must_not_count_counts_for_nothing():
    for dtype in (np.float32, np.float64):
        scores = np.array([softmax.NO_SCORE, -50.0, softmax.NO_SCORE], dtype)
        assert softmax.exponentiate(scores) == (-50.0, 1.0)
        assert scores.tolist() == [0.0, 1.0, 0.0]
