"""BayesianClassifier: scikit-learn's conventions, predictions, errors."""

import pickle
import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, log_ndtr, ndtr, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference.independent_binary as twin
from bigcat import BayesianClassifier
from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    HorseshoePrior,
    IndependentBinary,
    Laplace,
    LearnedScale,
    resolve_method,
)
from bigcat.bayes.binary.links import LINKS
from bigcat.bayes.laplace import chains as _chains
from bigcat.training import memory as _memory
from tests.bayesian import (
    binary,
    check_arviz,
    check_intervals,
    check_predictions,
    csr,
    four_classes,
)
from tests.memory import peak_of

DEFAULT = BayesianClassifier(n_threads=1)
CONFIGURATIONS = [  # the first three go through all checks wherever tests run: one of each method
    BayesianClassifier(Laplace(covariance="draws", n_draws=16), n_threads=1),
    BayesianClassifier("independent-binary", n_threads=1),
    BayesianClassifier("augment-reduce"),
    BayesianClassifier(
        IndependentBinary("logit", "conditioned", "diagonal", tol=1e-5),
        LearnedScale("feature"),
        n_threads=1,
    ),
]
# A row of weight 2 is a row twice, but not to the last bits, which scikit-learn compares.
# Augment-reduce moves a row's local parameters once, whatever the row's weight.  Chains that learn
# a scale look for a mode again and again: sums of rows in another order decide after which step
# L-BFGS stops, and chains carry that on (on its data by 1e-3 for modes found to 1e-5, by 6e-7 for
# modes found to 1e-11).  With a known prior they agree to 1e-14: `test_bayes_laplace.py`.
NOT_TO_THE_LAST_BIT = {
    "augment-reduce": "weight 2 is a row twice at the optimum only",
    "laplace": "chains start at a mode that is found to 1e-5",
}


def expected_to_fail(estimator):
    reason = NOT_TO_THE_LAST_BIT.get(resolve_method(estimator.method).name)
    names = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    return {} if reason is None else dict.fromkeys(names, reason)


@pytest.fixture
def short_chains(monkeypatch):
    """The checks do not depend on the state of the chains."""
    monkeypatch.setattr(_chains, "WINDOW", 4)
    monkeypatch.setattr(_chains, "MAX_WINDOWS", 2)


@parametrize_with_checks(CONFIGURATIONS[:3], expected_failed_checks=expected_to_fail)
def test_check(estimator, check, short_chains):
    check(estimator)


