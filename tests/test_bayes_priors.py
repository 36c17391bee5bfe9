"""Priors: defaults; learnt scales, their updates and their part of the ELBO, by definition."""

import numpy as np
import pytest
from scipy.special import digamma

from bigcat.bayes import GaussianPrior, HierarchicalPrior, HorseshoePrior, LearnedScale
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


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("per", ["all", "class", "feature", "both"])
def test_learnt_scales_of_chains(per, intercept):
    chain = LearnedScale(per, width=1.5).chain(4, K, 2, intercept, 1.6)
    np.testing.assert_allclose(chain.units[:2], [1.6, 1.6])
    assert chain.units[2:].tolist() == [1.0] * intercept
    assert chain.has_intercept is intercept
    assert chain.scales is not None
    assert chain.scales.values.shape == (4, K if per in ("class", "both") else 1, 1)
    assert (chain.scales.width, chain.scales.shape) == (1.5, 2.0)  # four degrees of freedom
    assert (chain.scales.values == 1.0).all()
    assert (chain.scales.rate == 2.0).all()
    if per in ("feature", "both"):
        assert chain.features is not None
        assert chain.features.values.shape == (4, 1, 2)
        assert (chain.features.width, chain.features.shape) == (1.0, 2.0)
    else:
        assert chain.features is None
    if intercept:
        assert chain.intercepts is not None
        assert chain.intercepts.values.shape == (4, 1, 1)
        assert (chain.intercepts.width, chain.intercepts.shape) == (1.5, 2.0)
    else:
        assert chain.intercepts is None
    assert not chain.mean.any()
    assert chain.precision.shape == (4, K if per in ("class", "both") else 1, 2 + intercept)


@pytest.mark.parametrize("intercept", [True, False])
def test_other_priors_of_chains(intercept):
    feature = HierarchicalPrior("feature", 0.7, 0.4, 3.0).chain(4, K, 2, intercept)
    assert feature.scales is None
    assert feature.features is not None
    assert feature.features.values.shape == (4, 1, 2)
    assert (feature.features.shape, float(feature.features.rate[0, 0, 0])) == (0.7, 0.4)
    assert feature.features.width is None
    per_class = HierarchicalPrior("class", 0.7, 0.4, 3.0).chain(4, K, 2, intercept)
    assert per_class.features is None
    assert per_class.scales is not None
    assert per_class.scales.values.shape == (4, K, 1)
    horseshoe = HorseshoePrior(0.5, 3.0).chain(4, K, 2, intercept)
    assert horseshoe.scales is not None
    assert horseshoe.locals_ is not None
    assert (horseshoe.scales.width, horseshoe.locals_.width) == (0.5, 1.0)
    assert (horseshoe.scales.shape, horseshoe.locals_.shape) == (0.5, 0.5)
    assert horseshoe.locals_.values.shape == (4, K, 2)
    for chain in (feature, per_class, horseshoe):
        units = [1.0, 1.0, 1 / 9] if intercept else [1.0, 1.0]
        np.testing.assert_allclose(chain.units, units)
        assert chain.n_chains == 4
    known = GaussianPrior(scale=2.0, intercept_scale=5.0).chain(4, K, 2, intercept)
    np.testing.assert_allclose(known.units, [0.25, 0.25, 0.04][: 2 + intercept])
    assert not known.learns
    with pytest.raises(ValueError, match="takes a precision for each column and not a matrix"):
        GaussianPrior(precision=np.eye(2)).chain(4, K, 2, False)


def test_kinds_of_sharing():
    shared = {"feature": "shared", "class": "class"}
    assert {per: HierarchicalPrior(per).sharing for per in shared} == shared
    learned = {"all": "shared", "class": "class", "feature": "shared", "both": "coordinate"}
    assert {per: LearnedScale(per).sharing for per in learned} == learned
    assert (HorseshoePrior().sharing, GaussianPrior().sharing) == ("coordinate", "shared")
    kinds = (GaussianPrior, HierarchicalPrior, HorseshoePrior, LearnedScale)
    assert [kind.in_units_of_columns for kind in kinds] == [False, False, False, True]
    assert [kind().one_scale() for kind in kinds[:3]] == [(1.0, 1.0), None, None]
    assert [kind().known(K, M, True) is None for kind in kinds] == [False, True, True, True]


def test_defaults_of_priors():
    assert GaussianPrior() == GaussianPrior(0.0, 1.0, None, None)
    assert HierarchicalPrior() == HierarchicalPrior("feature", 0.5, 0.5, 10.0)
    learnt = [kind.learnt for kind in (GaussianPrior, HierarchicalPrior, HorseshoePrior)]
    assert learnt == [False, True, True]
    bound = GaussianPrior().bind(3, 4, True)
    assert bound.mean.tolist() == [0.0] * 4
    assert bound.precision(slice(0, 3)).ravel().tolist() == [1.0] * 4
    assert not bound.learnt
    assert bound.intercept_precision is None
