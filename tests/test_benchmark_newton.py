"""The optima of `benchmarks._newton` are those that L-BFGS reaches, if it is given the time."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from benchmarks import _newton, one_vs_each
from bigcat.bounds import REGISTRY


def some_long_rows():
    """Counts of which a few are 50 times as large, where curvatures differ most."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((400, 60), density=0.2, rng=1, format="csr")
    X.data = np.round(5.0 * X.data) + 1.0
    X = X.multiply(np.where(rng.random(400) < 0.02, 50.0, 1.0)[:, None]).tocsr()
    scores = X @ rng.normal(size=(60, 6)) + 3.0 * rng.gumbel(size=(400, 6))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("name", _newton.CURVATURES)
def test_newton_and_lbfgs_meet(name):
    X, y = some_long_rows()
    found = _newton.optimum(X, y, 6, REGISTRY[name](), 1.0, 1e-9)
    assert found.gradient <= 1e-9
    model = one_vs_each.classifiers("bibtex")[name].set_params(tol=1e-9, max_epochs=5_000)
    model.fit(X, y)
    assert model.n_iter_ > 100
    for ours, theirs in ((found.coef, model.coef_), (found.intercept, model.intercept_)):
        np.testing.assert_allclose(
            ours - ours.mean(axis=0), theirs - theirs.mean(axis=0), atol=1e-5
        )


def test_newton_and_scikit_learn_meet():
    X, y = some_long_rows()
    found = _newton.optimum(X, y, 6, REGISTRY["exact"](), 1.0, 1e-9)
    theirs = LogisticRegression(C=1.0, solver="newton-cg", tol=1e-9, max_iter=1_000).fit(X, y)
    np.testing.assert_allclose(found.coef - found.coef.mean(axis=0), theirs.coef_, atol=1e-5)
    intercept = theirs.intercept_ - theirs.intercept_.mean()
    np.testing.assert_allclose(found.intercept - found.intercept.mean(), intercept, atol=1e-5)


@pytest.mark.parametrize("name", _newton.CURVATURES)
def test_the_estimator_ends_where_newton_does(name):
    X, y = some_long_rows()
    model = one_vs_each.classifiers("20newsgroups")[name]
    gradient = one_vs_each.fit(model, X, y, newton_tol=1e-9)
    assert gradient is not None
    assert gradient <= 1e-9
    assert model.n_iter_ == 1


def test_newton_gives_up_aloud(monkeypatch):
    monkeypatch.setattr(_newton, "MOST_PRODUCTS", 3)
    X, y = some_long_rows()
    with pytest.raises(RuntimeError, match=r"a gradient of .* after .* products"):
        _newton.optimum(X, y, 6, REGISTRY["exact"](), 1.0, 1e-9)