@pytest.mark.slow  # the default is the first one, with more draws
@parametrize_with_checks([DEFAULT, *CONFIGURATIONS[3:]], expected_failed_checks=expected_to_fail)
def test_check_of_the_others(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return four_classes(150)


@pytest.fixture(scope="module", params=["probit", "logit"])
def model(request, data):
    return binary(request.param, random_state=0).fit(*data)


def test_attributes(model):
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert model.coef_.shape == (4, 3)
    assert model.intercept_.shape == (4,)
    q = model.posterior_
    assert (q.mean[:, :3] == model.coef_).all()
    assert q.covariance.shape == ((4, 4) if model.method.link == "probit" else (4, 4, 4))
    assert model.elbo_ == model.history_[-1]["elbo"] < 0
    assert model.n_iter_ == len(model.history_)
    assert list(model.history_[0]) == ["iteration", "seconds", "elbo"]
    assert 0.0 <= model.averaging_weight_ <= 1.0
    assert model.score(*four_classes(150, new=True)) > 0.5


@pytest.mark.parametrize("posterior", ["plug-in", "averaged"])
def test_predictions_agree_with_each_other(model, data, posterior):
    X, y = data
    check_predictions(model, X, y, posterior)


def test_likelihoods_are_the_twins(data):
    X, y = data
    rows = np.column_stack([X, np.ones(len(y))])
    for link in ("probit", "logit"):
        for name, function in (
            ("conditioned", twin.log_conditioned),
            ("marginalised", twin.log_marginalised),
        ):
            m = binary(link, likelihood=name).fit(X, y)
            eta = rows @ m.posterior_.mean.T
            found = m.predict_log_proba(X, "plug-in")
            np.testing.assert_allclose(found, function(link, eta), atol=1e-11)
            assert m.averaging_weight_ == (name == "conditioned")
        average = binary(link, random_state=0).fit(X, y)
        w = average.averaging_weight_
        parts = [np.exp(f(link, eta)) for f in (twin.log_conditioned, twin.log_marginalised)]
        np.testing.assert_allclose(
            average.predict_proba(X, "plug-in"), w * parts[0] + (1 - w) * parts[1], atol=1e-11
        )
    np.testing.assert_allclose(  # CBC-logit is the softmax
        binary("logit", likelihood="conditioned").fit(X, y).predict_proba(X, "plug-in"),
        softmax(eta, axis=1), atol=1e-8,
    )  # fmt: skip


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_averaging_weight_is_the_twins(link):
    """The same expectation from draws of scores as from draws of weights, with less noise."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 3, 40)
    m = binary(link, n_draws=200, random_state=0).fit(X, y)
    q = twin.Posterior(m.posterior_.mean, m.posterior_.covariance)
    rows = np.column_stack([X, np.ones(40)])
    expected = [twin.averaging_weight(rows, y, link, q, rng, 400) for _ in range(4)]
    logit = np.log(np.array(expected)) - np.log1p(-np.array(expected))
    found = np.log(m.averaging_weight_) - np.log1p(-m.averaging_weight_)
    # Ten standard errors of the mean of four.
    assert abs(found - logit.mean()) < 10 * max(logit.std(ddof=1) / 2, 0.01)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_averages_over_wide_scores(link):
    """MacKay's formula for the logit is right to 0.02, with pi/8; the probit's is exact."""
    cdf, tolerance = (ndtr, 1e-6) if link == "probit" else (expit, 0.02)
    mean, variance = np.array([0.5, 2.0, -3.0]), np.array([4.0, 4.0, 9.0])
    z, weight = np.polynomial.hermite_e.hermegauss(200)
    expected = cdf(mean + np.sqrt(variance) * z[:, None]).T @ (weight / weight.sum())
    found = cdf(LINKS[link].averaged(mean, variance))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_averaged_margin_is_the_expectation(model, data):
    """Phi(eta / sqrt(1 + v)) exactly; MacKay's form within its known error."""
    X = data[0][:20]
    q = model.posterior_
    draws = q.sample(20_000, random_state=0)
    rows = np.column_stack([X, np.ones(20)])
    cdf = ndtr if model.method.link == "probit" else expit
    expected = cdf(np.einsum("nm,skm->snk", rows, draws)).mean(axis=0)
    (_, margins), = q.margin_blocks(X, "averaged")  # fmt: skip
    np.testing.assert_allclose(cdf(margins), expected, atol=0.01)


def test_posterior_draws_have_its_moments(model):
    q = model.posterior_
    draws = q.sample(40_000, random_state=1)
    assert draws.shape == (40_000, *q.mean.shape)
    np.testing.assert_allclose(draws.mean(axis=0), q.mean, atol=0.02)
    for k in range(4):
        np.testing.assert_allclose(np.cov(draws[:, k].T), q.covariance_of(k), atol=0.01)
    assert (q.sample(2, random_state=5) == q.sample(2, random_state=5)).all()


def test_intervals(model, data):
    check_intervals(model, data[0][:30])
    with pytest.raises(ValueError, match=r"level=1\.5 must lie between 0 and 1"):
        model.posterior_.predict_interval(data[0], level=1.5)


def test_arviz_is_optional(model, monkeypatch):
    import builtins

    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "arviz":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"bigcat\[bayes\]"):
        model.to_arviz()


def test_arviz(model):
    pytest.importorskip("arviz", reason="arviz is not installed (extra `bayes`)")
    check_arviz(model)


def test_far_out_rows_predict(model):
    X = np.array([[1e4, -1e4, 1e4], [1e300, 0, 0], [-1e6, 3.0, 2.0]])[[0, 2]]
    for posterior in ("plug-in", "averaged"):
        p = model.predict_proba(X, posterior=posterior)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.isfinite(model.predict_log_proba(X, posterior=posterior)).all()


