"""The Laplace method piece by piece: modes, likelihoods, one fit, batches, curvature."""

import dataclasses
import warnings
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.linalg import block_diag
from scipy.special import expit, log_softmax
from sklearn.exceptions import ConvergenceWarning

from bigcat.auto import Parameters, plan_for
from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    IndependentBinary,
    Laplace,
    LearnedScale,
    _around_linear,
    _laplace_batches,
    _laplace_plan,
    _likelihood,
    _mode,
    _own_rows,
    _posed,
    laplace,
    summary,
)
from bigcat.bayes import weight_posterior as passes_of
from bigcat.bayes._around_linear import Tried, _between
from bigcat.bayes._column_sizes import ColumnSizes
from bigcat.bayes._design import Design
from bigcat.bayes._frames import FRAMES
from bigcat.bayes._laplace_batches import Known
from bigcat.bayes._laplace_plan import Plan, Work, low_rank_bytes
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._mixing import Mixing
from bigcat.bayes._mode import find_mode, mean_of_gaussian
from bigcat.bayes.covariance import ClassDiagonal, ClassFull, Covariance, Drawn, JointFull
from bigcat.bayes.method import FittedPosterior, Seen, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.noise import Gaussian, Gumbel
from bigcat.rows import Sizes
from bigcat.training import memory, progress
from bigcat.training.data import TrainingData
from bigcat.training.history import History

RNG = np.random.default_rng(5)


# The mode, and the mean from there


class Shifted:
    """A likelihood with one peak, and coordinates that are the weights themselves."""

    mode = np.zeros((1, 2))

    def __init__(self, peak: list[float]) -> None:
        self.peak, self.sizes = np.array([peak]), []  # type: ignore[var-annotated]

    def gradients(self, stack):
        self.sizes.append(len(stack))
        return None, self.peak - stack

    def to_weights(self, u):
        return u

    def pulled(self, gradients):
        return gradients


def test_steps_to_the_mean_are_short_and_the_last_two_are_averaged():
    """Half a standard deviation each; draws around a middle leave no noise."""
    found: Any = Shifted([0.3, -1.7])
    mean = mean_of_gaussian(found, np.zeros_like, found, np.random.RandomState(0))
    np.testing.assert_allclose(mean, [[0.3, -(1.5 + 1.7) / 2]])
    assert found.sizes == [4] * 4
    pulled = mean_of_gaussian(
        found, lambda stack: np.full(stack.shape, 0.1), found, np.random.RandomState(0)
    )
    np.testing.assert_allclose(pulled, [[0.4, -(1.5 + 1.6) / 2]])


def few_rows(sparse: bool = False, intercept: bool = True, **options: Any) -> Likelihood:
    rng = np.random.default_rng(8)
    X = np.where(rng.random((14, 3)) < 0.7, rng.normal(size=(14, 3)), 0.0)
    rows: Any = scipy.sparse.csr_array(X) if sparse else X
    labels = np.r_[0, 1, 2, 3, rng.integers(0, 4, 10)]
    design = Design(rows, intercept, rng.integers(1, 4, 14).astype(float))
    return Likelihood(design, labels, Gumbel(), 4, **options)


def test_a_mode_that_is_not_reached_is_told(monkeypatch):
    likelihood, start = few_rows(), np.zeros((4, 4))
    given = (likelihood, np.ones((1, 4)), np.full((1, 4), 0.2), start)
    mode, reached = find_mode(*given)
    assert reached
    slopes = likelihood.gradients(mode[None])[1][0] - (mode - 0.2)
    assert np.abs(slopes).max() < 1e-3
    monkeypatch.setattr(_mode, "MOST_ITERATIONS", 1)
    assert not find_mode(*given)[1]


