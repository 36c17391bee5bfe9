"""Weights of single pairs beside low rank: trained, predicted with, saved, served."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import bigcat
from bigcat import LinearClassifier
from bigcat.kernels.train_pairs import train_pairs
from bigcat.linear import LinearModel, LowRankWeights, PairedWeights
from bigcat.noise import Gumbel
from bigcat.rows import as_rows
from bigcat.training import memory
from bigcat.training import pairs as _pairs
from bigcat.training.pairs import Pairs, fit_pairs
from bigcat.training.data import TrainingData
from reference import pairs as twin

N_CLASSES, N_FEATURES = 30, 40


def some_rows(n, seed=0, n_classes=N_CLASSES):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(n, N_FEATURES, 0.1, "csr", np.float32, random_state=seed)
    return scipy.sparse.csr_array(X), rng.integers(0, n_classes, n)


def base_of(labels):
    counts = np.bincount(labels, minlength=N_CLASSES) + 0.5
    return np.log(counts / counts.sum()).astype(np.float32)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_steps_are_those_of_the_twin(size):
    X, y = some_rows(60)
    X *= np.float32(size)
    rng = np.random.default_rng(1)
    row_weights, order, base = rng.random(60), rng.permutation(60), base_of(y)
    pairs = Pairs.of(X, y, N_CLASSES)
    weights = np.zeros(len(pairs.classes), np.float32)
    rate = 0.7 / size**2
    total = train_pairs(as_rows(X, np.float32), y, row_weights, order, *pairs, weights, base, rate)
    dense = X.toarray().astype(np.float64)
    known = twin.together(dense, y, N_CLASSES)
    expected, value = twin.train(dense, y, row_weights, order, known, base, rate)
    rows = np.repeat(np.arange(N_FEATURES), np.diff(pairs.offsets))
    assert known.sum() == len(weights)
    np.testing.assert_allclose(weights, expected[rows, pairs.classes], atol=2e-5 / size)
    assert total == pytest.approx(value, rel=1e-5)


def test_the_gradient_is_the_likelihoods():
    """A step of one row against a derivative by differences."""
    X, y = some_rows(1, seed=3)
    base = base_of(y)
    pairs = Pairs.of(X, y, N_CLASSES)
    step = np.zeros(len(pairs.classes), np.float32)
    rows = as_rows(X, np.float32)
    one, first = np.ones(1), np.zeros(1, np.int64)
    train_pairs(rows, y, one, first, *pairs, step, base, 1e-3)
    for j in (0, len(step) - 1):
        values = []
        for sign in (-1.0, 1.0):
            moved = np.zeros_like(step)
            moved[j] = sign * 1e-2
            values.append(train_pairs(rows, y, one, first, *pairs, moved, base, 0.0))
        assert step[j] / 1e-3 == pytest.approx((values[1] - values[0]) / 2e-2, rel=2e-3)


def test_weights_of_any_size_stay_finite():
    X, y = some_rows(60)
    pairs = Pairs.of(X, y, N_CLASSES)
    for size in (1e9, -1e9):
        weights = np.full(len(pairs.classes), size, np.float32)
        value = train_pairs(
            as_rows(X, np.float32), y, np.ones(60), np.arange(60), *pairs, weights, base_of(y), 1.0
        )
        assert np.isfinite(value)
        assert np.isfinite(weights).all()


def test_memory_that_pairs_take_is_forecast(monkeypatch):
    """Every value may be a pair of its own: one row per class."""
    n, per_row = 20_000, 20
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, 50_000, (n, per_row), np.int32), axis=1)
    offsets = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = np.ones(n * per_row, np.float32)
    X = scipy.sparse.csr_array((values, indices.ravel(), offsets), shape=(n, 50_000))
    tracemalloc.start()
    Pairs.of(X, np.arange(n) // 2, n // 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    pair_bytes = memory.PAIR_BYTES
    assert 0.5 * pair_bytes * X.nnz < peak < pair_bytes * X.nnz
    sizes = {"n_rows": n, "n_features": 50_000, "n_classes": n // 2, "nnz": X.nnz}
    both = LinearClassifier(n_threads=1).memory_forecast(**sizes)
    monkeypatch.setattr(memory, "PAIR_BYTES", 0)
    low = LinearClassifier(n_threads=1).memory_forecast(**sizes)
    assert both - low == pair_bytes * X.nnz


def test_features_that_go_with_too_many_classes_are_left_out(monkeypatch):
    X, y = some_rows(500)
    X = scipy.sparse.csr_array(scipy.sparse.hstack([X, np.ones((500, 1), np.float32)]))
    everything = Pairs.of(X, y, N_CLASSES)
    assert np.diff(everything.offsets)[-1] == N_CLASSES
    mean_visits = 4 * len(everything.classes) / N_FEATURES
    monkeypatch.setattr(_pairs, "MOST_VISITS", mean_visits)
    some = Pairs.of(X, y, N_CLASSES)
    assert np.diff(some.offsets)[-1] == 0
    assert len(some.classes) > 0
    visits = np.diff(some.offsets)[X.indices].sum() / 500
    assert visits <= mean_visits


def test_a_row_of_weight_three_is_like_three_rows():
    """Not to the bit: the order differs."""
    X, y = some_rows(200)
    weights = np.where(np.arange(200) < 50, 3.0, 1.0)
    again = np.concatenate([np.repeat(np.arange(50), 3), np.arange(50, 200)])
    models = [
        fit_pairs(TrainingData(*data), N_CLASSES, 0.1, 1, np.random.RandomState(0))
        for data in ((X, y, weights), (X[again], y[again], np.ones(300)))
    ]
    assert models[0].pair_weights.shape == models[1].pair_weights.shape
    difference = models[0].pair_weights - models[1].pair_weights
    assert np.abs(difference).mean() < 0.15 * np.abs(models[1].pair_weights).mean()


# Prediction


def paired(seed=0, rank=3):
    rng = np.random.default_rng(seed)
    X, y = some_rows(80, seed)
    pairs = Pairs.of(X, y, N_CLASSES)
    low = LowRankWeights(
        rng.standard_normal((N_CLASSES, rank)).astype(np.float32),
        rng.standard_normal((N_FEATURES, rank)).astype(np.float32),
    )
    weights = rng.standard_normal(len(pairs.classes)).astype(np.float32)
    return PairedWeights(low, *pairs, weights)


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
    found, std = model.sampled_log_proba_of(rows, classes, 2_000, np.random.RandomState(0))
    assert (np.abs(found - values) < 6.0 * std[:, None] + 1e-6).all()


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


def words(n, n_classes=2_100, seed=0):
    """Each class has a word of its own in half of its rows; other words say nothing."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    own = np.where(rng.random(n) < 0.5, y, rng.integers(0, n_classes, n))
    others = rng.integers(n_classes, n_classes + 200, (n, 3))
    # Indices of 32 bits, as those of files: others are kernels of their own.
    columns = np.column_stack([own, others]).astype(np.int32)
    rows = np.repeat(np.arange(n, dtype=np.int32), 4)
    ones = np.ones(4 * n, np.float32)
    X = scipy.sparse.csr_array((ones, (rows, columns.ravel())), shape=(n, n_classes + 200))
    X.sum_duplicates()
    return X, y


