"""Passes of a weight posterior: counts, scales, what is kept, when all weights are passed over.

No fit of any length: each piece is held to what it says.
"""

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from bigcat.bayes import AugmentReducePosterior
from bigcat.bayes import weight_posterior as passes_of
from bigcat.bayes.weight_posterior import PosteriorPasses
from bigcat.rows import Problem, as_rows
from bigcat.training.snapshot import Place


def passes(learns_scales: bool = False, intercept_scale: float | None = 0.5, **options: Any):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 3)), rng.integers(0, 4, 12)
    problem = Problem(as_rows(X, np.float64), y, rng.uniform(0.5, 2.0, 12), 3, 4)
    return PosteriorPasses(
        problem,
        AugmentReducePosterior().parts(),
        2.0,
        intercept_scale,
        shuffle=True,
        random_state=np.random.RandomState(0),
        learns_scales=learns_scales,
        **options,
    )


def test_passes_begin_with_nothing_done():
    found = passes()
    assert (found.epochs_made, found.epoch, found.n_epochs) == (0, 0, 1)
    assert (found.iteration, found.now, found.done) == (0, 0, 0)
    assert (found.value, found.last_kl, found.remembers) == (0.0, 0.0, False)
    assert np.isnan(found.kl)
    assert found.total_weight == pytest.approx(found.problem.row_weights.sum())
    assert found.order.tolist() == list(range(12))
    clock = found._clock()
    assert clock.now == 0
    assert clock.information_share == pytest.approx(2.0**-0.7 / 12)


def test_a_posterior_goes_on_from_what_was_kept():
    """Scales of both priors, counts, arrays and the place in the random numbers."""
    first, other = passes(), passes()
    first.remembers = True
    first.begin_epoch(2, 9)
    first.weights = first.weights._replace(prior_precision=3.0, base=5.0)
    first.intercepts = first.intercepts._replace(prior_precision=7.0, base=11.0)
    first.iteration, first.now, first.last_kl = 30, 6, 1.5
    first.weights.mean[:] = 0.25
    kept = first.snapshot(ended=False)
    other.restore(kept, Place(epoch=2), 9)
    assert (other.weights.prior_precision, other.weights.base) == (3.0, 5.0)
    assert (other.intercepts.prior_precision, other.intercepts.base) == (7.0, 11.0)
    assert (other.iteration, other.now, other.last_kl, other.epoch) == (30, 6, 1.5, 2)
    assert other.n_epochs == 9
    assert (other.weights.mean == 0.25).all()
    np.testing.assert_array_equal(other.order, first.order)
    # After an epoch has ended the next one draws another order, the same for both.
    third = passes()
    third.restore(first.snapshot(ended=True), Place(epoch=9), 9)
    third.begin_epoch(3, 9)
    first.begin_epoch(3, 9)
    np.testing.assert_array_equal(third.order, first.order)


def test_scales_of_a_posterior_as_people_see_them(monkeypatch):
    monkeypatch.setattr(passes_of, "settle", lambda *given: 0.25)
    found = passes()
    posterior = found.posterior()
    assert posterior.prior_scale == pytest.approx(2.0)
    assert posterior.prior_intercept_scale == pytest.approx(0.5)
    information = found.weights.information.reshape(found.shape)
    np.testing.assert_allclose(posterior.scale, (0.25 + information) ** -0.5)
    expected = (4.0 + found.intercepts.information) ** -0.5
    np.testing.assert_allclose(posterior.intercept_scale, expected)
    points = passes(intercept_scale=None).posterior()
    assert points.prior_intercept_scale == np.inf
    assert not points.intercept_scale.any()


@pytest.mark.parametrize("learns_scales", [True, False])
def test_a_pass_over_all_weights(monkeypatch, learns_scales):
    """The KL of weights and intercepts; the scales that maximise the ELBO, if they are learnt."""
    settled: Any = []
    monkeypatch.setattr(
        passes_of, "settle", lambda q, clock, *more: settled.append(clock.now) or 0.25
    )
    found = passes(learns_scales)
    found.begin_epoch(0, 1)
    found.now, found.done = 12, 12
    found.end_epoch()
    assert (found.kl, found.last_kl, found.now) == (0.5, 0.5, 0)
    assert settled == [12, 12]
    for q, prior in ((found.weights, 0.25), (found.intercepts, 4.0)):
        variances = 1.0 / (prior + q.information)
        best = len(q.mean) / (np.square(q.mean) + variances).sum() if learns_scales else prior
        assert q.base == pytest.approx(best)
        assert q.prior_precision == pytest.approx(best)


def test_when_all_weights_are_passed_over(monkeypatch):
    monkeypatch.setattr(passes_of, "settle", lambda *given: 0.25)
    found = passes()
    found.settle_every = 3
    due = []
    for epoch in range(8):
        found.begin_epoch(epoch, 8)
        assert np.isnan(found.kl)
        found.done = 12
        found.end_epoch()
        due.append(np.isfinite(found.kl))
    assert due == [False, False, True, False, False, True, False, True]
    found.begin_epoch(0, 8)
    found.done = 11  # interrupted
    found.now = passes_of.MOST_STAMPS + 1
    found.end_epoch()
    assert np.isnan(found.kl)
    found.done = 12
    found.end_epoch()
    assert found.kl == 0.5
    found.begin_epoch(0, 8)
    found.done, found.now = 12, passes_of.MOST_STAMPS
    found.end_epoch()
    assert np.isnan(found.kl)


def test_how_often_all_weights_are_passed_over():
    """As often as that is no dearer than the data."""
    found = passes()
    visited = 12 * 3 * (found.width + 1)
    assert found.chunk_rows == int(passes_of.CHUNK_COORDINATES * 12 / visited)
    assert found.settle_every == 1
    X = scipy.sparse.csr_array(([1.0, 2.0], ([0, 1], [5, 900])), shape=(2, 1_000))
    problem = Problem(as_rows(X, np.float64), np.array([0, 1]), np.ones(2), 1_000, 50)
    given = (problem, AugmentReducePosterior().parts(), 1.0, None)
    options: dict[str, Any] = {"shuffle": False, "random_state": np.random.RandomState(0)}
    wide = PosteriorPasses(*given, **options)
    assert wide.settle_every == round(50_000 / (2 * (wide.width + 1)))
    assert PosteriorPasses(*given, **options, settles_always=True).settle_every == 1
    wide.begin_epoch(0, 1)
    assert wide.order.tolist() == [0, 1]
    assert wide.chunk(5, None) == 5 + wide.chunk_rows


def test_stamps_fit_their_type():
    """With the rows of one more pass, which are no more than memory holds."""
    assert np.iinfo(np.int32).max >= passes_of.MOST_STAMPS + (1 << 30) - 1


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scales_of_a_prior_are_above_zero(scale):
    found = passes()
    given: Any = (found.problem, AugmentReducePosterior().parts())
    with pytest.raises(ValueError, match=f"intercept_scale={scale} must be a number above 0"):
        passes_of.fit_weight_posterior(*given, intercept_scale=scale)
    with pytest.raises(ValueError, match=f"prior_scale={scale} must be a finite number above 0"):
        passes_of.fit_weight_posterior(*given, prior_scale=scale)
