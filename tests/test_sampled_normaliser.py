"""Probabilities with a normaliser that some classes estimate."""

import numpy as np
import pytest
import scipy.sparse
from test_store import make_model

from bigcat import LinearClassifier
from bigcat.linear import sampled_normaliser as _sampled

K, D, RANK = 300, 7, 4
X = np.random.default_rng(3).normal(size=(6, D)).astype(np.float32)
Y = np.array([0, 1, 50, 100, 200, 299])


def make(kind):
    """A model with known weights and intercepts like the logarithms of Zipf's frequencies."""
    rng = np.random.default_rng(4)
    model = make_model(K=K, D=D, order="F" if kind == "feature-major" else "C")
    model.classes_ = np.arange(K)
    model.intercept_ = -np.log(np.arange(1.0, K + 1)).astype(np.float32)
    if kind == "low-rank":
        del model.coef_
        model.embedding_ = rng.normal(size=(D, RANK)).astype(np.float32) / 2
        model.class_embedding_ = rng.normal(size=(K, RANK)).astype(np.float32) / 2
    else:
        model.coef_ /= 3
    return model


KINDS = ("class-major", "feature-major", "low-rank")


@pytest.fixture(params=KINDS)
def model(request):
    return make(request.param)


def repeated(model, rows, labels, times, n_samples, seed=0):
    """Estimates and their standard errors, (times, n)."""
    n = rows.shape[0]
    stack = scipy.sparse.vstack if scipy.sparse.issparse(rows) else np.concatenate
    log_p, std = model.log_proba_of(
        stack([rows] * times),
        np.tile(labels, times),
        normaliser="sampled",
        n_samples=n_samples,
        return_std=True,
        random_state=seed,
    )
    return log_p.reshape(times, n), std.reshape(times, n)


@pytest.mark.parametrize("rows", [X, scipy.sparse.csr_matrix(X)], ids=["dense", "sparse"])
def test_the_normaliser_is_unbiased(model, rows):
    """The inverse of a probability is the normaliser over a constant."""
    times = 20_000
    estimates = np.exp(-repeated(model, rows, Y, times, 8)[0])
    expected = np.exp(-model.log_proba_of(rows, Y))
    error = estimates.std(axis=0, ddof=1) / np.sqrt(times)
    z = (estimates.mean(axis=0) - expected) / error
    assert np.abs(z).max() < 4.5  # false alarms: 36 * 7e-6


def test_standard_errors_cover(model):
    times = 1000
    log_p, std = repeated(model, X, Y, times, 8000)
    exact = model.log_proba_of(X, Y)
    inside = (np.abs(log_p - exact) < 1.96 * std).mean(axis=0)
    assert (np.abs(inside - 0.95) < 0.03).all()
    np.testing.assert_allclose(log_p.std(axis=0), std.mean(axis=0), rtol=0.15)


def test_errors_shrink_with_more_samples(model):
    few = repeated(model, X, Y, 200, 100)[1].mean()
    many = repeated(model, X, Y, 20, 10_000)[1].mean()
    assert 7 < few / many < 13


def test_the_same_seed_gives_the_same_bits_whatever_the_tasks(model, monkeypatch):
    rows, labels = np.tile(X, (40, 1)), np.tile(Y, 40)
    options = {"normaliser": "sampled", "n_samples": 64, "random_state": 1}
    first = model.log_proba_of(rows, labels, **options)
    monkeypatch.setattr(_sampled, "_TASK", 640)
    np.testing.assert_array_equal(model.log_proba_of(rows, labels, **options), first)
    other = model.log_proba_of(rows, labels, **(options | {"random_state": 2}))
    assert (other != first).all()


def test_exact_has_no_error(model):
    log_p, std = model.log_proba_of(X, Y, return_std=True)
    np.testing.assert_array_equal(log_p, model.log_proba_of(X, Y))
    np.testing.assert_array_equal(std, 0.0)


def test_known_classes_that_are_all_leave_nothing_to_estimate(model):
    columns = np.tile(np.arange(K), (len(X), 1))
    linear = model.linear_model()
    log_p, std = linear.sampled_log_proba_of(X, columns, 16, np.random.RandomState(0))
    np.testing.assert_allclose(log_p, model.predict_log_proba(X), atol=1e-5)
    np.testing.assert_array_equal(std, 0.0)


def test_a_new_fit_makes_a_new_table():
    rows = np.eye(5, dtype=np.float32).repeat(4, axis=0)
    model = LinearClassifier(random_state=0)
    for classes in (rows.argmax(axis=1), np.arange(20)):
        model.fit(rows, classes)
        sampled = model.log_proba_of(rows, classes, normaliser="sampled", random_state=0)
        np.testing.assert_allclose(sampled, model.log_proba_of(rows, classes), atol=0.3)


def test_what_cannot_be_sampled_is_refused(model):
    with pytest.raises(ValueError, match="normaliser='some' is neither 'exact' nor 'sampled'"):
        model.log_proba_of(X, Y, normaliser="some")
    with pytest.raises(ValueError, match="n_samples=1 must be a whole number of at least 2"):
        model.log_proba_of(X, Y, normaliser="sampled", n_samples=1)
    model.noise = "gaussian"
    with pytest.raises(ValueError, match=r"is for the softmax.*not for Gaussian"):
        model.log_proba_of(X, Y, normaliser="sampled")
