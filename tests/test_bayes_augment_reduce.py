"""BayesianClassifier(method="augment-reduce"): predictions, intervals, errors."""

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_iris

from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import AugmentReducePosterior, GaussianPrior, LearnedScale
from bigcat.bayes import posterior as module
from bigcat.bayes.binary import likelihoods
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.noise import Gaussian, Gumbel
from bigcat.probabilities import log_probabilities
from bigcat.training import memory as _memory
from bigcat.training.data import TrainingData
from bigcat.training.validation import split
from tests.bayesian import (
    augment_reduce,
    check_arviz,
    check_intervals,
    check_predictions,
    four_classes,
)

#: The softmax's closed form, and quadrature, which is the same for all other noises.
NOISES = ["gumbel", "gaussian"]


@pytest.fixture(scope="module")
def data():
    return four_classes(400)


@pytest.fixture(scope="module", params=NOISES)
def model(request, data):
    return augment_reduce(noise=request.param).fit(*data)


def test_attributes(model):
    q = model.posterior_
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert q.mean.shape == q.scale.shape == q.covariance.shape == (4, 4)
    assert (q.mean[:, :3] == model.coef_).all()
    assert (q.mean[:, 3] == model.intercept_).all()
    assert ((q.scale > 0.0) & (q.scale < 1.0)).all()  # data say more than the prior
    assert model.n_iter_ == len(model.history_) <= 50
    assert model.elbo_ == pytest.approx(400 * model.history_[-1]["elbo"])
    assert np.nanmax(model.history_["elbo"]) < 0.0
    assert model.history_["elbo"][-1] > model.history_["elbo"][0]
    assert not hasattr(model, "averaging_weight_")
    assert not hasattr(model, "partial_fit")
    assert model.score(*four_classes(400, new=True)) > 0.5


@pytest.mark.parametrize("posterior", ["plug-in", "averaged"])
def test_predictions_agree_with_each_other(model, data, posterior):
    X, y = data
    check_predictions(model, X[:60], y[:60], posterior)


def test_probabilities_are_those_of_the_noise(model, data):
    X = data[0]
    scores = X @ model.coef_.T + model.intercept_
    expected = log_probabilities(model.posterior_.noise, scores)
    np.testing.assert_allclose(model.predict_log_proba(X, "plug-in"), expected, atol=1e-10)


def test_averaged_is_the_mean_over_weights(data):
    X = data[0][:20]
    m = augment_reduce(n_draws=4000, max_epochs=5, prior=GaussianPrior(scale=0.7)).fit(*data)
    rows = np.column_stack([X, np.ones(20)])
    draws = m.posterior_.sample(20_000, random_state=1)
    expected = np.exp(log_softmax(np.einsum("nm,skm->snk", rows, draws), axis=2)).mean(axis=0)
    np.testing.assert_allclose(m.predict_proba(X, posterior="averaged"), expected, atol=0.01)


def test_no_average_is_above_one():
    """Not by a rounding error either, whatever the number of draws."""
    mean, variances = np.array([[50.0], [-50.0], [-60.0]]), ClassDiagonal(np.full((3, 1), 1e-4))
    shape: dict[str, Any] = {"intercept": False, "classes": np.arange(3), "noise": Gumbel()}
    for n_draws in range(2, 40):
        q = NoisePosterior(mean, variances, n_draws=n_draws, **shape)
        assert q.log_proba(np.ones((1, 1)), "averaged").max() <= 0.0
    margins = np.array([[40.0, -40.0, -40.0], [9.0, -9.0, -9.0]])
    for weight in np.linspace(0.01, 0.99, 99):
        assert likelihoods.log_probabilities("probit", "average", margins, weight).max() <= 0.0


