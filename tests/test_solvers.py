"""The battery of the solvers: the twin's steps, the optimum, and other people's binary models."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from statsmodels.discrete.discrete_model import Probit

import bigcat.solvers
import reference.bounds as twin
import reference.solvers
from bigcat import LinearClassifier, noise
from bigcat._weights import as_rows
from bigcat.bounds import REGISTRY as BOUNDS
from bigcat.solvers import LBFGS, REGISTRY, SGD, AdaGrad, Adaptive, DivergedError, Solver, _loop
from bigcat.solvers._state import Problem
from bigcat.solvers.lbfgs import Objective

STOCHASTIC = [name for name, kind in REGISTRY.items() if kind.stochastic]
stochastic = pytest.mark.parametrize("solver", STOCHASTIC)
SOFTMAX_METHODS = ["exact", "one-vs-each", "augment-reduce", "bouchard"]


def problem(n_rows=120, n_features=3, n_classes=5, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = scale * X @ rng.normal(size=(n_features, n_classes)) + rng.normal(size=n_classes)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    y[:n_classes] = np.arange(n_classes)
    return X, y


def test_registry_is_what_the_package_exports():
    exported = set(bigcat.solvers.__all__) - {"Solver", "DivergedError"}
    assert {kind.__name__ for kind in REGISTRY.values()} == exported
    assert all(name == kind.name for name, kind in REGISTRY.items())
    assert set(TWIN_STEPS) == set(STOCHASTIC)
    with pytest.raises(TypeError, match="Solver has no compiled form"):
        Solver().lower()


# Step by step

TWIN_STEPS = {
    "adaptive": lambda s, shape, n_batches: reference.solvers.AdaptiveStep(
        shape, rho0=s.learning_rate, first="coordinate"
    ),
    "adagrad": lambda s, shape, n_batches: reference.solvers.AdaGrad(shape, rate=s.learning_rate),
    "sgd": lambda s, shape, n_batches: reference.solvers.DecayingStep(
        s.learning_rate, n_batches, s.decay
    ),
}


class TwinRow:
    """Value and slopes of a row, which keeps its local parameters from epoch to epoch."""

    def __init__(self, method, noise_name, local):
        self.softmax = noise_name == "gumbel"
        self.method = method
        self.noise = reference.noise.GUMBEL if self.softmax else reference.noise.GAUSSIAN
        self.local = local

    def visit(self, psi_y, psi, progress):
        row = (psi_y, psi, np.ones(psi.size))
        if self.method == "one-vs-each":
            return twin.one_vs_each(*row)
        if self.softmax:
            before = twin.softmax_augment_reduce(*row, self.local[0])
            estimate = twin.log_eta_estimate(*row)
            self.local[0] = twin.softmax_local_step(self.local[0], estimate, progress)
            after = twin.softmax_augment_reduce(*row, self.local[0])
        else:
            rule = twin.quadrature("gaussian", 8)
            at = (self.local[0], twin.inverse_softplus(self.local[1]))
            before = twin.augment_reduce(self.noise, *row, *at, rule)
            at = twin.local_natural_step(self.noise, *row, *at, rule, progress)
            self.local[:] = at[0], twin.softplus(at[1])
            after = twin.augment_reduce(self.noise, *row, *at, rule)
        return twin.Bound(before.value, after.slope_y, after.slopes)


@pytest.mark.parametrize(
    ("method", "noise_name", "solver"),
    [
        *(("augment-reduce", "gumbel", name) for name in STOCHASTIC),
        ("one-vs-each", "gumbel", "sgd"),
        ("augment-reduce", "gaussian", "sgd"),
    ],
)
@pytest.mark.parametrize("batch_size", [12, 7])  # all rows; a smaller last batch
def test_steps_agree_with_the_twin(train, method, noise_name, solver, batch_size):
    """All classes and rows in order, so that nothing is random."""
    X, y = problem(n_rows=12)
    epochs, n_classes = 3, 5
    kind = REGISTRY[solver]()
    found = train(
        X,
        y,
        method=method,
        noise_name=noise_name,
        solver=solver,
        n_negatives=n_classes,
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
    )
    W, b = np.zeros((n_classes, 3)), np.zeros(n_classes)
    batches = [np.arange(i, min(i + batch_size, len(y))) for i in range(0, len(y), batch_size)]
    steps = [TWIN_STEPS[solver](kind, shape, len(batches)) for shape in (W.shape, b.shape)]
    start = BOUNDS[method]().initial_local(noise.REGISTRY[noise_name], b)
    rows = [TwinRow(method, noise_name, start[label].copy()) for label in y]
    values = []
    for epoch in range(epochs):
        total = 0.0
        progress = (1.0 + (epoch + 1)) ** -0.9  # A&R section 4, epochs from one
        for batch in batches:
            grad_W, grad_b = np.zeros_like(W), np.zeros_like(b)
            for n in batch:
                psi, label = W @ X[n] + b, y[n]
                others = np.arange(n_classes) != label
                value, slope_y, slopes = rows[n].visit(psi[label], psi[others], progress)
                slope = np.empty(n_classes)
                slope[label], slope[others] = slope_y, slopes
                grad_W += np.outer(slope, X[n])
                grad_b += slope
                total += value
            scale = (len(y) if kind.gradient == "sum" else 1.0) / len(batch)
            W += steps[0](scale * grad_W)
            b += steps[1](scale * grad_b)
        values.append(total / len(y))
    np.testing.assert_allclose(found.values, values, rtol=1e-6)
    np.testing.assert_allclose(found.coef, W, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.intercept, b, rtol=1e-5, atol=1e-7)


def test_lbfgs_agrees_with_the_twin():
    X, y = problem(n_rows=40)
    row = reference.solvers.over_all_classes(twin.one_vs_each)
    W, b, best = reference.solvers.lbfgs(row, X, y, 5, l2=2.0)
    model = LinearClassifier(method="one-vs-each", solver="lbfgs", l2=2.0, tol=1e-7, max_epochs=500)
    model.fit(X, y)
    np.testing.assert_allclose(model.coef_, W, atol=2e-5)
    np.testing.assert_allclose(model.intercept_ - model.intercept_.mean(), b - b.mean(), atol=2e-5)
    value = model.lower_bound(X, y).sum() - np.sum(model.coef_.astype(float) ** 2)
    assert value == pytest.approx(best, rel=1e-7)


# The optimum


def objective(method, X, y, l2, noise_name="gumbel"):
    rows = as_rows(X, X.dtype)
    whole = Problem(rows, y, np.ones(len(y)), X.shape[1], int(y.max()) + 1, l2=l2)
    evaluate = Objective(whole, BOUNDS[method](), noise.REGISTRY[noise_name])
    return lambda coef, intercept: evaluate(
        np.ascontiguousarray(coef, float), np.asarray(intercept, float)
    )[0]


def optimum(method, X, y, l2):
    model = LinearClassifier(method=method, solver="lbfgs", l2=l2, tol=1e-8, max_epochs=500)
    model.fit(X, y)
    return model.coef_, model.intercept_


@pytest.mark.parametrize("method", ["augment-reduce", "one-vs-each"])
def test_decaying_sgd_reaches_the_optimum_with_sampled_classes(train, method):
    """Two of five other classes and 10 of 400 rows a step: within 1 % of what can be gained."""
    X, y = problem(n_rows=400, n_classes=6)
    l2 = 4.0
    value = objective(method, X, y, l2)
    best, start = value(*optimum(method, X, y, l2)), value(np.zeros((6, 3)), np.zeros(6))
    found = train(
        X,
        y,
        method=method,
        solver=SGD(learning_rate=0.3, decay=0.93),
        n_negatives=2,
        batch_size=10,
        epochs=80,
        l2=l2,
    )
    gap = (best - value(found.coef, found.intercept)) / (best - start)
    assert 0.0 <= gap < 0.01


@pytest.mark.parametrize(
    ("method", "solver", "epochs", "limit"),
    [
        ("one-vs-each", SGD(0.5, decay=0.98), 300, 1e-5),
        ("augment-reduce", SGD(2.0, decay=0.97), 250, 1e-3),
        ("augment-reduce", AdaGrad(0.5), 400, 1e-3),
        ("augment-reduce", Adaptive(2.0), 800, 1e-2),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
@pytest.mark.parametrize("l2", [0.5, 40.0])
def test_ridge_sweeps_reach_the_ridge_optimum(train, method, solver, epochs, limit, l2):
    """All classes, batches of 20 rows; the gap as a part of what can be gained."""
    X, y = problem(n_rows=200)
    value = objective(method, X, y, l2)
    best, start = value(*optimum(method, X, y, l2)), value(np.zeros((5, 3)), np.zeros(5))
    options = {"n_negatives": 4, "batch_size": 20, "epochs": epochs, "l2": l2}
    found = train(X, y, method=method, solver=solver, **options)
    gap = (best - value(found.coef, found.intercept)) / (best - start)
    assert -1e-9 <= gap < limit


@pytest.mark.parametrize("sparse", [False, True])
def test_ridge_sweeps_over_a_part_of_the_weights(train, sparse):
    """More weights than a batch's data: each batch shrinks the next few features or classes."""
    rng = np.random.default_rng(4)
    X = scipy.sparse.random_array((200, 60), density=0.05, rng=rng, format="csr")
    X.data[:] = rng.normal(size=X.data.size)
    X.sort_indices()
    y = rng.integers(0, 20, 200)
    y[:20] = np.arange(20)
    options = {"method": "one-vs-each", "l2": 3.0, "solver": SGD(0.5, decay=0.98)}
    options |= {"n_negatives": 4, "batch_size": 2, "epochs": 250}
    n_values = X.nnz if sparse else X.shape[0] * X.shape[1]
    assert n_values * (4 + 1) / (60 * 20) < 100  # sweeps an epoch, batches an epoch
    value = objective("one-vs-each", X, y, 3.0)
    best, start = value(*optimum("one-vs-each", X, y, 3.0)), value(np.zeros((20, 60)), np.zeros(20))
    found = train(X if sparse else X.toarray(), y, **options)
    gap = (best - value(found.coef, found.intercept)) / (best - start)
    assert 0.0 <= gap < 0.02


