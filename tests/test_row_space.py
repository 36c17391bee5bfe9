"""Few rows with many features are fitted in the space that they span: to the same weights."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from bigcat import LinearClassifier
from bigcat.auto import recipe_for
from bigcat.rows import Sizes
from bigcat.training import row_space
from bigcat.training.row_space import RowSpace

N_ROWS, N_FEATURES = 60, 400


def labelled(form="dense", seed=0):
    """Few rows of four classes to fit, and many more to judge by: mostly outside their span.

    A fifth of the labels say nothing, so that no weak ridge is best: trials of those end far from
    their optimum, and where depends on the columns.
    """
    rng = np.random.default_rng(seed)
    n = N_ROWS + 200
    y = rng.integers(0, 4, n)
    X = rng.standard_normal((n, N_FEATURES)) + 0.5 * rng.standard_normal((4, N_FEATURES))[y]
    y = np.where(rng.random(n) < 1 / 5, rng.integers(0, 4, n), y)
    if form == "sparse":
        X = scipy.sparse.csr_array(np.where(rng.random(X.shape) < 0.2, X, 0.0).astype(np.float32))
    return X[:N_ROWS], y[:N_ROWS], X[N_ROWS:], y[N_ROWS:]


@pytest.fixture
def spaces(monkeypatch):
    """The row spaces that fits make, in a list."""
    made = []
    make = RowSpace.of

    def noted(X):
        made.append(make(X))
        return made[-1]

    monkeypatch.setattr(RowSpace, "of", noted)
    return made


@pytest.fixture
def fit_both_ways(spaces, monkeypatch):
    """A function that fits in the row space and in all columns."""

    def fit(X, y, weights=None, X_val=None, y_val=None, **parameters):
        models = []
        for n_spaces, pays in [(1, row_space.pays), (0, lambda recipe, sizes: False)]:
            spaces.clear()
            with monkeypatch.context() as patch:
                patch.setattr(row_space, "pays", pays)
                model = LinearClassifier(random_state=0, tol=1e-6, **parameters)
                models.append(model.fit(X, y, weights, X_val=X_val, y_val=y_val))
            assert len(spaces) == n_spaces
        return models

    return fit


def assert_same(models, X_test, y_test):
    ours, plain = models
    assert ours.coef_.shape == plain.coef_.shape == (4, N_FEATURES)
    assert ours.history_.choice["l2"] == plain.history_.choice["l2"]
    # Both begin where a fold's fit ended, in other coordinates, and stop near the optimum.
    np.testing.assert_allclose(
        ours.predict_log_proba(X_test), plain.predict_log_proba(X_test), atol=5e-4
    )
    assert plain.log_proba_of(X_test, y_test).mean() > np.log(0.25) + 0.05  # it has learned


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("l2", ["auto", 3.0])
def test_weights_are_those_of_a_fit_in_all_columns(fit_both_ways, form, l2):
    X, y, X_test, y_test = labelled(form)
    assert_same(fit_both_ways(X, y, l2=l2), X_test, y_test)


def test_dense_rows_in_single_precision(fit_both_ways):
    X, y, X_test, y_test = labelled()
    models = fit_both_ways(X.astype(np.float32), y)
    assert_same(models, X_test.astype(np.float32), y_test)


def test_rows_far_from_zero(fit_both_ways):
    """Columns are scaled first, and both are turned back."""
    X, y, X_test, y_test = labelled()
    scales = 10.0 ** np.linspace(-2, 2, N_FEATURES)
    assert_same(fit_both_ways(7.0 + X * scales, y), 7.0 + X_test * scales, y_test)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_copies_of_rows_and_rows_of_zeros(fit_both_ways, form):
    """They depend on each other; and copies stay on one side of every fold."""
    X, y, X_test, y_test = labelled(form)
    places = np.r_[0:N_ROWS, 0:11]
    but_three = scipy.sparse.diags_array((places > 2).astype(np.float32))
    X, y = but_three @ X[places], y[places]
    assert_same(fit_both_ways(X, y), X_test, y_test)


def test_weights_of_rows(fit_both_ways):
    X, y, X_test, y_test = labelled("sparse")
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    models = fit_both_ways(X, y, weights)
    assert_same(models, X_test, y_test)
    unweighted = fit_both_ways(X, y)[0]
    assert np.abs(models[0].coef_ - unweighted.coef_).max() > 0.01


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_validation_rows_of_the_user_lie_outside_the_span(fit_both_ways, form):
    X, y, X_test, y_test = labelled(form)
    ours, plain = fit_both_ways(X, y, X_val=X_test[:100], y_val=y_test[:100])
    assert_same((ours, plain), X_test[100:], y_test[100:])
    tried, expected = (
        [trial["log_likelihood"] for trial in model.history_.choice["ridge_path"]["tried"]]
        for model in (ours, plain)
    )
    np.testing.assert_allclose(tried, expected, atol=1e-2)  # as rough as trials are
    last = ours.history_[-1]["validation_log_likelihood"]
    judged = ours.log_proba_of(X_test[:100], y_test[:100]).mean()
    assert last == pytest.approx(judged, abs=1e-5)


def test_held_out_rows_stop_the_fit(fit_both_ways):
    X, y, X_test, y_test = labelled()
    parameters = {"early_stopping": True, "l2": 0.1, "solver": "lbfgs"}
    ours, plain = fit_both_ways(X, y, **parameters)
    np.testing.assert_allclose(
        [row["validation_log_likelihood"] for row in ours.history_],
        [row["validation_log_likelihood"] for row in plain.history_],
        atol=1e-4,
    )
    assert_same((ours, plain), X_test, y_test)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_callbacks_evaluate_rows_as_they_are(form):
    X, y, X_test, y_test = labelled(form)
    seen = []
    callbacks = [lambda info: seen.append(info["log_likelihood_of"](X_test, y_test))]
    model = LinearClassifier(random_state=0, callbacks=callbacks).fit(X, y)
    assert seen[-1] == pytest.approx(model.log_proba_of(X_test, y_test).mean(), abs=1e-5)


def test_weights_agree_with_scikit_learn(spaces):
    X, y, X_test, _ = labelled()
    model = LinearClassifier(l2=2.0, tol=1e-7, max_epochs=1_000).fit(X, y)
    assert len(spaces) == 1
    theirs = LogisticRegression(C=0.5, tol=1e-8, max_iter=5_000).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(
        model.predict_log_proba(X_test), theirs.predict_log_proba(X_test), atol=1e-3
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"l2": 0.0},  # there may be no optimum
        {"init": "random"},  # a start outside the span
        {"rank": 2},
        {"solver": "adagrad"},
    ],
    ids=str,
)
def test_other_fits_stay_in_all_columns(parameters):
    sizes = Sizes(N_ROWS, N_FEATURES, 4, N_ROWS * N_FEATURES, False, N_FEATURES)
    for more, expected in [({}, True), (parameters, False)]:
        model = LinearClassifier(**{"solver": "lbfgs", "l2": 1.0, **more})
        assert row_space.pays(recipe_for(model._parameters(), sizes), sizes) == expected


def test_it_is_for_few_rows_with_many_features():
    def pays(n_rows, n_features, n_classes=10, nnz=None, **parameters):
        n_values = nnz or n_rows * n_features
        sizes = Sizes(n_rows, n_features, n_classes, n_values, nnz is not None, n_features)
        model = LinearClassifier(solver="lbfgs", **parameters)
        return row_space.pays(recipe_for(model._parameters(), sizes), sizes)

    assert pays(100, 1_000)
    assert not pays(100, 150)
    assert pays(100, 1_000, nnz=5_000)
    assert not pays(700, 1_000, nnz=5_000)
    assert not pays(1_000, 100_000)  # a basis that is too large
    # A basis is dear where there are few classes and few looks at the rows.
    assert pays(200, 20_000, n_classes=20, nnz=10_000)
    assert not pays(200, 20_000, n_classes=2, nnz=10_000)
    assert not pays(200, 20_000, n_classes=20, nnz=10_000, l2=1.0)


def test_a_warm_start_stays_in_all_columns(spaces):
    """Its weights may be anywhere."""
    X, y, *_ = labelled()
    model = LinearClassifier(l2=1.0, solver="lbfgs", warm_start=True).fit(X, y)
    assert len(spaces) == 1
    model.fit(X, y)
    assert len(spaces) == 1


def test_many_validation_rows_are_not_turned(spaces, monkeypatch):
    """Coordinates are dense; more of them than of the basis would be too many."""
    X, y, X_test, y_test = labelled("sparse")
    monkeypatch.setattr(row_space, "MOST_NUMBERS", N_ROWS * N_FEATURES)
    for n, n_spaces in [(100, 1), (N_FEATURES + 1, 0)]:
        spaces.clear()
        rows = np.arange(n) % len(y_test)
        LinearClassifier(l2=1.0).fit(X, y, X_val=X_test[rows], y_val=y_test[rows])
        assert len(spaces) == n_spaces


class TestRowSpace:
    def test_lengths_and_products_stay_what_they_were(self):
        X, *_ = labelled("sparse")
        X = scipy.sparse.vstack([X, X[:5]]).tocsr()
        space = RowSpace.of(X)
        turned = space.turned(X)
        np.testing.assert_allclose(turned @ turned.T, (X @ X.T).toarray(), atol=1e-4)
        identity = np.eye(X.shape[0] - 5)  # copies count once
        np.testing.assert_allclose(space.basis.T @ space.basis, identity, atol=1e-12)

    def test_columns_of_very_different_size(self):
        """A basis from squares of the rows would lose what is small beside the largest."""
        X, *_ = labelled()
        X = X.copy()
        X[:, 0] *= 1e9
        space = RowSpace.of(X)
        back = space.turned(X) @ space.basis.T
        np.testing.assert_allclose(back[:, 1:], X[:, 1:], atol=1e-5)


def test_the_forecast_counts_a_fit_in_the_row_space():
    few = LinearClassifier().memory_forecast(150, 1_800, 70, nnz=10_500)
    more = LinearClassifier(solver="lbfgs", l2=0.0).memory_forecast(150, 1_800, 70, nnz=10_500)
    assert few < more - 8 * 20 * 1_800 * 70 // 2
