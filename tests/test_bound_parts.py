"""What bounds say of themselves, and the pieces of their steps, in plain Python."""

import math

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from bigcat.bounds import (
    REGISTRY,
    AugmentReduce,
    Bouchard,
    Complementary,
    Exact,
    OneVsEach,
    Raman,
    bouchard,
)
from bigcat.bounds import augment_reduce as pieces
from bigcat.bounds._base import fit_table, full_rows
from bigcat.bounds.exact import FEW_NODES
from bigcat.noise import Gaussian, Gumbel, Logistic
from bigcat.numerics.special import log1p_exp, softplus_inverse
from bigcat.verbs import at_local, step

OTHERS = np.array([0.4, -1.3, 2.2, 0.9])
COUNTS = np.array([1.5, 2.0, 1.0, 0.5, 1.0])


def traits(kind):
    names = ("is_bound", "can_sample", "is_likelihood", "has_expectation", "n_local")
    return tuple(getattr(kind, name) for name in names)


def test_what_other_parts_ask_of_a_bound():
    expected = {
        "exact": (True, False, True, False, 0),
        "one-vs-each": (True, True, False, False, 0),
        "bouchard": (True, True, False, False, 1),
        "augment-reduce": (True, True, False, True, 2),
        "raman": (True, True, False, False, 1),
        "nce": (False, True, False, False, 0),
        "importance": (False, True, False, False, 0),
        "complementary": (False, True, False, False, 0),
    }
    assert {name: traits(kind) for name, kind in REGISTRY.items()} == expected
    assert len({type(kind().lower(Gumbel())) for kind in REGISTRY.values()}) == 8
    levels = [name for name, kind in REGISTRY.items() if kind.wants_log_probabilities]
    assert levels == ["nce"]
    assert (Exact().word, Complementary().word) == ("bound", "objective")
    assert Exact().deterministic
    for name in ("exact", "augment-reduce", "complementary"):
        assert REGISTRY[name].noises is None
        REGISTRY[name]().check_noise(Gaussian())


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


def test_precision_for_passes_and_for_people():
    assert Exact().for_passes(Gumbel()) == Exact()
    assert Exact().for_passes(Gaussian()) == FEW_NODES == Exact(1.0, 8.0, "single")
    assert Complementary().for_passes(Gumbel()) == Complementary()
    assert Complementary().for_passes(Gaussian()) == Complementary(FEW_NODES)
    assert OneVsEach().for_passes(Gumbel()) == OneVsEach().to_rounding() == OneVsEach()
    rough = AugmentReduce(expectation="sample", n_nodes=5)
    assert rough.to_rounding() == AugmentReduce(expectation="quadrature", n_nodes=20)
    assert AugmentReduce(n_nodes=30).to_rounding().n_nodes == 30
    assert (rough.deterministic, rough.to_rounding().deterministic) == (False, True)


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
    slope = {"gaussian": -u, "logistic": -np.tanh(0.5 * u), "gumbel": np.exp(-u) - 1.0}[family]
    assert 1.0 / (w @ slope**2) == pytest.approx(known.gain, rel=1e-3)
    assert known.code == list(pieces.FAMILIES).index(family)


def test_draws_of_the_families(monkeypatch):
    draws = ("standard_normal", "standard_logistic", "standard_gumbel")
    for name in draws:
        monkeypatch.setattr(pieces._random, name, lambda rng, name=name: name)
    assert [pieces._standard_draw(code, None) for code in (0, 1, 2)] == list(draws)


# Moves of location and scale


def moved(local, *given):
    local = np.array(local)
    pieces._move_natural(local, *given)
    return local


def test_a_natural_step_is_the_one_of_the_formula():
    a, gain, grad, u_grad = 0.3, 3.0, 0.2, -1.7
    precision = (1.0 - a) / 0.8**2 + a * 1.7 / 0.8
    found = moved([1.2, 0.8], a, gain, grad, u_grad)
    np.testing.assert_allclose(found, [1.2 + a * gain * grad / precision, precision**-0.5])
    # At the fixed point, E[f'] = 0 and E[u f'] = -1 / s, nothing moves.
    np.testing.assert_allclose(moved([1.2, 0.8], 1.0, gain, 0.0, -1.0 / 0.8), [1.2, 0.8])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_is_a_few_scales_long_at_most(sign):
    for location, scale in ((1.2, 0.8), (-10.0, 3.0)):
        found = moved([location, scale], 1.0, 1.0, sign * 1e9, -1.0 / scale)
        reach = 4.0 * max(scale, 1.0) + 0.5 * abs(location)
        assert found[0] == pytest.approx(location + sign * reach)


def test_a_scale_grows_where_the_curvature_is_upside_down():
    for u_grad in (0.0, 5.0):
        found = moved([0.0, 0.5], 1.0, 1.0, 0.0, u_grad)
        assert found[1] == pytest.approx(0.5 * 1e-3**-0.5)


