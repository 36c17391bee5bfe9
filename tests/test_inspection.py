"""Inspection of a model: features, neighbours, maps and explanations against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp

from bigcat import LinearClassifier, inspection, metrics
from bigcat.inspection import similarity
from bigcat.inspection.features import weights_of
from bigcat.linear.low_rank import LowRankWeights
from bigcat.linear.paired import PairedWeights
from bigcat.solvers import SGD
from tests.test_metrics import make


def exact_model(n_features=6, n_classes=4):
    rng = np.random.RandomState(0)
    X = rng.randn(300, n_features)
    y = X[:, :n_classes].argmax(axis=1)
    return LinearClassifier("gumbel", "exact", l2=1.0).fit(X, y), X, y


def with_weights(model, weights):
    """The same model with weights of another kind."""
    rng = np.random.RandomState(1)
    n_classes, n_features = weights.shape
    model.restore(
        weights, rng.randn(n_classes).astype(np.float32), np.arange(n_classes), model.history_
    )
    model.n_features_in_ = n_features
    return model


def paired_weights(n_classes=5, n_features=7, rank=2):
    rng = np.random.RandomState(2)
    low = LowRankWeights(
        rng.randn(n_classes, rank).astype(np.float32), rng.randn(n_features, rank).astype("f")
    )
    pairs = sp.random_array((n_features, n_classes), density=0.4, rng=rng, format="csr")
    pairs.sort_indices()
    return PairedWeights(
        low,
        pairs.indptr.astype(np.int64),
        pairs.indices.astype(np.int32),
        pairs.data.astype(np.float32),
    )


@pytest.mark.parametrize("kind", ["full", "low", "paired"])
def test_strongest_features_of_every_kind_of_weights(kind):
    model, _, _ = exact_model()
    if kind != "full":
        paired = paired_weights()
        model = with_weights(model, paired if kind == "paired" else paired.low)
    dense = weights_of(model).dense()
    centred = dense - dense.mean(axis=0)
    found = inspection.strongest_features(model, 2, top=3)
    columns = [row["column"] for row in found]
    assert set(columns) == set(np.argsort(-np.abs(centred[2]))[:3])
    np.testing.assert_allclose([row["weight"] for row in found], centred[2][columns], rtol=1e-5)
    assert sorted((row["weight"] for row in found), reverse=True) == [r["weight"] for r in found]


def test_nearest_classes_are_those_with_the_largest_cosine():
    vectors = np.array([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [0.0, -1.0]], dtype=np.float32)
    low = LowRankWeights(vectors, np.ones((3, 2), np.float32))
    model = with_weights(exact_model()[0], low)
    found = inspection.nearest_classes(model, 0, top=2)
    centred = vectors - vectors.mean(axis=0)
    cosine = centred @ centred[0] / np.linalg.norm(centred, axis=1) / np.linalg.norm(centred[0])
    assert [row["label"] for row in found] == np.argsort(-cosine)[1:3].tolist()
    np.testing.assert_allclose(found[0]["similarity"], np.sort(cosine)[-2], rtol=1e-5)


def test_the_map_is_the_plane_of_the_principal_components(monkeypatch):
    model, _, _ = exact_model()
    model.class_count_ = np.array([3, 9, 1, 5])
    numbers, places, share = inspection.class_map(model)
    assert numbers.tolist() == [1, 3, 0, 2], "the most frequent first"
    vectors = model.coef_[numbers] - model.coef_.mean(axis=0)
    sizes = np.linalg.svd(vectors, compute_uv=False)
    np.testing.assert_allclose(np.linalg.norm(places, axis=0), sizes[:2], rtol=1e-4)
    np.testing.assert_allclose(share, sizes[:2] ** 2 / (sizes**2).sum(), rtol=1e-4)
    monkeypatch.setattr(similarity, "MAX_MAP_VALUES", 3 * model.coef_.shape[1])
    assert inspection.class_map(model)[0].tolist() == [1, 3, 0], "no more than fit"


@pytest.mark.parametrize("sparse", [False, True])
def test_contributions_add_up_to_the_difference_of_scores(sparse):
    model, X, _ = exact_model()
    row = X[3:4].copy()
    row[0, 1] = 0.0
    scores = model.decision_function(row)[0]
    found = inspection.explain(model, sp.csr_matrix(row) if sparse else row, 1, against=3)
    total = found["intercept"] + sum(one["contribution"] for one in found["features"])
    np.testing.assert_allclose(total, scores[1] - scores[3], rtol=1e-4)
    np.testing.assert_allclose(found["difference"], total, rtol=1e-6)
    assert len(found["features"]) == 5, "a value of zero says nothing"
    cut = inspection.explain(model, row, 1, against=3, top=2)
    assert len(cut["features"]) == 2
    kept = cut["intercept"] + cut["left_out"] + sum(o["contribution"] for o in cut["features"])
    np.testing.assert_allclose(kept, total, rtol=1e-6)


def test_confusions_count_pairs_and_show_the_surest_mistakes():
    model, X, y = make()
    y = y.copy()
    y[5] = -1  # unknown to the model: rows keep their numbers
    rows = metrics.measure(model, X, y, 3)
    assert rows.dropped == 1
    assert 5 not in rows.row
    top = model.predict_top_k(X, 1)[0][:, 0]
    found = inspection.confusions(model, rows, top=3)
    for pair in found:
        wrong = np.flatnonzero((y == pair["truth"]) & (top == pair["predicted"]))
        assert pair["rows"] == len(wrong)
        assert set(pair["examples"]) <= set(wrong)
        np.testing.assert_allclose(pair["share"], len(wrong) / (y == pair["truth"]).sum())
        assert pair["log_odds"] > 0
    assert [pair["rows"] for pair in found] == sorted((p["rows"] for p in found), reverse=True)


def test_models_remember_how_many_rows_a_class_had():
    model, X, y = exact_model()
    assert model.class_count_.tolist() == np.bincount(y).tolist()
    model = LinearClassifier("gumbel", "exact", solver=SGD(learning_rate=0.1))
    model.partial_fit(X[:50], y[:50], classes=np.arange(4))
    model.partial_fit(X[50:], y[50:])
    assert model.class_count_.tolist() == np.bincount(y).tolist()
    weight = np.ones(len(y))
    weight[y == 2] = 0.0
    model = LinearClassifier("gumbel", "exact", l2=1.0).fit(X, y, sample_weight=weight)
    assert model.class_count_[2] == 0, "rows of weight 0 are as if they were not there"
