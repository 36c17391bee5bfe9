"""`partial_fit` with classes that the model has not seen, in memory and through model files."""

import json

import numpy as np
import pytest
import scipy.sparse

import bigcat
from bigcat import LinearClassifier
from bigcat.cli import main

N_CLASSES, N_FEATURES = 8, 10


def stream(n=1200, new=2, seed=0):
    """Rows of the first day, in which the last classes are missing, of a second day, and others."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(N_CLASSES, N_FEATURES))
    y = rng.integers(N_CLASSES, size=n)
    X = centres[y] + 0.7 * rng.normal(size=(n, N_FEATURES))
    third = n // 3
    first = np.flatnonzero(y[:third] < N_CLASSES - new)
    days = [(X[first], y[first])]
    return [*days, *((X[a : a + third], y[a : a + third]) for a in (third, 2 * third))]


@pytest.mark.parametrize("rank", [None, 16])
def test_a_model_learns_new_classes_and_keeps_the_old_ones(rank):
    (X, y), (X_new, y_new), (X_test, y_test) = stream()
    model = LinearClassifier(rank=rank, random_state=0).fit(X, y)
    old = np.isin(y_test, model.classes_)
    before = model.log_proba_of(X_test[old], y_test[old]).mean()
    model.partial_fit(X_new, y_new)
    np.testing.assert_array_equal(model.classes_, np.arange(N_CLASSES))
    np.testing.assert_array_equal(model.class_count_, np.bincount(np.append(y, y_new)))
    again = LinearClassifier(rank=rank, random_state=0)
    again.fit(np.vstack([X, X_new]), np.append(y, y_new))
    uniform, best = -np.log(N_CLASSES), again.log_proba_of(X_test, y_test).mean()
    found = model.log_proba_of(X_test, y_test).mean()
    assert found > best - 0.25 * (best - uniform)
    assert model.log_proba_of(X_test[old], y_test[old]).mean() > before - 0.15
    assert model.score(X_test[~old], y_test[~old]) > 0.7


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rank", [None, 16])
def test_updates_go_through_model_files(tmp_path, rank, sparse):
    (X, y), (X_new, y_new), (X_test, _) = stream()
    if sparse:
        X, X_new, X_test = (scipy.sparse.csr_array(part) for part in (X, X_new, X_test))
    model = LinearClassifier(rank=rank, random_state=0).fit(X, y)
    bigcat.save_model(model, tmp_path / "model.safetensors")
    model.partial_fit(X_new[:200], y_new[:200]).partial_fit(X_new[200:], y_new[200:])
    for part in (slice(200), slice(200, None)):
        stored = bigcat.load_model(tmp_path / "model.safetensors")
        stored.partial_fit(X_new[part], y_new[part])
        bigcat.save_model(stored, tmp_path / "model.safetensors")
    loaded = bigcat.load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    np.testing.assert_array_equal(loaded.predict_log_proba(X_test), model.predict_log_proba(X_test))


def test_an_update_with_the_same_classes_keeps_their_order():
    (X, y), (X_new, y_new), _ = stream()
    names = np.array(list("hgfedcba"))
    model = LinearClassifier(random_state=0).fit(X, names[y])
    model.partial_fit(X_new, names[y_new])
    assert model.classes_.tolist() == sorted(names)
    assert model.score(X_new, names[y_new]) > 0.8


def test_a_stream_that_began_with_partial_fit_grows_too():
    (X, y), (X_new, y_new), _ = stream()
    for options in ({}, {"rank": 16}, {"method": "augment-reduce"}):
        model = LinearClassifier(random_state=0, **options).partial_fit(X, y)
        model.partial_fit(X_new, y_new, classes=[99])
        assert model.classes_.tolist() == [*range(N_CLASSES), 99]
        assert np.isfinite(model.predict_log_proba(X_new)).all()
        assert model.n_iter_ == 2


def test_new_classes_without_intercepts():
    (X, y), (X_new, y_new), _ = stream()
    model = LinearClassifier(fit_intercept=False, random_state=0).fit(X, y)
    model.partial_fit(X_new, y_new)
    assert not model.intercept_.any()


# On the command line


@pytest.fixture
def files(tmp_path):
    words = {"ant": "crawl hill", "bee": "buzz hive", "cow": "moo hill", "dog": "bark buzz"}
    days = {"train": ["ant", "bee", "cow"], "new": [*words], "test": [*words]}
    for name, kinds in days.items():
        texts = (f"{k}\t{words[k].split()[i % 2]} here\n" for i in range(40) for k in kinds)
        (tmp_path / f"{name}.tsv").write_text("".join(texts))
    model = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "train.tsv"), "--model", model, "--quiet"]) == 0
    return tmp_path


def test_a_model_file_is_updated(files, capsys):
    model, new = str(files / "model.safetensors"), str(files / "new.tsv")
    capsys.readouterr()
    words = ["update", model, new, "--test", str(files / "test.tsv"), "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["rows"], report["classes"], report["new_classes"]) == (160, 4, 1)
    assert report["test"]["rows_dropped_unseen"] == 0
    assert report["test"]["accuracy"] > 0.5
    assert [json.loads(line)["epoch"] for line in err.splitlines() if line[0] == "{"]
    loaded, extra = bigcat.load_model(model, with_extra=True)
    assert loaded.classes_.tolist() == ["ant", "bee", "cow", "dog"]
    assert extra["rows"] == 280
    # The same rows twice are a mistake, such as a job that is repeated after a crash.
    content = (files / "model.safetensors").read_bytes()
    assert main(["update", model, new]) == 2
    assert "were the last update" in capsys.readouterr().err
    assert (files / "model.safetensors").read_bytes() == content
    assert main(["update", model, new, "--again", "--epochs", "1", "--quiet"]) == 0


def test_a_refused_update_leaves_the_file(files, capsys):
    model, new = str(files / "model.safetensors"), str(files / "new.tsv")
    content = (files / "model.safetensors").read_bytes()
    assert main(["update", model, new, "--max-classes", "3"]) == 2
    assert "more than max_classes=3; new are 'dog'" in capsys.readouterr().err
    assert main(["update", model, str(files / "nowhere.tsv")]) == 2
    assert (files / "model.safetensors").read_bytes() == content
    assert main(["update", model, new, "--output", str(files / "other.safetensors")]) == 0
    assert (files / "model.safetensors").read_bytes() == content
    assert len(bigcat.load_model(files / "other.safetensors").classes_) == 4
