"""Bad input: a clear error before any work, and an estimator that is as it was."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from bigcat import BayesianClassifier, EarlyStopping, LinearClassifier
from bigcat.noise import CustomNoise
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, SGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.arange(40) % 5


def with_value(value, *rows, sparse=False):
    bad = X.copy()
    for row in rows:
        bad[row, 1] = value
    return scipy.sparse.csr_array(bad) if sparse else bad


def wrong_slope(t):
    return 1.0


WRONG_NOISE = CustomNoise("wrong", wrong_slope, wrong_slope, wrong_slope, wrong_slope)

BAD_DATA = {
    "NaN": (with_value(np.nan, 17, 3), Y, "X holds NaN in rows 3, 17 of column 1; drop or"),
    "many": (
        with_value(np.nan, *range(30, 38)),
        Y,
        "X holds NaN in rows 30, 31, 32, 33, 34 and 3 more of column 1; drop or impute them",
    ),
    "sparse NaN": (
        with_value(np.nan, 0, 21, sparse=True),
        Y,
        "X holds NaN in rows 0, 21 of column 1; drop or impute them",
    ),
    "one class": (
        X,
        np.full(40, 3),
        "y holds one class only, 3; a classifier needs at least 2 classes",
    ),
    "lengths": (X, Y[:-1], "inconsistent numbers of samples: [40, 39]"),
}
BAD_PARAMETERS = {
    "max_epochs": (True, "max_epochs=True must be a whole number of at least 1"),
    "l2": (-1.0, "l2=-1.0 must be a finite number of at least 0"),
    "noise": ("cauchy", "noise='cauchy' is not known; choose one of 'gumbel', 'gaussian', 'logis"),
    "method": ("softmax", "method='softmax' is not known; choose one of 'augment-reduce', 'one-"),
    "solver": ("adam", "solver='adam' is not known; choose 'auto' or one of 'adaptive', 'adagra"),
    "sampler": ("all", "sampler='all' is not known; choose 'auto' or one of 'uniform', 'everyth"),
    "progress": ("yes", "progress='yes' is not known; choose 'auto', True, False"),
    "class_weight": ({0: -1.0}, "class_weight={0: -1.0} must not hold negative numbers or NaN"),
    "n_threads": (0, "n_threads=0 must be a whole number of at least 1, or None"),
    "early_stopping": ("yes", "early_stopping='yes' must be True, False, 'auto' or Early"),
    "random_state": ("seed", "'seed' cannot be used to seed a numpy.random.RandomState instance"),
}
BAD_OPTIONS = [
    (Uniform, {"n_negatives": 0}, "n_negatives=0 must be a whole number of at least 1"),
    (SGD, {"batch_size": 2.5}, "batch_size=2.5 must be a whole number of at least 1"),
    (SGD, {"learning_rate": "fast"}, "learning_rate='fast' must be a finite number above 0"),
    (SGD, {"init": "ones"}, "init='ones' is not known; choose one of 'frequencies', 'zero', 'rand"),
    (LBFGS, {"tol": -1e-3}, "tol=-0.001 must be a finite number of at least 0"),
    (EarlyStopping, {"patience": -1}, "patience=-1 must be a whole number of at least 1"),
    (EarlyStopping, {"tol": -1e-3}, "tol=-0.001 must be a finite number of at least 0"),
    (EarlyStopping, {"validation_fraction": 1.0}, "validation_fraction=1.0 must lie between"),
]
BAD_COMBINATIONS = [
    ({"noise": WRONG_NOISE}, "noise 'wrong': log_cdf_grad(-3.0) is 1, but the finite difference"),
    (
        {"method": "one-vs-each", "sampler": Uniform(2, exact_classes=[1, 77])},
        "exact_classes=[1, 77] holds labels that y does not; give labe",
    ),
    ({"progress": [print, 3]}, "or functions to call after each epoch"),
    (
        {"early_stopping": EarlyStopping(0.001), "max_epochs": 1, "l2": np.inf},
        "l2=inf must be a finite number of at least 0",
    ),
]


@pytest.mark.parametrize(("part", "options", "text"), BAD_OPTIONS)
def test_options_of_parts(part, options, text):
    with pytest.raises(ValueError) as caught:
        part(**options)
    assert text in str(caught.value)


def contents(estimator):
    """Everything that an estimator holds, to the byte."""
    return {name: pickle.dumps(value) for name, value in vars(estimator).items() if name != "noise"}


@pytest.fixture(params=["unfitted", "fitted"])
def model(request):
    estimator = LinearClassifier(max_epochs=1, random_state=0)
    return estimator.fit(X, Y) if request.param == "fitted" else estimator


def assert_refused(model, text, call, error=ValueError):
    before = contents(model)
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert contents(model) == before


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(model, name):
    bad_X, bad_y, text = BAD_DATA[name]
    assert_refused(model, text, lambda: model.fit(bad_X, bad_y))


@pytest.mark.parametrize("name", [n for n in BAD_DATA if n != "one class"])
def test_bad_data_for_one_more_pass(model, name):
    bad_X, bad_y, text = BAD_DATA[name]
    assert_refused(model, text, lambda: model.partial_fit(bad_X, bad_y, classes=np.arange(5)))


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters(model, name):
    value, text = BAD_PARAMETERS[name]
    model.set_params(**{name: value})
    assert_refused(model, text, lambda: model.fit(X, Y))


@pytest.mark.parametrize(
    ("parameters", "text"), BAD_COMBINATIONS, ids=[text[:30] for _, text in BAD_COMBINATIONS]
)
def test_parts_that_do_not_fit_together(model, parameters, text):
    model.set_params(**parameters)
    assert_refused(model, text, lambda: model.fit(X, Y))


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (np.zeros(40), "zero"),  # scikit-learn's own words in later versions
        (-np.ones(40), "Negative values in data passed to `sample_weight`"),
        (np.full(40, np.nan), "Input sample_weight contains NaN"),
        (np.ones(39), "sample_weight.shape == (39,), expected (40,)!"),
    ],
    ids=["zero", "negative", "NaN", "length"],
)
def test_bad_weights(model, weights, text):
    assert_refused(model, text, lambda: model.fit(X, Y, sample_weight=weights))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"X_val": X}, "X_val and y_val go together; one of them is missing"),
        ({"y_val": Y}, "X_val and y_val go together; one of them is missing"),
        ({"X_val": X[:, :2], "y_val": Y}, "X_val has 2 features and X 3"),
        ({"X_val": with_value(np.nan, 2), "y_val": Y}, "NaN in row 2 of column 1; drop"),
        (
            {"X_val": X, "y_val": Y + 1},
            "8 of 40 rows have a class that was absent in training: 5; drop those rows "
            "(numpy.isin(y, model.classes_) finds the others)",
        ),
    ],
    ids=["no y", "no X", "features", "NaN", "classes"],
)
def test_bad_validation_sets(model, options, text):
    assert_refused(model, text, lambda: model.fit(X, Y, **options))


def test_too_few_rows_to_hold_some_out(model):
    model.set_params(early_stopping=EarlyStopping(0.9))
    text = "give X_val and y_val or set early_stopping=False"
    assert_refused(model, text, lambda: model.fit(X[:5], Y[:5]))


# Predictions


@pytest.fixture
def fitted():
    return LinearClassifier(max_epochs=1, random_state=0).fit(X, Y)


METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "predict_top_k"]
PAIRED = ["log_proba_of", "lower_bound"]


def call(model, name, rows):
    method = getattr(model, name)
    return method(rows, Y[: rows.shape[0]]) if name in PAIRED else method(rows)


@pytest.mark.parametrize("name", METHODS + PAIRED)
def test_bad_rows_at_predict_time(fitted, name):
    text = "X holds NaN in rows 3, 17 of column 1; drop or impute them"
    assert_refused(fitted, text, lambda: call(fitted, name, with_value(np.nan, 3, 17)))
    text = "X has 2 features, but LinearClassifier is expecting 3 features as input"
    assert_refused(fitted, text, lambda: call(fitted, name, X[:, :2]))
    unfitted = LinearClassifier()
    text = "This LinearClassifier instance is not fitted yet"
    assert_refused(unfitted, text, lambda: call(unfitted, name, X), NotFittedError)


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([0, 7, 1, 7], "2 of 4 rows have a class that was absent in training: 7; drop those rows"),
        (
            [8, -1, 9, 100],
            "4 of 4 rows have a class that was absent in training: -1, 8, 9, 100; drop those rows "
            "(numpy.isin(y, model.classes_) finds the others)",
        ),
        (["0", "1", "2", "3"], "4 of 4 rows have a class that was absent in training: '0', '1'"),
        ([0.0, 1.5, 2.0, 3.0], "1 of 4 rows have a class that was absent in training: 1.5"),
        ([0, 1, 2], "X has 4 rows and y 3; they must agree"),
    ],
    ids=["one", "all", "text", "fraction", "length"],
)
def test_labels_that_were_absent_in_training(fitted, name, labels, text):
    assert_refused(fitted, text, lambda: getattr(fitted, name)(X[:4], labels))


@pytest.mark.parametrize("k", [0, 6, -1, 2.5, None, "3"])
def test_bad_k(fitted, k):
    text = f"k={k!r} must be a whole number between 1 and the 5 classes"
    assert_refused(fitted, text, lambda: fitted.predict_top_k(X, k))


# One more pass


def test_partial_fit_says_what_stands_in_the_way(fitted):
    new = LinearClassifier()
    text = "y holds one class only"
    assert_refused(new, text, lambda: new.partial_fit(X, np.full_like(Y, 3)))
    text = "y holds labels of type <U21 but the model was fitted with int64; give labels of that"
    assert_refused(fitted, text, lambda: fitted.partial_fit(X, Y.astype(str)))
    text = "the model would have 6 classes, more than max_classes=5; new are 5; look at the labels"
    assert_refused(fitted, text, lambda: fitted.partial_fit(X, Y + 1, max_classes=5))
    assert_refused(fitted, "max_classes", lambda: fitted.partial_fit(X, Y, max_classes=0))
    text = "X has 2 features, but LinearClassifier is expecting 3 features as input"
    assert_refused(fitted, text, lambda: fitted.partial_fit(X[:, :2], Y))
    fitted.set_params(class_weight="balanced")
    text = "class_weight='balanced' needs all rows at once; pass a dict or sample_weight"
    assert_refused(fitted, text, lambda: fitted.partial_fit(X, Y))


def test_partial_fit_is_absent_where_the_solver_makes_no_passes(fitted):
    fitted.set_params(solver="lbfgs")
    assert_refused(fitted, "partial_fit", lambda: fitted.partial_fit(X, Y), AttributeError)
    with pytest.raises(AttributeError) as caught:
        fitted.partial_fit
    assert "take solver='adagrad', 'adaptive' or 'sgd'" in str(caught.value.__cause__)
    fitted.set_params(solver="newton")  # a wrong name is not an absent method
    assert_refused(fitted, "solver='newton' is not known", lambda: fitted.partial_fit(X, Y))


# Failures on the way


def fail(info):
    raise RuntimeError("the disk of the callback is full")


@pytest.mark.parametrize("solver", ["adagrad", "lbfgs"])
def test_a_callback_that_fails_leaves_the_estimator_as_it_was(model, solver):
    model.set_params(progress=[fail], method="augment-reduce", solver=solver)
    text = "the disk of the callback is full"
    assert_refused(model, text, lambda: model.fit(X, Y), RuntimeError)


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_that_need_no_check_are_checked_for_what_they_hold(sparse):
    """Arrays of the right form are not checked for their form again, which takes long."""
    X, y = np.eye(4).repeat(3, axis=0), np.arange(12) // 3
    form: Any = scipy.sparse.csr_array if sparse else np.asarray
    model = LinearClassifier(random_state=0).fit(form(X), y)
    expected = model.predict_proba(X.astype(np.float32).tolist() if not sparse else form(X).tocsc())
    np.testing.assert_array_equal(model.predict_proba(form(X)), expected)
    broken = X.copy()
    broken[5, 2] = np.nan
    with pytest.raises(ValueError, match="X holds NaN in row 5 of column 2; drop or impute them"):
        model.predict(form(broken))
    with pytest.raises(ValueError, match="X has 3 features, but LinearClassifier is expecting 4"):
        model.predict(form(np.ascontiguousarray(X[:, :3])))
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(form(X[:0]))
    if sparse:
        twice = scipy.sparse.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 4))
        np.testing.assert_array_equal(
            model.predict_proba(twice), model.predict_proba([[0, 2, 0, 0]])
        )


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["3", "dole"], "X holds 'dole' in row 1 of column 'job'.*scikit-learn's OneHotEncoder"),
        ([1.0, np.nan], "X holds NaN in rows 1, 3, 5, .* of column 'job'.*SimpleImputer"),
        ([None, 1], "X holds NaN in rows 0, 2, .* of column 'job'.*SimpleImputer"),
        (np.array(["2020", "2021"], "M8[s]"), "column 'job' of X is of datetime64"),
    ],
)
def test_columns_of_a_data_frame_are_named(column, message):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": X[:, 0], "job": [*column] * 20})
    with pytest.raises(ValueError, match=message):
        LinearClassifier().fit(frame, Y)
    model = LinearClassifier(max_epochs=1).fit(frame.assign(job=1.0), Y)
    with pytest.raises(ValueError, match=message):
        model.predict(frame)


@pytest.mark.parametrize("estimator", [LinearClassifier, BayesianClassifier])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_names_of_columns_of_several_types_change_nothing(estimator, call):
    pandas = pytest.importorskip("pandas")
    frame, model = pandas.DataFrame({"age": X[:, 0], 7: X[:, 1]}), estimator(random_state=0)
    options = {"classes": np.arange(5)} if call == "partial_fit" else {}
    before = contents(model)
    for _ in range(2):  # of a new estimator, and of a fitted one
        with pytest.raises(TypeError, match="all input features have string names"):
            getattr(model, call)(frame, Y, **options)
        assert contents(model) == before
        model.fit(X, Y)
        before = contents(model)
    with pytest.raises(TypeError, match="all input features have string names"):
        model.predict(frame)
