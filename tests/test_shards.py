"""Data files as folders of rows that are mapped to memory, and fits to them."""

import gzip
import hashlib
import json
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from forms import forms
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from bigcat import Checkpoint, LinearClassifier, metrics
from bigcat.cli import main
from bigcat.data import DataError, Shards, convert, open_shards, read, reading
from bigcat.data.shards import Index
from bigcat.solvers import Damped
from bigcat.training.order import in_windows
from tests.data_files import parquet_table
from tests.memory import peak_of

N, D, K = 600, 40, 12


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    X = sp.random(N, D, 0.2, format="csr", random_state=0, dtype=np.float32)
    X.data = X.data.round(3)
    y = (X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)
    order = np.argsort(y, kind="stable")  # the worst order for a fit
    return X[order], y[order]


@pytest.fixture
def small_parts(monkeypatch):
    """Files of a few kilobytes are cut, too."""
    monkeypatch.setattr(reading, "PIECE_BYTES", 4_000)


def sparse_lines(X, y, first=0):
    for i, label in enumerate(y):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[entries] + first, X.data[entries])
        yield f"{label} " + " ".join(f"{j}:{x:.3f}" for j, x in pairs)


def files_of(rows, folder: Path) -> dict[str, Path]:
    """The same kind of rows in each form."""
    X, y = rows
    words = np.array([f"word{j}" for j in range(D)])
    texts = [" ".join(words[X.indices[X.indptr[i] : X.indptr[i + 1]]]) for i in range(N)]
    table = [",".join([*(f"{x:.3f}" for x in X[[i]].toarray()[0]), f"k{y[i]}"]) for i in range(N)]
    content = {
        "rows.xc": [f"{N} {D} {K}", *sparse_lines(X, y)],
        "rows.svm": sparse_lines(X, y, first=1),
        "rows.tsv": [f"k{label}\t{text}" for label, text in zip(y, texts)],
        "rows.csv": [",".join([*(f"c{j}" for j in range(D)), "label"]), *table],
    }
    for name, lines in content.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return {name: folder / name for name in content}


def same_rows(shards: Shards, X, y) -> None:
    """The same rows, in whatever order."""
    assert shards.shape == X.shape
    factors = np.random.RandomState(1).standard_normal(X.shape[1])
    ours, theirs = (np.asarray(rows @ factors).round(3) for rows in (shards.X, X))
    first, second = np.lexsort((shards.y, ours)), np.lexsort((y, theirs))
    np.testing.assert_allclose(ours[first], theirs[second], atol=2e-3)
    assert shards.y.dtype.kind == y.dtype.kind
    np.testing.assert_array_equal(shards.y[first], y[second])


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["rows.xc", "rows.svm", "rows.tsv", "rows.csv"])
def test_the_same_rows_as_the_reader_gives(rows, tmp_path, name):
    path = files_of(rows, tmp_path)[name]
    whole = read(path)
    shards = convert(path, tmp_path / "rows", shard_bytes=10_000)
    same_rows(shards, whole.X, whole.y)
    assert len(shards.index.rows) > 2
    for fact in ("form", "rows", "features", "classes", "rows_without_label", "zero_based"):
        assert shards.report.get(fact) == whole.report.get(fact)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    again = convert(packed, tmp_path / "again", shard_bytes=10_000)
    assert again.fingerprint == shards.fingerprint
    if whole.vectorizer is not None:
        assert again.vectorizer.vocabulary_ == whole.vectorizer.vocabulary_
        np.testing.assert_allclose(again.vectorizer.idf_, whole.vectorizer.idf_)


def test_processes_give_the_same_bits(rows, tmp_path, monkeypatch):
    path = files_of(rows, tmp_path)["rows.tsv"]
    monkeypatch.setattr(reading, "PIECE_BYTES", 10_000)
    how: dict[str, Any] = {"vectorizer": HashingVectorizer(n_features=64), "shard_bytes": 10_000}
    one, two = (convert(path, tmp_path / str(n), n_jobs=n, **how) for n in (1, 2))
    assert one.fingerprint == two.fingerprint
    assert convert(path, tmp_path / "seed", seed=1, **how).fingerprint != one.fingerprint


