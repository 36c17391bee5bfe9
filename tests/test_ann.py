"""The best classes by search in a graph."""

import sys

import numpy as np
import pytest
import scipy.sparse
from test_store import make_model

from bigcat import LinearClassifier, TopKIndex

K, D, RANK = 3000, 12, 8
X = np.random.default_rng(7).normal(size=(200, D)).astype(np.float32)


def make(kind):
    rng = np.random.default_rng(8)
    model = make_model(K=K, D=D, order="F" if kind == "feature-major" else "C")
    model.intercept_ = -np.log(np.arange(1.0, K + 1)).astype(np.float32)
    if kind == "low-rank":
        del model.coef_
        model.embedding_ = rng.normal(size=(D, RANK)).astype(np.float32) / 4
        model.class_embedding_ = rng.normal(size=(K, RANK)).astype(np.float32)
    else:
        model.coef_ /= 4
    return model


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError, match=r'needs usearch.*pip install "bigcat\[ann\]"'):
        TopKIndex(make("low-rank"))


@pytest.fixture(scope="module", params=["class-major", "feature-major", "low-rank"])
def index(request):
    pytest.importorskip("usearch")
    return TopKIndex(make(request.param))


@pytest.mark.parametrize("rows", [X, scipy.sparse.csr_matrix(X)], ids=["dense", "sparse"])
def test_most_of_the_best_are_found(index, rows):
    report = index.recall(rows, k=10)
    assert report["recall"] > 0.85
    assert report["rows"] == 200
    assert report["seconds"] > 0.0
    assert report["exact_seconds"] > 0.0


def test_scores_are_those_of_the_model(index):
    classes, scores = index.top_k(X, k=4)
    assert classes.shape == scores.shape == (200, 4)
    assert (np.diff(scores, axis=1) <= 0.0).all()
    columns = np.searchsorted(index.model.classes_, classes)
    expected = np.take_along_axis(index.model.decision_function(X), columns, axis=1)
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_one_row_and_one_class(index):
    classes, scores = index.top_k(X[:1], k=1)
    assert classes.shape == scores.shape == (1, 1)


def test_rows_that_a_search_leaves_short_are_scanned(index, monkeypatch):
    class Short:
        def search(self, queries, k, threads):
            n = len(queries)
            self.keys, self.counts = np.zeros((n, k), int), np.zeros(n, int)
            return self

    monkeypatch.setattr(index, "_index", Short())
    assert index.recall(X, k=5)["recall"] == 1.0


def test_what_cannot_be_indexed_is_refused():
    pytest.importorskip("usearch")
    with pytest.raises(TypeError, match="a dict has no predict_top_k"):
        TopKIndex({})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"not fitted.*call fit first"):
        TopKIndex(LinearClassifier())
    with pytest.raises(ValueError, match=r"classes have 3,000 weights each.*fit it with rank=64"):
        TopKIndex(make_model(D=3000))
    with pytest.raises(ValueError, match="expansion=0 must be a whole number of at least 2"):
        TopKIndex(make_model(), expansion=0)
    index = TopKIndex(make_model(), expansion=20)
    with pytest.raises(ValueError, match="expansion=1 must be a whole number of at least 2"):
        index.expansion = 1
    assert index.expansion == 20
    index.expansion = 40
    assert index.expansion == 40
    with pytest.raises(ValueError, match="k=7 must be a whole number between 1 and the 6"):
        TopKIndex(make_model()).top_k(X[:, :4], k=7)
