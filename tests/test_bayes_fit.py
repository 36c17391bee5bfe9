"""Independent binary regressions: the authors' figures, the twin, the optimum, the ELBO."""

import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import log_ndtr
from sklearn.exceptions import ConvergenceWarning
from test_reference_independent_binary import CASES, ITERATIONS, fixture_folder

import reference.independent_binary as twin
from bigcat.bayes import GaussianPrior, IndependentBinary, LearnedScale
from bigcat.bayes._design import Design
from bigcat.bayes.binary.fit import BinaryFit
from tests.bayesian import binary

LINKS = ["probit", "logit"]
PRIORS = {
    "gaussian": GaussianPrior(scale=2.0, intercept_scale=5.0),
    "feature": LearnedScale("feature"),
    "all": LearnedScale("all"),
}
TWINS = {
    "probit": (twin.probit_cavi, twin.probit_elbo),
    "logit": (twin.logit_cavi, twin.logit_elbo),
}


def make(n=120, m=4, n_classes=4, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m)) * np.linspace(0.5, 2.0, m)
    if sparse:
        X *= rng.random((n, m)) < 0.3
    scores = X @ rng.standard_normal((m, n_classes)) + np.linspace(0, 1.5, n_classes)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return (scipy.sparse.csr_matrix(X) if sparse else X), y


def engine(X, y, n_classes, prior=PRIORS["gaussian"], intercept=True, start=None, **options):
    design = Design(X, intercept)
    state = prior.bind(n_classes, design.n_columns, intercept)
    options = {"tol": 0.0, "max_iter": 30, **options}
    return BinaryFit(design, y, n_classes, state, IndependentBinary(**options), start=start)


def elbos(fitted):
    return np.array([row["elbo"] for row in fitted.history])


def assert_never_falls(fitted, rounding=1e-11):
    values = elbos(fitted)
    assert np.diff(values).min() >= -rounding * abs(values[-1])


# The authors' code


@pytest.mark.data
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("link", LINKS)
def test_cavi_is_the_authors_code(case, link):
    folder = fixture_folder()
    data = np.load(folder / f"data_{case}.npz")
    expected = np.load(folder / f"post_{case}_{link}.npz")
    metrics = json.loads((folder / f"metrics_{case}_{link}.json").read_text())
    X, y = data["X_train"], data["y_train"]
    logs = {row["it"]: row for row in metrics["log"]}
    for n in ITERATIONS[link]:
        model = binary(
            link, likelihood="conditioned", solver="cavi", fit_intercept=False, tol=0, max_iter=n
        ).fit(X, y)
        q: Any = model.posterior_
        np.testing.assert_allclose(q.mean.T, expected[f"beta_mean_it{n}"], atol=1e-10)
        for name, likelihood in (("CBC", "conditioned"), ("CBM", "marginalised")):
            q.likelihood = likelihood
            for part in ("train", "test"):
                rows = data[f"X_{part}"], data[f"y_{part}"]
                found = model.log_proba_of(*rows, posterior="plug-in").mean()
                assert found == pytest.approx(logs[n][f"{part}_{name}_ll"], abs=1e-9)
        assert (np.diff(model.history_["elbo"]) >= -1e-11 * abs(model.elbo_)).all()
    covariance = q.covariance if link == "probit" else q.covariance.transpose(1, 2, 0)
    np.testing.assert_allclose(covariance, expected["beta_cov"], atol=1e-9)
    assert model.elbo_ == pytest.approx(metrics["elbo_code_at_final"], rel=1e-8)


@pytest.mark.data
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("link", LINKS)
def test_newton_is_the_limit_of_cavi_on_real_data(case, link):
    data = np.load(fixture_folder() / f"data_{case}.npz")
    X, y = data["X_train"], data["y_train"]
    options = {"prior": GaussianPrior(), "intercept": False, "link": link}
    newton = engine(X, y, 6, solver="newton", tol=1e-10, max_iter=50, **options).run()
    # Coordinate ascent would need a thousand iterations from zero; it does not move from here.
    cavi = engine(X, y, 6, solver="cavi", max_iter=100, start=newton.mean, **options).run()
    assert newton.elbo == pytest.approx(cavi.elbo, rel=1e-9)
    from_zero = engine(X, y, 6, solver="cavi", max_iter=300, **options).run()
    assert from_zero.elbo <= newton.elbo + 1e-9 * abs(newton.elbo)
    assert from_zero.elbo == pytest.approx(newton.elbo, rel=1e-5)
    assert newton.converged
    assert len(newton.history) < 12