def test_rows_are_in_random_order(rows, tmp_path):
    shards = convert(files_of(rows, tmp_path)["rows.xc"], tmp_path / "rows", shard_bytes=10_000)
    # A sorted file: neighbours are of the same class, but for K - 1 of them.
    same = (np.diff(shards.labels) == 0).mean()
    frequencies = np.bincount(shards.labels) / N
    expected = (frequencies**2).sum()
    assert abs(same - expected) < 5 * (expected / N) ** 0.5
    # Each tenth of the rows has all frequent classes.
    assert all(len(np.unique(part)) > K / 2 for part in np.array_split(shards.labels, 10))


def test_several_files_and_columns_like_those_of_another_folder(rows, tmp_path):
    path = files_of(rows, tmp_path)["rows.svm"]
    train = convert([path, path], tmp_path / "train")
    assert len(train) == 2 * N
    (tmp_path / "test.svm").write_text("3 1:1 2:0.5\n4 2:1\n")
    test = convert(tmp_path / "test.svm", tmp_path / "test", like=tmp_path / "train")
    assert test.shape == (2, D)
    assert sorted(test.X.indices.tolist()) == [0, 1, 1]  # counted from 1, as in training
    (tmp_path / "wide.svm").write_text(f"3 {D + 5}:1\n")
    with pytest.raises(DataError, match=f"n_features={D} columns, counted from 1, found {D + 5}"):
        convert(tmp_path / "wide.svm", tmp_path / "wide", like=train)
    assert not list((tmp_path / "wide").glob("rows-*"))


@pytest.mark.parametrize(
    "vectorizer",
    [
        HashingVectorizer(n_features=64),
        CountVectorizer(max_features=9, ngram_range=(1, 2)),
        TfidfVectorizer(min_df=0.05, max_df=0.3, sublinear_tf=True, norm=None),
    ],
    ids=lambda v: type(v).__name__,
)
@pytest.mark.usefixtures("small_parts")
def test_text_in_one_pass(rows, tmp_path, vectorizer):
    path = files_of(rows, tmp_path)["rows.tsv"]
    whole = read(path, vectorizer=vectorizer)
    shards = convert(path, tmp_path / "rows", vectorizer=vectorizer)
    same_rows(shards, whole.X, whole.y)
    words = ["word3 word7 word7 unheard"]
    ours, theirs = shards.vectorizer.transform(words), whole.vectorizer.transform(words)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "x,label\n" + "1,a\n" * 400 + "bad,b\n", "line 402: .* found 'bad'"),
        ("a.csv", 'x,label\n1,"a\n' + "2,c\n" * 999, "line 2: expected quotes in pairs"),
        ("a.tsv", "a\tb\n" * 400 + "no tab\n", "line 401: expected label<TAB>text"),
        ("a.xc", "400 2 2\n" + "1 0:1\n" * 399, "announces 400 rows, found 399"),
        ("a.svm", "# only a comment\n", "expected labelled rows, found none"),
        ("a.npz", "PK", "npz cannot be converted, but xc, svmlight"),
    ],
)
@pytest.mark.usefixtures("small_parts")
def test_errors_name_the_line_and_leave_nothing(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / name, tmp_path / "rows")
    assert not list(tmp_path.glob("rows/rows-*"))


def test_other_folders_are_not_touched(rows, tmp_path):
    path = files_of(rows, tmp_path)["rows.csv"]
    with pytest.raises(ValueError, match="holds other files; give a folder of its own"):
        convert(path, tmp_path)
    with pytest.raises(DataError, match=r"expected index.json, as `bigcat convert` writes it"):
        open_shards(tmp_path)


def test_a_conversion_takes_the_place_of_the_one_before(rows, tmp_path):
    files = files_of(rows, tmp_path)
    before = convert(files["rows.csv"], tmp_path / "rows")
    labels = before.y
    (tmp_path / "rows" / "rows-00000000").mkdir()  # of a conversion that was killed at once
    bad = tmp_path / "bad.csv"
    bad.write_text("x,label\nbad,a\n")
    with pytest.raises(DataError):
        convert(bad, tmp_path / "rows")
    assert open_shards(tmp_path / "rows").fingerprint == before.fingerprint
    now = convert(files["rows.xc"], tmp_path / "rows")
    assert now.index.sparse
    assert len(os.listdir(tmp_path / "rows")) == 3  # with the lock
    np.testing.assert_array_equal(before.y, labels)  # whoever has it open still has it


