"""Averages of a softmax over independent Gaussian scores."""

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp, ndtr, softmax

from bigcat.bayes._expected_softmax import (
    log_expected_logistic,
    log_expected_softmax,
    spread_normals,
)


def exact_logistic(mean, deviation):
    """Integrate on a grid of 20,001 points."""
    points = np.linspace(-12.0, 12.0, 20_001)
    logs = log_expit(mean + deviation * points) - 0.5 * points**2
    return logsumexp(logs) - logsumexp(-0.5 * points**2)


def normals(n_classes, n_draws=50, seed=0):
    return spread_normals(n_draws, n_classes, np.random.default_rng(seed))


@pytest.mark.parametrize("mean", [-40.0, -9.0, -2.0, 0.0, 3.0, 20.0])
@pytest.mark.parametrize("deviation", [0.0, 0.3, 1.0, 2.0, 3.0])
def test_the_logistic_function_has_the_mean_of_a_fine_grid(mean, deviation):
    found = log_expected_logistic(np.array([mean]), np.array([deviation]))[0]
    assert found == pytest.approx(exact_logistic(mean, deviation), abs=0.01)


def test_two_classes_are_the_logistic_function_of_a_difference():
    rng = np.random.default_rng(0)
    mean, deviations = rng.normal(0.0, 2.0, (20, 2)), rng.uniform(0.1, 2.0, (20, 2))
    found = log_expected_softmax(mean, deviations, normals(2))[:, 0]
    spread = np.sqrt(np.square(deviations).sum(axis=1))
    expected = [exact_logistic(m, s) for m, s in zip(mean[:, 0] - mean[:, 1], spread)]
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_many_classes_have_the_mean_of_very_many_draws():
    """A mean of 400 draws is far off in a single class here."""
    rng = np.random.default_rng(1)
    mean, deviations = rng.normal(0.0, 1.2, (3, 60)), rng.uniform(1.0, 2.5, (3, 60))
    draws = softmax(mean + deviations * rng.standard_normal((40_000, 3, 60)), axis=2)
    expected = draws.mean(axis=0)
    found = np.exp(log_expected_softmax(mean, deviations, normals(60)))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    few = draws[:400].mean(axis=0)
    distances = [np.abs(np.log(some / expected)).mean() for some in (found, few)]
    assert distances[0] < 0.03
    assert distances[1] > 3.0 * distances[0]


def test_a_certain_posterior_is_the_softmax_and_nothing_underflows():
    mean = np.array([[0.0, -2000.0, 3.0, -1.0], [900.0, 0.0, -900.0, 899.0]])
    found = log_expected_softmax(mean, np.zeros(mean.shape), normals(4))
    expected = mean - logsumexp(mean, axis=1)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    wide = log_expected_softmax(mean, np.full(mean.shape, 30.0), normals(4))
    assert np.isfinite(wide).all()


def test_every_class_has_a_number_from_each_interval():
    found = normals(5, n_draws=16)
    assert found.shape == (16, 5)
    places = np.floor(16 * ndtr(found)).astype(int)
    np.testing.assert_array_equal(np.sort(places, axis=0), np.arange(16)[:, None] + np.zeros(5))
    assert len({tuple(column) for column in places.T}) == 5
