"""Model files of low rank, in fewer bytes, and mapped to memory."""

import json
import os
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse
from test_store import make_model

from bigcat import compressed, load_model, save_model, storage_loss
from bigcat.cli import main
from bigcat.files import ModelFileError, read_header

K, D, RANK = 6, 4, 3
X = np.random.default_rng(2).normal(size=(50, D)).astype(np.float32)


def make_low_rank_model(**params):
    """A model with known weights of low rank."""
    rng = np.random.default_rng(5)
    model = make_model(K=K, D=D, rank=RANK, **params)
    del model.coef_
    model.embedding_ = rng.normal(size=(D, RANK)).astype(np.float32)
    model.class_embedding_ = rng.normal(size=(K, RANK)).astype(np.float32)
    return model


MAKERS = {
    "class-major": make_model,
    "feature-major": lambda: make_model(order="F"),
    "low-rank": make_low_rank_model,
}


@pytest.fixture(params=MAKERS)
def model(request):
    return MAKERS[request.param]()


def weights(model):
    names = ("coef_", "embedding_", "class_embedding_")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


@pytest.mark.parametrize("rows", [X, scipy.sparse.csr_matrix(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("mmap", [False, True])
def test_predictions_are_the_same_bits(tmp_path, model, rows, mmap):
    path = save_model(model, tmp_path / "m")
    loaded = load_model(path, mmap=mmap)
    assert loaded.get_params() == model.get_params()
    assert weights(loaded).keys() == weights(model).keys()
    np.testing.assert_array_equal(loaded.predict_log_proba(rows), model.predict_log_proba(rows))
    for found, expected in zip(loaded.predict_top_k(rows, 3), model.predict_top_k(rows, 3)):
        np.testing.assert_array_equal(found, expected)


# --- fewer bytes --------------------------------------------------------------------------------


def test_what_cannot_be_stored_is_refused(tmp_path):
    model = make_model()
    with pytest.raises(ValueError, match=r"dtype='float8' is none of 'float32', 'float16', 'int8'"):
        save_model(model, tmp_path / "m", dtype="float8")
    model.coef_[1, 1] = 1e5
    with pytest.raises(ValueError, match=r"a weight is 100000.0, which float16 cannot hold"):
        save_model(model, tmp_path / "m", dtype="float16")
    save_model(model, tmp_path / "m", dtype="int8")
    model.coef_[1, 1] = np.nan
    with pytest.raises(ValueError, match=r"coef holds nan, which .*; fit the model again"):
        save_model(model, tmp_path / "m", dtype="int8")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_a_copy_is_what_a_file_would_give(tmp_path, model, dtype):
    before = {name: array.copy() for name, array in weights(model).items()}
    rounded = compressed(model, dtype)
    loaded = load_model(save_model(model, tmp_path / "m", dtype=dtype))
    for name, array in weights(rounded).items():
        np.testing.assert_array_equal(array, getattr(loaded, name))
        assert not np.shares_memory(array, getattr(model, name))
        np.testing.assert_array_equal(getattr(model, name), before[name])
    y = loaded.predict(X)
    report = storage_loss(model, X, y, dtype)
    assert report["log_likelihood"] == model.log_proba_of(X, y).mean()
    assert report["stored_log_likelihood"] == loaded.log_proba_of(X, y).mean()
    assert report["loss"] == pytest.approx(
        report["log_likelihood"] - report["stored_log_likelihood"]
    )
    assert (report["loss"] == 0.0) == (dtype == "float32")
    arrays = safetensors.numpy.load_file(tmp_path / "m")
    names = [name for name in arrays if name.split(".")[0] not in ("classes", "exact_classes")]
    assert report["stored_bytes"] == sum(arrays[name].nbytes for name in names)


def test_the_command(tmp_path, capsys):
    y = np.arange(50) % K
    data, path, small = tmp_path / "rows.npz", tmp_path / "m", tmp_path / "small"
    np.savez(data, X=X, y=y)
    options = ["--method", "exact", "--epochs", "2", "--json"]
    assert main(["fit", str(data), "--model", str(path), "--rank", "2", *options]) == 0
    model = load_model(path)
    assert model.class_embedding_.shape == (K, 2)
    capsys.readouterr()
    command = ["compress", str(path), str(small), "--dtype", "float16"]
    assert main([*command, "--data", str(data), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["stored_bytes"] == small.stat().st_size < report["bytes"] == path.stat().st_size
    assert report["log_likelihood"] == pytest.approx(model.log_proba_of(X, y).mean())
    assert read_header(small)["extra"] == read_header(path)["extra"]
    assert main(command) == 0
    assert "small, was" in capsys.readouterr().out
    assert main(["predict", str(small), str(data)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 50
    assert main(["fit", str(data), "--model", str(path), "--rank", "none", *options]) == 0
    assert load_model(path).rank is None
    assert main(["fit", str(data), "--model", str(path), "--rank", "low"]) == 2
    assert "'low' is no whole number of at least 1" in capsys.readouterr().err


# --- mapped to memory ---------------------------------------------------------------------------


def test_mapping_takes_no_memory(tmp_path):
    path = save_model(make_model(K=1000, D=1000), tmp_path / "m")
    tracemalloc.start()
    loaded = load_model(path, mmap=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert loaded.coef_.nbytes == 4_000_000
    assert peak < 1_000_000


def test_what_cannot_be_mapped_is_refused(tmp_path):
    for dtype in ("float16", "int8"):
        path = save_model(make_model(), tmp_path / "m", dtype=dtype)
        with pytest.raises(ModelFileError, match=f"stored as {dtype}.*load it without mmap=True"):
            load_model(path, mmap=True)


@pytest.mark.skipif(os.name != "posix", reason="a mapped file is in use elsewhere")
def test_a_mapped_file_can_be_replaced(tmp_path, model):
    path = save_model(model, tmp_path / "m")
    mapped = load_model(path, mmap=True)
    save_model(make_model(K=60, D=50), path)
    np.testing.assert_array_equal(mapped.predict_log_proba(X), model.predict_log_proba(X))


def test_training_goes_on_in_memory_and_not_in_the_file(tmp_path):
    y = np.arange(50) % K * 7
    path = save_model(make_model(), tmp_path / "m")
    before = path.read_bytes()
    mapped, read = load_model(path, mmap=True), load_model(path)
    for model in (mapped, read):
        model.set_params(random_state=0).partial_fit(X, y)
    np.testing.assert_array_equal(mapped.coef_, read.coef_)
    assert path.read_bytes() == before
