"""Sizes of dense columns: taken away where they are units, half kept where they tell something."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.field import dense
from bigcat import LinearClassifier
from bigcat.rows import Columns
from bigcat.training import column_sizes
from bigcat.training.column_sizes import factors_of_sizes
from bigcat.training.data import TrainingData


def choice_of(model):
    assert model.history_.choice is not None
    return model.history_.choice


def components(n, n_features=100, n_classes=5, first=5, seed=0):
    """Principal components: deviations fall like 1 / j, and the first few tell the classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    centres = 0.8 * rng.standard_normal((n_classes, n_features))
    centres[:, first:] *= 0.1
    deviations = 10.0 / np.arange(1, n_features + 1)
    return deviations * (centres[y] + rng.standard_normal((n, n_features))), y


def factors_for(X, y, weights=None):
    weights = np.ones(len(y)) if weights is None else weights
    columns = Columns.of(X, weights, centred=True)
    return factors_of_sizes(columns, TrainingData(columns.turned(X), y, weights))


@pytest.mark.parametrize(("n", "n_features"), [(400, 100), (1_500, 150)])
def test_components_are_not_scaled_to_one_size(n, n_features):
    """400 rows: 0.39 nats of gain in columns of one size, 0.53 with the roots of their sizes."""
    X, y = components(n + 2_000, n_features)
    model = LinearClassifier(random_state=0, n_threads=1).fit(X[:n], y[:n])
    assert "column_sizes" in choice_of(model)
    ours = model.log_proba_of(X[n:], y[n:]).mean()
    log_p = [
        LogisticRegression(C=C, max_iter=300).fit(X[:n], y[:n]).predict_log_proba(X[n:])
        for C in (1e-4, 1e-3, 1e-2)
    ]
    best = max(p[np.arange(2_000), y[n:]].mean() for p in log_p)
    frequencies = np.log(np.bincount(y[:n]) / n)[y[n:]].mean()
    assert ours - frequencies > 0.95 * (best - frequencies)


@pytest.mark.parametrize(
    "draw",
    [
        dense.clouds(20, 5, 0.6),
        dense.scaled(dense.clouds(20, 5, 0.6), 1.0),
        dense.scaled(dense.clouds(50, 20, 0.6), 4.0),
        dense.noise(dense.scaled(dense.clouds(50, 10, 1.0), 1.0)),
        dense.mixed_columns(4, (4, 12), 5),
    ],
)
def test_units_are_taken_away(draw):
    assert factors_for(*draw(np.random.default_rng(0), 500)) is None


def test_a_row_twice_is_a_row_of_weight_two():
    X, y = components(300)
    twice = np.arange(300) < 150
    rows = np.r_[np.arange(300), np.flatnonzero(twice)]
    columns = Columns.of(X, np.ones(300), centred=True)
    scaled = columns.turned(X)
    by_weight = factors_of_sizes(columns, TrainingData(scaled, y, 1.0 + twice))
    by_copies = factors_of_sizes(columns, TrainingData(scaled[rows], y[rows], np.ones(450)))
    assert by_weight is not None
    assert by_copies is not None
    np.testing.assert_allclose(by_weight, by_copies)


def test_errors_without_a_row_are_those_of_a_fit_without_it(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    monkeypatch.setattr(column_sizes, "RIDGES", np.array([2.0]))
    found = column_sizes._errors_without(X, Y - Y.mean(axis=0), np.ones(30))
    centred = X - X.mean(axis=0)
    l2 = 2.0 * (centred**2).mean()
    for i in (0, 7):
        others = np.arange(30) != i
        A, B = X[others] - X[others].mean(axis=0), Y[others] - Y[others].mean(axis=0)
        coef = np.linalg.solve(A.T @ A + l2 * np.eye(4), A.T @ B)
        error = Y[i] - Y[others].mean(axis=0) - (X[i] - X[others].mean(axis=0)) @ coef
        assert found[i] == pytest.approx((error**2).sum(), rel=1e-9)
