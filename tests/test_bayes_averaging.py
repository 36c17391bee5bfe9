"""The weight of each of two likelihoods: sums over rows, rows that stand for all, keys of rows."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit

from bigcat.bayes.binary import averaging
from bigcat.bayes.binary.likelihoods import log_conditioned, log_marginalised

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


def test_rows_that_stand_for_all_keep_their_own_labels_and_weights(monkeypatch):
    """All rows are equal, so the sum follows from any subset."""
    monkeypatch.setattr(averaging, "MAX_SCORES", 2)
    X = np.tile([[0.5, -1.0]], (150, 1))
    labels = np.zeros(150, int)
    X[::3], labels[::3] = X[::3, ::-1], 1
    posterior: Any = Scores()
    each = differences(posterior, X, labels)
    given = (X, labels, np.full(150, 2.0), np.random.RandomState(3))
    found = averaging.averaging_weight(posterior, *given)
    assert found == pytest.approx(expit(300.0 * each[0]))
