"""What bounds say of themselves, and the pieces of their steps, in plain Python."""

import math

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from bigcat.bounds import (
    AugmentReduce,
    Bouchard,
    OneVsEach,
    Raman,
    bouchard,
)
from bigcat.bounds import augment_reduce as pieces
from bigcat.bounds._base import fit_table, full_rows
from bigcat.noise import Gaussian, Gumbel
from bigcat.verbs import step

OTHERS = np.array([0.4, -1.3, 2.2, 0.9])
COUNTS = np.array([1.5, 2.0, 1.0, 0.5, 1.0])


def test_local_steps_fall_with_epochs_but_not_where_all_classes_are_drawn():
    for bound in (Bouchard(), AugmentReduce()):
        for epoch in (0, 1, 50):
            assert bound.local_progress(epoch, 0.0) == pytest.approx((2 + epoch) ** -0.6)
            assert bound.local_progress(epoch, 1.0) == 0.9
        assert bound.local_progress(50, 0.5) == pytest.approx(0.9 * 0.25)
    named = AugmentReduce(local_decay=0.9)
    assert named.local_progress(3, 1.0) == pytest.approx(5.0**-0.9)
    for decay in (0.0, 1.5, "fast"):
        with pytest.raises(ValueError, match=r"local_decay=.* must be above 0 and at most 1, or"):
            AugmentReduce(local_decay=decay)
    assert AugmentReduce(local_decay=1.0).local_decay == 1.0


def test_options_at_their_limits():
    assert AugmentReduce(n_nodes=1).n_nodes == 1
    assert AugmentReduce(band=1.0).band == 1.0
    assert AugmentReduce().lower(Gumbel()).band == math.inf
    for wrong in (0, 2.5):
        with pytest.raises(ValueError, match=f"n_nodes={wrong} must be a whole number of at least"):
            AugmentReduce(n_nodes=wrong)  # type: ignore[arg-type]
    for wrong in (0.99, math.nan):
        with pytest.raises(ValueError, match=f"band={wrong} must be at least 1"):
            AugmentReduce(band=wrong)
    assert AugmentReduce(start="zero").starts_at_zero(Gumbel())
    assert not AugmentReduce(start="zero").starts_at_zero(Gaussian())
    assert (Raman(start="zero").starts_at_zero(Gumbel()), Raman().starts_at_zero(Gumbel())) == (
        True,
        False,
    )


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
    # The Fisher information of the location is the mean square of the slope of the log-density.
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


@pytest.mark.parametrize("far", [30.0, 590.0, 2000.0])
def test_an_eta_that_is_far_too_small(far):
    """The fresh estimate is e^far times the old one; the step goes to a part of it."""
    tag = AugmentReduce().lower(Gumbel())
    others, local, grads = far + OTHERS, np.array([0.0, 0.0]), np.empty(5)
    fresh = logsumexp(np.append(others, 0.0), b=[*COUNTS[:4], 1.0])
    value = step(tag, None, local, 0.25, 0.0, others, COUNTS, 4, 0, grads)
    assert local[0] == pytest.approx(fresh + math.log(0.25), rel=1e-9 if far > 40 else 1e-3)
    expected = -COUNTS[:4] * np.exp(others - local[0])
    np.testing.assert_allclose(grads[:4], expected, rtol=1e-9)
    assert grads[4] == pytest.approx(-expected.sum(), rel=1e-9)
    assert value < 0.0
    assert np.isfinite(value)


@pytest.mark.parametrize("far", [30.0, 700.0, 2000.0])
def test_an_eta_that_is_far_too_large(far):
    """The fresh estimate is nothing beside the old one, of which the step leaves a part."""
    tag = AugmentReduce().lower(Gumbel())
    local, grads = np.array([far, 0.0]), np.empty(5)
    value = step(tag, None, local, 0.25, 0.0, OTHERS, COUNTS, 4, 0, grads)
    assert local[0] == pytest.approx(far + math.log(0.75), rel=1e-9)
    np.testing.assert_allclose(grads[:4], -COUNTS[:4] * np.exp(OTHERS - local[0]), rtol=1e-9)
    assert value == pytest.approx(1.0 - far, rel=1e-9)


@pytest.mark.parametrize("band", [1.0, 1.5, math.inf])
def test_a_band_counts_where_eta_moves(band):
    tag = AugmentReduce(band=band).lower(Gumbel())
    fresh = logsumexp(np.append(OTHERS, 0.0), b=[*COUNTS[:4], 1.0])
    for start in (fresh - 2.0, fresh + 2.0):
        still, moves = np.array([start, 0.0]), np.array([start, 0.0])
        grads = np.empty(5)
        step(tag, None, still, 0.0, 0.0, OTHERS, COUNTS, 4, 0, grads)
        assert still[0] == start
        np.testing.assert_allclose(grads[:4], -COUNTS[:4] * np.exp(OTHERS - start), rtol=1e-12)
        step(tag, None, moves, 0.1, 0.0, OTHERS, COUNTS, 4, 0, grads)
        free = start + math.log(1.0 + 0.1 * (math.exp(fresh - start) - 1.0))
        expected = min(max(free, fresh - math.log(band)), fresh + math.log(band))
        assert moves[0] == pytest.approx(expected, rel=1e-12)


def test_ramans_step_far_from_its_optimum():
    tag = Raman().lower(Gumbel())
    for start in (-2000.0, 2000.0):
        local, grads = np.array([start]), np.empty(5)
        value = step(tag, None, local, 0.5, 0.3, OTHERS, COUNTS, 4, 0, grads)
        best = logsumexp(np.append(OTHERS, 0.3), b=[*COUNTS[:4], 1.0])
        assert local[0] == pytest.approx(max(start, best) + math.log(0.5), abs=1e-9)
        assert np.isfinite(value)
        term = math.exp(0.3 - local[0])
        assert grads[4] == pytest.approx(1.0 - term, rel=1e-12)


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
