"""ONNX files give the predictions of the model, in a runtime without bigcat."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.sparse

import bigcat
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.cli import main
from bigcat.linear import LowRankWeights, PairedWeights
from bigcat.serving import onnx as onnx_files

RNG = np.random.RandomState(0)
X = RNG.standard_normal((40, 6)).astype(np.float32)
LABELS = {
    "integers": np.array([-3, 0, 7, 2**40]),
    "strings": np.array(["cat", "dog", "größer", "a b"]),
    "objects": np.array(["b", "a", "d", "c"], dtype=object),
}


def model_of(rank, classes=LABELS["integers"]):
    """Return a fitted model with random weights."""
    classes = np.unique(classes)
    model = LinearClassifier(rank=rank)
    if rank is None:
        model.coef_ = RNG.standard_normal((len(classes), 6)).astype(np.float32)
    else:
        model.embedding_ = RNG.standard_normal((6, rank)).astype(np.float32)
        model.class_embedding_ = RNG.standard_normal((len(classes), rank)).astype(np.float32)
    model.intercept_ = RNG.standard_normal(len(classes)).astype(np.float32)
    model.classes_, model.n_features_in_ = classes, 6
    return model


def run(path, **inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    onnx.checker.check_model(str(path), full_check=True)
    return session.run(["label", "probabilities"], inputs)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("labels", LABELS)
def test_all_classes(rank, labels, tmp_path):
    model = model_of(rank, LABELS[labels])
    label, probabilities = run(bigcat.save_onnx(model, tmp_path / "m.onnx"), X=X)
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("rank", [None, 2])
def test_the_best_classes(rank, tmp_path):
    model = model_of(rank)
    label, probabilities = run(bigcat.save_onnx(model, tmp_path / "m.onnx", top_k=3), X=X)
    expected, log_probabilities = model.predict_top_k(X, k=3)
    np.testing.assert_array_equal(label, expected)
    np.testing.assert_allclose(probabilities, np.exp(log_probabilities), rtol=2e-5)


@pytest.mark.parametrize("rank", [None, 2])
def test_rows_of_few_values(rank, tmp_path):
    model = model_of(rank)
    few = X * (RNG.uniform(size=X.shape) < 0.4)
    rows = scipy.sparse.csr_array(few)
    longest = np.diff(rows.indptr).max()
    columns, values = np.zeros((40, longest), np.int64), np.zeros((40, longest), np.float32)
    for i in range(40):
        here = slice(rows.indptr[i], rows.indptr[i + 1])
        columns[i, : here.stop - here.start] = rows.indices[here]
        values[i, : here.stop - here.start] = rows.data[here]
    path = bigcat.save_onnx(model, tmp_path / "m.onnx", sparse=True)
    label, probabilities = run(path, columns=columns, values=values)
    np.testing.assert_array_equal(label, model.predict(few))
    np.testing.assert_allclose(probabilities, model.predict_proba(few), rtol=2e-5, atol=1e-7)


def test_weights_of_pairs_are_stored_as_a_matrix(tmp_path):
    model = model_of(2)
    low = LowRankWeights(model.class_embedding_, model.embedding_)
    offsets = np.array([0, 1, 1, 3, 3, 3, 3])
    pairs = PairedWeights(low, offsets, np.array([2, 0, 3], np.int32), np.ones(3, np.float32))
    model._set_weights(pairs)
    label, probabilities = run(bigcat.save_onnx(model, tmp_path / "m.onnx"), X=X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=2e-5, atol=1e-7)
    np.testing.assert_array_equal(label, model.predict(X))


def test_what_cannot_be_stored_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    model = model_of(None)
    with pytest.raises(ValueError, match="are integrals; fit the model with noise='gumbel'"):
        bigcat.save_onnx(model_of(None).set_params(noise="gaussian"), path)
    bayesian = BayesianClassifier().fit(X[:, :1], X[:, 0] > 0)
    with pytest.raises(TypeError, match=r"a LinearClassifier, or .* got BayesianClassifier"):
        bigcat.save_onnx(bayesian, path)
    with pytest.raises(ValueError, match="k=9"):
        bigcat.save_onnx(model, path, top_k=9)
    model.classes_ = np.array([0.5, 1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"0\.5.* is neither; fit the model to such labels"):
        bigcat.save_onnx(model, path)
    monkeypatch.setattr(onnx_files, "MAX_BYTES", 50)
    with pytest.raises(
        ValueError, match="the weights take 96 bytes as matrices, and an ONNX file holds up to"
    ):
        bigcat.save_onnx(model_of(None), path)
    assert not list(tmp_path.iterdir())


def test_the_command(tmp_path, capsys):
    eye = np.eye(3, dtype=np.float32).repeat(20, axis=0)
    model = LinearClassifier("gumbel", "exact", solver="lbfgs").fit(eye, eye.argmax(axis=1))
    stored = str(bigcat.save_model(model, tmp_path / "m.safetensors"))
    assert main(["export", stored, str(tmp_path / "m.onnx"), "--top-k", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["bytes"] == (tmp_path / "m.onnx").stat().st_size
    label, _ = run(report["model"], X=eye[:1])
    assert label[0, 0] == 0
