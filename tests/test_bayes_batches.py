"""`partial_fit` of the Laplace method: the posterior so far is the prior of the next rows."""

import numpy as np
import pytest

from bigcat import BayesianClassifier, load_model, save_model
from bigcat.bayes import GaussianPrior
from bigcat.bayes.covariance import ClassFull, JointFull
from tests.bayesian import augment_reduce, csr, four_classes, laplace

CLASSES = ["ant", "bee", "cat", "dog"]
FORMS = {"full": JointFull, "class": ClassFull}


def in_batches(model, X, y, n_batches):
    for rows in np.array_split(np.arange(len(y)), n_batches):
        model.partial_fit(X[rows], y[rows], classes=CLASSES)
    return model


def test_batches_are_one_fit_where_all_is_known_well():
    """With a known prior, many rows, and so Gaussian posteriors all along."""
    X, y = four_classes(2_000)
    options = {"covariance": "full", "prior": GaussianPrior(scale=2.0)}
    whole = laplace(**options).fit(X, y)
    parts = in_batches(laplace(**options), X, y, 4)
    q, p = whole.posterior_, parts.posterior_
    np.testing.assert_allclose(p.mean, q.mean, atol=0.2 * q.scale.max())
    np.testing.assert_allclose(p.scale, q.scale, rtol=0.05)
    with pytest.warns(UserWarning, match="fit all rows together"):
        assert np.isnan(parts.evidence_)
    found, expected = (m.predict_proba(X[:100]) for m in (parts, whole))
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_after_no_rows_of_weight_all_is_as_before():
    """A batch that says next to nothing changes next to nothing, whatever the form."""
    X, y = four_classes(60)
    for covariance in FORMS:
        model = laplace(covariance=covariance, prior="gaussian").fit(X, y)
        before = model.posterior_
        model.partial_fit(X[:1], y[:1], sample_weight=[1e-9])
        np.testing.assert_allclose(model.posterior_.mean, before.mean, atol=1e-5)
        np.testing.assert_allclose(model.posterior_.scale, before.scale, rtol=1e-5)


@pytest.mark.parametrize("covariance", ["auto", *FORMS])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_form_learns(covariance, sparse):
    X, y = four_classes(300)
    rows = csr(X) if sparse else X
    model = laplace(covariance=covariance)
    first = model.partial_fit(rows[:60], y[:60], classes=CLASSES).posterior_
    kind = FORMS["full" if covariance == "auto" else covariance]
    assert isinstance(first.scaled_covariance, kind)
    model.partial_fit(rows[60:], y[60:])
    q = model.posterior_
    assert isinstance(q.scaled_covariance, kind)
    assert (q.scale < first.scale).mean() > 0.9
    assert model.score(rows, y) > 0.45
    assert model.fitted.seen == (300.0, 2)
    low, high = model.predict_interval(rows[:10])
    assert (low < high).all()


def test_from_draws_and_from_files(tmp_path):
    X, y = four_classes(200)
    model = laplace(n_draws=400).fit(X[:100], y[:100])
    save_model(model, tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    for m in (model, loaded):
        m.partial_fit(X[100:], y[100:])
        assert isinstance(m.posterior_.scaled_covariance, JointFull)
    np.testing.assert_allclose(loaded.coef_, model.coef_, atol=1e-6)
    whole = laplace(n_draws=400).fit(X, y)
    assert np.abs(model.coef_ - whole.coef_).max() < whole.posterior_.scale.max()


def test_what_is_refused():
    X, y = four_classes(60)
    with pytest.raises(AttributeError) as caught:
        laplace(covariance="draws").partial_fit(X, y, classes=CLASSES)
    assert "keeps a Gaussian" in str(caught.value.__cause__)
    few = laplace(n_draws=8).fit(X, y)
    before = few.posterior_
    with pytest.raises(ValueError, match=r"kept 8 draws, which cannot tell it.*n_draws=16"):
        few.partial_fit(X, y)
    assert few.posterior_ is before
    other = augment_reduce(max_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="the last fit has variances per class"):
        other.set_params(method="laplace").partial_fit(X, y)
    probit = laplace(covariance="full", prior="gaussian").fit(X, y)
    with pytest.raises(ValueError, match="another method or noise"):
        probit.set_params(method__noise="gaussian").partial_fit(X, y)
    binary = BayesianClassifier("independent-binary").fit(X, y)
    with pytest.raises(ValueError, match="another method or noise"):
        binary.set_params(method="laplace").partial_fit(X, y)