# Two classes: the same as other people's binary models


@pytest.fixture(scope="module")
def binary():
    X, y = problem(n_rows=300, n_classes=2, seed=3)
    return X, y


@pytest.mark.parametrize("method", ["exact", "one-vs-each", "augment-reduce"])
@pytest.mark.parametrize("l2", [0.2, 5.0])
def test_two_classes_equal_logistic_regression(binary, method, l2):
    """All three are exact at two classes.  The two weight vectors are w and -w at the optimum, so
    that their ridge is l2/2 (|w|^2 + |w|^2) = l2/4 |2 w|^2, where 2 w are the weights of the
    binary model, whose ridge is 1/(2 C) |2 w|^2: so C = 2 / l2."""
    X, y = binary
    model = LinearClassifier(method=method, solver="lbfgs", l2=l2, tol=1e-8, max_epochs=300)
    model.fit(X, y)
    other = LogisticRegression(C=2.0 / l2, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=2e-6)
    np.testing.assert_allclose(model.coef_[1] - model.coef_[0], other.coef_[0], atol=1e-5)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), atol=1e-5)


def test_two_classes_equal_the_binary_probit(binary):
    """The difference of two unit Gaussians has variance 2: a binary probit's weights are those of
    the difference of scores over the root of 2."""
    X, y = binary
    model = LinearClassifier("gaussian", method="exact", tol=1e-9, max_epochs=300).fit(X, y)
    other = Probit(y, np.column_stack([np.ones(len(y)), X])).fit(disp=False, tol=1e-12)
    found = np.append(
        model.intercept_[1] - model.intercept_[0], model.coef_[1] - model.coef_[0]
    ) / np.sqrt(2.0)
    np.testing.assert_allclose(found, other.params, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], other.predict(), atol=2e-6)
    total = model.log_proba_of(X, y).sum()
    assert total == pytest.approx(other.llf, rel=1e-9)


