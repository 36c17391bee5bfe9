"""What posteriors count, keep and tell: histories, widths, keys, scales that go on.

No fit of any length: each piece is held to what it says.
"""

import itertools
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit, log_softmax

from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    HierarchicalPrior,
    HorseshoePrior,
    IndependentBinary,
    Laplace,
    LearnedScale,
    _around_linear,
    _binary_memory,
    _newton,
    averaging,
    coverage,
    independent_binary,
    laplace,
    summary,
)
from bigcat.bayes import posterior as posteriors
from bigcat.bayes import weight_posterior as passes_of
from bigcat.bayes._around_linear import AroundLinear, Chosen, Found, Trial, _Judge
from bigcat.bayes._design import Design
from bigcat.bayes._laplace_plan import Plan, Work
from bigcat.bayes._mixing import mean_error
from bigcat.bayes.binary_fit import BinaryFit
from bigcat.bayes.binary_posterior import BinaryPosterior
from bigcat.bayes.covariance import ClassDiagonal, Drawn
from bigcat.bayes.coverage import CoverageCheck, Simulation
from bigcat.bayes.likelihoods import log_conditioned, log_marginalised
from bigcat.bayes.links import LINKS
from bigcat.bayes.method import Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.weight_posterior import PosteriorPasses
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, Sizes, as_rows
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


@pytest.mark.parametrize(
    ("shape", "n_classes", "n_judged"),
    [((4, 9), 2, 4), ((400, 3), 2, 300), ((400, 3), 1 << 12, 64), ((400, 3), 1 << 20, 10)],
)
def test_rows_that_are_judged(monkeypatch, shape, n_classes, n_judged):
    """All of few, 300 of many with few classes, and fewer of many classes; no row twice."""
    X = np.arange(float(np.prod(shape))).reshape(shape)
    truth, judged, fitted = np.ones((n_classes, shape[1])), [], object()

    def refit(labels, seed):
        assert labels == "labels"
        assert 0 <= seed < np.iinfo(np.int32).max
        return fitted

    monkeypatch.setattr(coverage, "draw_labels", lambda *given: "labels")
    monkeypatch.setattr(Simulation, "_judge", lambda self, *given: judged.append(given))
    posterior: Any = SimpleNamespace(n_classes=n_classes)
    simulation: Any = Simulation(posterior, X, lambda rng: truth, refit, 0.9)
    simulation.replicate(np.random.RandomState(0))
    ((model, rows, weights),) = judged
    assert model is fitted
    assert weights is truth
    assert rows.shape == (n_judged, shape[1])
    assert (np.diff(rows[:, 0]) > 0).all()
    assert rows[:, 0].max() > 0.8 * X[:, 0].max()


@pytest.mark.parametrize(("block", "sizes"), [(6, [2, 2, 1]), (2, [1] * 5), (100, [5])])
def test_labels_are_drawn_for_all_rows_some_at_a_time(monkeypatch, block, sizes):
    """From scores so far apart that there is no choice."""
    monkeypatch.setattr(coverage, "BLOCK", block)
    asked = []

    def log_probabilities(scores):
        asked.append(len(scores))
        return log_softmax(scores, axis=1)

    q: Any = SimpleNamespace(n_classes=3, intercept=False, log_probabilities=log_probabilities)
    X = np.eye(3)[[2, 0, 1, 1, 2]]
    found = coverage.draw_labels(q, X, 1e3 * np.eye(3), np.random.RandomState(0))
    assert found.tolist() == [2, 0, 1, 1, 2]
    assert asked == sizes


def test_a_plot_of_coverage_has_two_standard_errors():
    shares = np.array([[0.4, 0.86], [0.5, 0.90], [0.6, 0.94]])
    check = CoverageCheck(0.9, np.array([0.5, 0.9]), shares, np.full(3, 0.2), "posterior", 150)
    ax = MagicMock()
    assert check.plot(ax) is ax
    (levels, means), options = ax.errorbar.call_args
    assert levels.tolist() == [0.5, 0.9]
    np.testing.assert_allclose(means, [0.5, 0.9])
    np.testing.assert_allclose(options["yerr"], np.array([0.2, 0.08]) / np.sqrt(3))
    assert ax.plot.call_args.args == ([0, 1], [0, 1])
    assert ax.set.call_args.kwargs == {"xlim": (0, 1), "ylim": (0, 1), "aspect": "equal"}
    ax.legend.assert_called_once()
    one = CoverageCheck(0.9, np.array([0.5, 0.9]), shares[:1], np.ones(1), "prior", 150)
    one.plot(ax)
    assert ax.errorbar.call_args.kwargs["yerr"].tolist() == [0.0, 0.0]


