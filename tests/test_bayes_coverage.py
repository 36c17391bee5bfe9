"""Checks of coverage and calibration: what they count, results, plots, errors."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior, Laplace
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.priors import WeightPrior
from bigcat.inference.coverage import LEVELS, CoverageCheck, Simulation, draw_labels
from bigcat.metrics import calibration, log_likelihood
from bigcat.noise import resolve
from tests.bayesian import binary, csr, four_classes


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
    """Refits with the true distribution cover exactly; overconfident ones do not."""
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
    without = binary(random_state=0).fit(X, y)
    without.posterior_.prior = None
    with pytest.raises(ValueError, match=r"this model has none; take weights='posterior'"):
        without.check_coverage(X, 1, weights="prior")


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