@pytest.fixture(scope="module")
def fitted():
    X, y = words(9_000)
    return LinearClassifier(random_state=0, max_epochs=3).fit(X, y)


def test_pairs_know_what_low_rank_does_not(fitted):
    X_test, y_test = words(4_000, seed=1)
    X_test, y_test = X_test[2_100:], y_test[2_100:]
    assert isinstance(fitted.linear_model().weights, PairedWeights)
    members = fitted.history_.choice["blend"]["members"]
    assert any(m["factor"] > 0.0 for m in members if m["what"] == "pairs")
    X, y = words(9_000)
    low = LinearClassifier(rank=256, random_state=0, max_epochs=3).fit(X, y)
    gain = fitted.log_proba_of(X_test, y_test) - low.log_proba_of(X_test, y_test)
    assert gain.mean() > 0.1 + 2.0 * gain.std() / len(gain) ** 0.5


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_files_and_fewer_bytes(fitted, dtype, tmp_path):
    X, y = words(4_000, seed=1)
    bigcat.save_model(fitted, tmp_path / "model", dtype=dtype)
    again = bigcat.load_model(tmp_path / "model")
    expected = bigcat.compressed(fitted, dtype).predict_log_proba(X[:50])
    np.testing.assert_allclose(again.predict_log_proba(X[:50]), expected, atol=1e-5)
    assert (again.pair_class_ == fitted.pair_class_).all()
    cost = bigcat.storage_loss(fitted, X, y, dtype)
    assert abs(cost["loss"]) < 0.02


def test_an_index_finds_classes_by_vectors_and_by_pairs(fitted):
    pytest.importorskip("usearch")
    X, _ = words(3_000, seed=1)
    index = bigcat.TopKIndex(fitted)
    assert index.recall(X[2_100:2_400], k=5)["recall"] > 0.9


def test_more_rows_cannot_be_added_one_by_one(fitted):
    X, y = words(4_000, seed=1)
    with pytest.raises(ValueError, match=r"is a sum of fits .* rank=256"):
        fitted.partial_fit(X, y)
