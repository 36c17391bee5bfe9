"""The Laplace method: likelihood, curvature, mode, chains and priors, against the plain twin."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from forms import forms
from scipy.special import log_expit

import reference.laplace as twin
import reference.noise as reference_noise
from bigcat import LinearClassifier
from bigcat import noise as noises
from bigcat.bayes import (
    GaussianPrior,
    HorseshoePrior,
    Laplace,
    LearnedScale,
)
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import ClassFull, Drawn, JointFull
from bigcat.bayes.laplace import likelihood as _likelihood
from bigcat.bayes.laplace.chains import Chains
from bigcat.bayes.laplace.forms import Shape
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.method import warn_of_long_fit
from bigcat.bayes.laplace.mode import find_mode
from bigcat.bayes.laplace.whitening import (
    class_precisions,
    joint_precision,
    make_whitening,
)
from bigcat.bayes.priors.chains import Scales
from tests.bayesian import check_intervals, check_predictions, csr, four_classes, laplace

PRIOR = np.array([[0.5, 1.0, 0.2]])
NOISES = forms(["gumbel", "gaussian", "logistic"], lambda name: name != "logistic")
REFERENCE = {n.name: n for n in (reference_noise.GUMBEL, reference_noise.GAUSSIAN)}
REFERENCE["logistic"] = reference_noise.LOGISTIC


def problem(n=12, n_classes=3, seed=0):
    """Rows without and with their column of ones, labels, weights of rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    return X, np.column_stack([X, np.ones(n)]), y, rng.integers(1, 4, n).astype(float)


def likelihood_of(noise="gumbel", sparse=False, n_threads=1):
    X, _, y, s = problem()
    design = Design(scipy.sparse.csr_array(X) if sparse else X, True, s)
    return Likelihood(design, y, noises.resolve(noise), 3, n_threads)


def weights(seed=1, n_chains=2, size=1.0):
    return size * np.random.default_rng(seed).standard_normal((n_chains, 3, 3))


