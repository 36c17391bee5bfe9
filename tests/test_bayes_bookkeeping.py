"""What posteriors count, keep and tell: histories, widths, keys, scales that go on.

No fit of any length: each piece is held to what it says.
"""

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit, log_softmax

from bigcat.auto import Parameters, recipe_for
from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    HierarchicalPrior,
    HorseshoePrior,
    IndependentBinary,
    Laplace,
    LearnedScale,
    _around_linear,
    _newton,
    _posed,
    averaging,
    summary,
)
from bigcat.bayes import weight_posterior as passes_of
from bigcat.bayes._around_linear import AroundLinear, Chosen, Trial, Tried, _between, _Judge
from bigcat.bayes._design import Design
from bigcat.bayes._laplace_plan import Plan, Work, low_rank_bytes
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes.binary_fit import BinaryFit
from bigcat.bayes.covariance import ClassDiagonal, Drawn
from bigcat.bayes.coverage import Simulation
from bigcat.bayes.likelihoods import log_conditioned, log_marginalised
from bigcat.bayes.links import LINKS
from bigcat.bayes.method import FittedPosterior, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.weight_posterior import PosteriorPasses
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, Sizes, as_rows
from bigcat.training import memory
from bigcat.training.sample import Sample
from bigcat.training.snapshot import Place

RNG = np.random.default_rng(5)


# Checks of coverage


