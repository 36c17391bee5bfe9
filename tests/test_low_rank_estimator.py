"""`LinearClassifier(rank=...)`: the optimum, what is fitted and refused, and all that uses it."""

import functools
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from forms import slow

from bigcat import EarlyStopping, LinearClassifier
from bigcat.solvers import LBFGS, AdaGrad, UMax
from bigcat.training.strategies import AllVectors

N_CLASSES, N_FEATURES = 5, 6
FACTORS = ("embedding_", "class_embedding_", "intercept_")


def rows(n, seed=0):
    """Rows that no plane separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES))
    scores = X @ np.random.default_rng(9).normal(size=(N_FEATURES, N_CLASSES))
    y = np.argmax(scores + 2.0 * rng.gumbel(size=scores.shape), axis=1)
    y[:N_CLASSES] = np.arange(N_CLASSES)
    return X, y


@pytest.fixture(scope="module")
def data():
    return rows(300)


def low_rank(**parameters):
    """Fit by products of matrices with AdaGrad; the kernels of the solvers' battery."""
    defaults = {
        "rank": 2,
        "method": "exact",
        "solver": AdaGrad(batch_size=16),
        "max_epochs": 4,
        "random_state": 0,
    }
    return LinearClassifier(**{**defaults, **parameters})


def whole(**parameters):
    """Fit by L-BFGS."""
    defaults = {"method": "exact", "l2": 0.0, "solver": LBFGS(tol=1e-8), "max_epochs": 3000}
    return LinearClassifier(**{**defaults, "random_state": 0, **parameters})


# The optimum


@pytest.mark.parametrize("sparse", [False, True])
def test_as_many_numbers_as_classes_reach_the_optimum_of_full_rank(data, sparse):
    X, y = data
    X = scipy.sparse.csr_array(X) if sparse else X
    full, low = (whole(rank=rank).fit(X, y) for rank in (None, N_CLASSES))
    best = full.log_proba_of(X, y).mean()
    assert low.log_proba_of(X, y).mean() == pytest.approx(best, abs=1e-7)
    np.testing.assert_allclose(low.predict_proba(X), full.predict_proba(X), atol=1e-4)
    lower = (
        whole(rank=1, early_stopping=EarlyStopping(validation_fraction=None, tol=1e-5))
        .fit(X, y)
        .log_proba_of(X, y)
        .mean()
    )
    assert lower < best - 0.01


def test_the_ridge_is_on_both_factors(data):
    X, y = data
    # At the optimum a gradient of 2 l2/2 |.|^2 balances the same inner product on either side.
    model = whole(rank=2, l2=3.0).fit(X, y)
    unit = np.mean(np.sum(X**2, axis=1)) ** -0.5
    on_features = model.embedding_ / unit
    np.testing.assert_allclose(
        np.sum(on_features**2, axis=0), np.sum(model.class_embedding_**2, axis=0), rtol=1e-3
    )


def test_batches_reach_the_optimum_of_the_ridge(data):
    X, y = data
    X_new, _ = rows(200, seed=1)
    best, free = (
        whole(
            rank=N_CLASSES, l2=l2, early_stopping=EarlyStopping(validation_fraction=None, tol=1e-6)
        ).fit(X, y)
        for l2 in (30.0, 0.0)
    )
    solver = AdaGrad(0.2, schedule="linear")
    model = low_rank(
        rank=N_CLASSES, l2=30.0, solver=solver, max_epochs=60, early_stopping=False
    ).fit(X, y)
    expected = best.predict_proba(X_new)
    np.testing.assert_allclose(model.predict_proba(X_new), expected, atol=0.02)
    assert np.abs(free.predict_proba(X_new) - expected).max() > 0.2


# Fits


def test_fitted_attributes_of_low_and_full_rank(data):
    X, y = data
    model = low_rank().fit(X, y)
    assert model.embedding_.shape == (N_FEATURES, 2)
    assert model.class_embedding_.shape == (N_CLASSES, 2)
    assert model.intercept_.shape == (N_CLASSES,)
    assert {getattr(model, name).dtype for name in FACTORS} == {np.dtype(np.float32)}
    np.testing.assert_allclose(model.coef_, model.class_embedding_ @ model.embedding_.T, rtol=1e-6)
    scores = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-4, atol=1e-5)
    model.set_params(rank=None, solver="sgd").fit(X, y)
    assert model.coef_.shape == (N_CLASSES, N_FEATURES)
    assert not hasattr(model, "embedding_")
    assert not hasattr(model, "class_embedding_")
    model.set_params(rank=3, solver="adagrad").fit(X, y)
    assert model.coef_.shape == (N_CLASSES, N_FEATURES)
    assert model.embedding_.shape == (N_FEATURES, 3)


@pytest.mark.parametrize("solver", ["adagrad", slow("damped")])
def test_the_size_of_the_rows_makes_no_difference(data, solver):
    X, y = data
    model, scaled = (low_rank(solver=solver).fit(size * X, y) for size in (1.0, 1e6))
    np.testing.assert_allclose(
        scaled.predict_log_proba(1e6 * X), model.predict_log_proba(X), rtol=1e-5, atol=1e-5
    )


# Weights of rows, validation, stopping