def test_pickle_clone_and_search(data):
    X, y = data
    m = binary(prior=GaussianPrior(scale=2.0), random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(m))
    assert (again.predict_proba(X) == m.predict_proba(X)).all()
    assert clone(m).get_params() == m.get_params()
    grid = {
        "method__link": ["probit", "logit"],
        "method__covariance": ["full", "diagonal"],
        "prior__scale": [0.1, 1.0],
    }
    named = BayesianClassifier("independent-binary", "gaussian", random_state=0)
    search = GridSearchCV(named, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.4
    assert len(set(search.cv_results_["mean_test_score"])) > 2  # options do reach the fits
    best = search.best_estimator_
    assert best.method.link == search.best_params_["method__link"]
    assert best.prior == GaussianPrior(scale=search.best_params_["prior__scale"])
    both = {"method": ["independent-binary", AugmentReducePosterior(max_epochs=2)]}
    assert GridSearchCV(best.set_params(prior="gaussian"), both, cv=2).fit(X, y).best_score_ > 0.4


def test_options_of_parts():
    m = BayesianClassifier().set_params(method__n_draws=50, prior__width=1.0)
    assert (m.method, m.prior) == (Laplace(n_draws=50), LearnedScale(width=1.0))
    m = BayesianClassifier("independent-binary").set_params(method__link="logit", prior__scale=2.0)
    assert m.method == IndependentBinary(link="logit")
    assert m.prior == GaussianPrior(scale=2.0)
    assert m.get_params()["method__likelihood"] == "average"
    assert clone(m).get_params() == m.get_params()
    m.set_params(method="augment-reduce", method__noise="gaussian", prior="auto")
    assert m.method == AugmentReducePosterior(noise="gaussian")
    assert "method__link" not in m.get_params()
    assert str(m) == "BayesianClassifier(method=AugmentReducePosterior(noise='gaussian'))"
    assert str(BayesianClassifier(prior=HorseshoePrior())) == (
        "BayesianClassifier(prior=HorseshoePrior())"
    )
    with pytest.raises(ValueError, match="AugmentReducePosterior has no option 'link'; it has no"):
        m.set_params(method__link="logit")
    with pytest.raises(ValueError, match=r"link='cauchit' is not known; choose one of 'probit'"):
        BayesianClassifier("independent-binary").set_params(method__link="cauchit")
    with pytest.raises(ValueError, match="method='x' is not known; choose one of 'laplace', 'inde"):
        BayesianClassifier("x").set_params(method__link="logit")
    with pytest.raises(ValueError, match="Invalid parameter 'link'"):
        m.set_params(link="logit")
    with pytest.raises(TypeError, match="unexpected keyword argument 'link'"):
        BayesianClassifier(link="logit")  # type: ignore[call-arg]


def test_row_order_does_not_matter(data):
    X, y = data
    order = np.random.default_rng(0).permutation(len(y))
    first, second = (binary().fit(X[o], y[o]) for o in (slice(None), order))
    np.testing.assert_allclose(first.coef_, second.coef_, atol=1e-7)


def test_sparse_and_float32_rows(data):
    X, y = data
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    dense = binary("logit", likelihood="conditioned").fit(X, y)
    sparse = binary("logit", likelihood="conditioned").fit(csr(X), y)
    np.testing.assert_allclose(sparse.predict_proba(csr(X)), dense.predict_proba(X), atol=1e-6)
    small = binary("logit", likelihood="conditioned").fit(X.astype(np.float32), y)
    np.testing.assert_allclose(small.coef_, dense.coef_, atol=1e-4)


# Weights of rows


@pytest.fixture(scope="module")
def counted(data):
    """Rows, labels, counts, and the rows repeated so many times."""
    X, y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    again = np.repeat(np.arange(len(y)), counts)
    return X, y, counts, X[again], y[again]


def weighted_fits():
    """All combinations, of which each pair of options is among the quick ones."""
    priors = ("gaussian", LearnedScale("feature"), "learned")
    for prior, *flags in product(priors, (False, True), (False, True), (False, True)):
        sparse_rows, diagonal, logit = flags
        options = ("logit" if logit else "probit", "diagonal" if diagonal else "full")
        quick = sum(flags) % 2 == 0
        marks = () if quick else pytest.mark.slow
        name = "-".join(map(str, (sparse_rows, prior, *options)))
        yield pytest.param(*options, prior, sparse_rows, id=name, marks=marks)


@pytest.mark.parametrize(("link", "covariance", "prior", "sparse_rows"), list(weighted_fits()))
def test_a_weight_is_a_number_of_rows(counted, link, covariance, prior, sparse_rows):
    X, y, counts, X_again, y_again = counted
    if sparse_rows:
        X, X_again = csr(X), csr(X_again)
    # Step by step where steps are closed; where they are approximate, at the optimum.
    steps = [({"solver": "cavi", "tol": 0, "max_iter": 4}, 1e-10), ({}, 1e-6)]
    for options, atol in steps if covariance == "full" else steps[1:]:
        m = binary(link, covariance=covariance, prior=prior, random_state=0, **options)
        weighted, repeated = clone(m).fit(X, y, counts), clone(m).fit(X_again, y_again)
        assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=1e-8)
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=atol)
        np.testing.assert_allclose(weighted.posterior_.scale, repeated.posterior_.scale, atol=atol)
        np.testing.assert_allclose(
            weighted.averaging_weight_, repeated.averaging_weight_, atol=max(atol, 1e-8)
        )


