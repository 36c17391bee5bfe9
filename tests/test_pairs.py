"""Weights of single pairs beside low rank: trained, predicted with, saved, served."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import bigcat
from bigcat import LinearClassifier
from bigcat.combinations import resolve
from bigcat.linear import CoOccurringPairs, FullRank, LinearModel, LowRankWeights, PairedWeights
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state
from bigcat.samplers import CoOccurrence
from bigcat.solvers import SGD, AdaGrad, Damped
from bigcat.training import memory
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.data import TrainingData
from bigcat.training.ensemble import train

N_CLASSES, N_FEATURES = 30, 40


def some_rows(n, seed=0, n_classes=N_CLASSES):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(n, N_FEATURES, 0.1, "csr", np.float32, random_state=seed)
    return scipy.sparse.csr_array(X), rng.integers(0, n_classes, n)


@pytest.fixture(scope="module")
def trained():
    """Pairs, and a matrix of all weights trained with the same draws."""
    X, y = some_rows(400)
    data = TrainingData(X, y, np.ones(400))
    parts = resolve("exact", Gumbel(), solver=Damped(1.0), sampler="everything")
    config = FitConfig(parts, max_epochs=3)
    kind = CoOccurringPairs.of(X, y, N_CLASSES)
    return (
        X,
        y,
        kind,
        *(
            train(
                FitPlan((Candidate("fit", replace(config, kind=k)),)),
                data,
                np.arange(N_CLASSES),
                np.random.RandomState(0),
            ).weights
            for k in (kind, FullRank())
        ),
    )


def test_pairs_are_those_that_occur_together():
    X, y = some_rows(200)
    kind = CoOccurringPairs.of(X, y, N_CLASSES)
    together = np.zeros((N_FEATURES, N_CLASSES), bool)
    rows, features = X.nonzero()
    together[features, y[rows]] = True
    found = np.repeat(np.arange(N_FEATURES), np.diff(kind.offsets)), kind.classes
    assert together.sum() == len(kind.classes)
    assert together[found].all()


def test_trained_pairs_are_close_to_those_of_a_matrix(trained):
    """Weights of other pairs are small, so leaving them out changes the rest little."""
    _, _, kind, pairs, matrix = trained
    features = np.repeat(np.arange(N_FEATURES), np.diff(kind.offsets))
    full = matrix.dense()[kind.classes, features]
    assert np.corrcoef(pairs.pair_weights, full)[0, 1] > 0.95
    others = pairs.dense().T.copy()
    others[features, kind.classes] = 0.0
    assert not others.any()


def test_steps_of_pairs_are_those_of_a_matrix_of_which_the_rest_is_held_at_zero():
    """Plain gradient ascent on the exact softmax, row by row, in NumPy."""
    X, y = some_rows(60, seed=2)
    kind = CoOccurringPairs.of(X, y, N_CLASSES)
    parts = resolve(
        "exact", Gumbel(), solver=SGD(0.05, batch_size=1, init="zero"), sampler="everything"
    )
    config = FitConfig(parts, max_epochs=1, kind=kind)
    plan = FitPlan((Candidate("fit", config),))
    data, rng = TrainingData(X, y, np.ones(60)), np.random.RandomState(0)
    found = train(plan, data, np.arange(N_CLASSES), rng)
    W, b = np.zeros((N_FEATURES, N_CLASSES)), np.zeros(N_CLASSES)
    known = np.zeros(W.shape, bool)
    features = np.repeat(np.arange(N_FEATURES), np.diff(kind.offsets))
    known[features, kind.classes] = True
    rng = np.random.RandomState(0)
    new_state(rng)
    order = rng.permutation(60)
    for x, label in zip(X.toarray()[order].astype(float), y[order]):
        p = np.exp(x @ W + b)
        grads = -p / p.sum()
        grads[label] += 1.0
        W += 0.05 * np.outer(x, grads) * known
        b += 0.05 * grads
    np.testing.assert_allclose(found.weights.dense(), W.T, atol=1e-5)
    np.testing.assert_allclose(found.intercept, b, atol=1e-5)


def test_features_of_very_many_pairs_are_searched():
    """With many classes per feature the kernel looks up classes another way."""
    n = 1_500
    X = scipy.sparse.csr_array(np.ones((n, 1), np.float32))
    y = np.arange(n) % 500
    solver = Damped(0.1, batch_size=1)
    parts = resolve("complementary", Gumbel(), solver=solver, sampler=CoOccurrence(4))
    config = FitConfig(parts, max_epochs=1, kind=CoOccurringPairs.of(X, y, 500))
    data = TrainingData(X, y, np.ones(n))
    plan = FitPlan((Candidate("fit", config),))
    weights = train(plan, data, np.arange(500), np.random.RandomState(0)).weights
    full = replace(config, kind=FullRank())
    plan = FitPlan((Candidate("fit", full),))
    same = train(plan, data, np.arange(500), np.random.RandomState(0)).weights
    np.testing.assert_allclose(weights.dense(), same.dense(), atol=1e-5)


def test_pairs_are_moved_row_by_row_only():
    X, y = some_rows(60)
    with pytest.raises(ValueError, match=r"row by row, not solver='adagrad'"):
        CoOccurringPairs.of(X, y, N_CLASSES).check_solver(AdaGrad())


def test_memory_that_pairs_take_is_forecast():
    """Every value may be a pair of its own: one row per class."""
    n, per_row = 20_000, 20
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, 50_000, (n, per_row), np.int32), axis=1)
    offsets = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = np.ones(n * per_row, np.float32)
    X = scipy.sparse.csr_array((values, indices.ravel(), offsets), shape=(n, 50_000))
    tracemalloc.start()
    CoOccurringPairs.of(X, np.arange(n) // 2, n // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 * memory.PAIR_BYTES * X.nnz < peak < memory.PAIR_BYTES * X.nnz


# Prediction


def paired(seed=0, rank=3):
    rng = np.random.default_rng(seed)
    X, y = some_rows(80, seed)
    pairs = CoOccurringPairs.of(X, y, N_CLASSES)
    low = LowRankWeights(
        rng.standard_normal((N_CLASSES, rank)).astype(np.float32),
        rng.standard_normal((N_FEATURES, rank)).astype(np.float32),
    )
    weights = rng.standard_normal(len(pairs.classes)).astype(np.float32)
    return PairedWeights(low, pairs.offsets, pairs.classes, weights)


@pytest.mark.parametrize("sparse", [True, False])
def test_all_ways_to_scores_agree(sparse):
    weights = paired()
    X, y = some_rows(150, seed=5)
    dense = X.toarray().astype(np.float64)
    intercept = np.linspace(-1.0, 1.0, N_CLASSES).astype(np.float32)
    expected = dense @ weights.dense().T.astype(np.float64) + intercept
    model = LinearModel(weights, intercept, Gumbel())
    rows = X.astype(np.float64) if sparse else dense
    scores = np.concatenate([s for _, s in model.score_blocks(rows)])
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    log_p = expected - np.logaddexp.reduce(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.log_proba(rows), log_p, atol=1e-5)
    np.testing.assert_allclose(model.log_proba_of(rows, y), log_p[np.arange(150), y], atol=1e-5)
    classes, values = model.top_k(rows, 4)
    np.testing.assert_array_equal(classes, np.argsort(-expected, axis=1)[:, :4])
    np.testing.assert_allclose(values, np.take_along_axis(log_p, classes, axis=1), atol=1e-5)


def test_other_orders_and_units():
    weights, rng = paired(), np.random.default_rng(0)
    dense = weights.dense().copy()
    order = rng.permutation(N_CLASSES)
    np.testing.assert_allclose(weights.take(order).dense(), dense[order])
    factors = rng.random(N_FEATURES)
    np.testing.assert_allclose(
        weights.copy().of_features(factors).dense(), dense * factors, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(weights.multiplied(2.0).dense(), 2.0 * dense, rtol=1e-6)


# Fits


def words(n, n_classes=4_200, seed=0):
    """Each class has a word of its own in half of its rows; other words say nothing."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    own = np.where(rng.random(n) < 0.5, y, rng.integers(0, n_classes, n))
    others = rng.integers(n_classes, n_classes + 200, (n, 3))
    columns = np.column_stack([own, others])
    rows = np.repeat(np.arange(n), 4)
    ones = np.ones(4 * n, np.float32)
    X = scipy.sparse.csr_array((ones, (rows, columns.ravel())), shape=(n, n_classes + 200))
    X.sum_duplicates()
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = words(13_000)
    return LinearClassifier(random_state=0, max_epochs=3).fit(X, y)


