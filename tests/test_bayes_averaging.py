"""The weight of each of two likelihoods: sums over rows, rows that stand for all, keys of rows."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit

from bigcat.bayes import averaging
from bigcat.bayes.likelihoods import log_conditioned, log_marginalised
from bigcat.numerics.random import new_state

RNG = np.random.default_rng(5)


class Scores:
    """A posterior of two classes whose scores are known."""

    n_classes, link = 2, "logit"

    def score_blocks(self, X, variances):
        assert variances
        for start in range(0, X.shape[0], 3):
            rows = slice(start, min(start + 3, X.shape[0]))
            yield rows, X[rows], np.zeros(X[rows].shape)


def differences(posterior, scores, labels):
    own = np.arange(len(labels)), labels
    conditioned = log_conditioned(posterior.link, scores)[own]
    return conditioned - log_marginalised(posterior.link, scores)[own]


def test_the_weight_of_a_likelihood_is_a_weighted_sum_over_rows():
    X, labels = RNG.normal(size=(7, 2)), RNG.integers(0, 2, 7)
    weights = RNG.uniform(0.5, 2.0, 7)
    posterior: Any = Scores()
    each: Any = differences(posterior, X, labels)
    found = averaging.averaging_weight(
        posterior,
        X,
        labels,
        weights,
        np.random.RandomState(0),
        n_draws=3,
    )
    assert found == pytest.approx(expit(weights @ each))
    more = averaging.averaging_weight(
        posterior,
        X,
        labels,
        weights,
        np.random.RandomState(0),
        n_rows=20.0,
    )
    assert more == pytest.approx(expit(20.0 * (weights @ each) / weights.sum()))


def test_no_rows_decide_nothing():
    none: Any = (np.empty((0, 2)), np.empty(0, int), np.empty(0))
    rng = np.random.RandomState(0)
    assert averaging.averaging_weight(Scores(), *none, rng, n_rows=5.0) == 0.5  # type: ignore


def test_keys_of_rows_do_not_depend_on_the_form_of_the_rows(monkeypatch):
    X = np.where(RNG.random((50, 7)) < 0.5, RNG.normal(size=(50, 7)), 0.0)
    keys = averaging._row_keys(X)
    assert len(set(keys.tolist())) == 50
    np.testing.assert_array_equal(averaging._row_keys(scipy.sparse.csr_array(X)), keys)
    for chunk in (1, 20, 350):
        monkeypatch.setattr(averaging, "KEYS_CHUNK", chunk)
        np.testing.assert_array_equal(averaging._row_keys(X), keys)
    assert averaging._row_keys(X[:0]).shape == (0,)


def test_where_scores_are_too_many_some_rows_stand_for_all(monkeypatch):
    X, labels = RNG.normal(size=(240, 2)), RNG.integers(0, 2, 240)
    posterior: Any = Scores()
    asked = []

    def counted(_posterior, eta, _variance, labels, states, n_draws):
        asked.append((len(labels), n_draws))
        if len(X) == sum(n for n, _ in asked):  # the last rows: numbers of their own, and the seed
            keys = averaging._row_keys(X[-len(labels) :]) + new_state(np.random.RandomState(0))
            np.testing.assert_array_equal(states, keys)
        return np.zeros(len(labels))

    monkeypatch.setattr(averaging, "_differences", counted)
    for most, n_rows, n_draws in ((240, 120, 1), (200, 100, 1), (2, 100, 1), (480, 240, 1),
                                  (960, 240, 2), (48_000, 240, 50)):  # fmt: skip
        monkeypatch.setattr(averaging, "MOST_SCORES", most)
        asked.clear()
        averaging.averaging_weight(posterior, X, labels, np.ones(240), np.random.RandomState(0), 50)
        assert sum(n for n, _ in asked) == n_rows
        assert {n for _, n in asked} == {n_draws}


def test_no_row_stands_for_all_twice(monkeypatch):
    monkeypatch.setattr(averaging, "MOST_SCORES", 400)
    states: list[int] = []

    def kept(_posterior, _eta, _variance, labels, some, _n_draws):
        states.extend(some.tolist())
        return np.zeros(len(labels))

    monkeypatch.setattr(averaging, "_differences", kept)
    X, posterior = RNG.normal(size=(240, 2)), Scores()
    given: Any = (posterior, X, np.zeros(240, int), np.ones(240), np.random.RandomState(0))
    averaging.averaging_weight(*given)
    assert len(states) == len(set(states)) == 200


def test_rows_that_stand_for_all_keep_their_own_labels_and_weights(monkeypatch):
    """Every row says what all say: so any of them tell the sum over all."""
    monkeypatch.setattr(averaging, "MOST_SCORES", 2)
    X = np.tile([[0.5, -1.0]], (150, 1))
    labels = np.zeros(150, int)
    X[::3], labels[::3] = X[::3, ::-1], 1
    posterior: Any = Scores()
    each = differences(posterior, X, labels)
    given = (X, labels, np.full(150, 2.0), np.random.RandomState(3))
    found = averaging.averaging_weight(posterior, *given)
    assert found == pytest.approx(expit(300.0 * each[0]))


def test_draws_of_scores_have_their_deviations(monkeypatch):
    eta, variance = np.array([[0.4, -0.6]]), np.array([[0.25, 4.0]])
    draws = []

    def kept(link, scores):
        draws.append(scores.copy())
        return np.zeros(scores.shape)

    monkeypatch.setattr(averaging, "log_conditioned", kept)
    monkeypatch.setattr(averaging, "log_marginalised", lambda link, scores: scores)
    given: Any = (Scores(), eta, variance, np.zeros(1, int), np.array([77], np.uint64), 4_000)
    mean = averaging._differences(*given)
    found = np.array(draws)[:, 0]
    np.testing.assert_allclose(found.mean(axis=0), eta[0], atol=0.1)
    np.testing.assert_allclose(found.std(axis=0), [0.5, 2.0], rtol=0.05)
    np.testing.assert_allclose(mean, [-found[:, 0].mean()])


def test_keys_of_rows_are_sums_of_mixed_features():
    """Splitmix64's mixing of the bits of a value and its place, which each row adds up."""
    X = scipy.sparse.csr_array(np.array([[0.0, 1.5, -2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.25]]))
    golden, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    mask, expected = (1 << 64) - 1, []
    for row in X.toarray():
        total = 0
        for j, value in enumerate(row):
            if value:
                bits = (int(np.float64(value).view(np.uint64)) + (j + 1) * golden) & mask
                bits = ((bits ^ (bits >> 30)) * first) & mask
                bits = ((bits ^ (bits >> 27)) * second) & mask
                total = (total + bits) & mask
        expected.append(total)
    assert [int(key) for key in averaging._row_keys(X)] == expected
