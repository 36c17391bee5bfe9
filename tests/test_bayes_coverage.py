"""Checks of coverage and calibration: what they count, results, plots, errors."""

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import scipy.stats
from scipy.special import log_softmax

from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior, Laplace, coverage
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.coverage import LEVELS, CoverageCheck, Simulation, draw_labels
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.metrics import calibration, log_likelihood
from bigcat.noise import resolve
from tests.bayesian import binary, csr, four_classes

RNG = np.random.default_rng(5)


def fixed(**options: Any) -> BayesianClassifier:
    """A quick fit: the Laplace approximation with a prior that is known."""
    method = Laplace(covariance="full", **options)
    return BayesianClassifier(method, GaussianPrior(scale=1.0), random_state=0, progress=False)


@pytest.fixture(scope="module")
def model():
    X, y = four_classes(150)
    return fixed().fit(X, y)


def posterior(mean: np.ndarray, variances: np.ndarray) -> NoisePosterior:
    return NoisePosterior(
        mean,
        ClassDiagonal(variances),
        intercept=False,
        classes=np.arange(len(mean)),
        noise=resolve("gumbel"),
        n_draws=400,
    )


def test_labels_come_from_the_model():
    rng = np.random.RandomState(0)
    weights = np.array([[1.0, 0.0], [0.0, 0.5], [0.2, 0.3]])
    X = np.tile([[1.0, -1.0]], (20_000, 1))
    q = posterior(np.zeros((3, 2)), np.ones((3, 2)))
    labels = draw_labels(q, X, weights, rng)
    p = np.exp(weights @ X[0])
    assert scipy.stats.chisquare(np.bincount(labels), 20_000 * p / p.sum()).pvalue > 1e-3


def test_the_share_inside_is_counted():
    """Refits that know the truth's distribution cover exactly; those that are too sure do not."""
    X = np.random.default_rng(0).standard_normal((5, 2))
    centre, variances = np.zeros((3, 2)), np.full((3, 2), 0.5)

    def run(factor: float) -> np.ndarray:
        found = posterior(centre, factor * variances)
        simulation = Simulation(
            found,
            X,
            lambda rng: rng.standard_normal((3, 2)) * np.sqrt(variances),
            lambda labels, seed: found,
            0.9,
        )
        rng = np.random.RandomState(1)
        return np.array([simulation.replicate(rng)[0] for _ in range(200)]).mean(axis=0)

    np.testing.assert_allclose(run(1.0), LEVELS, atol=0.07)
    narrow = run(0.1)
    assert (narrow < np.array(LEVELS) * 0.6).all()
    assert run(100.0)[-2] > 0.97


def test_a_good_posterior_covers(model):
    """With weights from the prior the level is met: ten data sets, four standard errors."""
    X = four_classes(150)[0]
    check = model.check_coverage(X, n_replicates=10, weights="prior", random_state=0)
    assert isinstance(check, CoverageCheck)
    assert abs(check.coverage - 0.9) < 0.05
    assert 0.0 < check.standard_error < 0.04
    assert check.per_replicate.shape == check.widths.shape == (10,)
    assert check.coverage == pytest.approx(check.per_replicate.mean())
    assert (np.diff(check.coverages.mean(axis=0)) > 0).all()
    assert check.n_rows == 150


def test_seeds_levels_and_sparse_rows(model):
    X, y = four_classes(60)
    options: dict[str, Any] = {"n_replicates": 2, "random_state": 3, "level": 0.75}
    first, second = (model.check_coverage(X, **options) for _ in range(2))
    np.testing.assert_array_equal(first.coverages, second.coverages)
    assert 0.75 in first.levels
    assert first.coverages.shape == (2, len(LEVELS) + 1)
    sparse = fixed().fit(csr(X), y).check_coverage(csr(X), **options)
    assert 0.4 < sparse.coverage < 1.0
    assert np.isnan(model.check_coverage(X, 1, random_state=0).standard_error)


def test_the_classifier_stays_as_it_was(model):
    X = four_classes(40)[0]
    before = model.posterior_
    model.check_coverage(X, 1, random_state=0)
    assert model.posterior_ is before


def test_classes_without_simulated_rows_are_known():
    X, y = four_classes(30)
    m = binary(random_state=0).fit(X, y, classes=["ant", "bee", "cat", "dog", "yak"])
    check = m.check_coverage(X[:6], n_replicates=2, random_state=0)
    assert 0.0 <= check.coverage <= 1.0


