"""Model files of a BayesianClassifier: every kind of posterior and prior comes back bit by bit."""

import os

import numpy as np
import pytest
import scipy.sparse
from model_files import rewrite
from sklearn.base import clone

from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior, HorseshoePrior, LearnedScale
from bigcat.files import ModelFileError, load_model, read_header, save_model
from bigcat.files.bayesian import COVARIANCES
from bigcat.noise import Gaussian
from tests.bayesian import augment_reduce, binary, laplace

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
X[np.abs(X) < 0.3] = 0.0
Y = np.array(["ant", "bee", "cat", "dog"])[
    (X @ rng.standard_normal((3, 4)) + rng.gumbel(size=(60, 4))).argmax(axis=1)
]
LINES = rng.standard_normal((25, 3))

MODELS = {
    "shared full": binary(),
    "conditioned": binary(likelihood="conditioned", fit_intercept=False),
    "marginalised": binary("logit", likelihood="marginalised"),
    "class full": binary("logit"),
    "shared diagonal": binary(covariance="diagonal"),
    "class diagonal": binary("logit", covariance="diagonal"),
    "horseshoe": laplace(n_draws=16, prior=HorseshoePrior(0.5)),
    "named method and prior": BayesianClassifier("independent-binary", "learned"),
    "prior with vectors": binary(
        prior=GaussianPrior(mean=np.array([0.1, 0.2, 0.3]), precision=[1.0, 2.0, 3.0])
    ),
    "draws": BayesianClassifier(),
    "draws, no intercept": laplace(
        n_draws=24, prior=LearnedScale("both", width=1.5), fit_intercept=False
    ),
    "draws of the probit": laplace(
        n_draws=16, covariance="draws", noise="gaussian", prior=GaussianPrior(scale=0.5)
    ),
    "joint full": laplace(covariance="full", n_draws=50, prior=GaussianPrior(scale=2.0)),
    "class full, laplace": laplace(covariance="class", prior=GaussianPrior(0.1)),
    "gumbel": augment_reduce(max_epochs=3),
    "gaussian": augment_reduce(noise="gaussian", max_epochs=3),
    "gaussian, no intercept": augment_reduce(
        noise="gaussian", max_epochs=3, fit_intercept=False, n_draws=7
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    model = clone(MODELS[request.param]).set_params(random_state=0, n_threads=1)
    rows = scipy.sparse.csr_array(X) if request.param in ("gumbel", "class diagonal") else X
    return request.param, model.fit(rows, Y)


def same(found, expected):
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_the_loaded_model_is_the_same(fitted, tmp_path):
    name, model = fitted
    loaded = load_model(save_model(model, tmp_path / "m.safetensors"))
    assert type(loaded) is BayesianClassifier
    for rows in (LINES, scipy.sparse.csr_array(LINES)):
        for posterior in ("plug-in", "averaged"):
            same(loaded.predict_proba(rows, posterior), model.predict_proba(rows, posterior))
            same(loaded.predict(rows, posterior), model.predict(rows, posterior))
        for found, expected in zip(loaded.predict_top_k(rows, 2), model.predict_top_k(rows, 2)):
            same(found, expected)
    p, q = loaded.posterior_, model.posterior_
    assert type(p) is type(q)
    assert type(p.covariance_form) is type(q.covariance_form)
    if name in COVARIANCES:
        assert read_header(tmp_path / "m.safetensors")["posterior"]["covariance"] == name
    for found, expected in zip(p.predict_interval(LINES), q.predict_interval(LINES)):
        same(found, expected)
    for found, expected in zip(p.weight_interval(0.8), q.weight_interval(0.8)):
        same(found, expected)
    same(p.sample(3, random_state=1), q.sample(3, random_state=1))
    for attribute in ("mean", "scale", "covariance", "classes"):
        same(getattr(p, attribute), getattr(q, attribute))
    for attribute in ("coef_", "intercept_", "classes_"):
        same(getattr(loaded, attribute), getattr(model, attribute))
    for attribute in ("evidence_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, attribute) == getattr(model, attribute)
    assert hasattr(loaded, "elbo_") == hasattr(model, "elbo_")
    assert (p.prior is None) == (q.prior is None)
    if p.prior is not None and q.prior is not None:
        same(*(prior.draw(4, np.random.RandomState(0)) for prior in (p.prior, q.prior)))
    assert hasattr(loaded, "averaging_weight_") == hasattr(model, "averaging_weight_")
    if hasattr(model, "averaging_weight_"):
        assert loaded.averaging_weight_ == model.averaging_weight_
    assert loaded.history_[-1].keys() == model.history_[-1].keys()
    for column in model.history_[-1]:
        if column.endswith("seconds"):  # of which files hold none
            assert np.isnan(loaded.history_[column]).all()
        else:
            same(loaded.history_[column], model.history_[column])
    assert loaded.history_.selection == model.history_.selection
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_a_file_knows_whether_its_evidence_is_a_bound(tmp_path):
    """By the fit, whatever the parameters say by then."""
    for first, then in (("laplace", "independent-binary"), ("independent-binary", "laplace")):
        model = BayesianClassifier(first, random_state=0).fit(X, Y)
        model.set_params(method=then)
        loaded = load_model(save_model(model, tmp_path / "m"))
        assert loaded.evidence_ == model.evidence_
        assert hasattr(loaded, "elbo_") == (first != "laplace")


def test_the_noise_is_that_of_the_fit(tmp_path, student_t):
    model = augment_reduce(noise=Gaussian(), max_epochs=2).fit(X, Y)
    for change in ({"method__noise": "gumbel"}, {"method": "independent-binary"}):
        model.set_params(**change)
        loaded = load_model(save_model(model, tmp_path / "m"))
        np.testing.assert_array_equal(loaded.predict_proba(LINES), model.predict_proba(LINES))
    model.posterior_.noise = student_t
    path = save_model(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"custom noise 'student-t'.*load_model\(path, noise"):
        load_model(path)
    assert load_model(path, noise=student_t).posterior_.noise is student_t


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: rewrite(p, lambda h: None, drop=["mean"]), "mean is not a tensor of the file"),
        (lambda p: rewrite(p, lambda h: None, mean=np.ones((4, 3))), r"mean has shape \(4, 3\)"),
        (
            lambda p: rewrite(p, lambda h: h["posterior"].update(covariance="class full")),
            "covariance.matrices",
        ),
        (
            lambda p: rewrite(p, lambda h: h["posterior"]["facts"].update(link="cauchit")),
            "link is 'cauchit",
        ),
        (
            lambda p: rewrite(p, lambda h: h["posterior"]["facts"].update(averaging_weight=9)),
            "weight is 9",
        ),
        (lambda p: rewrite(p, lambda h: None, mean=np.full((4, 4), np.nan)), "mean holds nan"),
    ],
)
def test_damaged_files(tmp_path, damage, message):
    path = save_model(binary(random_state=0).fit(X, Y), tmp_path / "model")
    damage(path)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert ";" in str(caught.value), "no remedy"


@pytest.mark.parametrize(
    ("covariance", "name", "array"),
    [
        ("full", "covariance.matrix", -np.eye(16)),
        ("full", "covariance.matrix", np.full((16, 16), np.nan)),
    ],
)
def test_variances_that_no_posterior_has_are_refused(tmp_path, covariance, name, array):
    model = laplace(covariance=covariance, n_draws=8, prior="gaussian").fit(X, Y)
    path = save_model(model, tmp_path / "model")
    rewrite(path, **{name.replace(".", "__"): array})
    with pytest.raises(ModelFileError, match=f"{name} holds (-1|nan), which is not between"):
        load_model(path)
