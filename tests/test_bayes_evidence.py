"""`evidence_`: against importance sampling, at all sizes, with known and learned priors."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from benchmarks import thousand_classes
from benchmarks.evidence import MIN_GAP, SHAPES, nested_pair, problem, truth
from bigcat import noise as noises
from bigcat.bayes import GaussianPrior
from bigcat.bayes._design import Design
from bigcat.bayes.laplace import evidence
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.whitening import joint_precision
from tests.bayesian import laplace


@pytest.mark.parametrize(
    "shape", [SHAPES[0], *[pytest.param(s, marks=pytest.mark.slow) for s in SHAPES[1:]]]
)
@pytest.mark.parametrize("prior", ["known", "learned"])
def test_the_evidence_is_that_of_importance_sampling(shape, prior):
    """At 2,000 weights importance sampling itself has few effective draws."""
    X, y = problem(*shape)
    allowed = 1.0 if shape == SHAPES[-1] else 0.5
    given = GaussianPrior(scale=0.3) if prior == "known" else "learned"
    model = laplace(covariance="class", prior=given).fit(X, y)
    assert model.evidence_ == pytest.approx(truth(model, X, y), abs=allowed)


@pytest.mark.parametrize("shape", [(25, 50, 5), pytest.param((60, 120, 5), marks=pytest.mark.slow)])
def test_seeds_agree(shape):
    X, y = problem(*shape)
    found = [laplace(random_state=s, n_draws=200).fit(X, y).evidence_ for s in range(3)]
    assert np.ptp(found) < 1.0
    assert max(found) < 0.0


@pytest.mark.parametrize("n", [300, 60])
def test_nothing_jumps_where_the_forms_change(monkeypatch, n):
    """All covariances have one evidence, and both determinants are that of the full curvature."""
    X, y = problem(n, 20, 6)
    prior = GaussianPrior(scale=0.5)
    models = [laplace(covariance=form, prior=prior).fit(X, y) for form in ("full", "class")]
    first = models[0].evidence_
    assert all(m.evidence_ == pytest.approx(first, abs=0.8) for m in models)
    likelihood = Likelihood(Design(X, True), y, noises.resolve("gumbel"), 6)
    mode, precision = models[0].posterior_.mean, np.full((1, 21), 4.0)
    expected = np.linalg.slogdet(joint_precision(likelihood, mode, precision))[1]
    found = evidence.softmax_log_determinant(likelihood, mode, precision)
    assert found == pytest.approx(expected, abs=1e-8)


def test_the_right_one_of_two_nested_models_is_found():
    for seed in range(4):
        ours, true = nested_pair(seed)
        assert ours == pytest.approx(true, abs=0.5)
        assert abs(true) < MIN_GAP or ours * true > 0.0


def test_an_evidence_that_takes_long_has_a_reason(monkeypatch):
    monkeypatch.setattr(evidence, "MAX_PRODUCTS", 1.0)
    X, y = problem(60, 3, 3)
    with pytest.warns(ConvergenceWarning, match="scale of the prior has not settled.*set a scale"):
        model = laplace(covariance="class").fit(X, y)
    assert "held-out" in str(model.evidence_reason_)
    with pytest.warns(UserWarning, match=r"evidence_ is NaN: the determinant of 12 weights"):
        assert np.isnan(model.evidence_)


def test_other_noises_have_the_evidence_of_all_weights():
    X, y = problem(40, 2, 3)
    model = laplace(noise="gaussian", covariance="full", prior="gaussian").fit(X, y)
    assert np.isfinite(model.evidence_)
    assert model.evidence_reason_ is None


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "loss"), [(0.1, 0.01), (0.2, 0.01), (0.5, 0.25)])
def test_a_thousand_classes_are_as_good_as_the_best_ridge(deviation, loss):
    """With strong signals the learned scale is too small."""
    found = thousand_classes.measure(deviation)
    assert found["gain"] > -loss
    assert found["over the plug-in"] > -found["its standard error"]