@pytest.mark.parametrize("most", [3, 4])
def test_modes_of_many_columns_have_no_basis(monkeypatch, most):
    """Four columns, one of them the intercept: turned, or only in their own units."""
    monkeypatch.setattr(_mode, "MOST_COLUMNS", most)
    likelihood, units = few_rows(), np.array([0.5, 1.0, 2.0, 3.0])
    gram = likelihood.design.gram() * np.outer(units, units)
    basis, sizes = _mode._basis(likelihood, units)
    if most == 3:
        assert basis is None
        np.testing.assert_allclose(sizes, np.diag(gram))
    else:
        assert basis is not None
        np.testing.assert_allclose(basis @ np.diag(sizes) @ basis.T, gram, atol=1e-9)
    precision = np.array([[0.5, 1.0, 2.0, 3.0]])
    mode, _ = find_mode(likelihood, precision, np.full((1, 4), 0.3), np.ones((4, 4)))
    slopes = likelihood.gradients(mode[None])[1][0] - precision * (mode - 0.3)
    assert np.abs(slopes).max() < 1e-3
    likelihood.n_gradients = 0
    again, reached = find_mode(likelihood, precision, np.full((1, 4), 0.3), mode, tol=1e-3)
    assert (reached, likelihood.n_gradients) == (True, 1)  # there is nowhere to go
    np.testing.assert_allclose(again, mode)


# Likelihoods


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_some_rows_are_a_likelihood_of_their_own(sparse, intercept):
    """The sums over two parts are those over all rows."""
    whole = few_rows(sparse, intercept)
    parts = [whole.of_rows(np.arange(5)), whole.of_rows(np.arange(5, 14))]
    stack = RNG.normal(size=(2, *whole.shape))
    assert all(part.shape == whole.shape == (4, 3 + intercept) for part in parts)
    found = [part.gradients(stack) for part in parts]
    values, gradients = whole.gradients(stack)
    np.testing.assert_allclose(found[0][0] + found[1][0], values)
    np.testing.assert_allclose(found[0][1] + found[1][1], gradients, atol=1e-12)
    np.testing.assert_allclose(sum(part.values(stack) for part in parts), values)
    assert (whole.n_gradients, parts[0].n_gradients) == (2, 2)
    weights = sum(part.class_weights() for part in parts)
    np.testing.assert_allclose(weights, whole.class_weights())
    expected = np.bincount(whole.labels, whole.design.row_weights)
    np.testing.assert_allclose(whole.class_weights(), expected)
    scores = whole.design.rows @ stack[0].T
    own = log_softmax(scores, axis=1)[np.arange(14), whole.labels]
    assert values[0] == pytest.approx(whole.design.row_weights @ own)


def test_many_products_are_in_single_precision(monkeypatch):
    """Those of all rows, where some stand for them; never of noises without a closed form."""
    monkeypatch.setattr(_likelihood, "MANY_PRODUCTS", 14 * 4 * 4)
    assert few_rows().dtype == np.float32
    assert few_rows(n_rows=13).dtype == np.float64
    assert few_rows().of_rows(np.arange(3)).dtype == np.float64
    assert few_rows().of_rows(np.arange(3), 14).dtype == np.float32
    assert _likelihood.precision_of(14, 4, 4, Gaussian()) is np.float64
    assert _likelihood.precision_of(15, 4, 4, Gumbel()) is np.float32


def test_rows_of_threads(monkeypatch):
    """A part for each thread where there is enough to do, and all rows once."""
    monkeypatch.setattr(_likelihood, "CACHED", 8)
    likelihood = few_rows(n_threads=3)
    for width, ends in ((8, [5, 10, 14]), (1, [14]), (2, [5, 10, 14])):
        parts = likelihood._parts(width)
        assert [part.stop for part in parts] == ends
        assert [part.start for part in parts] == [0, *ends[:-1]]
    monkeypatch.setattr(_likelihood, "CACHED", 14)
    assert len(likelihood._parts(2)) == 2
    assert len(few_rows()._parts(100)) == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_the_longest_row(sparse):
    rows: Any = np.array([[3.0, 4.0], [0.0, -4.5], [1.0, 1.0]])
    assert _likelihood._longest(scipy.sparse.csr_array(rows) if sparse else rows) == 5.0
    empty: Any = np.empty((0, 2))
    assert _likelihood._longest(scipy.sparse.csr_array(empty) if sparse else empty) == 0.0