def test_shares_and_widths_of_intervals_are_those_of_the_judged_probabilities():
    """Two blocks of rows, two classes, and intervals of known width."""
    X = RNG.normal(size=(5, 2))
    truth = np.array([[0.3, -0.2], [0.0, 0.4]])
    p = np.exp(log_softmax(X @ truth.T, axis=1))

    class Fitted:
        def probability_quantiles(self, X, tails):
            self.tails = tails
            for rows in (slice(0, 3), slice(3, 5)):
                some, below = p[rows], np.arange(1.0, len(tails) // 2 + 1)[:, None, None]
                found = np.empty((len(tails), *some.shape))
                found[0::2], found[1::2] = some - 0.01 * below, some + 0.02 * below
                found[1, 0, 0] = some[0, 0] - 0.005  # of the first level, one row of each block
                found[2, :1] = some[:1]  # the end itself is inside
                yield rows, found

    posterior: Any = SimpleNamespace(
        intercept=False, log_probabilities=lambda scores: log_softmax(scores, axis=1)
    )
    fitted: Any = Fitted()
    levels = Simulation(posterior, X, None, None, 0.8).levels()  # type: ignore[arg-type]
    for level in (0.8, 0.77):
        simulation = Simulation(posterior, X, None, None, level)  # type: ignore[arg-type]
        held, width = simulation._judge(fitted, X, truth)
        assert held.shape == simulation.levels().shape
        np.testing.assert_allclose(held[1:], 1.0)
        assert held[0] == pytest.approx(0.8)
        at = int(np.flatnonzero(simulation.levels() == level)[0])
        missing = 0.01 * 2 * 4 / 10 if at == 1 else 0.0
        assert width == pytest.approx(0.03 * (at + 1) - missing)
    assert len(fitted.tails) == 2 * (len(levels) + (0.77 not in levels))
    np.testing.assert_allclose(fitted.tails[0::2] + fitted.tails[1::2], 1.0)


# Averages of two likelihoods


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


# A posterior around a linear fit


def around(fit_intercept: bool = True, n: int = 60, n_classes: int = 3) -> AroundLinear:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % n_classes
    sample = Sample(rng.normal(size=(n, 4)), labels, rng.integers(1, 3, n).astype(float))
    task = Task(
        sample, np.arange(n_classes), LearnedScale(), fit_intercept, np.random.RandomState(0)
    )
    return AroundLinear(task, Gumbel(), 3, 2)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_factor_leaves_the_class_frequencies_where_they_are(fit_intercept):
    found = around(fit_intercept)
    weights = RNG.normal(size=(3, 4 + fit_intercept))
    expected = 1.7 * weights
    if fit_intercept:
        expected[:, -1] = found.base() + 1.7 * (weights[:, -1] - found.base())
    found.multiply(weights, 1.7)
    np.testing.assert_allclose(weights, expected)
    labels, row_weights = found.task.sample.labels, found.task.sample.row_weights
    counts = np.bincount(labels, row_weights)
    assert found.base().shape == (3,)
    if fit_intercept:
        assert np.ptp(np.log(counts) - found.base()) < 0.05
    else:
        assert not found.base().any()


class Curved:
    """A curvature whose variances are those of the prior, as if there were no data."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []

    def covariance(self, n_directions, precision):
        self.asked.append((n_directions, precision))
        return SimpleNamespace(
            row_variances=lambda rows, classes: np.full((rows.n, 3), 1.0 / precision)
        )

    def prior_variances(self, rows):
        return np.full(rows.n, 3.0)


def test_the_covariance_has_the_scale_that_was_chosen(monkeypatch):
    """And the mean the factor; a trial with few rows out of many is the fit itself."""
    found, curved = around(), Curved()
    n = found.task.sample.n_rows
    fits: Any = []
    weights = RNG.normal(size=(3, 5))
    model: Any = SimpleNamespace(weights=SimpleNamespace(kind=SimpleNamespace(rank=7)))
    monkeypatch.setattr(AroundLinear, "curvature", lambda self, model, sample: curved)
    monkeypatch.setattr(AroundLinear, "weights", lambda self, model: weights.copy())
    monkeypatch.setattr(AroundLinear, "fit", lambda self, sample: fits.append(sample) or model)
    chosen = Chosen(0.5, 1.2, -1.0, -1.1, 9)
    monkeypatch.setattr(AroundLinear, "choose", lambda self, trial, curvature: chosen)
    without = found.run(None)
    assert curved.asked == [(2, _around_linear.USUAL_SCALE**-2.0)]
    assert fits == [found.task.sample]
    np.testing.assert_allclose(without.mean, weights)
    assert (without.rank, without.chosen.scale, without.chosen.factor) == (7, 1.0, 1.0)
    assert without.chosen.n_rows == 0
    for few, n_fits in ((n // 2, 0), (n // 2 + 1, 1)):
        monkeypatch.setattr(_around_linear, "FEW_HELD_OUT", few)
        fits.clear()
        curved.asked.clear()
        held = Sample(found.task.sample.X[:2], np.zeros(2, int), np.ones(2))
        other = found.run(Trial(model, found.task.sample, held, np.zeros((2, 3))))
        assert curved.asked == [(2, 4.0)]
        assert len(fits) == n_fits
        expected = weights * 1.2
        expected[:, -1] -= 0.2 * found.base()
        np.testing.assert_allclose(other.mean, expected)
        assert other.chosen is chosen


def test_scales_are_tried_until_the_fit_implies_less(monkeypatch):
    """Variances of a scale s are s^2; the fit varies by 2.9, of 2 that the prior has at s = 1."""
    found, curved = around(), Curved()
    held = found.task.sample
    seen: Any = []
    kept = _around_linear._between
    monkeypatch.setattr(_around_linear, "_between", lambda tried: seen.append(tried) or kept(tried))
    monkeypatch.setattr(_Judge, "fitted_variance", lambda self: 2.9)
    factors = []

    def best(self, factor, variances):
        factors.append(factor)
        return factor * 1.1, -2.0

    monkeypatch.setattr(_Judge, "best", best)
    trial = Trial(None, held, held, np.zeros((held.n_rows, 3)))  # type: ignore[arg-type]
    chosen = found.choose(trial, curved)  # type: ignore[arg-type]
    (tried,) = seen
    scales = np.array([one.scale for one in tried])
    np.testing.assert_allclose(scales, _around_linear.SCALES[: len(tried)])
    np.testing.assert_allclose([one.implied for one in tried], np.sqrt((2.9 + scales**2) / 2.0))
    assert (scales[:-1] < np.sqrt(2.9)).all()
    assert scales[-1] >= np.sqrt(2.9)
    np.testing.assert_allclose(factors, 1.1 ** np.arange(len(tried)))
    assert chosen.n_rows == held.n_rows
    assert all(directions == 0 for directions, _ in curved.asked)
    np.testing.assert_allclose([p for _, p in curved.asked], scales**-2.0)
    # What held-out rows lose ends it, too: more than 0.7 % of the best.
    seen.clear()
    values = iter([-2.0, -2.0 * 1.0069, -2.0 * 1.0071, -1.0])
    monkeypatch.setattr(_Judge, "best", lambda self, factor, variances: (1.0, next(values)))
    found.choose(trial, curved)  # type: ignore[arg-type]
    assert len(seen[0]) == 3


def test_rows_that_are_held_out():
    assert _around_linear.most_held_out(3) == 1_000
    assert _around_linear.most_held_out((1 << 21) // 500) == 500
    assert _around_linear.most_held_out(1 << 21) == 200


def test_draws_of_held_out_scores():
    """As many as give eight million scores, from 4 to 32."""
    for n, k, expected in ((10, 5, 32), (20_000, 40, 10), (30_000, 100, 4)):
        held = Sample(None, np.zeros(n, int), np.ones(n))
        scores = np.zeros((n, k), np.float32)
        judge = _Judge(scores, np.zeros(k), held, np.random.RandomState(0))
        assert judge.normals.shape == (expected, k)


# Priors as they are where nobody says otherwise


def test_defaults_of_priors():
    assert GaussianPrior() == GaussianPrior(0.0, 1.0, None, None)
    assert HierarchicalPrior() == HierarchicalPrior("feature", 0.5, 0.5, 10.0)
    learnt = [kind.learnt for kind in (GaussianPrior, HierarchicalPrior, HorseshoePrior)]
    assert learnt == [False, True, True]
    bound = GaussianPrior().bind(3, 4, True)
    assert bound.mean.tolist() == [0.0] * 4
    assert bound.precision(slice(0, 3)).ravel().tolist() == [1.0] * 4
    assert not bound.learnt
    assert bound.intercept_precision is None


# Passes of a weight posterior


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


# Binary regressions


class Iterations(BinaryFit):
    """A fit whose ELBO is given."""

    def __init__(self, elbos, tol=1e-3, max_iter=10) -> None:
        self.elbos, self.tol, self.max_iter = iter(elbos), tol, max_iter
        self.n_classes, self.mean, self.covariance = 4, np.zeros((4, 2)), None  # type: ignore
        self.negligible: list[float] = []

    def iterate(self) -> float:
        return float(next(self.elbos))

    def evaluate(self) -> float:
        self.negligible.append(self._negligible)
        return -90.0


def test_iterations_end_where_the_elbo_hardly_grows():
    told: list[tuple[float, float]] = []
    fit = Iterations([-200.0, -110.0, -100.05, -100.0, -50.0])
    began = time.perf_counter()
    result = fit.run(lambda i, elbo: told.append((i, elbo)))
    took = time.perf_counter() - began
    assert told == [(1, -200.0), (2, -110.0), (3, -100.05), (4, -100.0)]
    assert result.converged
    assert result.elbo == -90.0
    assert [row["elbo"] for row in result.history] == [-200.0, -110.0, -100.05, -90.0]
    assert [row["iteration"] for row in result.history] == [1, 2, 3, 4]
    seconds = [row["seconds"] for row in result.history]
    assert 0.0 <= seconds[0] <= seconds[-1] <= took
    assert seconds == sorted(seconds)
    assert fit.negligible == pytest.approx([0.01 * 1e-3 * 100.05 / 4], rel=1e-2)


def test_iterations_that_do_not_end():
    result = Iterations([-200.0, -200.0, -200.0], tol=0.0, max_iter=3).run()
    assert not result.converged
    assert len(result.history) == 3
    exact = Iterations([-2.0, -1.0, -1.0 + 1e-9], tol=1.0, max_iter=9).run()
    assert (exact.converged, len(exact.history)) == (True, 2)  # a gain of all of its size
    with pytest.raises(FloatingPointError, match="the ELBO became nan in iteration 2; scale the"):
        Iterations([-1.0, np.nan]).run()


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_means_begin_at_the_frequencies(link):
    weights = np.array([1.0, 2.0, 1.0, 0.5])
    given: Any = {
        "prior": GaussianPrior().bind(3, 3, True),
        "n_classes": 3,
        "newton": True,
        "design": Design(np.zeros((4, 2)), True, weights),
        "labels": np.array([0, 1, 1, 0]),
        "row_weights": weights,
        "link": LINKS[link],
    }
    found = BinaryFit._start(SimpleNamespace(**given))  # type: ignore[arg-type]
    share = (np.array([1.5, 3.0, 0.0]) + 0.5) / (4.5 + 1.0)
    np.testing.assert_allclose(LINKS[link].cdf(found[:, -1]), share)
    assert not found[:, :2].any()
    for changed in (
        {"newton": False},
        {"design": Design(np.zeros((4, 3)), False, weights)},
        {"prior": GaussianPrior(mean=np.array([0.0, 0.0, 0.2])).bind(3, 3, True)},
    ):
        other: Any = SimpleNamespace(**given | changed)
        np.testing.assert_array_equal(BinaryFit._start(other), np.tile(other.prior.mean, (3, 1)))


def test_steps_without_curvature_go_nowhere():
    """A matrix of zeros says nothing of a direction."""
    found = _newton.conjugate_gradients(
        Design(np.zeros((3, 2)), False),
        None,
        _newton.precision_product(np.zeros((2, 1)), False),
        np.ones((2, 1)),
        _newton.diagonal_preconditioner(np.ones((2, 1))),
        np.full(1, 1e-9),
    )
    assert not found.step.any()
    assert not found.scores.any()


# Curvature


def test_probabilities_of_huge_scores():
    X, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    likelihood = Likelihood(Design(X, False), labels, Gumbel(), 2)
    weights = np.array([[1e4, 1e4], [1e4 - 1.0, -1e4]])
    found = likelihood._softmax(weights, slice(0, 2))
    np.testing.assert_allclose(found, [[expit(1.0), expit(-1.0)], [1.0, 0.0]])
    spread = likelihood.fisher_weights(weights, slice(0, 2))
    np.testing.assert_allclose(spread[0], expit(1.0) * expit(-1.0))


def test_bytes_of_a_posterior_around_a_linear_fit():
    parameters = Parameters.chosen(Gumbel(), 8, True, 1)
    for n_rows, quick in ((5_000, True), (5_000_000, False)):
        sizes = Sizes(n_rows, 3_000, 400, 20 * n_rows, True, 30)
        work = Work.of(sizes, True, Gumbel())
        assert (work.curvature_seconds() <= 30.0) is quick
        plan = Plan("low-rank", "diagonal", 1, 10, "", n_directions=5)
        found = _around_linear.memory_around_linear(parameters, sizes, np.float64, work, plan)
        held = 1_000 * 400
        entries = n_rows * (16 * 100 if quick else 32)
        expected = int(low_rank_bytes(work, 5) + 40 * held + entries)
        fit = memory.needed(recipe_for(parameters, sizes), sizes, np.float64)
        assert found == max(expected, fit)


def test_limits_that_are_not_met_leave_the_scale_at_the_last():
    """Neither rows that are predicted better, nor scores that imply more than before."""
    first = Tried(1.0, 1.0, -2.0, 1.5)
    assert _between([first, Tried(2.0, 1.2, -2.0, 3.2)]) == pytest.approx((2.0, 1.2, -2.0))
    assert _between([first, Tried(2.0, 1.2, -1.9, 3.2)]) == pytest.approx((2.0, 1.2, -1.9))


# What methods say of themselves


def test_what_methods_declare():
    kinds = (Laplace, IndependentBinary, AugmentReducePosterior)
    assert [kind.keepable for kind in kinds] == [False, False, True]
    assert [type(kind.usual_prior) for kind in kinds] == [
        LearnedScale,
        GaussianPrior,
        GaussianPrior,
    ]
    fields = {field.name: field.default for field in dataclasses.fields(FittedPosterior)}
    assert fields["bounds_evidence"] is True
    assert fields["stream"] is None


def test_the_longest_summary(monkeypatch):
    mean = RNG.normal(size=(2, 3))
    q: Any = NoisePosterior(
        mean,
        ClassDiagonal(np.ones((2, 3))),
        intercept=False,
        classes=np.array(["a", "b"]),
        noise=Gumbel(),
        n_draws=10,
    )
    names = ["x", "y", "z"]
    monkeypatch.setattr(summary, "MOST_ROWS", 6)
    assert len(summary.summarise(q, names)) == 6
    monkeypatch.setattr(summary, "MOST_ROWS", 5)
    with pytest.raises(ValueError, match="the summary would have 6 rows, and 5 is the most"):
        summary.summarise(q, names)


def test_what_is_told_within_an_epoch_is_the_elbo():
    """The expected bound less the KL as it was last known, per row."""
    told: list[tuple[float, float]] = []
    record: Any = SimpleNamespace(
        chunk_done=lambda part, value: told.append((part, value)), compiled=None
    )
    of: Any = SimpleNamespace(last_kl=6.0, total_weight=4.0)
    passes_of._Watched(of, record, None).chunk_done(0.5, -2.0)
    assert told == [(0.5, -3.5)]


def test_matrices_of_draws_are_those_of_the_classes():
    deviations = RNG.normal(size=(50, 2, 3)).astype(np.float32)
    found = Drawn(deviations).array()
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(found[1], Drawn(deviations).matrix_of(1))


def test_columns_are_centred():
    np.testing.assert_allclose(_posed.centred([[1.0, 5.0]], np.array([1.0, 2.0])), [[0.0, 3.0]])
    rows = [[1.0]]
    assert _posed.centred(rows, None) is rows


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scales_of_a_prior_are_above_zero(scale):
    found = passes()
    given: Any = (found.problem, AugmentReducePosterior().parts())
    with pytest.raises(ValueError, match=f"intercept_scale={scale} must be a number above 0"):
        passes_of.fit_weight_posterior(*given, intercept_scale=scale)
    with pytest.raises(ValueError, match=f"prior_scale={scale} must be a finite number above 0"):
        passes_of.fit_weight_posterior(*given, prior_scale=scale)