# Blocks of rows and classes


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


# Draws as tables and for other programs


def drawn_posterior(n_draws: int = 12, intercept: bool = True) -> NoisePosterior:
    rng = np.random.default_rng(3)
    deviations = rng.normal(size=(n_draws, 2, 3)).astype(np.float32)
    return NoisePosterior(
        rng.normal(size=(2, 3)),
        Drawn(deviations - deviations.mean(axis=0)),
        intercept=intercept,
        classes=np.array(["a", "b"]),
        noise=Gumbel(),
        n_draws=n_draws,
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_draws_for_arviz_have_the_names_of_their_columns(monkeypatch, intercept, named):
    given: dict[str, Any] = {}
    monkeypatch.setitem(
        sys.modules,
        "arviz",
        SimpleNamespace(from_dict=lambda draws, **more: given.update(draws, **more)),
    )
    q = drawn_posterior(intercept=intercept)
    names = ["height", "width", "depth"][: 3 - intercept]
    if named:
        q.feature_names = np.array(names, dtype=object)
    q.to_arviz(n_draws=5, random_state=1)
    assert given["weights"].shape == (1, 5, 2, 3)
    np.testing.assert_array_equal(given["weights"][0], q.sample(5, 1))
    features = names if named else ["0", "1", "2"][: 3 - intercept]
    assert given["coords"]["feature"] == features + ["intercept"] * intercept
    assert given["coords"]["class"].tolist() == ["a", "b"]
    assert given["dims"] == {"weights": ["class", "feature"]}


def test_a_thousand_draws_for_arviz_where_nobody_says_otherwise(monkeypatch):
    shapes: list[Any] = []
    arviz = SimpleNamespace(from_dict=lambda draws, **more: shapes.append(draws["weights"].shape))
    monkeypatch.setitem(sys.modules, "arviz", arviz)
    drawn_posterior().to_arviz()
    assert shapes == [(1, 1_000, 2, 3)]


def test_tables_of_draws_tell_their_error_and_how_chains_have_mixed(monkeypatch):
    monkeypatch.setattr(summary, "_table", lambda columns, attrs: (columns, attrs))
    q: Any = drawn_posterior()
    names, choice = ["x", "y", "intercept"], {"chains": 3, "r_hat": 1.01, "reason": "none"}
    columns, attrs = summary.summarise(q, names, choice=choice)
    assert attrs == {"level": 0.9, "base": None, "r_hat": 1.01}
    assert len(columns["mcse"]) == 6
    for label, feature, mean, error in zip(
        *(columns[n] for n in ("class", "feature", "mean", "mcse"))
    ):
        k, m = "ab".index(label), names.index(feature)
        assert mean == q.mean[k, m]
        assert error == pytest.approx(mean_error(q.covariance_form.deviations[:, k, m], 3))
    for some in (None, {}, {"r_hat": 1.01}):
        assert "mcse" not in summary.summarise(q, names, choice=some)[0]
    assert summary.summarise(q, names)[1] == {"level": 0.9, "base": None}
    others, attrs = summary.summarise(q, names, base=0, level=0.5)
    assert attrs == {"level": 0.5, "base": "a"}
    assert set(others["class"]) == {"b"}
    q.covariance_form = ClassDiagonal(np.ones((2, 3)))
    columns, attrs = summary.summarise(q, names, choice=choice)
    assert "mcse" not in columns
    assert attrs == {"level": 0.9, "base": None}


def test_the_surest_weights_are_the_first_rows(monkeypatch):
    """By mean over standard deviation, of all classes together; so many of each, if asked."""
    monkeypatch.setattr(summary, "_table", lambda columns, attrs: columns)
    names = [str(m) for m in range(600)]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        mean, variances = rng.normal(size=(3, 600)), rng.uniform(0.1, 2.0, (3, 600))
        q = NoisePosterior(
            mean,
            ClassDiagonal(variances),
            intercept=False,
            classes=np.arange(3),
            noise=Gumbel(),
            n_draws=10,
        )
        sureness = np.abs(mean) / np.sqrt(variances)
        for top in (1, 2, 3, 600):
            found = summary.summarise(q, names, top=top)
            numbers, columns = found["class"], found["feature"].astype(int)
            assert (np.diff(sureness[numbers, columns]) <= 0.0).all()
            for k in range(3):
                assert columns[numbers == k].tolist() == np.argsort(-sureness[k])[:top].tolist()


def test_a_table_of_one_row():
    table = summary.Table([{"class": "cat", "mean": 0.5}])
    assert repr(table).split() == ["class", "mean", "cat", "0.5000"]
    assert "<td>cat</td>" in table._repr_html_()
    assert "0.5000" in table._repr_html_()
    assert "cat" not in summary.Table([])._repr_html_()
    assert (table.attrs, summary.Table([], {"level": 0.9}).attrs) == ({}, {"level": 0.9})


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


def test_no_row_stands_for_all_twice(monkeypatch):
    monkeypatch.setattr(averaging, "MOST_SCORES", 400)
    states: list[int] = []

    def kept(_posterior, _eta, _variance, labels, some, _n_draws):
        states.extend(some.tolist())
        return np.zeros(len(labels))

    monkeypatch.setattr(averaging, "_differences", kept)
    X, posterior = RNG.normal(size=(240, 2)), Scores()
    given: Any = (posterior, X, np.zeros(240, int), np.ones(240), np.random.RandomState(0))
    averaging.averaging_weight(*given)
    assert len(states) == len(set(states)) == 200


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


@pytest.mark.parametrize(("n", "wanted"), [(12, 1), (19, 1), (25, 2), (60, 6)])
def test_a_tenth_of_the_rows_is_held_out_and_one_at_the_least(monkeypatch, n, wanted):
    asked = []

    def none(sample, n_classes, share, random_state, where):
        asked.append((sample.n_rows, n_classes, share))
        raise ValueError("no class can spare a row")

    monkeypatch.setattr(_around_linear, "hold_out", none)
    assert around(n=n).trial() is None
    assert asked == [(n, 3, pytest.approx(wanted / n))]


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
        held = Sample(None, np.zeros(n, int), np.ones(n))
        scores = np.zeros((n, k), np.float32)
        judge = _Judge(scores, np.zeros(k), held, np.random.RandomState(0))
        assert judge.normals.shape == (expected, k)


def test_held_out_scores_are_judged_by_their_departure_from_a_base():
    held = Sample(None, np.array([0, 2, 1]), np.array([1.0, 2.0, 1.0]))
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
    held = Sample(None, np.zeros(5, int), np.full(5, 2.0))
    judge = _Judge(np.zeros((5, 2)), np.zeros(2), held, np.random.RandomState(0))
    slope = power * np.log(1.08) / (0.3**2 * 10.0)
    monkeypatch.setattr(_Judge, "__call__", lambda self, one, variances: slope * np.log(one))
    factor, value = judge.best(1.0, np.zeros((5, 2)))
    assert factor == pytest.approx(1.08**power)
    assert value == pytest.approx(slope * np.log(factor))


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


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scales_of_a_prior_are_above_zero(scale):
    found = passes()
    given: Any = (found.problem, AugmentReducePosterior().parts())
    with pytest.raises(ValueError, match=f"intercept_scale={scale} must be a number above 0"):
        passes_of.fit_weight_posterior(*given, intercept_scale=scale)
    with pytest.raises(ValueError, match=f"prior_scale={scale} must be a finite number above 0"):
        passes_of.fit_weight_posterior(*given, prior_scale=scale)


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


def binary_task(fit_intercept: bool = True) -> Task:
    sample = Sample(np.ones((4, 2)), np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 1.0, 0.5]))
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