# Seeds, weights, failures


@stochastic
def test_one_seed_gives_the_same_bits(train, solver):
    X, y = problem()
    options = {"solver": solver, "n_negatives": 2, "batch_size": 7}
    first, again = train(X, y, seed=5, **options), train(X, y, seed=5, **options)
    assert (first.coef == again.coef).all()
    assert (first.intercept == again.intercept).all()
    assert first.values == again.values
    assert (train(X, y, seed=6, **options).coef != first.coef).any()


@pytest.mark.parametrize("batch_size", [1, 10])
@pytest.mark.parametrize("expectation", ["quadrature", "sample"])
def test_bits_do_not_depend_on_the_speed_of_the_machine(
    train, monkeypatch, batch_size, expectation
):
    """Rows go to the kernel in chunks that are sized by the clock."""
    X, y = problem(n_rows=4500)
    options = {"noise_name": "gaussian", "expectation": expectation, "n_negatives": 2}
    options |= {"batch_size": batch_size, "epochs": 1, "solver": SGD(0.01)}
    found = []
    for seconds in (1e-9, 1e9):
        monkeypatch.setattr(_loop, "CHUNK_SECONDS", seconds)
        found.append(train(X, y, **options))
    assert (found[0].coef == found[1].coef).all()
    assert (found[0].local == found[1].local).all()