def test_a_plain_gradient_step():
    local = np.array([0.3, 0.7])
    gamma = softplus_inverse(0.7)
    pieces._move_gradient(local, 0.1, 2.0, -0.4)
    new = gamma + 0.1 * (-0.4 + 1.0 / 0.7) * expit(gamma)
    np.testing.assert_allclose(local, [0.5, log1p_exp(new)], rtol=1e-14)
    pieces._move_gradient(local, 1.0, 0.0, -1e6)
    assert local[1] == 1e-6  # never 0, of which there is no logarithm


def test_the_best_location_and_scale_are_stationary():
    """E[f'] = 0 and E[u f'] = -1 / s, for either noise and counts that are none's."""
    for noise in (Gaussian(), Logistic()):
        tag = AugmentReduce(n_nodes=30).lower(noise)
        local = np.zeros(2)
        pieces._fit_location_scale(tag, local, 0.3, OTHERS, COUNTS, 4)
        grad, u_grad = pieces._mean_grads(tag, *local, 0.3, OTHERS, COUNTS, 4)
        assert grad == pytest.approx(0.0, abs=1e-5)
        assert u_grad == pytest.approx(-1.0 / local[1], rel=1e-5)
        value = pieces._value(tag, *local, 0.3, OTHERS, COUNTS, 4)
        slopes, start = np.empty(5), local.copy()
        stepped = step(tag, None, local, 0.0, 0.3, OTHERS, COUNTS, 4, 0, slopes)
        assert stepped == pytest.approx(value, rel=1e-12)
        assert (local == start).all()


def test_a_step_without_progress_moves_nothing():
    """Not by a bit, though the precision of some scales is rounded."""
    scales = [s for s in np.linspace(0.3, 0.9, 40) if 1.0 / math.sqrt(1.0 / (s * s)) != s]
    assert scales
    for noise in (Gaussian(), Logistic()):
        tag = AugmentReduce(n_nodes=3).lower(noise)
        for scale in scales[:3]:
            local, slopes = np.array([0.7, scale]), np.empty(5)
            step(tag, None, local, 0.0, 0.3, OTHERS, COUNTS, 4, 0, slopes)
            assert local.tolist() == [0.7, scale]


def test_steps_that_never_climb_end_where_they_began(monkeypatch):
    """Each is halved until it is next to nothing, and then not taken."""
    heights = iter([1.0, *np.linspace(0.9, 0.1, 100)])
    seen = []

    def falls(bound, location, scale, *row):
        seen.append((location, scale))
        return next(heights)

    monkeypatch.setattr(pieces, "joint_mode", lambda *row: (0.4, 1.3))
    monkeypatch.setattr(pieces, "_mean_grads", lambda *row: (2.0, -0.5))
    monkeypatch.setattr(pieces, "_value", falls)
    local = np.zeros(2)
    tag = AugmentReduce(n_nodes=3).lower(Gaussian())
    pieces._fit_location_scale(tag, local, 0.3, OTHERS, COUNTS, 4)
    assert local.tolist() == [0.4, 1.3]
    assert len(seen) == 22  # the start, a whole step, and 20 times half of the last
    moves = [location - 0.4 for location, _ in seen[1:]]
    assert moves[-1] == pytest.approx(0.5**20 * 2.0 * 1.3**2, rel=1e-3)


def test_a_step_is_taken_as_soon_as_it_climbs(monkeypatch):
    """Half of the first, the whole second; the third gains too little to go on."""
    heights = iter([1.0, 0.5, 1.5, 2.0, 2.0])
    monkeypatch.setattr(pieces, "joint_mode", lambda *row: (0.0, 1.0))
    monkeypatch.setattr(pieces, "_mean_grads", lambda *row: (0.25, -1.0 / row[2]))
    monkeypatch.setattr(pieces, "_value", lambda *row: next(heights))
    local = np.zeros(2)
    tag = AugmentReduce(n_nodes=3).lower(Gaussian())
    pieces._fit_location_scale(tag, local, 0.3, OTHERS, COUNTS, 4)
    np.testing.assert_allclose(local, [0.125 + 0.25 + 0.25, 1.0])
    assert next(heights, None) is None


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


def test_bouchards_offset_with_two_equal_classes():
    """sigmoid(-a) = 1/2 for both."""
    assert bouchard._best_offset(1.0, np.array([1.0]), np.ones(1), 1) == pytest.approx(0.0)


# Extremes that overflow nowhere


@pytest.mark.parametrize("far", [30.0, 590.0, 2000.0])
def test_an_eta_that_is_far_too_small(far):
    """The fresh estimate is e^far times the old one; the step goes to a part of it."""
    tag = AugmentReduce().lower(Gumbel())
    others, local, slopes = far + OTHERS, np.array([0.0, 0.0]), np.empty(5)
    fresh = logsumexp(np.append(others, 0.0), b=[*COUNTS[:4], 1.0])
    value = step(tag, None, local, 0.25, 0.0, others, COUNTS, 4, 0, slopes)
    assert local[0] == pytest.approx(fresh + math.log(0.25), rel=1e-9 if far > 40 else 1e-3)
    expected = -COUNTS[:4] * np.exp(others - local[0])
    np.testing.assert_allclose(slopes[:4], expected, rtol=1e-9)
    assert slopes[4] == pytest.approx(-expected.sum(), rel=1e-9)
    assert value < 0.0
    assert np.isfinite(value)