def test_blocks_of_curvature_are_those_of_some_classes():
    likelihood, weights = few_rows(), RNG.normal(size=(4, 4))
    found: list[Any] = []
    likelihood.fisher_blocks(weights, slice(1, 3), lambda *both: found.append(both))
    ((curvatures, rows),) = found
    p = np.exp(log_softmax(likelihood.design.rows @ weights.T, axis=1))
    expected = (p * (1 - p) * likelihood.design.row_weights[:, None])[:, 1:3]
    np.testing.assert_allclose(curvatures, expected)
    np.testing.assert_array_equal(rows, likelihood.design.rows)
    np.testing.assert_allclose(likelihood.probabilities(weights, slice(2, 5)), p[2:5])


# A fit of the Laplace method


def one_fit(form: str = "class", prior: Any = None, **options: Any) -> Any:
    """Before anything is done."""
    likelihood = few_rows()
    sample = TrainingData(
        likelihood.design.rows[:, :3], likelihood.labels, likelihood.design.row_weights
    )
    rng = np.random.RandomState(0)
    task = Task(sample, np.arange(4), prior or LearnedScale(), True, rng)
    plan = Plan(form, "class", options.pop("n_chains", 4), 5, "", **options)
    posed = _posed.Posed(likelihood, ColumnSizes.of(likelihood.design), None)
    return laplace._Fit(Laplace(), task, plan, posed)


@pytest.mark.parametrize("form", ["draws", "class"])
@pytest.mark.parametrize("ess_bulk", [2.0, 500.0])
def test_chains_that_have_not_mixed_are_told_where_draws_are_kept(form, ess_bulk):
    fit = one_fit(form)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit._judge(Mixing(0.7, 1.5, ess_bulk))
    mixed = {"acceptance": 0.7, "r_hat": 1.5, "ess_bulk": ess_bulk}
    assert {name: fit.history.choice[name] for name in mixed} == mixed
    assert fit.history.choice["covariance"] == form
    if form == "draws" and ess_bulk == 2.0:
        (warning,) = told
        assert warning.category is ConvergenceWarning
        assert "chains of the posterior have not mixed" in str(warning.message)
    else:
        assert told == []


def test_iterations_of_chains_are_told_one_by_one(monkeypatch):
    """Numbers from 1, seconds and gradients so far, and the mean logarithms of all chains."""
    fit, reported, opened = one_fit(most_every=3), [], []

    @contextmanager
    def reporter(*given):
        opened.append(given)
        yield lambda *told: reported.append(told)

    monkeypatch.setattr(progress, "reporter", reporter)
    prior: Any = SimpleNamespace(learns=True, summary=lambda: np.array([[1.0, 4.0], [2.0, 6.0]]))
    chains: Any = SimpleNamespace(likelihood=SimpleNamespace(n_gradients=7), prior=prior)
    with fit._told(chains) as tell:
        tell()
        chains.likelihood.n_gradients = 9
        prior.learns = False
        tell()
    assert opened == [(False, 128 + 5 * 3, "laplace, gumbel", "log precision")]
    first, second = fit.history
    assert (first["iteration"], first["gradients"]) == (1, 7)
    assert (first["log_precision"], first["log_intercept_precision"]) == (1.5, 5.0)
    assert (second["iteration"], second["gradients"]) == (2, 9)
    assert np.isnan(second["log_precision"])
    assert 0.0 <= first["seconds"] <= second["seconds"] < 60.0
    assert reported[0] == (1, 1.5)
    assert reported[1][0] == 2


class OneChain:
    """In the place of the chain that tells the prior."""

    def __init__(self, kind: Any, likelihood: Likelihood, start: np.ndarray, prior: Any) -> None:
        self.kind, self.likelihood, self.start = kind, likelihood, start
        self.prior = prior
        self.frame = SimpleNamespace(mode=start + 1.0)
        self.arrived, self.n_kept = False, 0

    def arrive(self):
        self.arrived = True

    def learn(self, n_kept, tell):
        self.n_kept = n_kept
        return "precisions", Mixing(0.8, 1.0, 300.0)