def test_averaged_does_not_depend_on_blocks(data, monkeypatch):
    X = data[0][:50]
    m = augment_reduce(max_epochs=3).fit(*data)
    whole = m.predict_proba(X, posterior="averaged")
    monkeypatch.setattr(module, "BLOCK", 4 * 7)
    np.testing.assert_allclose(m.predict_proba(X, posterior="averaged"), whole, rtol=1e-12)
    low, high = m.posterior_.predict_interval(X, n_draws=3)
    assert (low <= high).all()


def test_stops_when_the_elbo_no_longer_grows(data):
    easy = augment_reduce(max_epochs=300).fit(*data)
    assert 20 <= easy.n_iter_ < 200
    longer = augment_reduce(max_epochs=300, tol=1e-6).fit(*data)
    assert longer.n_iter_ > easy.n_iter_
    assert longer.history_["elbo"][-5:].mean() < easy.history_["elbo"][-5:].mean() + 0.02
    impatient = augment_reduce(max_epochs=300, n_iter_no_change=2).fit(*data)
    assert 4 <= impatient.n_iter_ < easy.n_iter_
    # The way there is the same.
    both = slice(0, impatient.n_iter_)
    np.testing.assert_array_equal(impatient.history_["elbo"], easy.history_["elbo"][both])


