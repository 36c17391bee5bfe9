"""The reference class probabilities against closed forms, and against themselves."""

import mpmath
import numpy as np
import pytest
from forms import slow
from scipy.special import log_ndtr

from reference.noise import GAUSSIAN, GUMBEL, LOGISTIC, STUDENT_T
from reference.probabilities import (
    class_log_probabilities,
    importance_sampling,
    log_prob_of,
    softmax_log_probabilities,
)

NOISES = [GUMBEL, GAUSSIAN, LOGISTIC, STUDENT_T]
by_name = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
# The integrals of heavy tails take seconds.
PSI = np.array([0.3, -1.1, 2.4, 0.0, -3.2])


def logistic_pair(d):
    """log P(e_2 - e_1 < d) for standard logistic e: log of (1 - a(1 + d)) / (1 - a)^2, a = e^-d.

    It follows from integrating sigmoid(e + d) over u = sigmoid(e).
    """
    a = mpmath.exp(-mpmath.mpf(d))
    return float(mpmath.log((1 - a * (1 + d)) / (1 - a) ** 2))


@by_name
@pytest.mark.parametrize("n_classes", [2, 5, slow(100)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0])
def test_probabilities_add_up_to_one(noise, n_classes, spread):
    psi = spread * np.random.default_rng(3).standard_normal(n_classes)
    assert np.exp(class_log_probabilities(noise, psi)).sum() == pytest.approx(1.0, abs=1e-12)


def test_gumbel_is_the_softmax():
    psi = np.random.default_rng(4).normal(0, 8, 40)
    np.testing.assert_allclose(
        class_log_probabilities(GUMBEL, psi), softmax_log_probabilities(psi), rtol=1e-12
    )


@pytest.mark.parametrize("d", [-60.0, -8.0, -0.7, 0.4, 3.0, 9.0])
def test_two_classes_have_closed_forms(d):
    psi = np.array([0.25 + d, 0.25])
    assert log_prob_of(GAUSSIAN, psi, 0)[0] == pytest.approx(log_ndtr(d / np.sqrt(2)), rel=1e-12)
    assert log_prob_of(LOGISTIC, psi, 0)[0] == pytest.approx(logistic_pair(d), rel=1e-12)
    assert log_prob_of(GUMBEL, psi, 0)[0] == pytest.approx(-np.logaddexp(0, -d), rel=1e-12)


@by_name
@pytest.mark.parametrize("y", [2, 4])
def test_gradient_matches_finite_differences(noise, y):
    _, gradient = log_prob_of(noise, PSI, y)
    h = 1e-5
    for k in range(PSI.size):
        step = h * (np.arange(PSI.size) == k)
        up, down = log_prob_of(noise, PSI + step, y)[0], log_prob_of(noise, PSI - step, y)[0]
        assert gradient[k] == pytest.approx((up - down) / (2 * h), abs=1e-8)


@by_name
def test_importance_sampler_agrees_within_its_error(noise):
    # At most 4 standard errors: a false alarm once in 16,000, and the seed is fixed.
    value = np.exp(log_prob_of(noise, PSI, 0)[0])
    estimate, error = importance_sampling(noise, PSI, 0, np.random.default_rng(5), 20_000)
    assert abs(estimate - value) < 4 * error
    assert error < 0.03 * value


@pytest.mark.slow
def test_very_unlikely_classes_against_mpmath():
    # Gaussian, three classes, by 40-digit quadrature of equation 5 (scaled: mpmath's tolerance is
    # absolute).
    psi = [0.0, 55.0, 48.0]
    with mpmath.workdps(40):

        def phi(x):
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        def integrand(t):
            return mpmath.exp(904) * mpmath.npdf(t) * phi(t - 55) * phi(t - 48)

        expected = float(mpmath.log(mpmath.quad(integrand, mpmath.linspace(20, 60, 41))) - 904)
    assert log_prob_of(GAUSSIAN, np.array(psi), 0)[0] == pytest.approx(expected, rel=1e-13)