@pytest.mark.parametrize("n_rows", [None, 6])
@pytest.mark.parametrize("ahead", [True, False])
def test_the_prior_from_one_chain(monkeypatch, n_rows, ahead):
    """Of some rows, if so planned; a few of them go ahead, and tell nothing of intercepts."""
    fit, chains = one_fit(n_chains=1, n_rows=n_rows), []

    def made(self, kind, likelihood, start, prior=None):
        learnt = self._prior(1)
        learnt = replace(learnt, scales=learnt.scales.rescaled(np.array([0.5])))
        chains.append(OneChain(kind, likelihood, start, prior or learnt))
        return chains[-1]

    few = few_rows().of_rows(np.arange(4))
    monkeypatch.setattr(laplace._Fit, "_chains", made)
    monkeypatch.setattr(laplace, "first_rows", lambda likelihood, rng: few if ahead else None)
    start = np.zeros((4, 4))
    precisions, near = fit._precisions(start)
    assert precisions == "precisions"
    assert len(chains) == 1 + ahead
    last = chains[-1]
    assert last.n_kept == 5
    assert last.likelihood.design.n == (n_rows or 14)
    if n_rows is None:
        assert last.likelihood is fit.likelihood
    else:
        whole, some = (x.design.rows.tolist() for x in (fit.likelihood, last.likelihood))
        places = [whole.index(row) for row in some]
        assert places == sorted(set(places))
    np.testing.assert_array_equal(near, start + 1.0 + ahead)
    assert fit.history.choice["ess_bulk"] == 300.0
    usual = fit._prior(1)
    if ahead:
        assert chains[0].arrived
        assert chains[0].likelihood is few
        np.testing.assert_allclose(last.prior.scales.values, 4.0 * usual.scales.values)
    else:
        np.testing.assert_allclose(last.prior.scales.values, usual.scales.values)
    np.testing.assert_allclose(last.prior.intercepts.values, usual.intercepts.values)


def test_a_known_prior_needs_no_chain(monkeypatch):
    fit, start = one_fit(prior=GaussianPrior(scale=2.0)), np.ones((4, 4))
    precisions, near = fit._precisions(start)
    np.testing.assert_allclose(precisions, np.full((1, 4), 0.25))
    assert near is start
    several = one_fit()
    drawn = SimpleNamespace(precisions="learnt", frame=SimpleNamespace(mode="near"))
    monkeypatch.setattr(laplace._Fit, "_draws", lambda self, start: drawn)
    assert several._precisions(start) == ("learnt", "near")


def test_the_evidence_has_the_prior_at_the_mode():
    """A prior for all classes, which counts for each of them."""
    fit = one_fit(prior=GaussianPrior(mean=0.3, scale=2.0))
    mode, precision = RNG.normal(size=(4, 4)), np.array([[0.25, 0.25, 0.25, 0.5]])
    frame: Any = SimpleNamespace(mode=mode, log_determinant=lambda: 3.0)
    fit._weigh(frame, precision)
    away = mode - np.array([0.3, 0.3, 0.3, 0.0])
    value = fit.likelihood.values(mode[None])[0] + 2.0 * np.log(precision).sum()
    value -= 0.5 * (precision * away**2).sum()
    assert fit.evidence == pytest.approx(value - 1.5)
    found = fit._posterior(mode, ClassDiagonal(np.ones((4, 4))))
    (row,) = fit.history
    assert (row["iteration"], row["gradients"]) == (1, fit.likelihood.n_gradients)
    assert 0.0 <= row["seconds"] < 60.0
    assert found.prior.precision is precision
    assert found.n_draws == 400


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, None),
        ({"covariance": "full"}, None),
        ({"rank": None}, None),
        ({"covariance": "draws"}, "and not covariance='draws'"),
        ({"covariance": "low-rank"}, "and not covariance='low-rank' or a rank"),
        ({"rank": 3}, "and not covariance='low-rank' or a rank"),
    ],
)
def test_why_batches_are_refused(options, told):
    found = Laplace(**options).why_no_batches(LearnedScale())
    assert found is None if told is None else told in " ".join((found or "").split())


