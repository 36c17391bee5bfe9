"""Scores and weights of a posterior, as many rows or classes at a time as a block holds."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from bigcat.bayes import posterior as posteriors
from bigcat.bayes import summary
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import ClassDiagonal, Drawn
from bigcat.bayes.posterior import GaussianPosterior

RNG = np.random.default_rng(5)


class Blocks(GaussianPosterior):
    """A posterior that only has scores."""

    def facts(self):
        return {}

    @classmethod
    def of_facts(cls, *given, **more):
        raise NotImplementedError

    def _model_in_words(self):
        return []

    def margin_blocks(self, X, how):
        return ((rows, eta) for rows, eta, _ in self.score_blocks(X))

    def log_probabilities(self, margins):
        return log_softmax(margins, axis=-1)


def in_blocks(covariance: Any, n_classes: int = 3, n_columns: int = 2) -> Blocks:
    mean = np.random.default_rng(2).normal(size=(n_classes, n_columns))
    return Blocks(mean, covariance, intercept=False, classes=np.arange(n_classes))


@pytest.mark.parametrize(
    ("block", "sizes", "products"),
    [(6, [2, 2, 2, 1], [2, 2, 2, 1]), (2, [1] * 7, [1] * 7), (100, [7], [7])],
)
def test_blocks_of_scores_are_as_large_as_may_be(monkeypatch, block, sizes, products):
    """Three classes; a row at the least."""
    monkeypatch.setattr(posteriors, "BLOCK", block)
    made = []

    def counted(X, intercept):
        made.append(len(X))
        return Design(X, intercept)

    monkeypatch.setattr(posteriors, "Design", counted)
    q, X = in_blocks(ClassDiagonal(np.ones((3, 2)))), RNG.normal(size=(7, 2))
    found = list(q.score_blocks(X))
    assert [len(eta) for _, eta, _ in found] == sizes
    assert made == products
    assert [rows.stop - rows.start for rows, _, _ in found] == sizes
    np.testing.assert_allclose(np.concatenate([eta for _, eta, _ in found]), X @ q.mean.T)
    assert all(spread.shape == (len(eta), 0) for _, eta, spread in found)


def test_wide_blocks_share_their_products(monkeypatch):
    """Blocks of four draws are a quarter as long, and a product is for all that fit a block."""
    monkeypatch.setattr(posteriors, "BLOCK", 24)
    made = []

    def counted(X, intercept):
        made.append(len(X))
        return Design(X, intercept)

    monkeypatch.setattr(posteriors, "Design", counted)
    variances = RNG.uniform(0.5, 2.0, (3, 2))
    q, X = in_blocks(ClassDiagonal(variances)), RNG.normal(size=(11, 2))
    found = list(q.score_blocks(X, variances=True, width=4))
    assert [len(eta) for _, eta, _ in found] == [2, 2, 2, 2, 2, 1]
    assert made == [8, 3]
    starts = [rows.start for rows, _, _ in found]
    assert starts == [0, 2, 4, 6, 8, 10]
    assert found[-1][0].stop == 11
    np.testing.assert_allclose(np.concatenate([eta for _, eta, _ in found]), X @ q.mean.T)
    spread = np.concatenate([spread for _, _, spread in found])
    np.testing.assert_allclose(spread, X**2 @ variances.T)


@pytest.mark.parametrize(("block", "sizes"), [(200, [7]), (30, [2, 2, 2, 1]), (5, [1] * 7)])
def test_scores_of_draws_of_weights_are_of_all_rows(monkeypatch, block, sizes):
    """Five draws of three classes: each of them says something of every row."""
    monkeypatch.setattr(posteriors, "BLOCK", block)
    deviations = RNG.normal(size=(5, 3, 2)).astype(np.float32)
    q, X = in_blocks(Drawn(deviations)), RNG.normal(size=(7, 2))
    found = list(q.score_draws(X, None, 0))
    assert [scores.shape for _, scores in found] == [(5, n, 3) for n in sizes]
    assert [rows.start for rows, _ in found] == list(np.cumsum([0, *sizes[:-1]]))
    assert [rows.stop for rows, _ in found] == list(np.cumsum(sizes))
    scores = np.concatenate([scores for _, scores in found], axis=1)
    expected = np.einsum("nm,dkm->dnk", X, q.mean + deviations)
    order, wanted = scores[:, 0, 0].argsort(), expected[:, 0, 0].argsort()
    np.testing.assert_allclose(scores[order], expected[wanted], rtol=1e-6)


@pytest.mark.parametrize("n_kept", [None, 4])
def test_weights_a_few_classes_at_a_time(monkeypatch, n_kept):
    """As many numbers as a block holds, for each draw that is kept; a class at the least."""
    asked = []

    def quantiles(tails, classes):
        asked.append(classes.stop - classes.start)
        return np.tile(tails[:, None, None], (1, asked[-1], 2))

    form: Any = SimpleNamespace(n_kept=n_kept, quantiles=quantiles)
    q, each = in_blocks(form, n_classes=7), 2 * (n_kept or 1)
    for block, sizes in ((3 * each, [3, 3, 1]), (each - 1, [1] * 7), (100 * each, [7])):
        monkeypatch.setattr(posteriors, "BLOCK", block)
        monkeypatch.setattr(summary, "BLOCK", block)
        asked.clear()
        low, high = q.weight_interval(0.8)
        assert asked == sizes
        np.testing.assert_allclose(low, q.mean + 0.1)
        np.testing.assert_allclose(high, q.mean + 0.9)
        classes = np.array([6, 5, 3, 2, 1, 0, 4])
        found = summary._blocks(q, classes)
        assert [len(some) for some in found] == sizes
        np.testing.assert_array_equal(np.concatenate(found), classes)