def test_weights_from_the_prior():
    rng = np.random.RandomState(0)
    mean, precision = np.array([1.0, -1.0, 0.0]), np.array([[4.0, 1.0, 0.25]])
    drawn = WeightPrior(mean, precision).draw(40_000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(drawn.var(axis=0), 1 / precision[0], rtol=0.05)
    matrix = np.array([[2.0, 0.7, 0.0], [0.7, 1.0, 0.2], [0.0, 0.2, 0.5]])
    known = GaussianPrior(mean=mean, precision=matrix).known(5, 3, True)
    assert known is not None
    covariance = np.cov(known.draw(80_000, rng).T)
    np.testing.assert_allclose(covariance, np.linalg.inv(matrix), atol=0.05)


def test_a_learnt_scale_is_kept():
    X, y = four_classes(60)
    m = BayesianClassifier(Laplace(covariance="class"), random_state=0, progress=False).fit(X, y)
    prior = m.posterior_.prior
    assert prior is not None
    assert prior.precision.shape == (1, 4)
    columns: Any = m.posterior_.columns
    np.testing.assert_allclose(columns.centres, X.mean(axis=0))
    assert m.check_coverage(X, 1, weights="prior", random_state=0).coverage > 0.3


def test_plot(model):
    pytest.importorskip("matplotlib")
    coverages = np.array([[0.1, 0.85], [0.2, 0.95]])
    check = CoverageCheck(0.9, np.array([0.2, 0.9]), coverages, np.ones(2), "prior", 5)
    ax = check.plot()
    assert ax.get_xlabel() == "level of the intervals"
    lines = [line.get_xydata() for line in ax.get_lines()]
    np.testing.assert_allclose(lines[1], [[0.2, 0.15], [0.9, 0.9]])
    assert check.plot(ax) is ax


def test_plot_without_matplotlib(monkeypatch):
    check = CoverageCheck(0.9, np.array([0.9]), np.ones((2, 1)), np.ones(2), "prior", 5)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "bigcat\[plot\]"'):
        check.plot()


def test_reprs():
    values = np.array([[0.8], [0.9]])
    check = CoverageCheck(0.95, np.array([0.95]), values, np.full(2, 0.25), "prior", 1234)
    assert repr(check).splitlines() == [
        "95 % intervals hold 85.0 % of the true probabilities, standard error 5.0 %",
        "2 replicates of 1,234 rows, weights from the prior; mean width 0.25",
    ]


def test_errors(model):
    X, y = four_classes(60)
    with pytest.raises(ValueError, match="weights='mode' is not known; choose one of 'posterior'"):
        model.check_coverage(X, weights="mode")
    with pytest.raises(ValueError, match="n_replicates=0 must be a whole number of at least 1"):
        model.check_coverage(X, 0)
    with pytest.raises(ValueError, match=r"level=1.0 must lie between 0 and 1"):
        model.check_coverage(X, level=1.0)
    with pytest.raises(ValueError, match="X has 1 features, but BayesianClassifier is expecting 3"):
        model.check_coverage(X[:, :1])
    learnt = binary(prior="hierarchical", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"method='independent-binary', .* take weights='post"):
        learnt.check_coverage(X, 1, weights="prior")


def test_calibration_is_that_of_the_metrics(model):
    X, y = four_classes(200, new=True)
    check = model.check_calibration(X, y, n_bins=5)
    for how, found in (("averaged", check.averaged), ("plug-in", check.plug_in)):
        view: Any = SimpleNamespace(
            classes_=model.classes_,
            predict_top_k=lambda X, k, how=how: model.predict_top_k(X, k, how),
            log_proba_of=lambda X, y, how=how: model.log_proba_of(X, y, how),
        )
        expected = calibration(view, X, y, 5)
        assert found["ece"] == expected["ece"]
        np.testing.assert_array_equal(found["count"], expected["count"])
        assert found["log_likelihood"] == pytest.approx(log_likelihood(view, X, y))
    assert check.averaged["ece"] != check.plug_in["ece"]
    assert (check.n_rows, check.n_dropped) == (200, 0)


def test_calibration_in_words(model):
    X, y = four_classes(200, new=True)
    y = np.where(np.arange(200) < 3, "yak", y)
    lines = repr(model.check_calibration(X, y)).splitlines()
    assert lines[0].split("  ")[0] == "predictions"
    assert [line.split()[0] for line in lines[1:3]] == ["averaged", "plug-in"]
    assert f"{model.score(X[3:], y[3:]):.4f}" in lines[1]
    for line, how in zip(lines[1:3], ("averaged", "plug-in")):
        _, log_probabilities = model.predict_top_k(X[3:], 1, how)
        assert line.split()[3] == f"{np.exp(log_probabilities).mean():.4f}"
    assert lines[3] == "197 rows, 3 of unknown classes left out"


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
