"""Model files: what goes in comes out, and nothing is ever half-written."""

import errno
import hashlib
import json
import os

import numpy as np
import pytest
import safetensors.numpy
from forms import slow
from model_files import rewrite
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)

from bigcat import EarlyStopping
from bigcat.bounds import AugmentReduce
from bigcat.estimators import History, LinearClassifier
from bigcat.files import ModelFileError, load_model, read_header, save_model
from bigcat.samplers import Uniform


def make_model(classes=None, K=6, D=4, order="C", **params):
    """A model with known weights; storing does not care how they were found."""
    rng = np.random.default_rng(1)
    model = LinearClassifier(**params)
    coef = rng.normal(size=(K, D)).astype(np.float32)
    model.coef_ = np.asfortranarray(coef) if order == "F" else coef
    model.intercept_ = rng.normal(size=K).astype(np.float32)
    model.classes_ = np.arange(K) * 7 if classes is None else classes
    model.class_count_ = np.arange(1, K + 1)
    model.n_features_in_ = D
    model.n_iter_ = 2
    model.history_ = History(
        [
            {
                "epoch": epoch,
                "seconds": 0.5 * epoch,
                "compile_seconds": 1.25,
                "objective": -2.0 / epoch,
                "bound": -2.0 / epoch,
                "log_likelihood": float("nan"),
                "validation_log_likelihood": float("nan"),
            }
            for epoch in (1, 2)
        ]
    )
    return model