def test_damage_is_found_when_a_shard_is_first_used(rows, tmp_path):
    shards = convert(files_of(rows, tmp_path)["rows.xc"], tmp_path / "rows", shard_bytes=10_000)
    edge = shards.index.rows[0]
    for name in ("labels", "indptr", "indices", "values"):
        path = tmp_path / "rows" / shards.index.arrays / f"{name}.npy"
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        again = open_shards(tmp_path / "rows")
        assert len(again[:edge]) == edge
        with pytest.raises(DataError, match=r"shard \d+\) are damaged: its digest is another"):
            again.X
        path.write_bytes(content[:-4])
        with pytest.raises(DataError, match=r"expected an array of .* and shape .*; convert"):
            open_shards(tmp_path / "rows")
        path.write_bytes(content)
    index = tmp_path / "rows" / "index.json"
    text = index.read_text()
    for other in ("{", text.replace(f'"rows": {N}', f'"rows": {N + 1}'), "[]"):
        index.write_text(other)
        with pytest.raises(DataError, match=r"index.json: damaged"):
            open_shards(tmp_path / "rows")
    index.write_text(json.dumps({**json.loads(text), "format_version": 3}))
    with pytest.raises(DataError, match="expected format 2, found 3"):
        open_shards(tmp_path / "rows")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("report", "many", "index.report is 'many'"),
        ("n_features", 10**40, "index.n_features is 10000"),
        ("rows", [1, 2], "its shards are of different numbers"),
        ("values", [8 * 10**14], "a shard has other values than its rows have"),
        ("arrays", "..", "its arrays are elsewhere"),
        ("classes", [2, 1], "its classes are not in order"),
        ("classes", [1, 10**30], "a class is not an integer of 64 bits"),
    ],
)
def test_a_made_up_index_is_refused(tmp_path, field, value, says):
    """One whose digest is right, since its author wrote it."""
    (tmp_path / "rows.csv").write_text("a,label\n1,cat\n2,dog\n")
    index = convert(tmp_path / "rows.csv", tmp_path / "rows").index
    replace(index, **{field: value}).write(tmp_path / "rows")
    with pytest.raises(DataError, match=f"index.json: damaged.*{says}"):
        open_shards(tmp_path / "rows")


def with_vectorizer(rows: Shards, change) -> Shards:
    """Write a folder with a changed vectoriser and right digests."""
    path = rows.folder / rows.index.arrays / "vectorizer.json"
    packed = json.loads(path.read_text())
    change(packed)
    path.write_text(json.dumps(packed))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    replace(rows.index, vectorizer=digest).write(rows.folder)
    return open_shards(rows.folder)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda packed: packed.update(words=None), "NotFittedError"),
        (lambda packed: packed.update(kind="Pipeline"), "vectorizer.kind is 'Pipeline'"),
        (lambda packed: packed["options"].update(norm="l9"), "does not work"),
        (lambda packed: packed["options"].update(input="filename"), "input is 'filename'"),
    ],
)
def test_a_made_up_vectorizer_is_refused(tmp_path, change, says):
    (tmp_path / "rows.tsv").write_text("a\tone two\nb\tone two\n")
    rows = convert(tmp_path / "rows.tsv", tmp_path / "rows")
    with pytest.raises(DataError, match=says) as error:
        with_vectorizer(rows, change).vectorizer
    assert str(tmp_path / "rows") in str(error.value)
    (rows.folder / rows.index.arrays / "vectorizer.json").write_text("{}")
    with pytest.raises(DataError, match="its digest is another"):
        rows.vectorizer


def test_parquet(rows, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    X, y = rows
    table = {f"c{j}": X[:, [j]].toarray()[:, 0] for j in range(D)} | {"kind": y}
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table(table), path, row_group_size=250)
    shards = convert(path, tmp_path / "rows", label_column="kind")
    same_rows(shards, X.toarray(), y)
    whole = read(path, label_column="kind")
    same_rows(shards, whole.X, whole.y)
    texts = [f"word{i % 7} word{i % 5}" for i in range(100)]
    parquet.write_table(pa.table({"label": ["a", "b"] * 50, "text": texts}), path)
    assert convert(path, tmp_path / "texts", text_columns=["text"]).shape == (100, 7)
    with pytest.raises(DataError, match="expected numbers in column 'text', found string"):
        convert(path, tmp_path / "texts")
    parquet.write_table(pa.table({"label": ["a"], "c": [float("nan")], "d": [1]}), path)
    with pytest.raises(DataError, match="a finite number that fits a float32 in column 'c'"):
        convert(path, tmp_path / "bad")
    (tmp_path / "no.parquet").write_text("PAR1")
    with pytest.raises(DataError, match="expected a Parquet file"):
        convert(tmp_path / "no.parquet", tmp_path / "bad")


