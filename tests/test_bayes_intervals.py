"""Intervals of probabilities, log-odds and weights: closed forms, draws, labels, errors."""

from typing import Any

import numpy as np
import pytest
from forms import slow
from scipy.stats import norm

from bigcat.bayes import GaussianPrior
from bigcat.bayes._design import Design
from bigcat.bayes._quantiles import quantiles_of
from bigcat.bayes.binary.posterior import BinaryPosterior
from bigcat.bayes.covariance import (
    ClassDiagonal,
    ClassFull,
    Covariance,
    Drawn,
    JointFull,
    SharedDiagonal,
    SharedFull,
)
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.noise import resolve
from tests.bayesian import augment_reduce, binary, csr, four_classes

K, M = 4, 3
CLASSES = np.array(["ant", "bee", "cat", "dog"])


def matrices(n: int, size: int) -> np.ndarray:
    roots = np.random.default_rng(3).standard_normal((n, size, size))
    return 0.3 * (roots @ roots.transpose(0, 2, 1)) + 0.1 * np.eye(size)


def spread() -> np.ndarray:
    return np.random.default_rng(4).uniform(0.2, 1.0, (K, M))


FORMS: dict[str, Covariance] = {
    "joint": JointFull(matrices(1, K * M)[0], K),
    "class": ClassFull(matrices(K, M), np.zeros(K)),
    "shared": SharedFull(matrices(1, M)[0], 0.0),
    "class diagonal": ClassDiagonal(spread()),
    "shared diagonal": SharedDiagonal(spread()[0]),
}


def of_form(form: Covariance, noise: str = "gumbel") -> NoisePosterior:
    mean = np.random.default_rng(5).standard_normal((K, M))
    return NoisePosterior(mean, form, intercept=True, classes=CLASSES, noise=resolve(noise))


def drawn(n: int = 400) -> NoisePosterior:
    q = of_form(FORMS["joint"])
    deviations = q.sample(n, random_state=0) - q.mean
    return of_form(Drawn((deviations - deviations.mean(axis=0)).astype(np.float32)))


def quantiles(draws: np.ndarray, tails: list[float]) -> np.ndarray:
    """Return quantiles that contain one more draw with their nominal probability."""
    return np.asarray(np.quantile(draws, tails, axis=0, method="weibull"))


def rows(n: int = 6) -> np.ndarray:
    return np.random.default_rng(6).standard_normal((n, M - 1))


@pytest.mark.parametrize("name", FORMS)
def test_log_odds_of_a_softmax_are_those_of_many_draws(name):
    q, X = of_form(FORMS[name]), rows()
    low, high = q.log_odds_interval(X, 2, 0, level=0.8)
    weights = q.sample(40_000, random_state=1)
    odds = np.column_stack([X, np.ones(len(X))]) @ (weights[:, 2] - weights[:, 0]).T
    expected = np.quantile(odds, [0.1, 0.9], axis=1)
    scale = expected[1] - expected[0]
    assert (np.abs(np.array([low, high]) - expected) < 0.03 * scale).all()
    sparse = q.log_odds_interval(csr(X), 2, 0, level=0.8)
    np.testing.assert_allclose(sparse, [low, high], rtol=1e-10)


@pytest.mark.parametrize("name", FORMS)
def test_weights_and_differences_of_weights_are_those_of_many_draws(name):
    q = of_form(FORMS[name])
    weights = q.sample(40_000, random_state=2)
    low, high = q.weight_interval(0.8)
    assert low.shape == high.shape == (K, M)
    expected = np.quantile(weights, [0.1, 0.9], axis=0)
    assert (np.abs(np.array([low, high]) - expected) < 0.03 * (expected[1] - expected[0])).all()
    found = q.covariance_form.difference_variances(np.array([0, 3]), 1)
    expected = (weights[:, [0, 3]] - weights[:, [1]]).var(axis=0)
    np.testing.assert_allclose(np.broadcast_to(found, (2, M)), expected, rtol=0.05)