# The likelihood and its curvature


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("noise", NOISES)
def test_values_and_gradients_are_the_twins(noise, sparse):
    _, X, y, s = problem()
    likelihood = likelihood_of(noise, sparse)
    stack = weights()
    values, gradients = likelihood.gradients(stack)
    np.testing.assert_allclose(likelihood.values(stack), values, rtol=1e-12)
    for W, value, gradient in zip(stack, values, gradients):
        expected = twin.log_likelihood(REFERENCE[noise], W, X, y, s)
        assert value == pytest.approx(expected[0], rel=1e-7)
        np.testing.assert_allclose(gradient, expected[1], atol=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_gradients_are_finite_differences(noise):
    likelihood, W, step = likelihood_of(noise), weights()[0], 1e-4
    moves = step * np.eye(W.size).reshape(-1, *W.shape)
    differences = (likelihood.values(W + moves) - likelihood.values(W - moves)) / (2.0 * step)
    np.testing.assert_allclose(likelihood.gradients(W[None])[1].ravel(), differences, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("noise", NOISES)
def test_precisions_are_the_twins(noise, sparse):
    _, X, _, s = problem()
    likelihood, W = likelihood_of(noise, sparse), weights()[0]
    expected = twin.precision(REFERENCE[noise], W, X, s, PRIOR)
    np.testing.assert_allclose(joint_precision(likelihood, W, PRIOR), expected, atol=1e-5)
    blocks = class_precisions(likelihood, W, PRIOR)
    np.testing.assert_allclose(blocks, twin.class_blocks(expected, 3), atol=1e-5)


def test_the_precision_of_the_softmax_is_its_hessian():
    likelihood, W, step = likelihood_of(), weights()[0], 1e-4
    moves = step * np.eye(W.size).reshape(-1, *W.shape)
    up, down = (likelihood.gradients(W + sign * moves)[1] for sign in (1.0, -1.0))
    hessian = -(up - down).reshape(W.size, W.size) / (2.0 * step)
    hessian[np.diag_indices(W.size)] += np.tile(PRIOR[0], 3)
    np.testing.assert_allclose(joint_precision(likelihood, W, PRIOR), hessian, atol=1e-5)


@pytest.mark.parametrize("noise", ["gumbel", "gaussian"])
@pytest.mark.parametrize("size", [1e3, 1e9])
def test_huge_scores_stay_finite(noise, size):
    values, gradients = likelihood_of(noise).gradients(weights(size=size))
    assert np.isfinite(values).all()
    assert np.isfinite(gradients).all()
    assert (values < 0.0).all()


def test_single_precision_and_threads_round_only(monkeypatch):
    expected = likelihood_of().gradients(weights())
    monkeypatch.setattr(_likelihood, "CACHED", 16)  # two rows at a time
    for found, value in zip(likelihood_of(n_threads=2).gradients(weights()), expected):
        np.testing.assert_allclose(found, value, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(_likelihood, "MANY_PRODUCTS", 0)
    rough = likelihood_of(n_threads=2)
    assert rough.dtype == np.float32
    for found, value in zip(rough.gradients(weights()), expected):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_scores_about_the_limit_of_small_ones(monkeypatch, scale):
    monkeypatch.setattr(_likelihood, "MANY_PRODUCTS", 0)
    X = np.array([[60.0 * scale], [-60.0 * scale]])
    likelihood = Likelihood(Design(X, False), np.array([0, 0]), noises.resolve("gumbel"), 3)
    assert likelihood.dtype == np.float32
    values, gradients = likelihood.gradients(np.array([[[1.0], [-1.0], [0.5]]]))
    np.testing.assert_allclose(values, [-120.0 * scale], rtol=1e-6)
    np.testing.assert_allclose(gradients[0], X[0] * [[-1.0], [1.0], [0.0]], rtol=1e-6, atol=1e-6)


# The mode


@pytest.mark.parametrize("noise", NOISES)
def test_the_mode_is_the_twins(noise):
    _, X, y, s = problem()
    found, converged = find_mode(likelihood_of(noise), PRIOR, np.zeros((1, 3)), np.zeros((3, 3)))
    assert converged
    expected = twin.find_mode(REFERENCE[noise], X, y, s, PRIOR, 3)
    np.testing.assert_allclose(found, expected, atol=3e-5)


def test_the_mode_with_a_prior_mean():
    likelihood, mean = likelihood_of(), np.array([[2.0, -1.0, 0.5]])
    found, _ = find_mode(likelihood, PRIOR, mean, np.zeros((3, 3)))
    slopes = PRIOR * (found - mean) - likelihood.gradients(found[None])[1][0]
    np.testing.assert_allclose(slopes, 0.0, atol=1e-4)


def test_the_mode_is_that_of_the_linear_classifier():
    X, y = four_classes(80)
    own = laplace(covariance="full", prior="gaussian", fit_intercept=False).fit(X, y)
    linear = LinearClassifier(
        method="exact", solver="lbfgs", l2=1.0, fit_intercept=False, rank=None, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(own.coef_, linear.coef_, atol=2e-3)
    found, expected = own.predict_proba(X, "plug-in"), linear.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_the_evidence_and_the_covariance_are_the_twins():
    rows, X, y, _ = problem()
    options = {"prior": GaussianPrior(scale=2.0)}
    model = laplace(covariance="full", **options).fit(rows, y)
    P, s = np.full((1, 3), 0.25), np.ones(len(y))
    expected = twin.log_evidence(REFERENCE["gumbel"], X, y, s, P, 3)
    # Laplace's value is too low by what importance sampling adds with 12 rows.
    assert expected < model.evidence_ < expected + 0.5
    H = twin.precision(REFERENCE["gumbel"], model.posterior_.mean, X, s, P)
    np.testing.assert_allclose(model.posterior_.covariance, np.linalg.inv(H), atol=1e-5)


# Chains


def chains_of(likelihood, prior, n_chains, seed=0):
    """Many chains at once, so that a few draws of each are thousands that are independent."""
    intercept = likelihood.design.intercept
    n_features = likelihood.design.n_columns - intercept
    length = float(np.square(likelihood.design.rows[:, :n_features]).sum(axis=1).mean())
    state = prior.chain(n_chains, likelihood.n_classes, n_features, intercept, length)

    def whiten_at(precision, near):
        mode, _ = find_mode(likelihood, precision, state.mean[None], near)
        return make_whitening("full", likelihood, mode, precision)

    start = np.zeros(likelihood.shape)
    return Chains(likelihood, state, whiten_at, start, np.random.RandomState(seed))


def one_feature():
    """K = 2 and one column, mostly of one class: a posterior that is skewed."""
    x = np.array([0.5, 1.0, 1.5, 2.0, -1.0, 0.3])
    y = np.array([1, 1, 1, 1, 0, 0])
    return x, y, Likelihood(Design(x[:, None], False), y, noises.resolve("gumbel"), 2)


def check_moments(draws, nodes, density, n_draws):
    """Mean and standard deviation of draws against those of a density on a grid."""
    density = density / density.sum()
    mean = density @ nodes
    deviation = np.sqrt(density @ np.square(nodes - mean))
    assert draws.mean() == pytest.approx(mean, abs=4.5 * deviation / np.sqrt(n_draws))
    kurtosis = density @ ((nodes - mean) / deviation) ** 4
    error = 0.5 * np.sqrt((kurtosis - 1.0) / n_draws)
    assert draws.std() / deviation == pytest.approx(1.0, abs=4.5 * error)


def of_difference(x, y, variance, nodes):
    """The density of w_1 - w_0 on a grid: the sum of both is independent of it and of the rows."""
    signs = np.where(y == 1, 1.0, -1.0) * x
    logs = log_expit(nodes[:, None] * signs).sum(axis=1) - nodes**2 / (4.0 * variance)
    return np.exp(logs) / np.sqrt(variance)


def test_draws_have_the_posteriors_moments():
    x, y, likelihood = one_feature()
    drawn = chains_of(likelihood, GaussianPrior(scale=2.0), 400).run(10, 2)
    nodes = np.linspace(-30.0, 30.0, 4_001)
    difference = drawn.stack[:, 1, 0] - drawn.stack[:, 0, 0]
    assert drawn.stack.shape == (4_000, 2, 1)
    assert drawn.mixing.acceptance > 0.7
    assert drawn.mixing.r_hat < 1.1
    check_moments(difference, nodes, of_difference(x, y, 4.0, nodes), 2_000)
    total = drawn.stack.sum(axis=(1, 2))
    check_moments(total, nodes, np.exp(-(nodes**2) / 16.0), 2_000)


def test_draws_of_a_learnt_scale_have_its_posteriors_moments():
    x, y, likelihood = one_feature()
    prior = LearnedScale(width=1.5)
    drawn = chains_of(likelihood, prior, 400).run(20, 3)
    unit = np.square(x).mean()  # scales are those of a score
    log_scales = np.linspace(-9.0, 6.0, 601)
    scales = np.exp(log_scales)
    nodes = np.linspace(-60.0, 60.0, 2_401)
    hyper = scipy.stats.t.pdf(scales / prior.width, 4.0) * scales
    table = np.array([h * of_difference(x, y, s**2 / unit, nodes) for h, s in zip(hyper, scales)])
    check_moments(-0.5 * drawn.log_scales[:, 0], log_scales, table.sum(axis=1), 1_500)
    difference = drawn.stack[:, 1, 0] - drawn.stack[:, 0, 0]
    inside = np.abs(difference) < 20.0  # beyond it moments are those of a few draws
    assert inside.mean() > 0.99
    kept = np.abs(nodes) < 20.0
    check_moments(difference[inside], nodes[kept], table.sum(axis=0)[kept], 1_500)


# Scales of priors


@pytest.mark.parametrize(("freedom", "width"), [(1.0, 0.5), (4.0, 2.0)])
def test_scales_without_data_are_half_t(freedom, width):
    n, rng = 4_000, np.random.RandomState(0)
    scales = Scales.half_t(width, (n,), freedom)
    mixing: Any = np.ones(n)
    values: Any = np.ones(n)
    for _ in range(60):
        scales = scales.drawn(0.0, np.zeros(n), rng)
        values, mixing = twin.draw_precision(0.0, 0, mixing, freedom, width, FromState(rng, n))
    for found in (scales.values, values):
        for share in (0.1, 0.5, 0.9):
            expected = width * scipy.stats.t.ppf(0.5 + 0.5 * share, freedom)
            below = (found**-0.5 < expected).mean()
            assert below == pytest.approx(share, abs=4.5 * np.sqrt(share * (1.0 - share) / n))


class FromState:
    """Many draws at once for the twin, which makes one."""

    def __init__(self, rng, n):
        self.rng, self.n = rng, n

    def gamma(self, shape):
        return self.rng.gamma(shape, size=self.n)


@pytest.mark.parametrize(
    "prior",
    [
        LearnedScale("class"),
        LearnedScale("feature"),
        LearnedScale("both"),
        HorseshoePrior(0.5),
        GaussianPrior(mean=[0.5, 0.0, 0.0], precision=[1.0, 2.0, 3.0], intercept_scale=3.0),
    ],
    ids=str,
)
def test_every_prior_is_drawn_with_the_weights(prior):
    X, y = four_classes(60)
    model = laplace(n_draws=32, covariance="draws", prior=prior).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.5
    assert np.isfinite(model.evidence_)
    learns = not isinstance(prior, GaussianPrior)
    assert np.isfinite(model.history_["log_precision"]).all() == learns


# Covariances


def test_a_joint_covariance_draws_all_classes_together():
    X, y = four_classes(60)
    q = laplace(covariance="full", prior="gaussian").fit(X, y).posterior_
    form = q.scaled_covariance
    assert isinstance(form, JointFull)
    draws = q.sample(4_000, random_state=0) - q.mean
    found = np.cov(draws.reshape(len(draws), -1), rowvar=False)
    np.testing.assert_allclose(found, q.covariance, atol=0.08 * q.covariance.max())
    np.testing.assert_allclose(q.scale.ravel() ** 2, np.diag(q.covariance))
    matrices = np.array([q.covariance_of(k) for k in range(4)])
    own = ClassFull(matrices, np.linalg.slogdet(matrices)[1])
    design = Design(X, True)
    for block in (slice(0, 4), slice(1, 3)):
        np.testing.assert_allclose(form.variances(block), own.variances(block))
        found, expected = (f.row_variances(design, block) for f in (form, own))
        np.testing.assert_allclose(found, expected)


def test_draws_are_their_own_covariance():
    X, y = four_classes(60)
    q = laplace(covariance="draws", n_draws=64, prior="gaussian").fit(X, y).posterior_
    form = q.scaled_covariance
    assert isinstance(form, Drawn)
    every = q.sample(64, random_state=3)
    np.testing.assert_allclose(every.mean(axis=0), q.mean, atol=1e-6)
    np.testing.assert_allclose(every.std(axis=0, ddof=1), q.scale, rtol=1e-5)
    scores = np.einsum("nm,skm->snk", np.column_stack([X, np.ones(len(X))]), every)
    spread = form.row_variances(Design(X, True), slice(1, 3))
    np.testing.assert_allclose(spread, scores.var(axis=0, ddof=1)[:, 1:3], rtol=1e-4)
    np.testing.assert_allclose(q.covariance[2], q.covariance_of(2))
    known = {row.tobytes() for row in form.deviations}
    for n in (7, 64, 100):
        some = form.draws(n, (4, 4), np.random.RandomState(0))
        assert {row.tobytes() for row in some} <= known
        if n >= 64:  # all of them: a draw that a chain stayed at is there more than once
            assert {row.tobytes() for row in some} == known


# Whole fits


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"covariance": "full"},
        {"covariance": "class", "prior": "gaussian"},
        {"covariance": "full", "noise": "gaussian", "prior": "gaussian"},
    ],
    ids=str,
)
def test_predictions_and_intervals(options):
    X, y = four_classes(80)
    model = laplace(n_draws=100, **options).fit(X, y)
    for how in ("plug-in", "averaged"):
        check_predictions(model, X, y, how)
        assert model.log_proba_of(X, y, how).mean() > np.log(0.25) + 0.2
    check_intervals(model, X[:20])
    selection = model.history_.selection
    assert selection is not None
    assert selection["covariance"] == options.get("covariance", "draws")
    assert selection["reason"]


def test_averages_are_more_cautious_far_away():
    X, y = four_classes(60)
    model = laplace(n_draws=100).fit(X, y)
    far = 10.0 * X[:10]
    averaged, plug_in = (model.predict_proba(far, how).max(axis=1) for how in HOW)
    assert (averaged <= plug_in + 1e-9).mean() > 0.8
    assert averaged.mean() < plug_in.mean()


HOW = ("averaged", "plug-in")


def test_separable_classes():
    X = np.repeat([[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]], 5, axis=0)
    y = np.repeat([0, 1, 2], 5)
    model = laplace(n_draws=100).fit(X, y)
    p = model.predict_proba(X, "averaged")
    own = p[np.arange(15), y]
    assert ((own > 0.6) & (own < 1.0 - 1e-6)).all()
    assert np.abs(model.coef_).max() < 100.0


def test_a_class_with_one_row_and_classes_without():
    X, y = four_classes(60)
    y = np.where(np.arange(60) == 7, "elk", y)
    everyone = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu"]
    model = laplace(n_draws=100).fit(X, y, classes=everyone)
    assert model.classes_.tolist() == everyone
    p = model.predict_proba(X, "averaged").mean(axis=0)
    assert (p > 0.0).all()
    assert p[4:].max() < p[:4].min()
    assert p[5:].max() < p[4]
    rare, usual = model.posterior_.scale[5:, :-1], model.posterior_.scale[:4, :-1]
    assert rare.mean() > usual.mean()


def test_constant_columns_and_two_classes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 1))
    X = np.column_stack([np.zeros(60), x, np.full(60, 3.0), x])
    y = (x[:, 0] + 0.5 * rng.standard_normal(60) > 0.0).astype(int)
    model = laplace(n_draws=100).fit(X, y)
    assert np.isfinite(model.posterior_.mean).all()
    assert np.isfinite(model.posterior_.scale).all()
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.coef_[0], -model.coef_[1], atol=1.5)


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40))
    y = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
    for rows in (X, csr(X)):
        model = laplace(n_draws=64, covariance="draws").fit(rows, y)
        assert np.isfinite(model.posterior_.scale).all()
        assert np.isfinite(model.evidence_)
        assert model.score(rows, y) > 0.6