def test_fractions_of_rows(data):
    """Halves of two equal rows are one row, and the probit's covariance is what it should be."""
    X, y = data
    half = binary().fit(np.tile(X, (2, 1)), np.tile(y, 2), np.full(2 * len(y), 0.5))
    once = binary().fit(X, y)
    np.testing.assert_allclose(half.coef_, once.coef_, atol=1e-6)
    s = np.random.default_rng(0).random(len(y))
    rows = np.column_stack([X, np.ones(len(y))])
    precision = np.eye(4) + rows.T @ (s[:, None] * rows)
    found = binary().fit(X, y, s).posterior_.covariance
    np.testing.assert_allclose(found, np.linalg.inv(precision), atol=1e-12)


def test_a_weight_of_zero_is_no_row(data):
    X, y = data
    keep = np.arange(len(y)) % 3 > 0
    for m in (binary(), BayesianClassifier("augment-reduce")):
        m.set_params(random_state=0)
        weighted = clone(m).fit(X, y, keep.astype(float))
        absent = clone(m).fit(X[keep], y[keep])
        assert (weighted.coef_ == absent.coef_).all()
        assert weighted.elbo_ == absent.elbo_


def test_equal_rows_have_equal_draws(data):
    """So the order of rows, and whether they are dense, do not matter to the average."""
    X, y = data
    order = np.random.default_rng(0).permutation(len(y))
    m = binary("logit", random_state=0, prior=GaussianPrior(scale=0.05))
    first = clone(m).fit(X, y).averaging_weight_
    assert 0.001 < first < 0.999
    assert clone(m).fit(X[order], y[order]).averaging_weight_ == pytest.approx(first, rel=1e-8)
    sparse = clone(m).fit(csr(X), y).averaging_weight_
    assert sparse == pytest.approx(first, rel=1e-6)
    assert clone(m).set_params(random_state=1).fit(X, y).averaging_weight_ != first


