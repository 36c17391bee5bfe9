"""The embedded corpus."""

import keyword

import numpy as np
import pytest

from bigcat.data import DataError, stdlib_corpus
from bigcat.data.corpus import scan


@pytest.fixture(scope="module")
def small():
    return stdlib_corpus(30_000, min_classes=500, max_features=1_000)


def test_scan():
    text = 'def f(x):  # why\n\n    return rb"a\\"b" + """q\n""" ** 0x1F\\\n  - x.y\n'
    assert scan(text) == [
        *("def", "f", "(", "x", ")", ":", "<comment>", "<newline>"),
        *("return", "<string>", "+", "<string>", "**", "<number>", "-", "x", ".", "y", "<newline>"),
    ]


def test_hand_made_source(tmp_path):
    """Every number checked by hand: two tokens before, two classes, one rare name."""
    source = "a = b\na = b\na = rare\n"
    for k in range(40):
        (tmp_path / f"m{k}.py").write_text(source)
    (tmp_path / "bad.py").write_bytes(b"\xff\xfe = 1")
    split = stdlib_corpus(None, n_previous=2, source=tmp_path, min_classes=2, min_count=50)
    report = split.report
    assert report["files"] == 40
    assert report["files_unreadable"] == 1
    assert sorted(set(split.train.y)) == ["a", "b"]
    n_train = report["rows_train"] // 5
    assert report["rows_test"] == 5 * (40 - n_train)
    assert report["rows_train_dropped"] == n_train
    assert report["rows_test_dropped"] == 40 - n_train
    names = report["feature_names"]
    first = [[names[j] for j in split.train.X[i].indices] for i in range(4)]
    assert first == [
        [(1, "<start>"), (2, "<start>")],
        [(1, "="), (2, "a")],
        [(1, "<newline>"), (2, "b")],
        [(1, "="), (2, "a")],
    ]
    assert split.train.y[:4].tolist() == ["a", "b", "a", "b"]


def test_rows_have_unit_length_and_one_column_a_position(small):
    for part in (small.train, small.test):
        X = part.X
        assert X.dtype == np.float32
        assert (np.diff(X.indptr) == 4).all()
        assert X.has_sorted_indices
        np.testing.assert_allclose(X.multiply(X).sum(1), 1, rtol=1e-6)
        positions = np.array([p for p, _ in small.report["feature_names"]])
        assert (positions[X.indices.reshape(-1, 4)] == [1, 2, 3, 4]).all()


def test_classes_are_identifiers_seen_often_enough(small):
    classes, counts = np.unique(small.train.y, return_counts=True)
    assert counts.min() >= 5
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in classes)
    assert set(small.test.y) <= set(classes)
    assert small.report["classes"] == len(classes)
    assert len(small.train) + small.report["rows_train_dropped"] == 30_000
    assert 0 < len(small.test) < len(small.train)


def test_too_few_classes():
    with pytest.raises(
        DataError,
        match=r"expected 10,001 identifiers seen at least 5 times, found \d+ in 1,000 training "
        r"rows of \d+ files \([\d,]+ there\); raise max_rows, or lower min_classes",
    ):
        stdlib_corpus(1_000)


@pytest.mark.slow
def test_default():
    split = stdlib_corpus()
    assert split.report["classes"] > 10_000
    assert len(np.unique(split.train.y)) == split.report["classes"]
    assert 4 * split.train.X.shape[1] * split.report["classes"] < 1e9
    assert 300_000 < len(split.train) <= 800_000
    assert 0.05 < len(split.test) / len(split.train) < 0.2