# The twin and the optimum


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("sparse", [False, True])
def test_cavi_is_the_twin(link, sparse):
    X, y = make(sparse=sparse)
    dense = X.toarray() if sparse else X
    precision = np.diag([0.25, 0.25, 0.25, 0.25, 0.04])
    ours = engine(X, y, 4, link=link, solver="cavi", max_iter=7).run()
    cavi, elbo = TWINS[link]
    rows = np.column_stack([dense, np.ones(len(y))])
    q = cavi(rows, y, 4, precision, 7)
    np.testing.assert_allclose(ours.mean, q.mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(ours.covariance.array(), q.covariance, rtol=1e-9, atol=1e-12)
    assert ours.elbo == pytest.approx(elbo(rows, y, precision, q), rel=1e-11)


def test_probit_mean_is_the_ridge_estimate():
    """K = 2 classes: each is a penalised binary probit."""
    X, y = make(n_classes=2, seed=4)
    ours = engine(X, y, 2, tol=1e-12).run()
    rows = np.column_stack([X, np.ones(len(y))])
    penalty = np.array([0.25, 0.25, 0.25, 0.25, 0.04])
    for k in range(2):
        s = np.where(y == k, 1.0, -1.0)
        best = minimize(
            lambda b, s=s: -log_ndtr(s * (rows @ b)).sum() + 0.5 * (penalty * b * b).sum(),
            np.zeros(5), method="BFGS", options={"gtol": 1e-9},
        )  # fmt: skip
        np.testing.assert_allclose(ours.mean[k], best.x, atol=1e-5)
    np.testing.assert_allclose(ours.mean[0], -ours.mean[1], atol=1e-7)  # the two mirror each other


def test_weak_prior_is_statsmodels_probit():
    sm = pytest.importorskip("statsmodels.api")
    X, y = make(n=300, n_classes=2, seed=5)
    ours = engine(X, y, 2, GaussianPrior(scale=1e4), tol=1e-13).run()
    theirs = sm.Probit(y, np.column_stack([X, np.ones(len(y))])).fit(disp=0)
    np.testing.assert_allclose(ours.mean[1], theirs.params, rtol=1e-5)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("prior", PRIORS)
def test_solvers_agree_and_the_elbo_never_falls(link, prior):
    X, y = make(n=60, m=3, n_classes=3)
    options = {"link": link, "prior": PRIORS[prior]}
    long = 400
    newton = engine(X, y, 3, solver="newton", max_iter=long, tol=1e-13, **options).run()
    cavi = engine(X, y, 3, solver="cavi", max_iter=long, tol=1e-13, **options).run()
    assert_never_falls(newton)
    assert_never_falls(cavi)
    # With learned scales there may be several optima; from these starts it is one.
    assert newton.elbo == pytest.approx(cavi.elbo, rel=1e-6)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_elbo_is_flat_at_the_optimum(link, covariance):
    """Finite differences in the means, by the exact ELBO of the twin."""
    X, y = make(n=50, m=2, n_classes=3)
    rows = np.column_stack([X, np.ones(50)])
    precision = np.diag([0.25, 0.25, 0.04])
    fitted = engine(X, y, 3, link=link, covariance=covariance, tol=1e-14, max_iter=200).run()
    array = fitted.covariance.array()
    if covariance == "diagonal":
        array = np.diag(array) if array.ndim == 1 else np.stack([np.diag(v) for v in array])
    q = twin.Posterior(fitted.mean, array)
    elbo = TWINS[link][1]
    assert elbo(rows, y, precision, q) == pytest.approx(fitted.elbo, rel=1e-10)
    h = 1e-5
    for k, m in itertools.product(range(3), range(3)):
        shift = np.zeros((3, 3))
        shift[k, m] = h
        up, down = (
            elbo(rows, y, precision, q._replace(mean=fitted.mean + sign * shift))
            for sign in (1, -1)
        )
        assert abs(up - down) / (2 * h) < 1e-5
    for factor in (0.97, 1.03):  # and in the variances
        assert elbo(rows, y, precision, q._replace(covariance=array * factor)) < fitted.elbo


@pytest.mark.parametrize("prior", ["feature", "all"])
def test_learnt_scales_shrink_what_does_not_matter(prior):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))  # three columns tell the classes, three are noise
    y = (X[:, :3] + 0.3 * rng.standard_normal((400, 3))).argmax(axis=1)
    fitted = engine(X, y, 3, PRIORS[prior], covariance="diagonal", max_iter=60).run()
    sizes = np.abs(fitted.mean[:, :6]).mean(axis=0)
    gaussian = engine(X, y, 3, covariance="diagonal").run()
    shrunk = np.abs(fitted.mean[:, 3:6]).mean() / np.abs(gaussian.mean[:, 3:6]).mean()
    assert sizes[:3].min() > sizes[3:].max()
    assert shrunk < 1.0


