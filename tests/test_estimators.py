"""The linear classifier's contract: what it offers, and that its parts agree with each other."""

import contextlib
import pickle
import tracemalloc
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse
from fits import methods_and_noises
from forms import forms
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bigcat import EarlyStopping, LinearClassifier
from bigcat.estimators import History
from bigcat.noise import REGISTRY as NOISES
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, AdaGrad, Implicit, UMax
from bigcat.training import memory as _memory

N_CLASSES = 7
HISTORY = [
    "stage",
    "candidate",
    "epoch",
    "seconds",
    "compile_seconds",
    "objective",
    "bound",
    "log_likelihood",
    "validation_log_likelihood",
]


@pytest.fixture(scope="module")
def two_samples():
    """Return rows from a softmax with unequal class frequencies, to fit and to test."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    coef = rng.normal(size=(4, N_CLASSES))

    def labels(X):
        scores = X @ coef - 0.3 * np.arange(N_CLASSES)
        return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    y = labels(X)
    y[:N_CLASSES] = np.arange(N_CLASSES)
    X_new = rng.normal(size=(300, 4))
    return (X, y), (X_new, labels(X_new))


@pytest.fixture(scope="module")
def data(two_samples):
    return two_samples[0]


@pytest.fixture(scope="module")
def new_data(two_samples):
    """Rows that no fit has seen."""
    return two_samples[1]


@pytest.fixture(scope="module")
def fitted(data):
    return LinearClassifier(max_epochs=8, random_state=0).fit(*data)


# The contract


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("learning_rate", r"set the solver: solver=AdaGrad\(learning_rate=0.1\)"),
        ("n_negatives", r"set the sampler: sampler=Uniform\(n_negatives=32\)"),
        ("C", "has no parameter 'C'; set l2, which is 1/C"),
        ("n_jobs", "set n_threads"),
        ("callbacks", r"set progress, which takes functions: progress=\[function\]"),
        ("warm_start", r"set it in fit: fit\(X, y, warm_start=True\)"),
    ],
)
def test_a_parameter_of_elsewhere_is_an_error_that_says_where(name, text):
    with pytest.raises(TypeError, match=text):
        LinearClassifier(**{name: 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=text):
        LinearClassifier().set_params(**{name: 1})


def test_fitted_attributes(data, fitted):
    X, y = data
    assert fitted.coef_.shape == (N_CLASSES, 4)
    assert fitted.coef_.dtype == fitted.intercept_.dtype == np.float32
    assert fitted.intercept_.shape == (N_CLASSES,)
    assert (fitted.classes_ == np.unique(y)).all()
    assert fitted.n_features_in_ == 4
    assert fitted.n_iter_ == len(fitted.history_) == 8
    assert isinstance(fitted.history_, History)
    assert clone(fitted).fit(X, y) is not fitted


def test_predictions_and_their_shapes(data, fitted):
    X, y = data
    scores = X @ fitted.coef_.T.astype(float) + fitted.intercept_
    np.testing.assert_allclose(fitted.decision_function(X), scores, rtol=1e-6, atol=1e-6)
    p = fitted.predict_proba(X)
    assert p.shape == (300, N_CLASSES)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.log(p), fitted.predict_log_proba(X), rtol=1e-12)
    assert (fitted.predict(X) == fitted.classes_[p.argmax(axis=1)]).all()
    assert fitted.score(X, y) == pytest.approx((fitted.predict(X) == y).mean())
    assert fitted.log_proba_of(X, y).shape == fitted.lower_bound(X, y).shape == (300,)


@pytest.mark.parametrize(
    "name", forms([*NOISES, "custom"], lambda name: name in ("gumbel", "gaussian"))
)
def test_ways_to_probabilities_agree(data, student_t, name):
    X, y = data
    noise = student_t if name == "custom" else name
    model = LinearClassifier(noise, max_epochs=2, random_state=0).fit(X, y)
    log_p = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-9)
    rows = np.arange(len(y))
    np.testing.assert_allclose(model.log_proba_of(X, y), log_p[rows, y], rtol=1e-9, atol=1e-10)
    for k in (1, 3, N_CLASSES):
        classes, values = model.predict_top_k(X, k)
        assert classes.shape == values.shape == (300, k)
        order = np.argsort(-log_p, axis=1)[:, :k]
        assert (classes == model.classes_[order]).all()
        np.testing.assert_allclose(values, np.take_along_axis(log_p, order, axis=1), rtol=1e-9)
        assert (np.diff(values, axis=1) <= 0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("which", ["quick", pytest.param("all", marks=pytest.mark.slow)])
def test_the_bound_is_a_bound_for_every_method_and_noise(data, new_data, student_t, which):
    X, y = data
    baseline = -np.log(N_CLASSES)
    for row, name in methods_and_noises(which):
        method, noise = row["name"], student_t if name == "custom" else name
        model = LinearClassifier(noise, method, max_epochs=6, random_state=0)
        model.fit(X, y)
        assert model.log_proba_of(*new_data).mean() > baseline + 0.2, (method, noise)
        exact = model.log_proba_of(X, y)
        if not row["is_bound"]:
            with pytest.raises(ValueError) as caught:
                model.lower_bound(X, y)
            assert str(caught.value) == (
                f"the {row['bound']} objective is an estimator, not a bound; log_proba_of gives "
                "the log-probabilities themselves"
            )
            continue
        bound = model.lower_bound(X, y)
        assert (bound <= exact + 1e-6).all(), (method, noise)
        if method == "exact":
            np.testing.assert_allclose(bound, exact, rtol=1e-7)
        if row["bound"] in ("augment-reduce", "raman"):  # tight for the softmax, or nearly so
            gap = exact - bound
            assert gap.mean() < (1e-6 if noise == "gumbel" else 0.1), (method, noise)


# History, callbacks, stopping


def test_history(data, fitted):
    X, y = data
    history = fitted.history_
    assert all(list(row) == HISTORY for row in history)
    assert (history["epoch"] == np.arange(1, 9)).all()
    assert (np.diff(history["seconds"]) > 0).all()
    assert (history["compile_seconds"] == history[0]["compile_seconds"]).all()
    assert history["bound"][-1] > history["bound"][0]
    assert (history["objective"] == history["bound"]).all()
    assert np.isnan(history["log_likelihood"]).all()  # the bound says enough
    assert np.isnan(history["validation_log_likelihood"]).all()
    assert history[-1]["epoch"] == 8
    assert len(history[2:4]) == 2
    model = LinearClassifier(method="augment-reduce", max_epochs=3, random_state=0)
    model.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
    last = model.history_[-1]["validation_log_likelihood"]
    assert last == pytest.approx(model.log_proba_of(X[200:], y[200:]).mean(), rel=1e-5)


@pytest.mark.parametrize("solver", ["adagrad", "lbfgs"])
def test_history_of_an_estimator_that_is_no_bound(data, solver):
    """Its objective is on a scale of its own, so the true log-likelihood stands beside it."""
    X, y = data
    model = LinearClassifier(
        method="nce",
        solver=solver,
        max_epochs=4,
        random_state=0,
        early_stopping=EarlyStopping(validation_fraction=None, tol=1e-9),
    )
    with pytest.warns(ConvergenceWarning) if solver == "lbfgs" else contextlib.nullcontext():
        history = model.fit(X, y).history_
    assert all(list(row) == HISTORY for row in history)
    assert np.isnan(history["bound"]).all()
    assert history["objective"][-1] > history["objective"][0]
    assert history["objective"][-1] < history["log_likelihood"][-1] - 1.0
    found = model.log_proba_of(X, y).mean()
    assert history["log_likelihood"][-1] == pytest.approx(found, rel=1e-5)


@pytest.mark.parametrize("solver", ["adagrad", "lbfgs"])
def test_callbacks_see_each_epoch_and_can_stop(data, solver):
    seen = []

    def stop_at_three(info):
        seen.append(info)
        return info["epoch"] == 3

    options = {"method": "augment-reduce", "solver": solver, "random_state": 0}
    model = LinearClassifier(progress=[lambda info: None, stop_at_three], **options)
    model.fit(*data)
    assert model.n_iter_ == len(seen) == 3
    assert all(set(info) == {*HISTORY, "estimator", "log_likelihood_of", "model"} for info in seen)
    assert all(info["estimator"] is model for info in seen)
    assert [info["bound"] for info in seen] == model.history_["bound"].tolist()


def test_functions_are_called_beside_a_display(data, capsys):
    seen: list[dict[str, Any]] = []
    options: dict[str, Any] = {"method": "augment-reduce", "max_epochs": 2, "random_state": 0}
    LinearClassifier(progress=["lines", seen.append], **options).fit(*data)
    assert [info["epoch"] for info in seen] == [1, 2]
    assert "epoch 2 of 2" in capsys.readouterr().err
    seen.clear()
    LinearClassifier(progress=seen.append, **options).fit(*data)
    assert len(seen) == 2
    assert not capsys.readouterr().err


def test_stops_when_the_bound_no_longer_grows(data):
    rule = EarlyStopping(validation_fraction=None, tol=0.05, patience=2)
    options: dict[str, Any] = {"early_stopping": rule, "random_state": 0}
    model = LinearClassifier(method="augment-reduce", solver=AdaGrad(0.1), **options)
    assert 2 < model.fit(*data).n_iter_ < 50
    planned = LinearClassifier(method="augment-reduce", max_epochs=12, **options)
    assert planned.fit(*data).n_iter_ == 12  # at a rate that falls to zero there
    assert (
        LinearClassifier(method="nce", max_epochs=9, early_stopping=False).fit(*data).n_iter_ == 9
    )


def test_early_stopping_keeps_the_best_epoch(data):
    """Few rows and many useless features: the held-out likelihood peaks, then falls."""
    rng = np.random.default_rng(1)
    X = np.column_stack([data[0], rng.normal(size=(300, 60))])
    y = data[1]
    model = LinearClassifier(early_stopping=EarlyStopping(patience=4), random_state=0)
    model.fit(X[:80], np.append(y[:73], np.arange(7)), X_val=X[80:], y_val=y[80:])
    values = model.history_["validation_log_likelihood"]
    assert values.argmax() < len(values) - 1
    found = model.log_proba_of(X[80:], y[80:]).mean()
    assert found == pytest.approx(values.max(), rel=1e-5)
    assert len(values) - 1 - values.argmax() <= 4


def test_early_stopping_holds_out_rows_of_known_classes(data):
    X, y = data
    rare = y.copy()
    rare[0] = 99  # a class of one row must stay in training
    model = LinearClassifier(early_stopping=True, max_epochs=4, random_state=0).fit(X, rare)
    assert 99 in model.classes_
    assert np.isfinite(model.history_["validation_log_likelihood"]).all()


# Weights of rows and classes


def exact_model(**options):
    return LinearClassifier(
        method="exact", l2=1.0, max_epochs=200, solver=LBFGS(tol=1e-6), **options
    )


def test_class_weight_is_a_row_weight(data):
    X, y = data
    counts = np.bincount(y)
    for class_weight, factors in [
        ("balanced", len(y) / (N_CLASSES * counts)),
        ({0: 2.0, 3: 0.5}, np.array([2.0, 1, 1, 0.5, 1, 1, 1])),
    ]:
        by_class = exact_model(class_weight=class_weight).fit(X, y)
        by_row = exact_model().fit(X, y, sample_weight=factors[y])
        np.testing.assert_allclose(by_class.coef_, by_row.coef_, atol=1e-4)
        assert not np.allclose(by_class.coef_, exact_model().fit(X, y).coef_, atol=1e-3)


# More rows, more fits


@pytest.mark.parametrize(
    ("method", "solver"),
    [
        ("augment-reduce", AdaGrad(0.1)),
        ("umax", UMax(0.1, decay=0.9)),
        ("implicit", Implicit(1.0, decay=0.9)),
        ("nce", AdaGrad(schedule="constant")),
    ],
)
@pytest.mark.parametrize("l2", [0.0, 30.0])
def test_one_pass_is_one_epoch(data, method, solver, l2):
    """At constant rates, which do not depend on the planned length of the fit."""
    X, y = data
    options: dict[str, Any] = {"method": method, "solver": solver, "random_state": 3}
    options |= {"sampler": Uniform(2), "l2": l2}
    passed = LinearClassifier(**options).partial_fit(X, y, classes=np.arange(N_CLASSES))
    fitted = LinearClassifier(max_epochs=1, **options).fit(X, y)
    assert (passed.coef_ == fitted.coef_).all()
    assert (passed.intercept_ == fitted.intercept_).all()


@pytest.mark.parametrize("method", ["augment-reduce", "implicit"])
def test_partial_fit(data, new_data, method):
    X, y = data
    model = LinearClassifier(method=method, l2=1.0, random_state=0)
    for start in range(0, 300, 50):
        rows = slice(start, start + 50)
        assert model.partial_fit(X[rows], y[rows], classes=np.arange(N_CLASSES)) is model
    assert model.n_iter_ == 6
    assert (model.history_["epoch"] == np.arange(1, 7)).all()
    assert (np.diff(model.history_["seconds"]) > 0).all()
    before = model.log_proba_of(*new_data).mean()
    for _ in range(5):
        model.partial_fit(X, y)
    assert model.log_proba_of(*new_data).mean() > before
    assert not hasattr(LinearClassifier(method="exact"), "partial_fit")


@pytest.mark.parametrize("n_features", [4, N_CLASSES])  # a square of weights hides a wrong layout
def test_partial_fit_remembers_across_layouts(data, n_features):
    y = data[1]
    X = np.random.default_rng(2).normal(size=(300, n_features))
    sparse = scipy.sparse.csr_array(X)
    classes = np.arange(N_CLASSES)
    dense = LinearClassifier(random_state=0).partial_fit(X, y, classes).partial_fit(X, y)
    mixed = LinearClassifier(random_state=0).partial_fit(X, y, classes).partial_fit(sparse, y)
    np.testing.assert_allclose(mixed.coef_, dense.coef_, rtol=1e-4, atol=1e-6)
    mixed = LinearClassifier(random_state=0).partial_fit(sparse, y, classes).partial_fit(X, y)
    np.testing.assert_allclose(mixed.coef_, dense.coef_, rtol=1e-4, atol=1e-6)


def test_warm_start_where_classes_are_trained_in_another_order(data, monkeypatch):
    """By frequency, from so many classes on; here the frequent ones come last."""
    monkeypatch.setattr("bigcat.training.preprocess.MANY_CLASSES", N_CLASSES)
    X, y = data[0], N_CLASSES - 1 - data[1]
    options: dict[str, Any] = {"method": "augment-reduce", "sampler": Uniform(2), "random_state": 0}
    model = LinearClassifier(max_epochs=3, **options).fit(X, y)
    coef, intercept = model.coef_.copy(), model.intercept_.copy()
    model.set_params(solver=AdaGrad(1e-9), max_epochs=1).fit(X, y, warm_start=True)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, intercept, atol=1e-5)


def test_warm_start(data, new_data):
    X, y = data
    model = LinearClassifier(max_epochs=3, random_state=0).fit(X, y)
    first = model.log_proba_of(*new_data).mean()
    assert model.fit(X, y, warm_start=True).log_proba_of(*new_data).mean() > first
    assert model.n_iter_ == 3
    with pytest.raises(ValueError, match="warm_start=True, but the last fit had 7 classes and 4 f"):
        model.fit(X[:, :2], y, warm_start=True)
    cold = clone(model)
    assert (cold.fit(X, y).coef_ == cold.fit(X, y).coef_).all()


def test_seeds(data):
    model = LinearClassifier(
        method="augment-reduce", max_epochs=2, random_state=1, sampler=Uniform(2)
    )
    coef = model.fit(*data).coef_
    assert (model.fit(*data).coef_ == coef).all()
    assert (clone(model).set_params(random_state=2).fit(*data).coef_ != coef).any()
    state = np.random.RandomState(1)
    assert (clone(model).set_params(random_state=state).fit(*data).coef_ == coef).all()


# Input


def test_input_is_left_alone_and_float32_is_enough(data, fitted):
    X, y = data
    small = X.astype(np.float32)
    copy, labels = small.copy(), y.copy()
    model = clone(fitted).fit(small, y)
    model.predict_proba(small)
    model.partial_fit(small, y)
    assert (small == copy).all()
    assert (y == labels).all()
    np.testing.assert_allclose(clone(fitted).fit(small, y).coef_, fitted.coef_, atol=2e-3)


@pytest.mark.slow  # a training loop of its own
def test_exact_classes(data):
    X, y = data
    names = np.array(["ant", "bee", "cat", "dog", "eel", "fox", "gnu"])
    options: dict[str, Any] = {"method": "one-vs-each", "max_epochs": 3, "random_state": 0}

    def fitted_with(exact_classes):
        sampler = Uniform(2, exact_classes=exact_classes)
        return LinearClassifier(sampler=sampler, **options).fit(X, names[y])

    plain = fitted_with(0)
    assert plain.exact_classes_.size == 0
    frequent = np.sort(names[np.argsort(-np.bincount(y), kind="stable")[:3]])
    counted = fitted_with(3)
    assert (counted.exact_classes_ == frequent).all()
    named = fitted_with(frequent)
    assert (named.coef_ == counted.coef_).all()
    # The more of them, the tighter, at the same weights.
    all_of_them = fitted_with(7)
    np.testing.assert_allclose(
        all_of_them.lower_bound(X, names[y]), all_of_them.log_proba_of(X, names[y]), atol=1e-6
    )
    counted.coef_, counted.intercept_ = plain.coef_, plain.intercept_
    tighter = counted.lower_bound(X, names[y]) - plain.lower_bound(X, names[y])
    assert (tighter > -1e-9).all()
    assert tighter.mean() > 0.01


# Together with scikit-learn


@pytest.mark.parametrize("how", ["pickle", "joblib"])
def test_a_copy_through_a_file_predicts_and_learns_on(data, tmp_path, how):
    X, y = data
    model = LinearClassifier(max_epochs=2, random_state=0).fit(X, y)
    if how == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model")
        copy = joblib.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert (copy.history_["bound"] == model.history_["bound"]).all()
    np.testing.assert_array_equal(copy.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


# Memory and progress


@pytest.fixture(scope="module")
def wide():
    """A model of 20,000 classes."""
    n_classes = 20_000
    X = np.random.default_rng(3).normal(size=(n_classes, 3))
    model = LinearClassifier(
        method="augment-reduce", max_epochs=1, random_state=0, sampler=Uniform(2)
    )
    return model.fit(X, np.arange(n_classes)), X


@pytest.mark.parametrize("sparse", [False, True])
def test_no_array_of_rows_times_classes(wide, sparse):
    model, X = wide
    n = 1600
    X = scipy.sparse.csr_array(X[:n]) if sparse else X[:n]
    whole = n * len(model.classes_) * 8
    for call in (
        lambda: model.predict_top_k(X, k=5),
        lambda: model.log_proba_of(X, np.arange(n)),
        lambda: model.predict(X),
        lambda: model.lower_bound(X, np.arange(n)),
    ):
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 0.6 * whole


def test_refuses_what_does_not_fit_in_memory(data, monkeypatch):
    X, y = data
    model = LinearClassifier(method="augment-reduce", random_state=0)
    monkeypatch.setattr(_memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"for 7 classes and 4 features, .*; drop rare"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    monkeypatch.setattr(_memory, "available_memory", lambda: None)  # a system that does not say
    model.fit(X, y)


def test_memory_forecast_follows_the_parts():
    def forecast(**parameters):
        return LinearClassifier(**parameters).memory_forecast(10**5, 10**4, 10**4)

    weights = 4 * 10**8
    named = forecast(method="augment-reduce")
    one_thread = forecast(method="augment-reduce", n_threads=1)
    assert 2 * weights < one_thread < 3 * weights  # and AdaGrad's memory, a batch's gradient
    assert one_thread <= named  # a batch's gradient for each thread
    assert weights < forecast(method="augment-reduce", solver="sgd") < 0.6 * named
    assert forecast(solver="lbfgs") > 20 * one_thread
    assert forecast(method="augment-reduce", early_stopping=True) > named
    chosen = forecast(rank=None)
    assert weights < chosen < 4 * weights
    low_rank = forecast(rank=256)
    assert low_rank < weights
    # Three of low rank and their sum, and a pair at most for each of the rows' 100 values.
    pairs = _memory.PAIR_BYTES * 10**7
    assert low_rank < forecast() < pairs + 3 * low_rank