X = np.random.default_rng(2).normal(size=(50, 4)).astype(np.float32)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "classes",
    [
        np.arange(6) * 7,
        np.arange(6, dtype=np.int32) - 3,
        np.array([0.5, 1.5, 2.0, 3.0, 4.0, 9.0]),
        np.array(["", "apple", "pear tree", "zoo", "Ångström", "日本語"]),
        np.array(["a", "b", "c", "d\n", "e\t", "f"], dtype=object),
    ],
    ids=["int64", "int32", "float", "str", "object"],
)
def test_round_trip(tmp_path, classes, order):
    model = make_model(classes, order=order, l2=0.5, random_state=3, max_epochs=2)
    path = save_model(model, tmp_path / "model.safetensors")
    loaded = load_model(path)

    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    for name in ("coef_", "intercept_", "classes_"):
        found, expected = getattr(loaded, name), getattr(model, name)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert found.flags.writeable
    assert loaded.coef_.flags.f_contiguous == (order == "F")
    assert (loaded.n_features_in_, loaded.n_iter_) == (4, 2)
    assert type(loaded.history_) is History
    np.testing.assert_array_equal(loaded.history_["bound"], [-2.0, -1.0])
    assert np.isnan(loaded.history_["validation_log_likelihood"]).all()
    for found, expected in zip(loaded.predict_top_k(X, 3), model.predict_top_k(X, 3)):
        np.testing.assert_array_equal(found, expected)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_the_file_is_plain_safetensors_with_a_strict_json_header(tmp_path):
    path = save_model(make_model(order="F"), tmp_path / "m.safetensors")
    tensors = safetensors.numpy.load_file(path)
    assert tensors["coef"].shape == (4, 6)
    with safetensors.safe_open(path, "numpy") as file:
        text = file.metadata()["bigcat"]
    header = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the header"))
    assert header["format"] == "bigcat-model"
    assert header["linear"]["arrays"]["coef"] == {"$transposed": "coef"}
    assert header["noise"]["name"] == "gumbel"
    digest = header.pop("sha256")
    assert header == read_header(path)
    assert hashlib.sha256(json.dumps(header).encode()).hexdigest() == digest
    for name, array in tensors.items():
        described = header["tensors"][name]
        assert described["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()
        assert (described["dtype"], described["shape"]) == (array.dtype.name, list(array.shape))


def test_parameters_come_back_as_they_were(tmp_path):
    weights = {0: 1.0, 7: 2.5, 14: np.float32(0.5)}
    model = make_model(
        class_weight=weights,
        sampler=Uniform(3, exact_classes=np.array(["a", "b"])),
        method=AugmentReduce(expectation="sample", n_nodes=3),
        early_stopping=EarlyStopping(validation_fraction=None, tol=np.float64(0.5)),
    )
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert loaded.class_weight == weights
    assert loaded.sampler == Uniform(3, exact_classes=["a", "b"])
    assert loaded.method == AugmentReduce(expectation="sample", n_nodes=3)
    assert loaded.early_stopping == EarlyStopping(None, tol=0.5)


def test_parts_come_back_by_name(tmp_path):
    from bigcat.combinations import _METHODS, Method
    from bigcat.solvers import SGD, UMax

    method = _METHODS["one-vs-each"]
    model = make_model(method=method, solver=SGD(learning_rate=0.3), sampler=Uniform(7))
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert loaded.method == "one-vs-each"
    assert loaded.solver == SGD(learning_rate=0.3)
    assert loaded.sampler == Uniform(7)
    model = make_model(solver=UMax(threshold=0.5, weight_bound=7.0))  # u has no bound: infinity
    assert load_model(save_model(model, tmp_path / "m")).solver == model.solver

    own = Method("one-vs-each", method.bound, "uniform", "sgd", "nobody")
    path = save_model(make_model(method=own), tmp_path / "m")
    assert set(read_header(path)["left_out"]) == {"method"}


@pytest.mark.parametrize("exact_classes", [0, slow(2)])
@pytest.mark.parametrize("labels", ["numbers", "strings"])
def test_a_fitted_model_goes_on_where_it_was(tmp_path, exact_classes, labels):
    """Bounds need the classes that were kept exact; partial_fit needs weights it can write to."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, size=200) ** 2
    y = y.astype(str) if labels == "strings" else y
    rows = rng.normal(size=(200, 4))
    model = LinearClassifier(
        method="one-vs-each",
        sampler=Uniform(32, exact_classes=exact_classes),
        max_epochs=2,
        random_state=0,
    ).fit(rows, y)
    loaded = load_model(save_model(model, tmp_path / "m"))
    np.testing.assert_array_equal(loaded.lower_bound(rows, y), model.lower_bound(rows, y))
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    before = loaded.coef_.copy()
    loaded.partial_fit(rows, y)
    assert (loaded.coef_ != before).any()
    assert len(loaded.history_) == 3


def test_column_names_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "é"])
    model = LinearClassifier(max_epochs=1, random_state=0).fit(frame, np.arange(50) % 3)
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert list(loaded.feature_names_in_) == ["a", "b", "c", "é"]
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


def test_parameters_without_json_form_are_left_out_and_noted(tmp_path):
    model = make_model(progress=[print], random_state=np.random.RandomState(0), l2=2.0)
    path = save_model(model, tmp_path / "m")
    assert set(read_header(path)["left_out"]) == {"progress", "random_state"}
    loaded = load_model(path)
    assert (loaded.progress, loaded.random_state, loaded.l2) == ("auto", None, 2.0)


def test_extra_comes_back(tmp_path):
    extra = {
        "trained on": "a file",
        "shape": (2, 3),
        "nested": {"x": [1, None, True]},
        "inf": -np.inf,
    }
    arrays = {
        "x": np.eye(3)[:, :2],
        "y": {"z": np.array(["a", "bc"])},
        "y.z": np.array([True, False]),
    }
    path = save_model(make_model(), tmp_path / "m", extra=extra | arrays | {"$x": {1: {2, 3}}})
    found = load_model(path, with_extra=True)[1]
    np.testing.assert_array_equal(found.pop("x"), arrays["x"])
    np.testing.assert_array_equal(found.pop("y")["z"], ["a", "bc"])
    np.testing.assert_array_equal(found.pop("y.z"), [True, False])
    assert found == extra | {"$x": {1: {2, 3}}}
    with pytest.raises(
        TypeError, match=r"extra can hold only plain values and arrays: a value of type builtin_fu"
    ):
        save_model(make_model(), tmp_path / "other", extra={"f": os.listdir})
    assert os.listdir(tmp_path) == ["m"]


TEXTS = ["the cat sat", "a dog ran far", "the dog sat", "über den Wolken", "cat cat cat", "far far"]


@pytest.mark.parametrize(
    "vectorizer",
    [
        TfidfVectorizer(dtype=np.float32),
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), norm="l1", stop_words=["the"]),
        TfidfVectorizer(use_idf=False, analyzer="char_wb", ngram_range=(2, 3)),
        CountVectorizer(binary=True, max_features=5),
        HashingVectorizer(n_features=64),
    ],
    ids=["tfidf", "tfidf-bigrams", "tf-characters", "counts", "hashing"],
)
def test_vectorizer_round_trip(tmp_path, vectorizer):
    expected = vectorizer.fit_transform(TEXTS)
    path = save_model(make_model(), tmp_path / "m", extra={"vectorizer": vectorizer, "form": "t"})
    _model, extra = load_model(path, with_extra=True)
    found = extra["vectorizer"].transform(TEXTS)
    assert extra["form"] == "t"
    assert type(extra["vectorizer"]) is type(vectorizer)
    assert found.dtype == expected.dtype
    assert (found != expected).nnz == 0
    if hasattr(vectorizer, "vocabulary_"):
        names = extra["vectorizer"].get_feature_names_out()
        assert list(names) == list(vectorizer.get_feature_names_out())


def test_vectorizer_with_a_function_is_refused(tmp_path):
    vectorizer = CountVectorizer(tokenizer=str.split, token_pattern=None).fit(TEXTS)
    with pytest.raises(TypeError, match=r"the vectoriser's tokenizer is .*holds no functions"):
        save_model(make_model(), tmp_path / "m", extra={"vectorizer": vectorizer})
    assert os.listdir(tmp_path) == []


def test_custom_noise_is_asked_for(tmp_path, student_t):
    from bigcat.noise import Gaussian

    path = save_model(make_model(noise=student_t), tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"custom noise 'student-t'.*load_model\(path, noise="):
        load_model(path)
    with pytest.raises(ModelFileError, match="fitted with the noise 'student-t', not 'gaussian'"):
        load_model(path, noise=Gaussian())
    assert load_model(path, noise=student_t).noise is student_t


# --- damaged files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2]), "cut off, damaged"),
        (lambda p: p.write_bytes(b"label\tsome text\n" * 99), "not a model file"),
        (
            lambda p: safetensors.numpy.save_file({"coef": X}, p, metadata={"format": "pt"}),
            r"not a model file \(its metadata were not written by bigcat\)",
        ),
        (
            lambda p: rewrite(p, lambda h: None, drop=["intercept"]),
            "intercept is not a tensor of the file",
        ),
        (
            lambda p: rewrite(p, lambda h: h.update(version=99)),
            r"has version 99, and bigcat .* reads version 1; load it with bigcat",
        ),
        (
            lambda p: rewrite(p, lambda h: h["parameters"].update(flux=1)),
            "a later bigcat wrote it .*unexpected keyword argument 'flux'",
        ),
    ],
    ids=["half", "text", "foreign", "missing tensor", "version", "parameter"],
)
def test_damaged_files(tmp_path, damage, message):
    path = tmp_path / "model.safetensors"
    save_model(make_model(), path)
    damage(path)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert ";" in str(caught.value), "no remedy"


# --- interrupted saves --------------------------------------------------------------------------


def fail_with(error):
    def fsync(descriptor):
        raise error

    return fsync


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()], ids=["disk", "ctrl-c"]
)
def test_a_failed_save_changes_nothing(tmp_path, monkeypatch, existing, error):
    path = tmp_path / "model.safetensors"
    if existing:
        save_model(make_model(), path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    monkeypatch.setattr(os, "fsync", fail_with(error))
    with pytest.raises(type(error)) as caught:
        save_model(make_model(K=60, D=40), path)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC
        assert "could not write" in str(caught.value)
        assert "No space left on device" in str(caught.value)
        assert "free some space or choose another folder" in str(caught.value)
    monkeypatch.undo()
    if existing:
        assert load_model(path).coef_.shape == (6, 4)


def test_bad_destinations_are_refused_before_any_work(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder .*no does not exist; create it first"):
        save_model(make_model(), tmp_path / "no" / "model")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        save_model(make_model(), tmp_path)
    with pytest.raises(ValueError, match=r"the model is not fitted.*call fit first"):
        save_model(LinearClassifier(), tmp_path / "model")
    with pytest.raises(TypeError, match="pipeline that ends in one, got CountVectorizer"):
        save_model(CountVectorizer(), tmp_path / "model")
    model = make_model(np.array([(1,), (2,)] * 3 + [None], dtype=object)[:6])
    with pytest.raises(TypeError, match=r"classes holds \(1,\) of type tuple.*convert the labels"):
        save_model(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "model"
    save_model(make_model(), target)
    link = tmp_path / "link"
    link.symlink_to(target)
    save_model(make_model(l2=3.0), link)
    assert link.is_symlink()
    assert load_model(target).l2 == 3.0