@pytest.mark.parametrize("far", [30.0, 700.0, 2000.0])
def test_an_eta_that_is_far_too_large(far):
    """The fresh estimate is nothing beside the old one, of which the step leaves a part."""
    tag = AugmentReduce().lower(Gumbel())
    local, slopes = np.array([far, 0.0]), np.empty(5)
    value = step(tag, None, local, 0.25, 0.0, OTHERS, COUNTS, 4, 0, slopes)
    assert local[0] == pytest.approx(far + math.log(0.75), rel=1e-9)
    np.testing.assert_allclose(slopes[:4], -COUNTS[:4] * np.exp(OTHERS - local[0]), rtol=1e-9)
    assert value == pytest.approx(1.0 - far, rel=1e-9)


@pytest.mark.parametrize("band", [1.0, 1.5, math.inf])
def test_a_band_counts_where_eta_moves(band):
    tag = AugmentReduce(band=band).lower(Gumbel())
    fresh = logsumexp(np.append(OTHERS, 0.0), b=[*COUNTS[:4], 1.0])
    for start in (fresh - 2.0, fresh + 2.0):
        still, moves = np.array([start, 0.0]), np.array([start, 0.0])
        slopes = np.empty(5)
        step(tag, None, still, 0.0, 0.0, OTHERS, COUNTS, 4, 0, slopes)
        assert still[0] == start
        np.testing.assert_allclose(slopes[:4], -COUNTS[:4] * np.exp(OTHERS - start), rtol=1e-12)
        step(tag, None, moves, 0.1, 0.0, OTHERS, COUNTS, 4, 0, slopes)
        free = start + math.log(1.0 + 0.1 * (math.exp(fresh - start) - 1.0))
        expected = min(max(free, fresh - math.log(band)), fresh + math.log(band))
        assert moves[0] == pytest.approx(expected, rel=1e-12)


def test_ramans_step_far_from_its_optimum():
    tag = Raman().lower(Gumbel())
    for start in (-2000.0, 2000.0):
        local, slopes = np.array([start]), np.empty(5)
        value = step(tag, None, local, 0.5, 0.3, OTHERS, COUNTS, 4, 0, slopes)
        best = logsumexp(np.append(OTHERS, 0.3), b=[*COUNTS[:4], 1.0])
        assert local[0] == pytest.approx(max(start, best) + math.log(0.5), abs=1e-9)
        assert np.isfinite(value)
        term = math.exp(0.3 - local[0])
        assert slopes[4] == pytest.approx(1.0 - term, rel=1e-12)


def test_a_step_without_progress_is_the_value_at_its_local_parameter():
    for bound in (AugmentReduce(), Raman()):
        tag = bound.lower(Gumbel())
        for u in (-1.0, 2.5):
            local, slopes, again = np.array([u, 0.0]), np.empty(5), np.empty(5)
            value = step(tag, None, local, 0.0, 0.3, OTHERS, COUNTS, 4, 0, slopes)
            at, _ = at_local(tag, u, 0.3, OTHERS, COUNTS, 4, again)
            assert value == pytest.approx(at, rel=1e-13)
            np.testing.assert_allclose(slopes, again, rtol=1e-12)


# All classes of some rows


@pytest.mark.parametrize("n_always", [0, 1, 3, 4])
def test_rows_of_all_classes_keep_some_exact(n_always):
    """One-vs-each, whose value depends on which classes those are; the label is none of them."""
    scores = np.array([[0.4, 1.3, -0.8, 0.1], [2.0, -1.0, 0.3, 0.2]])
    order, tag = np.array([3, 1, 0, 2]), OneVsEach().lower(Gumbel())
    state = np.zeros(1, np.uint64)
    for y in range(4):
        values, slopes = np.empty(2), np.full((2, 4), np.nan)
        labels = np.array([y, y])
        local = np.zeros((2, 1))
        full_rows(tag, state, scores, labels, n_always, order, local, values, slopes, True)
        for i, row in enumerate(scores):
            head = [k for k in order[:n_always] if k != y]
            tail = [k for k in order[n_always:] if k != y]
            expected = row[y] - logsumexp([row[y], *row[head]])
            expected -= sum(np.logaddexp(0.0, row[k] - row[y]) for k in tail)
            assert values[i] == pytest.approx(expected, rel=1e-12)
            np.testing.assert_allclose(slopes[i].sum(), 0.0, atol=1e-14)
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


def test_a_case_by_hand():
    """Two classes of equal score: log eta = log 2, the value log(1/2)."""
    tag = AugmentReduce().lower(Gumbel())
    slopes, local = np.empty(2), np.array([math.log(2.0), 0.0])
    value = step(tag, None, local, 0.0, 0.0, np.zeros(1), np.ones(2), 1, 0, slopes)
    assert value == pytest.approx(-math.log(2.0))
    np.testing.assert_allclose(slopes, [-0.5, 0.5])
