"""Damped steps: the shortened step, its twin in plain numpy, what a relative rate means."""

import numpy as np
import pytest
import scipy.sparse

from bigcat import LinearClassifier
from bigcat.numerics.random import new_state
from bigcat.solvers import LBFGS, Damped
from bigcat.solvers.damped import shortened
from bigcat.training.state import Average
from reference import damped as twin


def data(seed=0, n=60, d=5, k=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.argmax(X @ rng.normal(size=(d, k)) + rng.gumbel(size=(n, k)), axis=1)
    y[:k] = np.arange(k)
    return X, y


def fitted(X, y, **parameters):
    defaults = {
        "method": "exact",
        "solver": Damped(2.0),
        "early_stopping": False,
        "random_state": 0,
    }
    return LinearClassifier(**{**defaults, **parameters}).fit(X, y)


@pytest.mark.parametrize("q", [1e-12, 1e-3, 0.2, 0.5, 0.9, 1.0 - 1e-9])
@pytest.mark.parametrize("whole", [1e-6, 0.1, 1.0, 10.0, 1e3, 1e9])
def test_shortened_step_is_the_root(q, whole):
    u = shortened(1.0 - q, whole)
    assert 0.0 < u <= 1.0
    assert u == pytest.approx(twin.shortening(q, whole), rel=2e-2)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_kernel_does_what_its_twin_does(form):
    X, y = data()
    model = fitted(form(X), y, max_epochs=1, solver=Damped(2.0, init="zero"))
    random_state = np.random.RandomState(0)
    new_state(random_state)  # of the kernel
    order = random_state.permutation(len(y))
    zero = np.zeros((4, X.shape[1])), np.zeros(4)
    W, b = twin.train(X, y, 4, order, 2.0, len(y), *zero)
    np.testing.assert_allclose(model.coef_, W, rtol=5e-3, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, b, rtol=5e-3, atol=1e-3)


@pytest.mark.slow
def test_sampled_kernel_with_all_classes_does_the_same():
    X, y = data()
    X = scipy.sparse.csr_array(X)
    exact = fitted(X, y, max_epochs=3)
    sampled = fitted(X, y, max_epochs=3, method="complementary", sampler="everything")
    np.testing.assert_allclose(sampled.coef_, exact.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:the fit is worse than no fit")
def test_huge_rates_stay_finite():
    X, y = data()
    model = fitted(X, y, solver=Damped(1e6), max_epochs=5)
    assert np.isfinite(model.coef_).all()


def test_a_rate_that_falls_comes_nearer_to_the_optimum():
    X, y = data(n=400)
    best = fitted(X, y, solver=LBFGS(tol=1e-8), max_epochs=500, l2=0.0).log_proba_of(X, y).mean()
    gaps = [
        best - fitted(X, y, solver=Damped(2.0, schedule=s), max_epochs=30).log_proba_of(X, y).mean()
        for s in ("linear", "constant")
    ]
    assert 0.0 <= gaps[0] < 0.2 * gaps[1]


def test_average_is_its_twin():
    rng = np.random.default_rng(0)
    iterates = rng.normal(size=(9, 3, 2))
    mean = Average(np.zeros((3, 2)), np.zeros(3))
    for iterate in iterates:
        mean.add(iterate / 4.0, 4.0, iterate[:, 0])
    np.testing.assert_allclose(mean.weights, twin.average(iterates), rtol=1e-12)
    np.testing.assert_allclose(mean.intercepts, twin.average(iterates[:, :, 0]), rtol=1e-12)


def test_averaged_weights_are_what_is_fitted():
    X, y = data(n=400)
    solver = Damped(2.0, schedule="constant", average=True)
    model = fitted(X, y, solver=solver, max_epochs=30)
    ends = fitted(X, y, solver=Damped(2.0, schedule="constant"), max_epochs=30)
    best = fitted(X, y, solver=LBFGS(tol=1e-8), max_epochs=500, l2=0.0)
    gap = best.log_proba_of(X, y).mean() - model.log_proba_of(X, y).mean()
    gap_without = best.log_proba_of(X, y).mean() - ends.log_proba_of(X, y).mean()
    assert 0.0 <= gap < 0.5 * gap_without


def test_several_threads_fit_as_well_as_one():
    X, y = data(n=4000)
    X = scipy.sparse.csr_array(X)
    one = fitted(X, y, max_epochs=5)
    two = fitted(X, y, max_epochs=5, n_threads=2)
    assert two.log_proba_of(X, y).mean() == pytest.approx(one.log_proba_of(X, y).mean(), abs=0.01)