@stochastic
def test_weight_two_is_a_row_twice(train, solver):
    X, y = problem(n_rows=20)
    weights = np.ones(20)
    weights[[3, 8]] = 2.0
    index = np.append(np.arange(20), [3, 8])
    options = {"solver": solver, "n_negatives": 9, "epochs": 3, "l2": 1.0}
    weighted = train(X, y, row_weights=weights, batch_size=20, **options)
    repeated = train(X[index], y[index], batch_size=22, **options)
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted.values, repeated.values, rtol=1e-12)


@pytest.mark.parametrize("method", SOFTMAX_METHODS)
def test_weight_two_is_a_row_twice_for_lbfgs(method):
    X, y = problem(n_rows=30)
    weights = np.ones(30)
    weights[4] = 2.0
    model = LinearClassifier(method=method, solver="lbfgs", l2=1.0, tol=1e-5)
    index = np.append(np.arange(30), 4)
    weighted = model.fit(X, y, sample_weight=weights).predict_proba(X)
    repeated = model.fit(X[index], y[index]).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


def test_weights_that_are_not_finite_are_an_error_with_advice():
    """The last step's result too, after which no bound is computed any more."""
    X, y = problem()
    model = LinearClassifier(solver="sgd", learning_rate=1e60, max_epochs=1, random_state=0)
    with pytest.raises(DivergedError, match="lower learning_rate") as caught:
        model.fit(X, y)
    assert "scale the columns of X to similar size" in str(caught.value)
    assert isinstance(caught.value, FloatingPointError)
    assert not hasattr(model, "coef_")


def test_a_bound_that_is_not_finite_names_itself():
    X, y = problem()
    X[:, 0] *= 1e200
    with pytest.raises(DivergedError) as caught:
        LinearClassifier(solver="sgd", random_state=0).fit(X, y)
    assert str(caught.value).startswith("the augment-reduce bound became nan in epoch ")
    assert str(caught.value).endswith("or take solver='adagrad'")


def test_bad_learning_rates():
    for kind in (SGD, AdaGrad, Adaptive):
        with pytest.raises(ValueError, match=r"learning_rate=-0\.1 must be above 0"):
            kind(learning_rate=-0.1)
    assert not LBFGS().stochastic


def test_adaptive_rate_follows_the_papers_sequence():
    from bigcat._seam import rate

    tag = Adaptive(learning_rate=0.02).lower()
    for t, expected in [(1, 0.02), (100, 0.002), (2001, 0.02 * 0.9 / np.sqrt(2001))]:
        assert rate(tag, t, 0) == pytest.approx(expected, rel=1e-12)
    assert rate(SGD(0.5, decay=0.9).lower(), 77, 3) == pytest.approx(0.5 * 0.9**3)
    assert rate(AdaGrad(0.5).lower(), 77, 3) == pytest.approx(0.5)


def test_thousands_of_epochs_of_a_tiny_problem():
    """Chunks grow with the time that a chunk takes, but not without end."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 3
    model = LinearClassifier(solver="sgd", max_epochs=1500, tol=None, progress=False)
    assert model.fit(X, y).n_iter_ == 1500
