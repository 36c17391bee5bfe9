"""Declarations of bounds, and the pieces of their steps in plain Python."""

import math

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from bigcat.bounds import (
    AugmentReduce,
    OneVsEach,
    bouchard,
)
from bigcat.bounds import augment_reduce as pieces
from bigcat.bounds._base import fit_table, full_rows
from bigcat.noise import Gumbel


@pytest.mark.parametrize("family", pieces.FAMILIES)
def test_moments_of_the_families(family):
    """By many nodes: mean, mass and entropy of the standard member."""
    known = pieces.FAMILIES[family]
    u, w = pieces.gauss_hermite(120, known)
    log_density = {
        "gaussian": -0.5 * u**2 - 0.5 * math.log(2.0 * math.pi),
        "logistic": -np.logaddexp(0.0, u) - np.logaddexp(0.0, -u),
        "gumbel": -u - np.exp(-u),
    }[family]
    assert w.sum() == pytest.approx(1.0, abs=1e-14)
    assert w @ u == pytest.approx(known.centre, abs=1e-6)
    assert -(w @ log_density) == pytest.approx(known.entropy, rel=1e-5)
    # The Fisher information of the location is the mean square of the gradient of the log-density.
    grad = {"gaussian": -u, "logistic": -np.tanh(0.5 * u), "gumbel": np.exp(-u) - 1.0}[family]
    assert 1.0 / (w @ grad**2) == pytest.approx(known.gain, rel=1e-3)
    assert known.code == list(pieces.FAMILIES).index(family)


# Bouchard's offset


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_bouchards_offset_is_a_root(spread, n):
    rng = np.random.default_rng(n)
    for label_score in (0.0, spread, -spread):
        others, counts = spread * rng.normal(size=n), rng.uniform(0.5, 3.0, n)
        counts[0] = max(counts[0], 1.0)
        a = bouchard._best_offset(label_score, others, counts, n)
        terms = [expit(-a), *(counts * expit(others - label_score - a))]
        assert sum(terms) == pytest.approx(1.0, rel=1e-9)


# Extremes that overflow nowhere


# All classes of some rows


@pytest.mark.parametrize("n_always", [0, 1, 3, 4])
def test_rows_of_all_classes_keep_some_exact(n_always):
    """One-vs-each, whose value depends on which classes those are; the label is none of them."""
    scores = np.array([[0.4, 1.3, -0.8, 0.1], [2.0, -1.0, 0.3, 0.2]])
    order, tag = np.array([3, 1, 0, 2]), OneVsEach().lower(Gumbel())
    state = np.zeros(1, np.uint64)
    for y in range(4):
        values, grads = np.empty(2), np.full((2, 4), np.nan)
        labels = np.array([y, y])
        local = np.zeros((2, 1))
        full_rows(tag, state, scores, labels, n_always, order, local, values, grads, True)
        for i, row in enumerate(scores):
            head = [k for k in order[:n_always] if k != y]
            tail = [k for k in order[n_always:] if k != y]
            expected = row[y] - logsumexp([row[y], *row[head]])
            expected -= sum(np.logaddexp(0.0, row[k] - row[y]) for k in tail)
            assert values[i] == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(grads[i].sum(), 0.0, atol=1e-14)
        untouched = np.full((2, 4), np.nan)
        again = np.empty(2)
        full_rows(tag, state, scores, labels, n_always, order, local, again, untouched, False)
        assert (again == values).all()
        assert np.isnan(untouched).all()


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_local_parameters_before_any_row(scale):
    """For the softmax log eta is log(sum over all classes) - the label's score, over the scale."""
    scores = np.array([0.3, -1.0, 2.0])
    table = np.zeros((3, 2))
    fit_table(AugmentReduce().lower(Gumbel()), table, scores, scale)
    for k in range(3):
        rest = np.delete(scores, k)
        rival = scale * (logsumexp(rest / scale) - math.log(2.0))
        expected = np.logaddexp(0.0, math.log(2.0) + rival - scores[k])
        assert table[k, 0] == pytest.approx(expected, rel=1e-12)


def test_a_label_that_is_all_there_is():
    table = np.zeros((2, 2))
    fit_table(AugmentReduce().lower(Gumbel()), table, np.array([1e4, 0.0]), 1.0)
    assert np.isfinite(table).all()
    assert table[1, 0] == pytest.approx(1e4)