@pytest.mark.parametrize("where", ["mode", "linear", "either"])
def test_bytes_of_a_plan_are_those_of_what_takes_more(monkeypatch, where):
    plan = Plan("low-rank", "diagonal", 1, 10, "", around=where)
    monkeypatch.setattr(Laplace, "plan", lambda self, work, prior: plan)
    sizes = Sizes(1_000, 20, 50, 20_000, False, 20)
    for of_mode, of_linear in ((70, 30), (30, 70)):
        monkeypatch.setattr(_laplace_plan, "memory", lambda *given, n=of_mode: n)
        monkeypatch.setattr(laplace, "memory_around_linear", lambda *given, n=of_linear: n)
        found = Laplace().memory_needed(
            sizes, np.float64, LearnedScale(), fit_intercept=True, n_threads=1
        )
        expected = {"mode": of_mode, "linear": of_linear, "either": 70}
        assert found == expected[where]


@pytest.mark.parametrize("ahead", [True, False])
def test_a_mode_is_kept_unless_the_trial_is_ahead_of_its_scores(monkeypatch, ahead):
    """Scores of the held-out rows, with the columns' means put back."""
    fit, means, seen = one_fit(), np.array([0.5, -1.0, 2.0]), []
    begun = laplace.Begun(np.ones((1, 4)), RNG.normal(size=(4, 4)))
    monkeypatch.setattr(laplace._Fit, "begin", lambda self: begun)
    posed = _posed.Posed(fit.likelihood, fit.columns, means)
    monkeypatch.setattr(laplace, "pose", lambda task, plan, noise: posed)
    held = fit.task.sample

    def is_ahead_of(scores):
        seen.append(scores)
        return ahead

    trial: Any = SimpleNamespace(kept=held, held_out=held, is_ahead_of=is_ahead_of)
    found = laplace._better_mode(Laplace(), fit.task, fit.plan, trial)
    assert found is (None if ahead else begun)
    ((scores),) = seen
    expected = (held.X - means) @ begun.mode[:, :3].T + begun.mode[:, 3]
    np.testing.assert_allclose(scores, expected)


# Batches of the Laplace method


def known_of(form: Covariance) -> Known:
    return Known.of(known_posterior(form))


def known_posterior(form: Covariance) -> NoisePosterior:
    q = NoisePosterior(
        np.random.default_rng(4).normal(size=(4, 4)),
        form,
        intercept=True,
        classes=np.arange(4),
        noise=Gumbel(),
        n_draws=400,
        seed=77,
    )
    q.prior = WeightPrior(np.zeros(4), np.ones((1, 4)))
    return q


def covariance_forms() -> dict[str, tuple[Covariance, np.ndarray]]:
    """Each with its matrix of all sixteen weights."""
    rng = np.random.default_rng(6)
    A, B, d = rng.normal(size=(16, 30)), rng.normal(size=(4, 4, 9)), rng.uniform(0.5, 2.0, (4, 4))
    whole, blocks = A @ A.T / 30, B @ B.transpose(0, 2, 1) / 9
    return {
        "full": (JointFull(whole, 4), whole),
        "class": (ClassFull(blocks, np.linalg.slogdet(blocks)[1]), block_diag(*blocks)),
        "diagonal": (ClassDiagonal(d), np.diag(d.ravel())),
    }


@pytest.mark.parametrize("form", ["full", "class", "diagonal"])
@pytest.mark.parametrize("centre", ["mode", "mean"])
def test_what_is_known_after_more_rows(form, centre):
    """Slopes of a Gaussian, a mode without any, and the evidence by its formula."""
    covariance, matrix = covariance_forms()[form]
    known = known_of(covariance)
    assert known.form == form
    inverse, mean = np.linalg.inv(matrix), known.frame.mode.ravel()
    stack = RNG.normal(size=(3, 4, 4))
    expected = -(stack.reshape(3, -1) - mean) @ inverse
    np.testing.assert_allclose(known.slopes(stack).reshape(3, -1), expected)
    likelihood = few_rows()
    middle, frame, evidence = known.updated(likelihood, centre, np.random.RandomState(0))
    mode = frame.mode
    slopes = likelihood.gradients(mode[None])[1] + known.slopes(mode[None])
    assert np.abs(slopes).max() < 1e-3
    precision_of, _ = FRAMES[form]
    precision = precision_of(likelihood, mode, np.zeros((1, 4))) + known.precision
    if form == "class":
        precision = block_diag(*precision)
    elif form == "diagonal":
        precision = np.diag(precision.ravel())
    away = mode.ravel() - mean
    value = likelihood.values(mode[None])[0] - 0.5 * away @ inverse @ away
    value -= 0.5 * (np.linalg.slogdet(precision)[1] + np.linalg.slogdet(matrix)[1])
    assert evidence == pytest.approx(value, rel=1e-6)
    assert (middle is mode) == (centre == "mode")
    assert 0.0 <= np.abs(middle - mode).max() < 1.0


