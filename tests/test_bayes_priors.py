"""Priors: defaults; learnt scales, their updates and their part of the ELBO, by definition."""

import numpy as np
import pytest
from scipy.special import digamma

from bigcat.bayes import GaussianPrior, HierarchicalPrior, HorseshoePrior
from bigcat.bayes._gamma import gamma_terms, mixed_gamma_terms
from bigcat.bayes.covariance import ClassDiagonal

RNG = np.random.default_rng(4)
K, M = 5, 3
MEAN, VARIANCES = RNG.normal(size=(K, M)), RNG.uniform(0.1, 0.6, (K, M))
MOMENTS = MEAN**2 + VARIANCES
BLOCKS = (slice(0, 2), slice(2, 5))


def energy_of(state):
    covariance = ClassDiagonal(VARIANCES)
    absorbed = [state.absorb(block, MEAN[block], covariance) for block in BLOCKS]
    return state.energy(absorbed)


def of_intercepts(scale, intercept):
    if not intercept:
        return 0.0
    return 0.5 * (K * np.log(scale**-2.0) - scale**-2.0 * MOMENTS[:, -1].sum())


def log_of(shape, rate):
    return digamma(shape) - np.log(rate)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_scale_per_feature(intercept):
    prior = HierarchicalPrior("feature", shape=0.7, rate=0.4, intercept_scale=3.0)
    state = prior.bind(K, M, intercept)
    n = M - intercept
    begin = np.append(np.ones(n), 1 / 9) if intercept else np.ones(n)
    np.testing.assert_allclose(state.precision(BLOCKS[0])[:, 0], begin)
    found = energy_of(state)
    squares = MOMENTS[:, :n].sum(axis=0)
    shape, rate = 0.7 + 0.5 * K, 0.4 + 0.5 * squares
    expected = 0.5 * (K * log_of(shape, rate) - shape / rate * squares).sum()
    expected += gamma_terms(0.7, 0.4, shape, rate).sum() + of_intercepts(3.0, intercept)
    assert found == pytest.approx(expected)
    np.testing.assert_allclose(state.precision(BLOCKS[1])[:n, 0], shape / rate)
    assert (state.sharing, state.learnt, state.is_matrix) == ("shared", True, False)
    with pytest.raises(TypeError, match="has no scale per class"):
        state.scales()


@pytest.mark.parametrize("intercept", [True, False])
def test_a_scale_per_class(intercept):
    prior = HierarchicalPrior("class", shape=0.7, rate=0.4, intercept_scale=3.0)
    state = prior.bind(K, M, intercept)
    n = M - intercept
    np.testing.assert_allclose(state.scales(), np.ones(K))
    found = energy_of(state)
    squares = MOMENTS[:, :n].sum(axis=1)
    shape, rate = 0.7 + 0.5 * n, 0.4 + 0.5 * squares
    expected = 0.5 * (n * log_of(shape, rate) - shape / rate * squares).sum()
    expected += gamma_terms(0.7, 0.4, shape, rate).sum() + of_intercepts(3.0, intercept)
    assert found == pytest.approx(expected)
    np.testing.assert_allclose(state.scales(), shape / rate)
    precision = state.precision(BLOCKS[1])
    np.testing.assert_allclose(precision[:n], np.tile((shape / rate)[2:], (n, 1)))
    if intercept:
        np.testing.assert_allclose(precision[-1], 1 / 9)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_horseshoe(intercept):
    """One update of every factor, in the order of its docstring."""
    state = HorseshoePrior(global_scale=0.5, intercept_scale=3.0).bind(K, M, intercept)
    n = M - intercept
    begin = state.precision(slice(0, K))
    assert begin.shape == (M, K)
    np.testing.assert_allclose(begin[:n], 1.0)
    squares, shape = MOMENTS[:, :n], 0.5 * (n + 1)
    tau, mixing, global_mixing = np.ones(K), np.full((K, n), 2.0), np.full(K, 5.0)
    for _ in range(2):
        found = energy_of(state)
        local_rate = 1.0 / mixing + 0.5 * tau[:, None] * squares
        mixing = 1.0 + 1.0 / local_rate
        weighted = (squares / local_rate).sum(axis=1)
        rate = 1.0 / global_mixing + 0.5 * weighted
        tau = shape / rate
        global_mixing = 4.0 + tau
        expected = 0.5 * (log_of(1.0, local_rate).sum() + n * log_of(shape, rate).sum())
        expected -= 0.5 * (tau * weighted).sum()
        expected += mixed_gamma_terms(1.0, local_rate, mixing).sum()
        expected += gamma_terms(0.5, 1.0, 1.0, mixing).sum()
        expected += mixed_gamma_terms(shape, rate, global_mixing).sum()
        expected += gamma_terms(0.5, 4.0, 1.0, global_mixing).sum()
        assert found == pytest.approx(expected + of_intercepts(3.0, intercept))
        np.testing.assert_allclose(state.precision(BLOCKS[1])[:n], (tau / local_rate.T)[:, 2:])


def test_a_gaussian_prior_has_its_density():
    """-KL without the entropy: E[log N(beta; mean, P^-1)] up to the 2 pi."""
    matrix = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, -0.2], [0.0, -0.2, 0.8]])
    for precision in (np.array([0.5, 2.0, 3.0]), matrix):
        prior = GaussianPrior(mean=np.array([0.1, 0.2, -0.3]), precision=precision)
        state = prior.bind(K, M, False)
        P = precision if precision.ndim == 2 else np.diag(precision)
        expected = 0.0
        for mean, variances in zip(MEAN, VARIANCES):
            away = mean - [0.1, 0.2, -0.3]
            expected += np.linalg.slogdet(P)[1] - away @ P @ away - np.diag(P) @ variances
        assert energy_of(state) == pytest.approx(0.5 * expected)
        assert state.is_matrix == (precision.ndim == 2)


# As chains see them
