"""Awkward designs: predictions are those of the design when it is cleaned up."""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from bigcat import load_model, save_model
from tests.bayesian import laplace

X, Y = load_iris(return_X_y=True)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)


def fitted(rows, labels, weights=None, n_draws=400, **options):
    model = laplace(n_draws=n_draws, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of small problems
        return model.fit(rows, labels, weights, classes=np.unique(Y))


@pytest.fixture(scope="module")
def clean():
    return fitted(X[TRAIN], Y[TRAIN]).predict_proba(X[TEST])


# The cases that were found


@pytest.mark.parametrize("constant", [0.1, 1.0, 1.0 / 3.0, -7.3e-5, 1e9 / 7.0])
def test_a_constant_column_changes_nothing(clean, constant):
    rows = np.column_stack([X, np.full(len(X), constant)])
    model = fitted(rows[TRAIN], Y[TRAIN])
    assert model.score(rows[TEST], Y[TEST]) > 0.93
    np.testing.assert_allclose(model.predict_proba(rows[TEST]), clean, atol=0.08)
    low, high = model.predict_interval(rows[TEST])
    assert (high - low).mean() < 0.3


def test_a_column_of_ones_with_fractional_weights(clean):
    rows = np.column_stack([X, np.ones(len(X))])
    weights = np.random.default_rng(0).uniform(0.9, 1.1, len(Y[TRAIN]))
    model = fitted(rows[TRAIN], Y[TRAIN], weights)
    np.testing.assert_allclose(model.predict_proba(rows[TEST]), clean, atol=0.1)


def test_a_nearly_constant_column_is_a_column_of_noise():
    noise = np.random.default_rng(0).standard_normal(len(X))
    tiny, usual = (np.column_stack([X, 0.1 + size * noise]) for size in (1e-12, 1.0))
    found, expected = (fitted(r[TRAIN], Y[TRAIN]).predict_proba(r[TEST]) for r in (tiny, usual))
    np.testing.assert_allclose(found, expected, atol=0.03)


@pytest.mark.parametrize("covariance", ["draws", "full", "class"])
@pytest.mark.parametrize("offset", [1e4, 1e7, 1e8])
def test_offsets_change_nothing(covariance, offset):
    """Also not in a file, nor in the intervals."""
    moved = X + offset * X.std(axis=0)
    first, second = (fitted(r[TRAIN], Y[TRAIN], covariance=covariance) for r in (X, moved))
    expected, found = first.predict_proba(X[TEST]), second.predict_proba(moved[TEST])
    np.testing.assert_allclose(found, expected, atol=1e-3)
    ends = [m.predict_interval(r[TEST]) for m, r in ((first, X), (second, moved))]
    np.testing.assert_allclose(ends[1], ends[0], atol=2e-3)
    np.testing.assert_allclose(second.coef_, first.coef_, rtol=1e-3, atol=1e-4)


def test_files_hold_the_columns(tmp_path):
    moved = X + 1e8
    model = fitted(moved[TRAIN], Y[TRAIN])
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(moved), model.predict_proba(moved))
    np.testing.assert_array_equal(again.posterior_.scale, model.posterior_.scale)


def test_what_is_shown_belongs_to_the_columns_as_given():
    model = fitted(X[TRAIN] * [1e3, 1.0, 1e-3, 1.0], Y[TRAIN])
    q = model.posterior_
    rows = X[TEST] * [1e3, 1.0, 1e-3, 1.0]
    draws = q.sample(400)
    scores = np.einsum("nm,skm->snk", np.column_stack([rows, np.ones(len(rows))]), draws)
    p = np.exp(q.log_probabilities(scores)).mean(axis=0)
    np.testing.assert_allclose(p, model.predict_proba(rows), atol=1e-5)
    np.testing.assert_allclose(draws.mean(axis=0), q.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), q.scale, rtol=1e-4)


# Any of them together


class Design(NamedTuple):
    """A clean design and an awkward one with the same information."""

    clean: np.ndarray
    awkward: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


@st.composite
def designs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(3, 40)), draw(st.integers(1, 4))
    rows = rng.standard_normal((n, d))
    labels = np.append(np.arange(3), rng.integers(0, 3, n - 3))
    kind = draw(st.sampled_from(["noise", "separable", "one row per class"]))
    if kind == "separable":
        rows[:, 0] = labels + 0.1 * rng.random(n)
    if kind == "one row per class":
        rows, labels = rows[:3], labels[:3]
    n = len(labels)
    if draw(st.booleans()):
        rows = np.column_stack([rows, rows[:, 0]])
    weights = rng.choice([0.5, 1.0, 2.0], n) if draw(st.booleans()) else np.ones(n)
    if draw(st.booleans()):  # a row that does not count
        rows, labels = np.vstack([rows, 3.0 * rows[:1]]), np.append(labels, 0)
        weights, n = np.append(weights, 0.0), n + 1
    offsets = rng.choice([0.0, 1.0, 1e4, 1e8], rows.shape[1])
    units = rng.choice([1e-6, 1.0, 1e6], rows.shape[1])
    awkward = (rows + offsets) * units
    clean = rows
    if draw(st.booleans()):  # nearly constant: noise in tiny units
        noise = rng.standard_normal(n)
        awkward = np.column_stack([awkward, 0.1 + 1e-9 * noise])
        clean = np.column_stack([clean, noise])
    for constant in draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 3e7 / 7.0]), max_size=2)):
        awkward = np.column_stack([awkward, np.full(n, constant)])
        clean = np.column_stack([clean, np.zeros(n)])
    return Design(clean, awkward, labels, weights)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(design=designs(), covariance=st.sampled_from(["draws", "full", "class"]))
def test_predictions_are_those_of_the_clean_design(design, covariance):
    def probabilities(rows, labels=design.labels, weights=design.weights):
        model = fitted(rows, labels, weights, n_draws=16, covariance=covariance)
        p = model.predict_proba(rows)
        assert np.isfinite(p).all()
        return p

    expected = probabilities(design.clean)
    np.testing.assert_allclose(probabilities(design.awkward), expected, atol=2e-3)
    sparse = scipy.sparse.csr_array(design.clean)
    np.testing.assert_allclose(probabilities(sparse), expected, atol=1e-6)