def test_weights_that_cannot_be(data):
    X, y = data
    for weights, message in (
        (np.zeros(len(y)), "zero"),
        (-np.ones(len(y)), "Negative values"),
        (np.ones(3), "sample_weight.shape"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianClassifier().fit(X, y, weights)


# Memory


def test_forecast_and_refusal(data, monkeypatch):
    m = binary("logit", n_threads=1)
    full = m.memory_forecast(1000, 2000, 500)
    assert full > 8 * 500 * 2000**2
    diagonal = binary("logit", covariance="diagonal", n_threads=1)
    assert diagonal.memory_forecast(1000, 2000, 500) < full / 50
    probit = binary(n_threads=1).memory_forecast(1000, 2000, 500)
    assert probit < full / 10
    monkeypatch.setattr(_memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="set covariance='diagonal'"):
        m.fit(*data)
    assert not hasattr(m, "classes_")


@pytest.mark.parametrize("link", ["probit", "logit"])
@pytest.mark.parametrize("shape", ["full", "diagonal", "sparse"])
def test_a_fit_takes_what_its_forecast_says(link, shape):
    rng = np.random.default_rng(0)
    n, m, n_classes = (6_000, 2_000, 80) if shape == "sparse" else (4_000, 150, 40)
    X = rng.normal(size=(n, m)).astype(np.float32)
    if shape == "sparse":
        X = sp.csr_array(np.where(rng.random((n, m)) < 0.01, X, 0.0))
    y = np.arange(n) % n_classes
    covariance = "full" if shape == "full" else "diagonal"
    model = binary(link, covariance=covariance, max_iter=2, n_draws=1, n_threads=1)
    told = model.memory_forecast(
        n, m, n_classes, sparse=shape == "sparse", row_nonzeros=0.01 * m, dtype=np.float32
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[:400], y[:400])  # compiles
        assert 0.85 < told / peak_of(lambda: model.fit(X, y)) < 1.2


# Errors


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "x"}, "method='x' is not known"),
        ({"method": IndependentBinary}, "or give a method of bigcat.bayes"),
        ({"prior": "x"}, "prior='x' is not known; choose one of 'learned'"),
        ({"n_threads": 0}, "n_threads=0 must be a whole number"),
        ({"progress": "x"}, "progress='x' is not known"),
        ({"prior": GaussianPrior(mean=np.ones(9))}, "mean of the prior has shape"),
        ({"prior": GaussianPrior(precision=-np.ones(4))}, "must be above 0 for every column"),
    ],
    ids=str,
)
def test_errors_say_what_is_wrong(data, parameters, message):
    m = BayesianClassifier(**parameters)
    with pytest.raises(ValueError) as caught:
        m.fit(*data)
    assert message in str(caught.value)
    assert not hasattr(m, "classes_")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (IndependentBinary, {"likelihood": "x"}, "likelihood='x' is not known"),
        (IndependentBinary, {"covariance": "x"}, "covariance='x' is not known"),
        (IndependentBinary, {"solver": "x"}, "solver='x' is not known"),
        (IndependentBinary, {"tol": "auto"}, "tol='auto' must be a finite number of at least 0"),
        (IndependentBinary, {"max_iter": 0}, "max_iter=0 must be a whole number of at least 1"),
        (IndependentBinary, {"n_draws": 1.5}, "n_draws=1.5 must be a whole number of at least 1"),
        (GaussianPrior, {"scale": 0.0}, "scale=0.0 of the prior must be a finite number"),
        (GaussianPrior, {"precision": -1.0}, "must be above 0 for every column"),
        (GaussianPrior, {"mean": np.inf}, "mean of the prior holds NaN or inf"),
        (GaussianPrior, {"intercept_scale": 0.0}, "intercept_scale=0.0 of the prior"),
        (HorseshoePrior, {"global_scale": 0.0}, "global_scale=0.0 of the prior"),
    ],
)
def test_options_that_cannot_be(kind, options, message):
    with pytest.raises(ValueError) as caught:
        kind(**options)
    assert message in str(caught.value)


def test_more_errors(model, data):
    X, y = data
    with pytest.raises(ValueError, match="posterior='mode' is not known"):
        model.predict_proba(X, posterior="mode")
    with pytest.raises(ValueError, match="k=9 must be a whole number between 1 and the 4"):
        model.predict_top_k(X, 9)
    with pytest.raises(ValueError, match="absent in training"):
        model.log_proba_of(X[:1], ["eel"])
    with pytest.raises(ValueError, match="needs all classes"):
        BayesianClassifier().partial_fit(X, y)
    with pytest.raises(AttributeError) as caught:
        binary().partial_fit(X, y, classes=np.unique(y))
    assert "independent-binary" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="classes differ"):
        BayesianClassifier().partial_fit(X, y, classes=np.unique(y)).partial_fit(X, y, ["a", "b"])


def test_scores_far_out_are_right():
    """E[z] and the ELBO at |eta| = 1e4, where the textbook form gives NaN."""
    from bigcat.bayes.binary.links import Logit, Probit

    eta = np.array([[1e4, -1e4, 40.0, -40.0, 0.0]])
    slope, curvature = np.empty_like(eta), np.empty(eta.shape, np.float32)
    values = Probit.terms(eta, None, np.array([1]), np.ones(1), np.arange(5), slope, curvature)
    s = np.array([-1.0, 1.0, -1.0, -1.0, -1.0])
    np.testing.assert_allclose(values, log_ndtr(s * eta[0]), rtol=1e-13)
    np.testing.assert_allclose(slope[0, :2], [-1e4, 1e4], rtol=1e-7)
    assert ((curvature >= 0) & (curvature <= 1)).all()
    values = Logit.terms(
        eta, np.zeros_like(eta), np.array([1]), np.ones(1), np.arange(5), slope, curvature
    )
    np.testing.assert_allclose(values[[0, 4]], [-1e4, -np.log(2.0)])
    assert np.isfinite(slope).all()
    assert (curvature >= 0).all()
