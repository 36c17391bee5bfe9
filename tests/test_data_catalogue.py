"""The catalogue: errors and splits everywhere, real sizes where BIGCAT_DATA is set."""

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
