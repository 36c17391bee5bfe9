"""Predictions by kernels, on threads, against scores and NumPy."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp

from bigcat.compile import Kernel, compiling_always
from bigcat.linear import FullRankWeights, LinearModel, LowRankWeights, Weights
from bigcat.linear import model as _model
from bigcat.noise import Gaussian, Gumbel

SIZES = [(5, 2), (70, 3), (130, 40), (9, 5000)]  # rows and classes: one block of each, and more


def model(n_rows, n_classes, sparse, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.5)
    X[0] = 0.0  # a row without features
    coef = 2.0 * rng.standard_normal((n_classes, n_features), np.float32)
    intercept = rng.standard_normal(n_classes, np.float32)
    scores = X @ coef.T.astype(np.float64) + intercept
    return (scipy.sparse.csr_array(X) if sparse else X), coef, intercept, scores


def scorer_of(coef, intercept, noise, n_threads=None):
    return LinearModel(FullRankWeights(coef), intercept, noise, n_threads)


@pytest.fixture(params=["float64", "float32"])
def tolerance(request, monkeypatch):
    """Both precisions, whatever the size; the tolerance that goes with each."""
    if request.param == "float32":
        monkeypatch.setattr(_model, "MIN_FLOAT32_WEIGHTS", 0)
        return 1e-5
    return 1e-12


@pytest.fixture(autouse=True)
def _always_threads(monkeypatch):
    monkeypatch.setattr(_model, "MIN_THREADED_SCORES", 0)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_log_probabilities(sparse, size, tolerance):
    X, coef, intercept, scores = model(size[0], size[1], sparse)
    expected = scores - logsumexp(scores, axis=1, keepdims=True)
    labels = np.random.default_rng(1).integers(0, size[1], size[0])
    for n_threads in (1, 3):
        scorer = scorer_of(coef, intercept, Gumbel(), n_threads=n_threads)
        found = scorer.log_proba(X)
        np.testing.assert_allclose(found, expected, atol=tolerance * 20, rtol=tolerance)
        of_labels = scorer.log_proba_of(X, labels)
        chosen = expected[np.arange(size[0]), labels]
        np.testing.assert_allclose(of_labels, chosen, atol=tolerance * 20, rtol=tolerance)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [1, 2, "all"])
def test_top_k(sparse, size, k, tolerance):
    X, coef, intercept, scores = model(size[0], size[1], sparse)
    k = size[1] if k == "all" else k
    log_p = scores - logsumexp(scores, axis=1, keepdims=True)
    order = np.argsort(-scores, axis=1, kind="stable")
    for n_threads in (1, 3):
        scorer = scorer_of(coef, intercept, Gumbel(), n_threads=n_threads)
        classes, values = scorer.top_k(X, k)
        assert (np.sort(classes, axis=1)[:, 1:] > np.sort(classes, axis=1)[:, :-1]).all()
        found = np.take_along_axis(log_p, classes, axis=1)
        np.testing.assert_allclose(values, found, atol=tolerance * 20, rtol=tolerance)
        best = np.take_along_axis(log_p, order[:, :k], axis=1)
        np.testing.assert_allclose(found, best, atol=tolerance * 20)
        if tolerance < 1e-10:
            np.testing.assert_array_equal(classes, order[:, :k])
            np.testing.assert_array_equal(scorer.best(X), order[:, 0])


@pytest.mark.parametrize("sparse", [True, False])
def test_equal_scores_come_in_the_order_of_the_classes(sparse):
    rng = np.random.default_rng(0)
    coef = rng.integers(0, 3, (300, 2)).astype(np.float32)
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    scores = X @ coef.T
    order = np.argsort(-scores, axis=1, kind="stable")
    scorer = scorer_of(coef, np.zeros(300, np.float32), Gumbel())
    given = scipy.sparse.csr_array(X) if sparse else X
    for k in (1, 7, 200, 300):
        np.testing.assert_array_equal(scorer.top_k(given, k)[0], order[:, :k])


@pytest.mark.parametrize("sparse", [True, False])
def test_threads_do_not_change_the_bits(sparse, tolerance):
    X, coef, intercept, _ = model(200, 50, sparse)
    results = [scorer_of(coef, intercept, Gumbel(), n_threads=n).log_proba(X) for n in (1, 2, 5)]
    assert all(np.array_equal(results[0], r) for r in results[1:])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("sparse", [True, False])
def test_any_layout_of_the_weights(sparse, order, tolerance):
    X, coef, intercept, scores = model(20, 9, sparse)
    coef = np.array(coef, order=order)
    coef.flags.writeable = False  # as those of a file that is mapped into memory
    expected = scores - logsumexp(scores, axis=1, keepdims=True)
    found = scorer_of(coef, intercept, Gumbel()).log_proba(X)
    np.testing.assert_allclose(found, expected, atol=20 * tolerance)


def test_far_apart_scores():
    """No overflow, and a label that is nearly certain keeps its digits."""
    coef = np.array([[0.0], [40.0], [1e6], [-1e6]], np.float32)
    scorer = scorer_of(coef, np.zeros(4, np.float32), Gumbel())
    X = np.array([[1.0], [-1e-5], [1e3]])
    expected = X @ coef.T.astype(float)
    expected -= logsumexp(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(scorer.log_proba(X), expected, rtol=1e-12)
    certain = scorer_of(coef[:2], np.zeros(2, np.float32), Gumbel())
    np.testing.assert_allclose(
        certain.log_proba_of(np.array([[0.5]]), np.array([1])), [-np.exp(-20.0)], rtol=1e-6
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_other_noises_are_the_same_on_threads(sparse):
    X, coef, intercept, _ = model(11, 4, sparse)
    one, three = (scorer_of(coef, intercept, Gaussian(), n) for n in (1, 3))
    labels = np.arange(11) % 4
    assert np.array_equal(one.log_proba(X), three.log_proba(X))
    assert np.array_equal(one.log_proba_of(X, labels), three.log_proba_of(X, labels))
    assert all(np.array_equal(a, b) for a, b in zip(one.top_k(X, 2), three.top_k(X, 2)))
    full = one.log_proba(X)
    np.testing.assert_allclose(np.exp(full).sum(axis=1), 1.0, rtol=1e-12)
    alone = one.log_proba_of(X, labels)
    np.testing.assert_allclose(alone, full[np.arange(11), labels], rtol=0.0, atol=1e-9)


def test_no_array_of_all_scores(monkeypatch):
    """Rows and classes whose scores would not fit in memory: only the results are kept."""
    X, coef, intercept, _ = model(4000, 3000, True)
    scorer = scorer_of(coef, intercept, Gumbel(), n_threads=2)
    scorer.top_k(X[:10], 3)  # compiled
    tracemalloc.start()
    scorer.top_k(X, 3)
    scorer.log_proba_of(X, np.zeros(4000, np.int64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * 3000 * 8 / 20


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("rank", [None, 64])
def test_one_row_alone_costs_no_copy_of_the_weights(sparse, rank):
    """Though scores are more precise than weights."""
    K, M = 5_000, 200
    rng = np.random.default_rng(0)
    x = scipy.sparse.random_array((1, M), density=0.1, format="csr", rng=rng)
    weights: Weights
    if rank is None:
        coef = rng.normal(size=(M, K) if sparse else (K, M)).astype(np.float32)
        weights = FullRankWeights(coef.T if sparse else coef)
    else:
        shapes = ((10 * K, rank), (M, rank))
        weights = LowRankWeights(*(rng.normal(size=s).astype(np.float32) for s in shapes))
    scorer = LinearModel(weights, np.zeros(len(weights), np.float32), Gumbel())
    assert scorer.precision is np.float64
    row = x if sparse else x.toarray()
    expected = weights.class_vectors.astype(float) @ weights.astype(np.float64).embed(row)[0]
    best = scorer.top_k(row, 3)[0]  # compiled
    tracemalloc.start()
    assert (scorer.top_k(row, 3)[0] == best).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * weights.size / 2
    assert best[0].tolist() == np.argsort(-expected, kind="stable")[:3].tolist()


def test_not_a_number_is_no_class_out_of_range():
    scorer = scorer_of(np.full((3, 1), np.nan, np.float32), np.zeros(3, np.float32), Gumbel())
    assert set(scorer.best(np.ones((2, 1)))) <= {0, 1, 2}


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_and_kernels_predict_the_same(monkeypatch, sparse, rank, dtype):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((90, 30), density=0.3, format="csr", rng=rng).astype(dtype)
    coef, vectors = rng.normal(size=(200, 30)), rng.normal(size=(200, 4))
    weights: Weights = FullRankWeights(coef.astype(np.float32))
    if rank:
        features = rng.normal(size=(30, 4)).astype(np.float32)
        weights = LowRankWeights(vectors.astype(np.float32), features)
    scorer = LinearModel(weights, rng.normal(size=200).astype(np.float32), Gumbel())
    rows, labels = (X if sparse else X.toarray()), np.arange(90)

    def predictions():
        classes, values = scorer.top_k(rows, 5)
        return classes, values, scorer.log_proba(rows), scorer.log_proba_of(rows, labels)

    with compiling_always():
        compiled = predictions()
    monkeypatch.setattr(Kernel, "is_ready", lambda self, *arguments: False)
    for found, expected in zip(predictions(), compiled):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