@pytest.mark.parametrize("change", ["moved", "scaled"])
def test_units_of_columns_do_not_matter(change):
    X, y = four_classes(60)
    new = X + 50.0 if change == "moved" else X * [1e-3, 1.0, 1e3]
    model = laplace(covariance="draws", n_draws=200)
    first, second = (model.fit(rows, y).predict_proba(rows, "averaged") for rows in (X, new))
    np.testing.assert_allclose(second, first, atol=0.06)


def test_a_row_of_weight_two_is_a_row_twice():
    X, y = four_classes(40)
    s = np.tile([1.0, 2.0], 20)
    order = np.repeat(np.arange(40), s.astype(int))
    for prior in (GaussianPrior(scale=2.0), LearnedScale("feature")):
        model = laplace(covariance="full", prior=prior)
        weighted = model.fit(X, y, s).posterior_
        mean, covariance = weighted.mean, weighted.covariance
        twice = model.fit(X[order], y[order]).posterior_
        atol = 1e-4 if isinstance(prior, GaussianPrior) else 0.15
        np.testing.assert_allclose(mean, twice.mean, atol=atol)
        np.testing.assert_allclose(covariance, twice.covariance, atol=atol)


def test_draws_with_a_known_prior_are_those_of_a_row_twice():
    X, y = four_classes(40)
    s = np.tile([1.0, 2.0], 20)
    order = np.random.RandomState(0).permutation(np.repeat(np.arange(40), s.astype(int)))
    model = laplace(covariance="draws", n_draws=16, prior=GaussianPrior(scale=2.0))
    weighted = model.fit(X, y, s).posterior_.sample(16)
    twice = model.fit(X[order], y[order]).posterior_.sample(16)
    np.testing.assert_allclose(weighted, twice, atol=1e-6)