def test_odd_tables_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "odd.parquet"

    def written(*columns, names=("a", "label"), **options):
        parquet.write_table(pa.Table.from_arrays(list(columns), names=names), path, **options)
        return path

    labels = pa.array(["x", "y"])
    large = read(written(pa.array([2**60 + 1, 3]), labels))  # pyarrow does not round unasked
    np.testing.assert_array_equal(large.X, np.array([[2**60], [3]], np.float32))
    twice = written(pa.array([1.0, 2.0]), pa.array([3.0, 4.0]), labels, names=("a", "a", "label"))
    with pytest.raises(DataError, match="expected each name of a column once, found 'a'"):
        read(twice)  # columns go by their names
    with pytest.raises(DataError, match="expected columns beside the labels, found none"):
        convert(written(labels, names=("label",)), tmp_path / "labels")
    for odd in (pa.array([b"x", b"y"]), pa.array([[1], [2]])):
        with pytest.raises(DataError, match="expected labels of text or numbers, found"):
            read(written(pa.array([1.0, 2.0]), odd))
    ends, letters = np.array([0, 1, 2], np.int32).tobytes(), b"\xffx"
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    broken = pa.Array.from_buffers(pa.string(), 2, buffers)
    with pytest.raises(DataError, match=r"odd.parquet: .*UTF8"):
        read(written(pa.array([1.0, 2.0]), broken))
    named = written(pa.array([1.0, 2.0]), labels, names=("column", "label")).read_bytes()
    path.write_bytes(named.replace(b"column", b"c\xfflumn"))
    with pytest.raises(DataError, match=r"odd.parquet: expected a Parquet file: .*utf-8"):
        read(path)
    content = written(pa.array(np.arange(500.0)), pa.array(["x"] * 500)).read_bytes()
    path.write_bytes(content[:8] + bytes(8) + content[16:])
    with pytest.raises(DataError, match=r"odd.parquet: expected a Parquet file"):
        read(path)