def test_all_draws_that_are_kept_are_used():
    q, X = drawn(), rows()
    form: Any = q.covariance_form
    weights = q.mean + form.deviations.astype(np.float64)
    scores = np.einsum("nm,skm->snk", np.column_stack([X, np.ones(len(X))]), weights)
    logs = scores - np.log(np.exp(scores).sum(axis=2, keepdims=True))
    expected = quantiles(np.exp(logs), [0.05, 0.95])
    np.testing.assert_allclose(q.predict_interval(X), expected, rtol=1e-9)
    odds = quantiles(scores[:, :, 1] - scores[:, :, 2], [0.05, 0.95])
    np.testing.assert_allclose(q.log_odds_interval(X, 1, 2), odds, rtol=1e-6)
    expected = quantiles(weights, [0.05, 0.95])
    np.testing.assert_allclose(q.weight_interval(), expected, rtol=1e-6, atol=1e-7)
    averaged = np.exp(q.log_proba(X, "averaged"))
    np.testing.assert_allclose(averaged, np.exp(logs).mean(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(q.sample(400), weights)


def test_fewer_and_more_draws_than_are_kept():
    q = drawn(50)
    kept = {tuple(w.ravel().round(6)) for w in q.sample(50)}
    few = q.sample(20, random_state=0)
    with pytest.warns(UserWarning, match="100 draws of a posterior that keeps 50 distinct ones"):
        many = q.sample(100, random_state=0)
    assert len({tuple(w.ravel().round(6)) for w in few} & kept) == 20
    assert [{tuple(w.ravel().round(6)) for w in many}] == [kept]


@pytest.mark.parametrize("noise", ["gaussian", slow("logistic")])
def test_other_noises_draw_their_scores(noise):
    q, X = of_form(FORMS["class"], noise), rows(3)
    low, high = q.log_odds_interval(X, 0, 1, n_draws=2000)
    logs = q.log_proba(X, "plug-in")
    middle = logs[:, 0] - logs[:, 1]
    assert ((low < middle) & (middle < high)).all()
    narrow = q.log_odds_interval(X, 0, 1, level=0.3, n_draws=2000)
    assert (low < narrow[0]).all()
    assert (narrow[1] < high).all()
    # Not a difference of scores: other classes count, too.
    softmax = of_form(FORMS["class"]).log_odds_interval(X, 0, 1)
    assert np.abs(np.array(softmax) - [low, high]).max() > 0.5


def test_binary_regressions_with_a_logit_are_a_softmax():
    X, y = four_classes(150)
    m = binary("logit", likelihood="conditioned", random_state=0).fit(X, y)
    assert isinstance(m.posterior_, BinaryPosterior)
    exact = m.log_odds_interval(X[:4], "cat", "dog", 0.9)
    m.posterior_.link = "probit"  # the way of draws, with another link
    assert not m.posterior_.odds_are_scores
    m.posterior_.link = "logit"
    spread = np.sqrt(
        m.posterior_.covariance_form.row_difference_variances(Design(X[:4], True), 2, 3)
    )
    np.testing.assert_allclose(exact[1] - exact[0], 2 * norm.ppf(0.95) * spread, rtol=1e-10)
    scores = X[:4] @ (m.coef_[2] - m.coef_[3]) + m.intercept_[2] - m.intercept_[3]
    np.testing.assert_allclose((exact[0] + exact[1]) / 2, scores, rtol=1e-8)


def test_the_estimator_takes_labels_and_says_the_same():
    X, y = four_classes(120)
    m = augment_reduce(max_epochs=3, prior=GaussianPrior(scale=0.7)).fit(X, y)
    for found, expected in zip(m.predict_interval(X[:3]), m.posterior_.predict_interval(X[:3])):
        np.testing.assert_array_equal(found, expected)
    odds = m.log_odds_interval(X[:3], "dog", "ant", level=0.5)
    np.testing.assert_array_equal(odds, m.posterior_.log_odds_interval(X[:3], 3, 0, 0.5))
    turned = m.log_odds_interval(X[:3], "ant", "dog", level=0.5)
    np.testing.assert_allclose(odds[0], -turned[1], rtol=1e-12)
    with pytest.raises(ValueError, match=r"first: 'eel' is not a class of this model"):
        m.log_odds_interval(X, "eel", "ant")
    with pytest.raises(ValueError, match="second: 3 is not a class of this model"):
        m.log_odds_interval(X, "ant", 3)
    with pytest.raises(ValueError, match=r"level=1\.5 must lie between 0 and 1"):
        m.log_odds_interval(X, "ant", "bee", 1.5)
    with pytest.raises(ValueError, match="X has 2 features, but BayesianClassifier is expecting 3"):
        m.predict_interval(X[:, :2])


def test_intervals_of_few_draws_hold_their_level():
    rng = np.random.default_rng(0)
    draws, more = rng.standard_normal((19, 20_000)), rng.standard_normal(20_000)
    low, high = quantiles_of(draws, np.array([0.05, 0.95]))
    assert ((low < more) & (more < high)).mean() == pytest.approx(0.9, abs=0.008)
    tails = [0.01, 0.3, 0.5, 0.97]
    found = quantiles_of(draws.T, np.array(tails), axis=1)
    np.testing.assert_allclose(found, quantiles(draws, tails), rtol=1e-12)


def test_posteriors_say_what_they_are():
    assert repr(drawn(30)) == "<NoisePosterior: 4 classes, 3 weights each, noise gumbel, 30 draws>"
    assert repr(of_form(FORMS["class"], "gaussian")) == (
        "<NoisePosterior: 4 classes, 3 weights each, noise gaussian, a matrix per class>"
    )
    X, y = four_classes(60)
    assert repr(binary(random_state=0).fit(X, y).posterior_) == (
        "<BinaryPosterior: 4 classes, 4 weights each, probit link, average likelihood, one matrix "
        "for all classes>"
    )


def test_predictions_are_averaged_unless_asked_otherwise():
    X, y = four_classes(60)
    m = binary(random_state=0).fit(X, y)
    averaged, plug_in = (m.predict_proba(X, how) for how in ("averaged", "plug-in"))
    assert np.abs(averaged - plug_in).max() > 1e-3
    np.testing.assert_array_equal(m.predict_proba(X), averaged)
    np.testing.assert_array_equal(m.predict_log_proba(X), m.predict_log_proba(X, "averaged"))
    np.testing.assert_array_equal(m.predict(X), m.predict(X, "averaged"))
    np.testing.assert_array_equal(m.log_proba_of(X, y), m.log_proba_of(X, y, "averaged"))
    np.testing.assert_array_equal(m.predict_top_k(X, 2)[1], m.predict_top_k(X, 2, "averaged")[1])
    with pytest.raises(ValueError, match="choose 'averaged' or 'plug-in'"):
        m.predict(X, posterior="mode")
