"""The measures against their definitions, on a table of known probabilities."""

import numpy as np
import pytest
import scipy.sparse as sp

from bigcat import metrics


class TableModel:
    """Stub model: row i of X names a row of a table of log-probabilities; calls are recorded."""

    def __init__(self, log_proba, classes):
        self.table = log_proba
        self.classes_ = classes
        self.largest_request = 0
        self.log_proba_rows = 0

    def _scores(self, X):
        rows = np.asarray(X.todense() if sp.issparse(X) else X)[:, 0].astype(int)
        self.largest_request = max(self.largest_request, len(rows))
        return self.table[rows]

    def predict_top_k(self, X, k=5):
        scores = self._scores(X)
        order = np.argsort(-scores, axis=1)[:, :k]
        return self.classes_[order], np.take_along_axis(scores, order, axis=1)

    def log_proba_of(self, X, y):
        position = np.searchsorted(self.classes_, y)
        assert (self.classes_[position] == y).all(), "asked for an unknown class"
        self.log_proba_rows += len(y)
        return self._scores(X)[np.arange(len(y)), position]


def make(n=700, K=30, seed=0, classes=None):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, K))
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    classes = np.arange(K) * 3 if classes is None else classes
    y = classes[np.argmax(logits + rng.gumbel(size=(n, K)), axis=1)]
    X = np.arange(n, dtype=float)[:, None]
    return TableModel(table, classes), X, y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [1, 3, 5, 100])
def test_evaluate_equals_the_definitions(monkeypatch, sparse, k):
    monkeypatch.setattr(metrics, "CHUNK_ROWS", 64)
    model, X, y = make()
    position = np.searchsorted(model.classes_, y)
    scores = model.table
    truth = scores[np.arange(len(y)), position]
    rank = (scores > truth[:, None]).sum(axis=1)
    X = sp.csr_matrix(X) if sparse else X

    report = metrics.evaluate(model, X, y, k=k)

    assert set(report) == {
        "log_likelihood",
        "accuracy",
        f"hit_at_{k}",
        "rows",
        "rows_dropped_unseen",
        "seconds",
    }
    np.testing.assert_allclose(report["log_likelihood"], truth.mean(), rtol=1e-12)
    assert report["accuracy"] == (rank == 0).mean()
    assert report[f"hit_at_{k}"] == (rank < k).mean()
    assert (report["rows"], report["rows_dropped_unseen"]) == (len(y), 0)
    assert model.largest_request <= 64
    assert model.log_proba_rows == (rank >= k).sum(), "scores were computed twice without need"

    np.testing.assert_allclose(metrics.log_likelihood(model, X, y), truth.mean(), rtol=1e-12)
    assert metrics.hit_at_k(model, X, y, k=k) == (rank < k).mean()


@pytest.mark.parametrize("kind", ["int", "str", "object"])
def test_rows_of_unknown_classes_are_dropped_and_counted(kind):
    classes = np.arange(30) * 3
    if kind != "int":
        classes = np.array([f"class {i:02d}" for i in range(30)])
    if kind == "object":
        classes = classes.astype(object)
    model, X, y = make(classes=classes)
    expected = metrics.evaluate(model, X[::2], y[::2])
    y = y.astype(object) if kind != "int" else y
    y[1::2] = 1 if kind == "int" else "zebra"
    y[1] = -5 if kind == "int" else "aardvark"
    y = y.astype(str) if kind == "str" else y

    report = metrics.evaluate(model, X, y)

    assert report["rows_dropped_unseen"] == 350
    assert report["rows"] == 350
    assert report["accuracy"] == expected["accuracy"]
    np.testing.assert_allclose(report["log_likelihood"], expected["log_likelihood"])
    np.testing.assert_allclose(metrics.log_likelihood(model, X, y), expected["log_likelihood"])


def test_class_frequency_baseline_adds_one_and_drops_unseen_rows():
    y_train = np.array(["a"] * 7 + ["b"] * 2)
    got = metrics.class_frequency_baseline(y_train, np.array(["a", "b", "b", "c"]))
    np.testing.assert_allclose(got, (np.log(8 / 11) + 2 * np.log(3 / 11)) / 3)


def test_by_frequency_parts_add_up_to_the_whole():
    model, X, y = make()
    counts = np.arange(30) ** 2
    whole = metrics.evaluate(model, X, y)
    table = metrics.by_frequency(model, X, y, counts, edges=(1, 10, 100))
    assert [(row["at_least"], row["below"]) for row in table] == [
        (0, 1),
        (1, 10),
        (10, 100),
        (100, np.inf),
    ]
    assert [row["classes"] for row in table] == [1, 3, 6, 20]
    assert sum(row["rows"] for row in table) == whole["rows"]
    for name in ("log_likelihood", "accuracy", "hit_at_5"):
        np.testing.assert_allclose(
            sum(row["rows"] * row[name] for row in table) / whole["rows"], whole[name]
        )
    rare = np.isin(y, model.classes_[counts < 10][1:])
    np.testing.assert_allclose(
        table[1]["log_likelihood"], metrics.log_likelihood(model, X[rare], y[rare])
    )
    with pytest.raises(ValueError, match=r"counts has shape \(29,\), the model has 30 classes"):
        metrics.by_frequency(model, X, y, counts[1:])


def test_calibration_is_small_for_the_truth_and_large_for_a_boaster():
    model, X, y = make(n=20_000, K=8, seed=3)
    honest = metrics.calibration(model, X, y, n_bins=10)
    assert honest["count"].sum() == len(y)
    assert honest["ece"] < 0.015
    filled = honest["count"] > 200
    np.testing.assert_allclose(
        honest["confidence"][filled], honest["accuracy"][filled], rtol=0, atol=0.06
    )
    sharp = 4 * model.table
    model.table = sharp - np.log(np.exp(sharp).sum(axis=1, keepdims=True))
    boaster = metrics.calibration(model, X, y, n_bins=10)
    assert boaster["ece"] > 0.2
    assert (boaster["confidence"] > boaster["accuracy"])[boaster["count"] > 200].all()
    assert np.isnan(boaster["confidence"][boaster["count"] == 0]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X, y[:-1]), "X has 700 rows and y has shape"),
        (lambda X, y: (X[:0], y[:0]), "there are no rows to measure"),
        (lambda X, y: (X, y.astype(str)), "the labels are of type <U.*classes of the model of"),
        (lambda X, y: (X, y * 0 + 1), "none of the 700 rows has a class of the training data"),
    ],
)
def test_errors_name_cause_and_remedy(change, message):
    model, X, y = make()
    with pytest.raises(ValueError, match=message):
        metrics.evaluate(model, *change(X, y))
    with pytest.raises(ValueError, match="k=0"):
        metrics.evaluate(model, X, y, k=0)
