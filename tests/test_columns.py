"""Columns of any mean and scale, dense and sparse, and single rows that are far out."""

import warnings

import numpy as np
import pytest
import scipy.sparse

from bigcat import LinearClassifier
from bigcat.rows import ColumnScaling, SparseColumnScaling, as_rows
from bigcat.rows.problem import Problem
from bigcat.solvers import LBFGS, AdaGrad


def labelled(n=3_000, n_features=6, n_classes=5, seed=0):
    """Return rows of a softmax model: two thirds to fit, one third to test."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    scores = 1.5 * X @ rng.standard_normal((n_features, n_classes))
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    m = 2 * n // 3
    return X[:m], y[:m], X[m:], y[m:]


def held_out(X, y, X_test, y_test, **parameters):
    model = LinearClassifier(random_state=0, **parameters).fit(X, y)
    return model.log_proba_of(X_test, y_test).mean()


#: By L-BFGS, and by stochastic passes.
WAYS: list[dict] = [{}, {"solver": AdaGrad(0.5)}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_means_and_scales_of_columns_make_no_difference(way):
    X, y, X_test, y_test = labelled()
    plain = held_out(X, y, X_test, y_test, **way)
    frequencies = np.log(np.bincount(y) / len(y))[y_test].mean()
    assert plain > frequencies + 0.3
    scales = 10.0 ** np.linspace(-3, 3, X.shape[1])
    for turn in (lambda x: x + 50.0, lambda x: x * scales, lambda x: x * scales - 5 * scales):
        assert held_out(turn(X), y, turn(X_test), y_test, **way) == pytest.approx(plain, abs=0.01)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_one_huge_row_neither_stops_learning_nor_passes_in_silence(way):
    X, y, X_test, y_test = labelled()
    plain = held_out(X, y, X_test, y_test, **way)
    X = X.copy()
    X[17] *= 1e4
    with pytest.warns(UserWarning, match="1 of 2,000 rows .* very far from all others"):
        found = held_out(X, y, X_test, y_test, **way)
    assert found == pytest.approx(plain, abs=0.02)


def test_usual_columns_give_no_warning():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(500), rng.random(500) < 0.01, np.ones(500)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LinearClassifier().fit(X, np.digitize(X[:, 0] + rng.standard_normal(500), [-1.0, 1.0]))
    assert [str(warning.message) for warning in caught] == []


def test_weights_are_in_the_units_of_the_rows():
    """Two ways to the same scores: scaled by us, or by the user."""
    X, y, X_test, _ = labelled()
    ours = LinearClassifier(random_state=0).fit(X, y)
    scaled = LinearClassifier(random_state=0).fit(1000.0 * X - 7.0, y)
    np.testing.assert_allclose(1000.0 * scaled.coef_, ours.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        scaled.predict_proba(1000.0 * X_test - 7.0), ours.predict_proba(X_test), atol=1e-3
    )


def test_a_ridge_that_is_given_is_in_the_units_of_the_rows():
    """Columns are then left alone: the user's objective is the one that is maximised."""
    X, y, *_ = labelled(n=600)
    small, large = (
        LinearClassifier(l2=1.0, max_epochs=500, solver=LBFGS(tol=1e-8)).fit(X * s, y).coef_ * s
        for s in (0.01, 1.0)
    )
    assert np.abs(small).max() < 0.1 * np.abs(large).max()