def test_pairs_know_what_low_rank_does_not(fitted):
    X_test, y_test = words(8_000, seed=1)
    X_test, y_test = X_test[4_200:], y_test[4_200:]
    assert isinstance(fitted.linear_model().weights, PairedWeights)
    (pairs,) = [c for c in fitted.selection_.candidates if c.settings.get("in_pairs")]
    assert pairs.weight > 0.0
    X, y = words(13_000)
    low = LinearClassifier(rank=256, random_state=0, max_epochs=3).fit(X, y)
    gain = fitted.log_proba_of(X_test, y_test) - low.log_proba_of(X_test, y_test)
    assert gain.mean() > 0.1 + 2.0 * gain.std() / len(gain) ** 0.5


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_files_and_fewer_bytes(fitted, dtype, tmp_path):
    X, y = words(8_000, seed=1)
    bigcat.save_model(fitted, tmp_path / "model", dtype=dtype)
    again = bigcat.load_model(tmp_path / "model")
    assert (again.pair_class_ == fitted.pair_class_).all()
    loss = fitted.log_proba_of(X, y) - again.log_proba_of(X, y)
    assert abs(loss.mean()) < 0.02


def test_an_index_finds_classes_by_vectors_and_by_pairs(fitted):
    pytest.importorskip("usearch")
    X, _ = words(5_000, seed=1)
    index = bigcat.TopKIndex(fitted)
    assert index.recall(X[4_200:4_500], k=5)["recall"] > 0.9


def test_more_rows_cannot_be_added_one_by_one(fitted):
    X, y = words(8_000, seed=1)
    with pytest.raises(ValueError, match=r"is a weighted sum of .* rank=256"):
        fitted.partial_fit(X, y)
