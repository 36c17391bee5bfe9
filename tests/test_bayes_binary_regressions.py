"""Binary regressions around their iterations: when they end, histories, batches, memory, starts.

No fit of any length: each piece is held to what it says.
"""

import itertools
import time
import warnings
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from bigcat.bayes import (
    GaussianPrior,
    HierarchicalPrior,
    HorseshoePrior,
    IndependentBinary,
    _binary_memory,
    _newton,
    independent_binary,
)
from bigcat.bayes._design import Design
from bigcat.bayes.binary_fit import BinaryFit
from bigcat.bayes.binary_posterior import BinaryPosterior
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.links import LINKS
from bigcat.bayes.method import Task
from bigcat.rows import Sizes
from bigcat.training.data import TrainingData
from tests.bayesian import drawn_posterior


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


def binary_task(fit_intercept: bool = True) -> Task:
    sample = TrainingData(np.ones((4, 2)), np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 1.0, 0.5]))
    classes = np.array(["no", "yes"])
    return Task(sample, classes, GaussianPrior(), fit_intercept, np.random.RandomState(0))


class BinaryFound(NamedTuple):
    """What a fit of binary regressions gives."""

    converged: bool
    mean: np.ndarray = np.ones((2, 3))
    covariance: Any = ClassDiagonal(np.ones((2, 3)))
    elbo: float = -7.0
    history: Any = ({"iteration": 1, "seconds": 0.5, "elbo": -7.0},)


@pytest.mark.parametrize("solver", ["newton", "cavi"])
@pytest.mark.parametrize(("tol", "converged"), [(0.0, False), (1e-3, False), (1e-3, True)])
def test_an_elbo_that_still_grows_is_told(monkeypatch, solver, tol, converged):
    """Unless all iterations were asked for."""
    fit = SimpleNamespace(run=lambda report: BinaryFound(converged))
    monkeypatch.setattr(independent_binary, "BinaryFit", lambda *given: fit)
    method = IndependentBinary(likelihood="conditioned", solver=solver, tol=tol, max_iter=9)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = method.fit(binary_task())
    assert found.seen == (4.5, 1)
    assert (found.evidence, len(found.history), found.bounds_evidence) == (-7.0, 1, True)
    if converged or not tol:
        assert told == []
        return
    (warning,) = told
    assert str(warning.message).startswith("the ELBO still grows after max_iter=9 iterations")
    assert str(warning.message).endswith("or tol" if solver == "newton" else "solver='newton'")


def test_weights_of_likelihoods(monkeypatch):
    """One of two, or the average, for as many rows as the posterior stands for."""
    asked: Any = []
    monkeypatch.setattr(
        independent_binary, "averaging_weight", lambda q, *given: asked.append(given[4:]) or 0.25
    )
    for likelihood, weight in (("marginalised", 0.0), ("conditioned", 1.0), ("average", 0.25)):
        method = IndependentBinary(likelihood=likelihood, n_draws=11)
        q = method._weighed(np.ones((2, 3)), BinaryFound(True).covariance, binary_task(), 90.0)
        assert (q.averaging_weight, q.likelihood, q.link) == (weight, likelihood, "probit")
        assert q.intercept
    assert asked == [(11, 90.0)]


@pytest.mark.parametrize("total_rows", [None, 900])
def test_batches_go_on_with_the_history(monkeypatch, total_rows):
    asked = []

    def step(design, labels, total):
        asked.append((design.n_columns, len(labels), total))
        return -3.0

    stream = SimpleNamespace(
        step=step,
        rows_seen=13.5,
        n_steps=3,
        mean=np.ones((2, 3)),
        covariance=BinaryFound(True).covariance,
    )
    monkeypatch.setattr(IndependentBinary, "_stream", lambda self, *given: stream)
    weighed = IndependentBinary._weighed
    rows = []

    def kept(self, mean, covariance, task, n_rows):
        rows.append(n_rows)
        return weighed(self, mean, covariance, task, n_rows)

    monkeypatch.setattr(IndependentBinary, "_weighed", kept)
    method = IndependentBinary(likelihood="conditioned", total_rows=total_rows)
    first = method.fit_more(binary_task(), None)
    (row,) = first.history
    assert (row["iteration"], row["elbo"]) == (1, -3.0)
    assert 0.0 <= row["seconds"] < 50.0
    row["seconds"] += 100.0
    second = method.fit_more(binary_task(), first)
    assert [row["iteration"] for row in second.history] == [1, 2]
    assert 100.0 <= second.history[0]["seconds"] <= second.history[1]["seconds"] < 200.0
    assert len(first.history) == 1
    assert (second.evidence, second.seen, second.stream) == (-3.0, (13.5, 3), stream)
    assert asked == [(3, 4, total_rows)] * 2
    assert rows == [total_rows or 13.5] * 2


def test_posteriors_that_batches_go_on_from():
    """Of the same link and form, with one covariance for all classes in the probit alone."""
    for link, shared in (("probit", True), ("logit", False)):
        for covariance in ("full", "diagonal"):
            method = IndependentBinary(link=link, covariance=covariance)
            for other_link, diagonal, one in itertools.product(
                ("probit", "logit"), (True, False), (True, False)
            ):
                form: Any = SimpleNamespace(diagonal=diagonal, shared=one)
                q: Any = BinaryPosterior(
                    np.ones((2, 3)),
                    form,
                    intercept=True,
                    classes=np.arange(2),
                    link=other_link,
                    likelihood="average",
                    averaging_weight=0.5,
                )
                alike = (other_link, diagonal, one) == (link, covariance == "diagonal", shared)
                assert method._like(q) is alike
    assert not IndependentBinary()._like(drawn_posterior())


def test_sizes_that_the_memory_of_binary_regressions_is_told_of(monkeypatch):
    asked: Any = []
    monkeypatch.setattr(
        _binary_memory,
        "forecast",
        lambda *sizes, **options: asked.append((sizes, options)) or 1,
    )
    prior = HierarchicalPrior("class")
    for link, likelihood, covariance, sparse, intercept in (
        ("probit", "average", "full", True, True),
        ("logit", "conditioned", "diagonal", True, False),
        ("logit", "average", "full", False, True),
    ):
        method = IndependentBinary(link=link, likelihood=likelihood, covariance=covariance)
        sizes = Sizes(30, 8, 4, 90, sparse, 5)
        method.memory_needed(sizes, np.float64, prior, fit_intercept=intercept, n_threads=2)
        (given, options) = asked.pop()
        assert given == (30, 8 + intercept, 4)
        assert options == {
            "stored": 90 + 30 * intercept if sparse else None,
            "full": covariance == "full",
            "row_variances": link == "logit",
            "sharing": "class",
            "averages": likelihood == "average",
            "n_threads": 2,
        }


def test_what_helps_binary_regressions_with_too_little_memory():
    each, shared = HorseshoePrior(), GaussianPrior()
    assert each.sharing == "coordinate"
    plain = "set covariance='diagonal' of the method"
    assert IndependentBinary().memory_remedy(shared) == plain
    assert IndependentBinary(link="logit").memory_remedy(each) == plain
    needs = "this prior needs a covariance matrix for each class; "
    assert IndependentBinary().memory_remedy(each) == needs + plain
    diagonal = IndependentBinary(covariance="diagonal").memory_remedy(each)
    assert diagonal == "fit fewer classes or features, or lower n_threads"


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