class TestColumns:
    def test_turned_columns(self):
        rng = np.random.default_rng(0)
        X = 3.0 + 2.0 * rng.standard_normal((4_000, 2))
        columns = ColumnScaling.of(X, np.ones(4_000), centred=True)
        turned = columns.turned(X)
        np.testing.assert_allclose(turned.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(turned.std(axis=0), 1.0, rtol=1e-9)
        without = ColumnScaling.of(X, np.ones(4_000), centred=False)
        np.testing.assert_array_equal(without.centres, 0.0)

    def test_what_is_mostly_zero_keeps_its_size(self):
        X = np.zeros((1_000, 2))
        X[:10, 0] = 1.0
        X[:400, 1] = 8.0
        columns = ColumnScaling.of(X, np.ones(1_000), centred=True)
        np.testing.assert_allclose(columns.factors, [1.0, 1.0 / 8.0])

    def test_columns_without_differences_are_taken_out(self):
        X = np.full((50, 1), 0.1, np.float32)
        columns = ColumnScaling.of(X, np.ones(50), centred=True)
        assert (columns.turned(X) == 0.0).all()

    def test_rows_of_weight_zero_say_nothing(self):
        X = np.array([[1.0], [3.0], [100.0]])
        columns = ColumnScaling.of(X, np.array([1.0, 1.0, 0.0]), centred=True)
        assert columns.centres[0] == pytest.approx(2.0)


def test_one_huge_row_does_not_decide_how_large_rows_are():
    X = scipy.sparse.eye_array(40, format="csr")
    sizes = []
    for factor in (1.0, 1e6):
        X.data[3] = factor
        rows = as_rows(X.copy(), np.dtype(float))
        sizes.append(Problem(rows, np.zeros(40, int), np.ones(40), 40, 2).mean_size)
    assert sizes[0] == 1.0
    assert sizes[1] < 2.0


@pytest.mark.parametrize(("shift", "scale", "what"), [(100, 1, "means"), (0, 1_000, "column is")])
def test_columns_that_a_named_method_cannot_learn_from_are_told(shift, scale, what):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X[:, 0] + X[:, 1] > 0
    X[:, 3] *= scale
    model = LinearClassifier(
        method="augment-reduce", max_epochs=2, random_state=0, early_stopping=False
    )
    with pytest.warns(UserWarning, match=what):
        model.fit(X + shift, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit((X + 1) / np.array([1, 1, 1, scale]), y)
        LinearClassifier(random_state=0).fit(X + shift, y)  # scales by itself


def test_columns_of_huge_values():
    """Their squares are not finite."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) + 0.5
    usual, huge = (
        ColumnScaling.of(X * size, np.ones(200), centred=True) for size in (1.0, 2.0**700)
    )
    np.testing.assert_array_equal(huge.turned(X * 2.0**700), usual.turned(X))
    np.testing.assert_array_equal(huge.highest, usual.highest * 2.0**700)


def categories_and_numbers(n, n_classes=40, seed=0):
    """One-hot categories and four numbers, in one sparse matrix; and the numbers' units."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(1).standard_normal((124, n_classes))
    codes = [rng.integers(0, size, n) for size in (20, 100)]
    numbers = rng.standard_normal((n, 4))
    rows = np.hstack([np.eye(20)[codes[0]], np.eye(100)[codes[1]], numbers])
    y = (rows @ effects + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return scipy.sparse.csr_array(rows.astype(np.float32)), y


def test_large_numbers_among_sparse_columns_make_no_difference():
    X, y = categories_and_numbers(3_000)
    X_test, y_test = categories_and_numbers(1_000, seed=2)
    units = np.ones(124)
    units[120:] = (1.0, 50.0, 300.0, 2_000.0)
    plain = held_out(X, y, X_test, y_test)
    frequencies = np.log(np.bincount(y, minlength=40) / len(y))[y_test].mean()
    assert plain > frequencies + 0.5
    in_units = [x.multiply(units).tocsr().astype(np.float32) for x in (X, X_test)]
    found = held_out(in_units[0], y, in_units[1], y_test)
    assert found > plain - 0.05 * (plain - frequencies)


class TestSparseColumns:
    def test_large_columns_that_many_rows_have_are_scaled_down(self):
        X, _ = categories_and_numbers(1_000)
        units = np.ones(124)
        units[121], units[5], units[122] = 500.0, 3.0, 0.001
        columns = SparseColumnScaling.of(X.multiply(units).tocsr(), np.ones(1_000))
        assert columns is not None
        assert np.flatnonzero(columns.factors != 1.0).tolist() == [121]
        sizes = np.exp(np.log(np.abs(columns.turned(X.multiply(units).tocsr())[:, [121]].data)))
        assert 0.1 < np.median(sizes) < 10.0

    def test_rare_columns_stay_as_they_are(self):
        X = scipy.sparse.random_array((500, 40), density=0.2, rng=0).tocsr()
        X.data += 1.0
        rare = scipy.sparse.csr_array(([400.0], ([3], [7])), shape=X.shape)
        assert SparseColumnScaling.of((X + rare).tocsr(), np.ones(500)) is None

    def test_rows_without_any_value(self):
        assert SparseColumnScaling.of(scipy.sparse.csr_array((5, 3)), np.ones(5)) is None

    def test_dense_rows_of_a_callback_are_scaled_alike(self):
        X = scipy.sparse.csr_array(np.array([[1.0, 900.0], [2.0, 0.0]]))
        columns = SparseColumnScaling(np.array([1.0, 0.01]))
        np.testing.assert_allclose(columns.turned(X).toarray(), columns.turned(X.toarray()))