def test_held_out_rows_choose_the_epoch():
    """With few rows and a wide prior, where posterior means overfit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 20))
    y = (0.3 * X @ rng.standard_normal((20, 4)) + rng.gumbel(size=(150, 4))).argmax(axis=1)
    m = augment_reduce(validation_fraction=0.3, max_epochs=200, prior=GaussianPrior(scale=5.0)).fit(
        X, y
    )
    held_out = m.history_["validation_log_likelihood"]
    assert np.isfinite(held_out).all()
    best = int(np.argmax(held_out))
    assert best + 1 < m.n_iter_ < 200
    assert m.elbo_ == pytest.approx(105 * m.history_["elbo"][best])
    # The rows that were held out are known by the seed: the kept posterior is the best epoch's.
    sample = TrainingData(X, y, np.ones(150))
    held = sample.take(split(sample, np.random.RandomState(0), 0.3)[0].held_out)
    kept = m.log_proba_of(held.X, held.labels, "plug-in").mean()
    assert kept == pytest.approx(held_out[best], abs=1e-6)
    assert np.isnan(
        augment_reduce(max_epochs=2).fit(X, y).history_["validation_log_likelihood"]
    ).all()


def test_held_out_rows_with_many_classes_and_sparse_rows():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(100), 4)
    X, X_new = (scipy.sparse.csr_array(np.eye(100)[y] * rng.random((400, 100))) for _ in range(2))
    m = augment_reduce(validation_fraction=0.2, max_epochs=30, n_negatives=3).fit(X, y)
    assert np.isfinite(m.history_["elbo"]).all()  # a pass over all weights an epoch
    assert m.score(X_new, y) > 0.5
    with pytest.raises(ValueError, match=r"validation_fraction=0.999 leaves no rows|no validation"):
        augment_reduce(validation_fraction=0.999).fit(X[:3], y[[0, 4, 8]])


@pytest.mark.parametrize("noise", NOISES)
def test_close_to_the_ridge(data, noise):
    """The prior N(0, 1) is a ridge of 1; means and modes differ little with this much data."""
    X, y = data
    m = augment_reduce(noise=noise, max_epochs=100).fit(X, y)
    best = LinearClassifier(noise, "exact", l2=1.0, max_epochs=500).fit(X, y)
    new = four_classes(400, new=True)
    assert m.score(*new) > best.score(*new) - 0.03
    gap = best.log_proba_of(*new).mean() - m.log_proba_of(*new, "plug-in").mean()
    assert abs(gap) < 0.02
    assert m.elbo_ / len(y) < m.log_proba_of(X, y).mean()


def test_iris():
    X, y = load_iris(return_X_y=True)
    m = augment_reduce().fit(X[::2], y[::2])
    assert m.score(X[1::2], y[1::2]) > 0.9
    assert m.log_proba_of(X[1::2], y[1::2]).mean() > -0.35
    low, high = m.posterior_.predict_interval(X)
    assert (m.predict_proba(X, posterior="averaged") <= high).mean() > 0.95
    assert (high - low).max() > 0.1


def test_intervals(model, data):
    X = data[0][:30]
    check_intervals(model, X)
    low, high = model.posterior_.predict_interval(X, level=0.95)
    p = model.predict_proba(X, posterior="averaged")
    assert ((low <= p) & (p <= high)).all()


def test_more_data_narrower_intervals(data):
    X, y = data
    few, many = (augment_reduce().fit(X[:n], y[:n]).posterior_ for n in (50, 400))
    widths = [np.mean(np.subtract(*q.predict_interval(X[:40])[::-1])) for q in (few, many)]
    assert widths[1] < 0.7 * widths[0]


def test_draws_have_the_moments(model):
    q = model.posterior_
    draws = q.sample(40_000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=0), q.mean, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=0), q.scale, rtol=0.03)
    np.testing.assert_allclose(q.covariance_of(2), np.diag(q.scale[2] ** 2), rtol=1e-12)


def test_arviz(model):
    pytest.importorskip("arviz", reason="arviz is not installed (extra `bayes`)")
    check_arviz(model)


def test_two_classes(data):
    X = data[0]
    y = np.where(X @ [1.0, -2.0, 0.5] > 0.3, "yes", "no")
    for noise in NOISES:
        m = augment_reduce(noise=noise).fit(X[:300], y[:300])
        assert m.score(X[300:], y[300:]) > 0.95
        assert m.predict_proba(X).shape == (400, 2)
        np.testing.assert_allclose(m.predict_proba(X, posterior="averaged").sum(axis=1), 1.0)


def test_sparse_rows(data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    rows = scipy.sparse.csr_array(X)
    dense, sparse = augment_reduce().fit(X, y), augment_reduce().fit(rows, y)
    np.testing.assert_allclose(sparse.posterior_.mean, dense.posterior_.mean, atol=0.05)
    np.testing.assert_allclose(sparse.posterior_.scale, dense.posterior_.scale, rtol=0.05)
    np.testing.assert_allclose(sparse.predict_proba(rows), dense.predict_proba(X), atol=0.02)
    for posterior in ("plug-in", "averaged"):  # one model, two forms of rows
        np.testing.assert_allclose(
            dense.predict_proba(rows, posterior), dense.predict_proba(X, posterior), atol=1e-12
        )


def test_many_classes_few_negatives():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 5))
    y = (X @ rng.standard_normal((5, 200)) * 2.0 + rng.gumbel(size=(4000, 200))).argmax(axis=1)
    X, y, X_new, y_new = X[:2000], y[:2000], X[2000:], y[2000:]
    m = augment_reduce(n_negatives=10, max_epochs=30).fit(X, y, classes=np.arange(200))
    assert m.posterior_.mean.shape == (200, 6)
    frequencies = np.bincount(y, minlength=200) / len(y)
    baseline = np.log(frequencies.clip(0.5 / len(y)))[y_new].mean()
    assert m.log_proba_of(X_new, y_new).mean() > baseline + 1.0
    absent = frequencies == 0.0
    if absent.any():
        assert m.predict_proba(X)[:, absent].mean() < 1e-3


def test_priors(data):
    wide, narrow = (augment_reduce(prior=GaussianPrior(scale=s)).fit(*data) for s in (1.0, 0.01))
    assert np.abs(narrow.coef_).max() < 0.1 < np.abs(wide.coef_).max()
    assert (narrow.posterior_.scale <= 0.01 + 1e-12).all()
    same = augment_reduce(prior=GaussianPrior(precision=4.0)).fit(*data)
    other = augment_reduce(prior=GaussianPrior(scale=0.5)).fit(*data)
    assert (same.coef_ == other.coef_).all()
    free = augment_reduce(prior=GaussianPrior(scale=0.01, intercept_scale=1.0)).fit(*data)
    assert np.abs(free.intercept_).max() > np.abs(narrow.intercept_).max()


def test_seeds_pickle_and_clone(data):
    X, y = data
    m = augment_reduce(noise=Gaussian()).fit(X, y)
    again = pickle.loads(pickle.dumps(m))
    for posterior in ("plug-in", "averaged"):
        expected = m.predict_proba(X, posterior=posterior)
        assert (again.predict_proba(X, posterior=posterior) == expected).all()
        twice = clone(m).fit(X, y)
        assert (twice.predict_proba(X, posterior=posterior) == expected).all()


def test_one_method_after_the_other(data):
    X, y = data
    m = BayesianClassifier("independent-binary", random_state=0).fit(X, y)
    assert hasattr(m, "averaging_weight_")
    m.set_params(method="augment-reduce").fit(X, y)
    assert not hasattr(m, "averaging_weight_")
    m.set_params(method="independent-binary")
    assert hasattr(m.fit(X, y), "averaging_weight_")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("fraction", [None, 0.2])
def test_forecast_holds(sparse, fraction):
    rng = np.random.default_rng(0)
    X: Any = rng.standard_normal((300, 400))
    y = np.arange(300)
    y[-30:] = 0  # so that some can be held out
    if sparse:
        X = scipy.sparse.csr_array(np.where(np.abs(X) > 1.5, X, 0.0))
    m = augment_reduce(max_epochs=3 if fraction else 1, validation_fraction=fraction)
    m.fit(X, y)  # compiles
    tracemalloc.start()
    try:
        m.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    nonzeros = X.nnz / 300 if sparse else 0.0
    forecast = m.memory_forecast(300, 400, 270, sparse=sparse, row_nonzeros=nonzeros)
    assert 0.5 * forecast < peak < 1.1 * forecast


def test_refusal(data, monkeypatch):
    m = augment_reduce()
    half = m.memory_forecast(10**4, 10**3, 10**3, sparse=False, dtype=np.float32)
    assert half < 0.7 * m.memory_forecast(10**4, 10**3, 10**3, sparse=False)
    monkeypatch.setattr(_memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="fit fewer classes or features, or give X in float32"):
        m.fit(*data)
    assert not hasattr(m, "classes_")


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("horseshoe", "prior=HorseshoePrior() learns several scales"),
        (LearnedScale("feature"), "take prior='learned', a GaussianPrior"),
        (GaussianPrior(mean=1.0), "with mean 0 and one scale"),
        (GaussianPrior(precision=np.ones(4)), "with mean 0 and one scale"),
    ],
    ids=str,
)
def test_priors_that_it_does_not_take(data, prior, message):
    m = augment_reduce(prior=prior)
    with pytest.raises(ValueError) as caught:
        m.fit(*data)
    assert message in str(caught.value)
    assert not hasattr(m, "classes_")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "cauchy"}, "noise='cauchy' is not known"),
        ({"n_negatives": 0}, "n_negatives=0 must be a whole number of at least 1"),
        ({"max_epochs": 1.5}, "max_epochs=1.5 must be a whole number of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be a finite number above 0"),
        ({"learning_rate": "auto"}, "learning_rate='auto' must be a finite number above 0"),
        ({"tol": -1.0}, "tol=-1.0 must be a finite number of at least 0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change=0 must be a whole number of at least 1"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0 must lie between 0 and 1"),
        ({"n_draws": True}, "n_draws=True must be a whole number"),
    ],
    ids=str,
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(ValueError) as caught:
        AugmentReducePosterior(**options)
    assert message in str(caught.value)


def test_no_batches(data):
    X, y = data
    with pytest.raises(AttributeError) as caught:
        augment_reduce().partial_fit(X, y, classes=np.unique(y))
    assert "method='augment-reduce', which needs all rows" in str(caught.value.__cause__)
