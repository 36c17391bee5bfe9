"""Model files of low rank, in fewer bytes, and mapped to memory."""

import os
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse
from test_store import make_model

from bigcat import load_model, save_model
from bigcat.cli import main
from bigcat.files import ModelFileError

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
    """Arrays that a file holds; the ``coef_`` of a low rank is their product."""
    low = hasattr(model, "embedding_")
    names = ("embedding_", "class_embedding_") if low else ("coef_",)
    return {name: getattr(model, name) for name in names}


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


@pytest.mark.parametrize(("dtype", "n_bytes"), [("float32", 4), ("float16", 2), ("int8", 1)])
def test_fewer_bytes_are_rounded_weights(tmp_path, model, dtype, n_bytes):
    before = {name: array.copy() for name, array in weights(model).items()}
    loaded = load_model(save_model(model, tmp_path / "m", dtype=dtype))
    stored = safetensors.numpy.load_file(tmp_path / "m")
    for name, array in weights(model).items():
        np.testing.assert_array_equal(array, before[name])
        largest = np.abs(array).max(axis=1, keepdims=True)
        step = {"float32": 0.0, "float16": 2.0**-11, "int8": 0.5 / 127}[dtype]
        assert (np.abs(getattr(loaded, name) - array) <= 1.001 * step * largest).all()
        assert stored[name.removesuffix("_")].itemsize == n_bytes


def test_the_command(tmp_path, capsys):
    y = np.arange(50) % K
    data, path = tmp_path / "rows.npz", tmp_path / "m"
    np.savez(data, X=X, y=y)
    options = ["--method", "exact", "--epochs", "2", "--json"]
    assert main(["fit", str(data), "--model", str(path), "--rank", "2", *options]) == 0
    model = load_model(path)
    assert model.class_embedding_.shape == (K, 2)
    assert main(["fit", str(data), "--model", str(path), "--rank", "none", *options]) == 0
    assert load_model(path).rank is None
    assert main(["fit", str(data), "--model", str(path), "--rank", "low"]) == 2
    assert "'low' is not a whole number of at least 1" in capsys.readouterr().err


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