@pytest.mark.parametrize("link", LINKS)
def test_a_precision_per_column_and_a_prior_mean(link):
    X, y = make(m=2, n_classes=3)
    mean = np.array([0.3, -0.2, 0.1])
    prior = GaussianPrior(mean=mean, precision=np.array([2.0, 1.0, 0.5]))
    options = {"link": link, "tol": 1e-12, "max_iter": 200}
    newton = engine(X, y, 3, prior, solver="newton", **options).run()
    cavi = engine(X, y, 3, prior, solver="cavi", **options).run()
    assert_never_falls(newton)
    assert_never_falls(cavi)
    assert newton.elbo == pytest.approx(cavi.elbo, rel=1e-7)
    tight = GaussianPrior(mean=mean, precision=np.full(3, 1e8))
    fitted = engine(X, y, 3, tight, link=link).run()
    np.testing.assert_allclose(fitted.mean, np.tile(mean, (3, 1)), atol=1e-4)


# Sparse rows, threads, blocks


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    ("covariance", "solver"), [("full", "newton"), ("diagonal", "newton"), ("full", "cavi")]
)
def test_sparse_is_dense(link, covariance, solver):
    X, y = make(n=90, m=6, sparse=True)
    options = {"link": link, "covariance": covariance, "solver": solver, "max_iter": 12}
    sparse, dense = (engine(rows, y, 4, **options).run() for rows in (X, X.toarray()))
    tolerance = 1e-7 if solver == "newton" else 1e-9
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(
        sparse.covariance.array(), dense.covariance.array(), rtol=1e-6, atol=1e-9
    )
    assert sparse.elbo == pytest.approx(dense.elbo, rel=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_threads_do_not_change_a_bit(link):
    X, y = make(n=200, m=3, n_classes=100, seed=1)
    models = [
        binary(link, n_threads=n, max_iter=6, tol=0, random_state=0).fit(X, y) for n in (1, 3)
    ]
    assert (models[0].posterior_.mean == models[1].posterior_.mean).all()
    assert models[0].elbo_ == models[1].elbo_


def test_wide_rows_take_a_gram_a_class(monkeypatch):
    X, y = make(m=5)
    few = engine(X, y, 4, link="logit").run()
    monkeypatch.setattr("bigcat.bayes.covariance.pairs.PAIRS_UP_TO", 2)
    monkeypatch.setattr("bigcat.bayes.covariance.full.PAIRS_UP_TO", 2)
    many = engine(X, y, 4, link="logit").run()
    np.testing.assert_allclose(few.mean, many.mean, rtol=1e-8, atol=1e-10)


def test_tol_zero_runs_all_iterations_and_a_short_fit_warns():
    X, y = make()
    assert binary(tol=0, max_iter=13).fit(X, y).n_iter_ == 13
    with pytest.warns(ConvergenceWarning, match="max_iter=2 iterations"):
        binary(max_iter=2, solver="cavi").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="or take solver='newton'"):
        binary(max_iter=2, solver="cavi").fit(X, y)
    with pytest.raises(ValueError, match="solver='cavi' is for covariance='full'"):
        IndependentBinary(covariance="diagonal", solver="cavi")


# Awkward data


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("solver", ["newton", "cavi"])
def test_far_out_rows(link, solver):
    X, y = make()
    X[:3] *= 1e4
    X[3] *= 1e6
    fitted = engine(X, y, 4, link=link, solver=solver).run()
    assert np.isfinite(fitted.mean).all()
    assert np.isfinite(elbos(fitted)).all()
    assert_never_falls(fitted, rounding=1e-9)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_constant_and_collinear_columns_and_more_columns_than_rows(link, covariance):
    X, y = make(n=30, m=3)
    X = np.column_stack([X, X[:, 0], 2 * X[:, 1], np.ones(30), np.zeros(30)])
    X = np.column_stack([X, np.random.default_rng(0).standard_normal((30, 40))])  # N < M
    for solver in ("newton", "cavi") if covariance == "full" else ("newton",):
        fitted = engine(X, y, 4, link=link, covariance=covariance, solver=solver).run()
        assert np.isfinite(fitted.mean).all()
        assert_never_falls(fitted)


@pytest.mark.parametrize("link", LINKS)
def test_rare_and_absent_classes(link):
    X, y = make()
    y = np.where(y == 3, 2, y)
    y[0] = 3  # one row
    model = binary(link).fit(X, y, classes=np.arange(6))  # two without any
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(y), 6)
    assert np.isfinite(probabilities).all()
    assert probabilities[:, 4:].max() < 0.1


# Priors


@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (1, 1), (4, 4), (1, 3), (3, 1)])
def test_a_precision_of_another_shape_is_an_error(shape):
    """Three features and the intercept."""
    with pytest.raises(ValueError, match=rf"has shape {re.escape(str(shape))}; .* 4 columns or 3"):
        GaussianPrior(precision=np.ones(shape)).bind(2, 4, True)