def test_a_batch_goes_on_with_what_the_last_one_told():
    """Rows, steps, seconds and evidence add up; the prior and the seed of draws stay."""
    fit, q = one_fit(), known_posterior(ClassDiagonal(np.ones((4, 4))))
    choice = {"covariance": "diagonal"}
    history = History([{"iteration": 1, "seconds": 100.0, "gradients": 3}], choice)
    last = FittedPosterior(q, -20.0, history, Seen(30.0, 2), bounds_evidence=False)
    method = Laplace(centre="mode", n_draws=7)
    found: Any = method.fit_more(fit.task, last)
    assert found.seen == (30.0 + fit.task.sample.row_weights.sum(), 3)
    assert [row["iteration"] for row in found.history] == [1, 2]
    assert 100.0 <= found.history[-1]["seconds"] < 160.0
    assert found.history[-1]["gradients"] > 1
    assert np.isnan(found.history[-1]["log_precision"])
    assert len(history) == 1
    assert found.history.choice == choice
    _, frame, evidence = Known.of(q).updated(fit.likelihood, "mode", np.random.RandomState(0))
    assert found.evidence == pytest.approx(evidence - 20.0)
    np.testing.assert_allclose(found.posterior.mean, frame.mode)
    assert (found.posterior.seed, found.posterior.n_draws) == (77, 7)
    assert found.posterior.prior is q.prior
    assert not found.bounds_evidence
    with pytest.raises(ValueError, match="by another method or noise"):
        Laplace(noise="gaussian").fit_more(fit.task, last)


@pytest.mark.parametrize(("covariance", "form"), [("auto", "full"), ("diagonal", "diagonal")])
def test_the_form_of_a_first_batch(monkeypatch, covariance, form):
    """The finest that can be had where none is named."""
    asked: Any = []
    monkeypatch.setattr(Laplace, "fit", lambda self, task: asked.append((self, task)) or "fitted")
    task = one_fit().task
    assert Laplace(covariance=covariance, n_draws=9).fit_more(task, None) == "fitted"
    assert asked == [(Laplace(covariance=form, n_draws=9), task)]


def test_how_many_draws_tell_a_covariance():
    """Four for each weight: of all classes together, or of each by itself."""
    draws = np.random.default_rng(6).normal(size=(24, 2, 3)).astype(np.float32)
    draws -= draws.mean(axis=0)
    joint = _laplace_batches._of_moments(Drawn(draws), 2, 3)
    assert isinstance(joint, JointFull)
    np.testing.assert_allclose(joint.matrix, np.cov(draws.reshape(24, 6).T), rtol=1e-5)
    for n in (23, 12):
        alone = _laplace_batches._of_moments(Drawn(draws[:n]), 2, 3)
        assert isinstance(alone, ClassFull)
        np.testing.assert_allclose(alone.matrices, Drawn(draws[:n]).array())
    with pytest.raises(ValueError, match=r"of 3 weights.*kept 11 draws.*or n_draws=12"):
        _laplace_batches._of_moments(Drawn(draws[:11]), 2, 3)
    other: Any = SimpleNamespace(in_words="a spectrum")
    with pytest.raises(ValueError, match="the last fit has a spectrum; start with a new"):
        _laplace_batches._precision(other, 2, 3)


# Curvature


def test_probabilities_of_huge_scores():
    X, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    likelihood = Likelihood(Design(X, False), labels, Gumbel(), 2)
    weights = np.array([[1e4, 1e4], [1e4 - 1.0, -1e4]])
    found = likelihood._softmax(weights, slice(0, 2))
    np.testing.assert_allclose(found, [[expit(1.0), expit(-1.0)], [1.0, 0.0]])
    spread = likelihood.fisher_weights(weights, slice(0, 2))
    np.testing.assert_allclose(spread[0], expit(1.0) * expit(-1.0))