def test_rows_of_weight_zero_do_not_count():
    X, y = four_classes(40)
    s = np.append(np.ones(30), np.zeros(10))
    model = laplace(n_draws=16, covariance="draws")
    found = model.fit(X, y, s, classes=np.unique(y)).coef_
    expected = model.fit(X[:30], y[:30], classes=np.unique(y)).coef_
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("prior", [GaussianPrior(), LearnedScale()], ids=str)
def test_types_of_rows_agree(prior):
    X, y = four_classes(50)
    X = X.astype(np.float32)
    X[np.abs(X) < 0.3] = 0.0
    model = laplace(n_draws=64, covariance="draws", prior=prior, fit_intercept=False)
    first = model.fit(X, y).posterior_.mean
    np.testing.assert_array_equal(model.fit(X.astype(np.float64), y).posterior_.mean, first)
    np.testing.assert_array_equal(model.fit(np.asfortranarray(X), y).posterior_.mean, first)
    found = model.fit(csr(X), y).posterior_
    np.testing.assert_allclose(found.mean, first, atol=0.5 * found.scale.max())
    full = laplace(covariance="full", prior=GaussianPrior())
    dense, sparse = (full.fit(rows, y).predict_proba(X, "averaged") for rows in (X, csr(X)))
    np.testing.assert_allclose(sparse, dense, atol=1e-4)