@pytest.mark.parametrize("solver", [AdaGrad(2.0, batch_size=16), LBFGS()], ids=repr)
def test_early_stopping_keeps_the_best_epochs_vectors(data, solver):
    X, y = data
    X_val, y_val = rows(40, seed=1)
    model = low_rank(
        rank=5,
        solver=solver,
        max_epochs=30,
        early_stopping=EarlyStopping(tol=0.0, patience=3),
    )
    model.fit(X[:40], y[:40], X_val=X_val, y_val=y_val)
    scores = model.history_["validation_log_likelihood"]
    assert scores[-1] < scores.max()
    assert model.log_proba_of(X_val, y_val).mean() == pytest.approx(scores.max(), abs=1e-5)


# From where a fit goes on


def test_warm_start_goes_on_from_the_vectors(data):
    X, y = data
    model = low_rank(max_epochs=20).fit(X, y)
    first = model.history_[-1]["objective"]
    model.set_params(rank="auto", max_epochs=1)
    model.fit(X, y, warm_start=True)  # the rank is that of the vectors
    assert model.embedding_.shape == (N_FEATURES, 2)
    assert model.history_[0]["objective"] > first - 0.05
    assert (
        model.history_[0]["objective"] > low_rank(max_epochs=1).fit(X, y).history_[0]["objective"]
    )


def test_partial_fit_moves_on_and_remembers(data):
    X, y = data
    options: dict[str, Any] = {"solver": AdaGrad(0.1, batch_size=16)}
    parts = low_rank(**options).partial_fit(X, y, classes=np.arange(N_CLASSES))
    whole_fit = low_rank(max_epochs=1, **options).fit(X, y)
    np.testing.assert_allclose(
        parts.predict_log_proba(X), whole_fit.predict_log_proba(X), rtol=1e-5, atol=1e-5
    )
    new = rows(300, seed=1)
    before = parts.log_proba_of(*new).mean()
    for _ in range(3):
        parts.partial_fit(scipy.sparse.csr_array(X), y)
    assert parts.log_proba_of(*new).mean() > before
    assert parts.n_iter_ == 4


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        (
            2,
            3,
            "rank=3 differs from the rank of the fitted weights, 2; set rank=2, or fit without",
        ),
        (2, None, "rank=None differs from the rank of the fitted weights, 2; set rank=2"),
        (None, 2, "rank=2 differs from the rank of the fitted weights, None; set rank=None"),
    ],
)
def test_another_rank_is_refused_and_nothing_has_changed(data, first, then, message):
    X, y = data
    solver = "adagrad" if first else "sgd"
    model = low_rank(rank=first, solver=solver, max_epochs=1).fit(X, y)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    model.set_params(rank=then)
    for again in (functools.partial(model.fit, warm_start=True), model.partial_fit):
        with pytest.raises(ValueError, match=message):
            again(X, y)
    after = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert before.keys() == after.keys()
    assert all(after[name] is before[name] for name in before)


# Refused input


@pytest.mark.parametrize("rank", [0, -1, 2.5, "low", True, [2]])
@pytest.mark.parametrize("method", ["auto", "exact"])
def test_bad_ranks(data, rank, method):
    message = r"rank=.* must be a whole number of at least 1, None for weights of full rank, or 'a"
    with pytest.raises(ValueError, match=message):
        LinearClassifier(rank=rank, method=method).fit(*data)


@pytest.mark.parametrize(
    "parameters",
    [
        {"method": "implicit"},
        {"solver": "implicit"},
        {"method": "umax", "solver": UMax(weight_bound=2.0)},
        {"solver": UMax(weight_bound=2.0)},
    ],
    ids=str,
)
def test_solvers_for_linear_scores_are_refused(data, parameters):
    message = r"rank=2 does not support solver='(implicit|umax)', .* set solver='adagrad' or rank="
    model = LinearClassifier(rank=2, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "classes_")


# Bounds and noises


def test_the_bound_is_a_bound_for_every_method_and_noise(data, deterministic_bound_case):
    bound, noise = deterministic_bound_case.bound, deterministic_bound_case.pair.noise
    X, y = data[0][:60], data[1][:60]
    model = LinearClassifier(rank=2).fit(*data)  # vectors, which any of them might have found
    model.set_params(noise=noise).bound_ = bound
    gap = model.log_proba_of(X, y) - model.lower_bound(X, y)
    assert (gap > -1e-6).all()
    tight = bound.name == "exact" or (
        bound.name in ("augment-reduce", "raman") and noise.name == "gumbel"
    )
    assert (gap < 1e-5).all() == tight


# Memory and precision


def test_steps_by_vector_need_vectors(data):
    X, y = data
    solver = AdaGrad(0.1, per="vector")
    with pytest.raises(
        ValueError, match=r"moves whole vectors of classes and features, .* set rank"
    ):
        LinearClassifier(rank=None, solver=solver).fit(X, y)
    with pytest.raises(ValueError, match="per='row' must be 'coordinate' or 'vector'"):
        AdaGrad(per="row")


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_uncompiled_batches_are_those_of_the_kernel(data, monkeypatch, sparse, l2):
    X, y = data
    X = scipy.sparse.csr_array(X) if sparse else X
    uncompiled = low_rank(l2=l2).fit(X, y)
    monkeypatch.setattr(AllVectors, "applies", staticmethod(lambda workload: False))
    compiled = low_rank(l2=l2).fit(X, y)
    np.testing.assert_allclose(
        uncompiled.predict_proba(X), compiled.predict_proba(X), rtol=0, atol=1e-6
    )
