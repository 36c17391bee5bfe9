"""`evidence_`: against importance sampling, at all sizes, with known and learnt priors."""

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from bigcat import noise as noises
from bigcat.bayes import GaussianPrior
from bigcat.bayes._design import Design
from bigcat.bayes.laplace import evidence
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.whitening import joint_precision
from tests.bayesian import laplace


def problem(n, n_features, n_classes, deviation=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    scores = X @ rng.normal(0.0, deviation, (n_features, n_classes))
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def sampled_evidence(X, y, n_classes, precision, n_draws, seed=0):
    """Importance sampling from a t distribution around the mode, with the full curvature."""
    n, d = X.shape
    rows = np.column_stack([X, np.ones(n)])
    P = np.tile(precision, n_classes)
    own = np.eye(n_classes)[y]
    w = np.zeros((n_classes, d + 1))

    def curvature(w):
        p = np.exp(log_softmax(rows @ w.T, axis=1))
        wide = (p[:, :, None] * rows[:, None, :]).reshape(n, -1)
        H = -wide.T @ wide + np.diag(P)
        for k in range(n_classes):
            part = slice(k * (d + 1), (k + 1) * (d + 1))
            H[part, part] += rows.T @ (rows * p[:, k : k + 1])
        return p, H

    for _ in range(30):  # Newton
        p, H = curvature(w)
        step = np.linalg.solve(H, ((own - p).T @ rows).ravel() - P * w.ravel())
        w = w + step.reshape(w.shape)
        if np.abs(step).max() < 1e-9:
            break
    root = np.linalg.cholesky(curvature(w)[1])
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_draws // 2, w.size))
    z = np.concatenate([z, -z])
    logs = np.empty(n_draws)
    for i in range(0, n_draws, 100):
        away = np.linalg.solve(root.T, z[i : i + 100].T).T
        draws = w.ravel() + away
        scores = np.einsum("nm,skm->snk", rows, draws.reshape(-1, *w.shape))
        values = (scores[:, np.arange(n), y] - logsumexp(scores, axis=2)).sum(axis=1)
        prior = 0.5 * (np.log(P).sum() - np.square(draws) @ P)
        logs[i : i + 100] = values + prior + 0.5 * np.square(z[i : i + 100]).sum(axis=1)
    logs -= np.log(np.diag(root)).sum()
    return float(logsumexp(logs) - np.log(n_draws))


SIZES = [(400, 11, 5)]
LARGE = [(6_000, 49, 10), (20_000, 99, 10), (20_000, 99, 20)]


@pytest.mark.parametrize(
    "shape", [*SIZES, *[pytest.param(s, marks=pytest.mark.slow) for s in LARGE]]
)
@pytest.mark.parametrize("prior", ["known", "learned"])
def test_the_evidence_is_that_of_importance_sampling(shape, prior):
    n_classes = shape[2]
    X, y = problem(*shape)
    given = GaussianPrior(scale=0.3) if prior == "known" else "learned"
    model = laplace(covariance="class", prior=given).fit(X, y)
    q = model.posterior_
    rows = X if q.columns is None else q.columns.apply(X)
    assert q.prior is not None
    expected = sampled_evidence(rows, y, n_classes, q.prior.precision[0], 1_000)
    assert model.evidence_ == pytest.approx(expected, abs=0.5)


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
    """Columns that matter raise the evidence, columns of noise lower it."""
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((600, 6))
        scores = X[:, :3] @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 0.0, -1.0]])
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        prior = GaussianPrior(scale=1.0)
        two, three, six = (
            laplace(covariance="full", prior=prior).fit(X[:, :d], y).evidence_ for d in (2, 3, 6)
        )
        right += (three > two) + (three > six)
    assert right == 20


def test_an_evidence_that_takes_long_has_a_reason(monkeypatch):
    monkeypatch.setattr(evidence, "MAX_PRODUCTS", 1.0)
    X, y = problem(60, 3, 3)
    model = laplace(covariance="class").fit(X, y)
    assert "held-out" in str(model.evidence_reason_)
    with pytest.warns(UserWarning, match=r"evidence_ is NaN: the determinant of 12 weights"):
        assert np.isnan(model.evidence_)


def test_other_noises_have_the_evidence_of_all_weights():
    X, y = problem(40, 2, 3)
    model = laplace(noise="gaussian", covariance="full", prior="gaussian").fit(X, y)
    assert np.isfinite(model.evidence_)
    assert model.evidence_reason_ is None