@pytest.mark.parametrize("sparse", [False, True])
def test_probabilities_of_labels_from_some_classes(monkeypatch, sparse):
    """Very many draws of four classes tell the softmax, some rows at a time."""
    monkeypatch.setattr(_own_rows, "N_DRAWN", 40_000)
    monkeypatch.setattr(_own_rows, "ROWS_TOGETHER", 6)
    likelihood, weights = few_rows(sparse), np.random.default_rng(1).normal(size=(4, 4))
    rows = likelihood.design.dense(slice(0, 14))
    expected = np.exp(log_softmax(rows @ weights.T, axis=1))[np.arange(14), likelihood.labels]
    found = _own_rows.probabilities_of_labels(likelihood, weights, np.random.RandomState(0))
    np.testing.assert_allclose(found, expected, rtol=0.03)
    own = _own_rows._own_scores(likelihood.rows, weights, likelihood.labels)
    np.testing.assert_allclose(own, (rows * weights[likelihood.labels]).sum(axis=1))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("chunk", [4 * 3, 1 << 20])
@pytest.mark.parametrize("turns", [False, True])
def test_own_rows_one_by_one_and_all_others_by_their_mean(monkeypatch, sparse, chunk, turns):
    monkeypatch.setattr(_own_rows, "CHUNK", chunk)
    monkeypatch.setattr(_own_rows, "MOST_TURNED", 4 if turns else 3)
    p = np.random.default_rng(2).uniform(0.1, 0.9, 14)
    monkeypatch.setattr(_own_rows, "probabilities_of_labels", lambda *given: p)
    likelihood = few_rows(sparse)
    prior, rng = np.array([[1.0, 2.0, 3.0, 4.0]]), np.random.RandomState(0)
    found = _own_rows.curvature_of_own_rows(likelihood, np.zeros((4, 4)), prior, rng)
    rows, weights = likelihood.design.dense(slice(0, 14)), likelihood.design.row_weights
    np.testing.assert_allclose(found.prior, np.ones((1, 4)) if turns else prior)
    assert found.basis.shape == ((4, 4) if turns else (0, 0))
    together = weights * (1 - p**2)
    if turns:
        rows = rows @ found.basis
        sums = found.basis.T @ np.diag(prior[0]) @ found.basis
        np.testing.assert_allclose(sums, np.eye(4), atol=1e-9)
        spread = rows.T @ (together[:, None] * rows)
        np.testing.assert_allclose(spread, np.diag(np.diag(spread)), atol=1e-9)
    mean = together @ rows**2 / together.sum()
    curvatures = weights * p * (1 - p)
    for k in range(4):
        mine = likelihood.labels == k
        expected = curvatures[mine] @ rows[mine] ** 2 + (weights * (1 - p))[mine].sum() * mean
        np.testing.assert_allclose(found.spectra[k], expected)
        some = slice(found.entries.starts[k], found.entries.starts[k + 1])
        assert found.entries.rows[some].tolist() == np.flatnonzero(mine).tolist()
        np.testing.assert_allclose(found.entries.weights[some], curvatures[mine])
    assert found.entries.starts.tolist()[::4] == [0, 14]


def test_bytes_of_a_posterior_around_a_linear_fit():
    parameters = Parameters(Gumbel(), rank=8)
    for n_rows, quick in ((5_000, True), (5_000_000, False)):
        sizes = Sizes(n_rows, 3_000, 400, 20 * n_rows, True, 30)
        work = Work.of(sizes, True, Gumbel())
        assert (work.curvature_seconds() <= 30.0) is quick
        plan = Plan("low-rank", "diagonal", 1, 10, "", n_directions=5)
        found = _around_linear.memory_around_linear(parameters, sizes, np.float64, work, plan)
        held = 1_000 * 400
        entries = n_rows * (16 * 100 if quick else 32)
        expected = int(low_rank_bytes(work, 5) + 40 * held + entries)
        fit = memory.needed(plan_for(parameters, sizes), sizes, np.float64).memory
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