def test_the_seed_decides_and_threads_do_not(monkeypatch):
    X, y = four_classes(50)

    def fitted(seed, n_threads=1):
        model = laplace(n_draws=16, covariance="draws", prior="gaussian", random_state=seed)
        q = model.set_params(n_threads=n_threads).fit(X, y).posterior_
        assert isinstance(q.covariance_form, Drawn)
        return q.covariance_form.deviations

    first = fitted(0)
    np.testing.assert_array_equal(fitted(0), first)
    assert (fitted(1) != first).any()
    monkeypatch.setattr(_likelihood, "CACHED", 256)  # rows enough for several threads
    np.testing.assert_allclose(fitted(0, n_threads=2), first, atol=1e-3)


# Refused input


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Laplace(covariance="block"), r"covariance='block' is not known; choose"),
        (lambda: Laplace(noise="cauchy"), r"'cauchy'.*choose"),
        (lambda: Laplace(n_draws=0), "n_draws=0"),
        (lambda: Laplace(n_draws=-1), "n_draws=-1 must be a whole number"),
        (lambda: LearnedScale("row"), "per='row' is not known; choose"),
        (lambda: LearnedScale(width=0.0), "width=0.0 of the prior must be a finite number above 0"),
        (lambda: LearnedScale(width=np.inf), "width=inf of the prior"),
    ],
)
def test_bad_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_mode_that_takes_long_is_announced():
    """From the sizes alone, with what to do instead."""
    warn_of_long_fit(Shape(1_000, 50, 100, 50.0, True))
    with pytest.warns(UserWarning, match=r"10,000 classes .* method='augment-reduce'"):
        warn_of_long_fit(Shape(100_000, 5_001, 10_000, 51.0, True))