def test_a_folder_may_be_replaced_while_it_is_opened(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("v,label\n1,a\n2,b\n")
    pickled = pickle.dumps(convert(path, tmp_path / "rows"))
    other = tmp_path / "b.csv"
    other.write_text("v,label\n3,c\n4,d\n")
    usual, calls = Index.read, []

    def replaced_after(folder):
        index = usual(folder)
        calls.append(index)
        if len(calls) == 1:
            monkeypatch.setattr(Index, "read", usual)
            convert(other, folder)
        return index

    monkeypatch.setattr(Index, "read", replaced_after)
    assert sorted(open_shards(tmp_path / "rows").y) == ["c", "d"]
    with pytest.raises(DataError, match="its rows were replaced after the pickle was made"):
        pickle.loads(pickled)


def converted(path, folder) -> str:
    try:
        return f"{len(convert(path, folder))} rows"
    except ValueError as error:
        return str(error)


def test_converters_of_several_processes_leave_one_good_folder(rows, tmp_path):
    path = files_of(rows, tmp_path)["rows.csv"]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = [*pool.map(partial(converted, path), [tmp_path / "rows"] * 4)]
    assert f"{N} rows" in found
    odd = {text for text in found if text != f"{N} rows"}
    assert all("another conversion writes to it; wait for its end" in text for text in odd)
    same_rows(open_shards(tmp_path / "rows"), read(path).X, read(path).y)
    assert len(os.listdir(tmp_path / "rows")) == 3


@pytest.mark.parametrize("claimed", [5, 2**37])
@pytest.mark.parametrize("reading", [read, lambda path: convert(path, path.with_suffix(""))])
def test_rows_that_a_table_claims_to_have(claimed, reading, tmp_path):
    """pyarrow would allocate 8 bytes for each, before it looks for them."""
    content = parquet_table(4)
    size = int.from_bytes(content[-8:-4], "little")
    rows, footer = content[: -8 - size], content[-8 - size : -8]
    # The row group: its rows (field 3 of 64 bits), and the place of its first column, 4.
    four, found = b"\x16\x08\x26\x08", b"\x16" + _zigzag(claimed) + b"\x26\x08"
    assert footer.count(four) == 1
    footer = footer.replace(four, found)
    path = tmp_path / "claims.parquet"
    path.write_bytes(rows + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    told = f"claims.parquet: expected 4 rows, found row groups of {claimed}; is the file damaged"
    with pytest.raises(DataError, match=told):
        reading(path)
    path.write_bytes(content)
    assert len(reading(path)) == 4


@pytest.mark.parametrize("reading", [read, lambda path: convert(path, path.with_suffix(""))])
def test_a_column_that_may_not_be_empty_after_all(reading, tmp_path):
    """Its statistics count empty fields then, of which there can be none: pyarrow's own look at
    these ends the process."""
    optional, required = b"\x25\x02\x18\x01a", b"\x25\x00\x18\x01a"
    content = parquet_table(4)
    assert content.count(optional) == 1
    path = tmp_path / "required.parquet"
    path.write_bytes(content.replace(optional, required))
    with pytest.raises(DataError, match=r"required.parquet: expected a Parquet file: "):
        reading(path)


def _zigzag(number):
    """A number as Thrift's compact protocol writes it."""
    bits, out = 2 * number, b""
    while bits > 127:
        bits, out = bits >> 7, out + bytes([bits & 127 | 128])
    return out + bytes([bits])


def test_a_table_that_unpacks_to_too_much(tmp_path):
    path = tmp_path / "zeros.parquet"
    path.write_bytes(parquet_table(40))
    assert len(read(path, max_bytes=40 * 3 * 8)) == 40
    for take in (read, partial(convert, folder=tmp_path / "zeros")):
        with pytest.raises(DataError, match=r"zeros.parquet: unpacks to more than 959 bytes"):
            take(path, max_bytes=40 * 3 * 8 - 1)


# Fits


@pytest.mark.parametrize(("n", "window"), [(1000, 80), (1000, 7), (50, 49), (9, 1)])
def test_windows_visit_every_row_once(n, window):
    random_state = np.random.RandomState(0)
    first, second = (in_windows(n, window, random_state) for _ in range(2))
    np.testing.assert_array_equal(np.sort(first), np.arange(n))
    assert (first != second).any()
    # Rows of a window are of a few runs: nobody touches all pages in every window.
    run = max(1, window // 8)
    for begin in range(0, n, window):
        assert len(np.unique(first[begin : begin + window] // run)) <= 2 * 8 + 4


ADAGRAD: dict[str, Any] = {"method": "augment-reduce", "solver": "adagrad"}
FITS: dict[str, dict[str, Any]] = {
    "augment-reduce": {**ADAGRAD, "max_epochs": 8},
    "early stopping": {**ADAGRAD, "early_stopping": True, "max_epochs": 8},
    "the defaults": {"solver": Damped(4.0)},  # few rows alone would be fitted exactly
}


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    convert(files_of(rows, folder)["rows.xc"], folder / "rows", shard_bytes=10_000)
    return folder


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
def test_fits_in_windows_are_as_good(folder, rows, options):
    X, y = rows
    streamed = open_shards(folder / "rows", window_bytes=12_000)
    assert streamed.window_rows is not None
    assert streamed.window_rows < N / 3
    of_arrays = LinearClassifier(random_state=0, **options).fit(X, y)
    model = LinearClassifier(random_state=0, **options).fit(streamed)
    ours, theirs = metrics.evaluate(model, streamed), metrics.evaluate(of_arrays, X, y)
    assert ours["log_likelihood"] > 1.1 * theirs["log_likelihood"]
    assert ours["rows"] == N
    assert model.score(streamed) == pytest.approx(ours["accuracy"])
    np.testing.assert_array_equal(model.predict(streamed), model.predict(streamed.X))
    if "method" not in options:
        assert f"{streamed.window_rows:,} at a time" in model.selection_.reason


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory):
    """Sixteen megabytes of rows, of few lines that come again and again in random order."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.RandomState(0)
    X = sp.random(200, 200, 0.25, format="csr", random_state=0, dtype=np.float32)
    lines = np.array(list(sparse_lines(X, rng.randint(K, size=200))))
    path = folder / "rows.svm"
    path.write_text("\n".join(lines[rng.randint(200, size=40_000)]) + "\n")
    return folder


@pytest.mark.slow
def test_a_conversion_holds_a_part_at_a_time(large_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PIECE_BYTES", 100_000)
    path = large_folder / "rows.svm"
    convert(path, tmp_path / "rows")  # compiles
    peak = peak_of(lambda: convert(path, tmp_path / "rows", shard_bytes=200_000, n_jobs=1))
    assert peak < path.stat().st_size / 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", forms(FITS, lambda name: name == "early stopping"))
def test_a_fit_does_not_hold_the_rows(large_folder, name):
    n_bytes = convert(large_folder / "rows.svm", large_folder / "rows").n_bytes
    shards = open_shards(large_folder / "rows", window_bytes=n_bytes // 20)
    model = LinearClassifier(random_state=0, **FITS[name])
    model.fit(shards)  # compiles
    # Some numbers per row, of which each has 50 values, and a window of rows that are held out.
    assert peak_of(lambda: model.fit(shards)) < 2 * n_bytes / 3


def test_what_fits_into_the_window_is_fitted_as_arrays_are(folder):
    shards = open_shards(folder / "rows")
    assert shards.window_rows is None
    given: dict[str, Any] = {"random_state": 0, "solver": "lbfgs", "l2": 1.0}
    model = LinearClassifier(**given).fit(shards)
    other = LinearClassifier(**given).fit(shards.X, shards.y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    with pytest.raises(ValueError, match="needs all rows in every step"):
        LinearClassifier(**given).fit(open_shards(folder / "rows", window_bytes=12_000))


def test_partial_fit_and_validation(folder):
    shards = open_shards(folder / "rows", window_bytes=12_000)
    model = LinearClassifier(random_state=0, **ADAGRAD)
    model.partial_fit(shards, classes=shards.classes)
    before = metrics.log_likelihood(model, shards)
    for _ in range(3):
        model.partial_fit(shards)
    assert metrics.log_likelihood(model, shards) > before
    model.set_params(max_epochs=2, early_stopping=False).fit(shards, X_val=shards)
    assert np.isfinite(model.history_["validation_log_likelihood"]).all()


def test_a_checkpoint_knows_the_folder_without_reading_it(folder, tmp_path, rows):
    X, y = rows
    shards = open_shards(folder / "rows", window_bytes=12_000)
    given: dict[str, Any] = {**ADAGRAD, "max_epochs": 4, "random_state": 0}
    never = LinearClassifier(early_stopping=False, **given).fit(shards)

    def stop(row):
        if row["epoch"] == 2:
            raise KeyboardInterrupt

    stopped = LinearClassifier(
        checkpoint=Checkpoint(tmp_path / "fit", 0.0),
        progress=[stop],
        early_stopping=False,
        **given,
    )
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(shards)
    stopped.set_params(progress=False)
    with pytest.raises(ValueError, match="X holds other values"):
        stopped.fit(X, y, resume=True)
    stopped.fit(open_shards(folder / "rows", window_bytes=12_000), resume=True)
    np.testing.assert_array_equal(stopped.coef_, never.coef_)


def test_the_command_line(rows, tmp_path, capsys):
    files = files_of(rows, tmp_path)
    train, test = str(tmp_path / "train"), str(tmp_path / "test")
    assert main(["convert", str(files["rows.tsv"]), "--out", train, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["classes"]) == (N, K)
    assert main(["convert", str(files["rows.tsv"]), "--out", test, "--like", train]) == 0
    assert "in random order" in capsys.readouterr().out
    model = str(tmp_path / "model.safetensors")
    how = ["--method", "augment-reduce", "--epochs", "3", "--json"]
    window = ["--window-bytes", "12000"]
    assert main(["fit", train, "--model", model, "--test", test, *how, *window]) == 0
    fitted = json.loads(capsys.readouterr().out)
    for data in (test, str(files["rows.tsv"])):
        assert main(["evaluate", model, data, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["log_likelihood"] == pytest.approx(fitted["test"]["log_likelihood"], abs=1e-5)
    assert main(["predict", model, test]) == 2
    assert "in random order" in capsys.readouterr().err
    hashed = str(tmp_path / "hashed")
    words = ["convert", str(files["rows.tsv"]), "--out", hashed, "--hashed", "32", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 32
    assert main([*words, "--min-df", "2"]) == 2
    assert "give one of them" in capsys.readouterr().err
