"""A posterior around a linear fit: factors, scales, and the held-out rows that choose them."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from bigcat.bayes import Laplace, LearnedScale, _around_linear, laplace
from bigcat.bayes._around_linear import AroundLinear, Chosen, Found, Trial, _Judge
from bigcat.bayes._laplace_plan import Plan, Work
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.method import Task
from bigcat.noise import Gumbel
from bigcat.training.data import TrainingData

RNG = np.random.default_rng(5)


def around(fit_intercept: bool = True, n: int = 60, n_classes: int = 3) -> AroundLinear:
    rng = np.random.default_rng(0)
    labels = np.arange(n) % n_classes
    sample = TrainingData(rng.normal(size=(n, 4)), labels, rng.integers(1, 3, n).astype(float))
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
        held = TrainingData(found.task.sample.X[:2], np.zeros(2, int), np.ones(2))
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


@pytest.mark.parametrize(("n", "wanted"), [(12, 1), (19, 1), (25, 2), (60, 6)])
def test_a_tenth_of_the_rows_is_held_out_and_one_at_the_least(monkeypatch, n, wanted):
    asked = []

    def none(sample, random_state, share):
        asked.append((sample.n_rows, share))
        return []

    monkeypatch.setattr(_around_linear, "split", none)
    assert around(n=n).trial() is None
    assert asked == [(n, pytest.approx(wanted / n))]


def test_the_scale_of_a_linear_fit_is_told_as_that_of_the_weights():
    """Nothing is learnt of intercepts; the choice says what held-out rows have decided."""
    task = around().task
    covariance: Any = ClassDiagonal(np.ones((3, 5)))
    chosen = Chosen(0.5, 1.2, -1.0, -1.1, 9)
    found = Found(np.ones((3, 5)), covariance, chosen, 7)
    fit: Any = SimpleNamespace(task=task, run=lambda trial: found)
    for around_what, trial in (("linear", None), ("linear", "a trial"), ("either", "a trial")):
        plan = Plan("low-rank", "diagonal", 1, 10, "rows are few", around=around_what)
        given: Any = (Laplace(n_draws=30), fit, trial, plan)
        q, history = laplace._linear_posterior(*given)
        (row,) = history
        assert history.choice is not None
        assert (row["iteration"], row["gradients"]) == (1, 0)
        assert 0.0 <= row["seconds"] < 60.0
        assert row["log_precision"] == pytest.approx(np.log(4.0))
        assert np.isnan(row["log_intercept_precision"])
        assert history.choice["rank"] == 7
        assert history.choice["covariance"] == "low-rank"
        assert history.choice["coverage"].endswith("the prior's scale is a guess")
        assert {name: history.choice[name] for name in Chosen._fields} == chosen._asdict()
        reason = "rows are few; around the fit of LinearClassifier"
        if around_what == "either":
            reason += ", which predicts held-out rows better than the mode with the prior"
        assert history.choice["reason"] == reason
        assert (q.mean is found.mean, q.intercept, q.n_draws) == (True, True, 30)


@pytest.mark.parametrize("where", ["mode", "linear", "either"])
def test_only_a_mode_is_announced_that_takes_long(monkeypatch, where):
    """A fit that looks for none says nothing."""
    monkeypatch.setattr(Work, "warning", lambda self: "it takes long")
    plan = Plan("low-rank", "diagonal", 1, 10, "", around=where)
    monkeypatch.setattr(Laplace, "plan", lambda self, work, prior: plan)
    monkeypatch.setattr(AroundLinear, "trial", lambda self: None)
    monkeypatch.setattr(laplace, "_linear_posterior", lambda *given: ("linear", "history"))
    monkeypatch.setattr(laplace, "pose", lambda *given: None)
    monkeypatch.setattr(Laplace, "fit_posed", lambda self, task, plan, posed, seen, begun: seen)
    task = around().task
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found: Any = Laplace().fit(task)
    assert [str(one.message) for one in told] == ([] if where == "linear" else ["it takes long"])
    seen = found if where == "mode" else found.seen
    assert seen == (task.sample.row_weights.sum(), 1)
    if where != "mode":
        assert (found.posterior, found.history) == ("linear", "history")
        assert np.isnan(found.evidence)
        assert not found.bounds_evidence


def test_rows_that_are_held_out():
    assert _around_linear.most_held_out(3) == 1_000
    assert _around_linear.most_held_out((1 << 21) // 500) == 500
    assert _around_linear.most_held_out(1 << 21) == 200


def test_draws_of_held_out_scores():
    """As many as give eight million scores, from 4 to 32."""
    for n, k, expected in ((10, 5, 32), (20_000, 40, 10), (30_000, 100, 4)):
        held = TrainingData(None, np.zeros(n, int), np.ones(n))
        scores = np.zeros((n, k), np.float32)
        judge = _Judge(scores, np.zeros(k), held, np.random.RandomState(0))
        assert judge.normals.shape == (expected, k)


def test_held_out_scores_are_judged_by_their_departure_from_a_base():
    held = TrainingData(None, np.array([0, 2, 1]), np.array([1.0, 2.0, 1.0]))
    scores, base = RNG.normal(size=(3, 3)), np.array([0.5, -1.0, 0.2])
    judge = _Judge(scores, base, held, np.random.RandomState(0))
    assert judge.fitted_variance() == pytest.approx(scores.var(axis=0).mean(), rel=1e-5)
    for factor in (1.0, 1.5):
        middle = base + factor * (scores - base)
        values = log_softmax(middle, axis=1)[np.arange(3), held.labels]
        expected = held.row_weights @ values / 4.0
        assert judge(factor, np.zeros((3, 3))) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("power", [3, -3, 0])
def test_the_best_factor_is_the_most_probable_one(monkeypatch, power):
    """Rows whose log-likelihood is linear in its logarithm, and a Gaussian belief about it."""
    held = TrainingData(None, np.zeros(5, int), np.full(5, 2.0))
    judge = _Judge(np.zeros((5, 2)), np.zeros(2), held, np.random.RandomState(0))
    slope = power * np.log(1.08) / (0.3**2 * 10.0)
    monkeypatch.setattr(_Judge, "__call__", lambda self, one, variances: slope * np.log(one))
    factor, value = judge.best(1.0, np.zeros((5, 2)))
    assert factor == pytest.approx(1.08**power)
    assert value == pytest.approx(slope * np.log(factor))
