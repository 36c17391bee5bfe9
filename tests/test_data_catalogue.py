"""The catalogue: errors and splits everywhere, real sizes where BIGCAT_DATA is set."""

import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.datasets import available, load
from bigcat.data import DataError

needs_data = pytest.mark.skipif(
    not os.environ.get("BIGCAT_DATA"), reason="BIGCAT_DATA names no folder of real data sets"
)
LARGE = ("20newsgroups", "ptb", "yso", "geonames")
SIZES = {row["name"]: row for row in available()}


def test_no_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("BIGCAT_DATA", raising=False)
    with pytest.raises(
        DataError, match="pass data_home=, or set the environment variable BIGCAT_DATA"
    ):
        load("bibtex")
    with pytest.raises(DataError, match="holds no folder 'bibtex'; is it the data folder"):
        load("bibtex", tmp_path)
    monkeypatch.setenv("BIGCAT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="holds no folder 'glass'"):
        load("glass")


def pack(folder, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))


def test_unseen_classes(tmp_path):
    pack(
        tmp_path / "bibtex",
        **{"train.txt": "2 2 9\n1 0:1\n2 1:1\n", "test.txt": "2 2 9\n5 0:1\n2 1:1\n"},
    )
    test = load("bibtex", tmp_path).test
    assert test.y.tolist() == [2]
    assert test.X.toarray().tolist() == [[0, 1]]
    assert test.report["rows_of_unseen_classes"] == 1
    assert (test.report["rows"], test.report["classes"]) == (1, 1)
    assert load("bibtex", tmp_path, unseen="keep").test.y.tolist() == [5, 2]


def test_next_word(tmp_path):
    pack(tmp_path / "ptb", **{"train.txt": " a b\n a\n", "test.txt": "b a\n", "valid.txt": "a\n"})
    split = load("ptb", tmp_path)
    vocabulary = ["<eos>", "a", "b"]
    assert split.train.y.tolist() == ["a", "b", "<eos>", "a", "<eos>"]

    def words(part):
        columns = part.X.indices.reshape(-1, 2)
        return [[vocabulary[j % 3] for j in row] for row in columns], (columns // 3).tolist()

    before, blocks = words(split.train)
    assert before == [
        ["<eos>", "<eos>"],
        ["a", "<eos>"],
        ["b", "a"],
        ["<eos>", "b"],
        ["a", "<eos>"],
    ]
    assert blocks == [[0, 1]] * 5
    np.testing.assert_allclose(split.train.X.data, 0.5**0.5)
    assert split.test.y.tolist() == ["b", "a", "<eos>"]
    assert split.validation is not None
    assert split.validation.y.tolist() == ["a", "<eos>"]
    assert load("ptb", tmp_path, n_previous=3, n_train=2).train.X.shape == (2, 9)


def test_table_split_takes_every_fifth_row_of_each_class(tmp_path):
    folder = tmp_path / "glass"
    folder.mkdir()
    labels = ["p", "q"] * 6
    rows = "".join(f"{i},{label}\n" for i, label in enumerate(labels))
    (folder / "glass.csv").write_text("x,label\n" + rows)
    split = load("glass", tmp_path)
    assert split.test.X.ravel().tolist() == [8, 9]
    assert split.train.X.ravel().tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11]
    assert split.test.y.tolist() == ["p", "q"]


def sizes_of(split):
    """Rows and classes as the catalogue counts them, of a split whose form is right."""
    train, test = split.train, split.test
    for part in (train, test):
        assert part.X.dtype == np.float32
        assert part.X.shape[0] == len(part.y)
        assert part.y.dtype == np.int64 or part.y.dtype.kind == "U"
        if sp.issparse(part.X):
            assert part.X.has_canonical_format
    assert train.X.shape[1] == test.X.shape[1]
    dropped = test.report["rows_without_label"] + test.report["rows_of_unseen_classes"]
    return {
        "rows_train": len(train) + train.report["rows_without_label"],
        "rows_test": len(test) + dropped,
        "classes": train.report["classes"],
    }


def stated_sizes(name):
    return {what: SIZES[name][what] for what in ("rows_train", "rows_test", "classes")}


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in SIZES if name not in LARGE])
def test_sizes(name):
    assert sizes_of(load(name)) == stated_sizes(name)


@needs_data
@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_sizes_of_large_sets(name):
    assert sizes_of(load(name)) == stated_sizes(name)
