"""Every line of `docs/input-contract.md`: what is taken, what becomes of it, what is refused."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from bigcat import LinearClassifier
from bigcat.estimators import inputs

pandas = pytest.importorskip("pandas")

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "input-contract.md").read_text()
RNG = np.random.default_rng(0)
X = np.ascontiguousarray(RNG.normal(size=(40, 3)).round(2))
X[5] = 0.0
Y = np.arange(40) % 4
WORDS = np.array(["ant", "bee", "cat", "dog"])


def lines(title):
    """The table below a heading: its first column with its second."""
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    return dict(rows[1:])


def fitted(rows=X, labels=Y):
    """Fit by a method that compiles no loop over rows."""
    return LinearClassifier(method="exact", solver="lbfgs", random_state=0).fit(rows, labels)


def csr(indices=None, indptr=None, data=None, dtype=np.int32):
    """The rows as CSR whose parts may be anything: SciPy does not look."""
    found = sp.csr_matrix(X + 10.0)  # without a zero
    found.indices = found.indices.astype(dtype) if indices is None else indices(found.indices)
    found.indptr = found.indptr.astype(dtype) if indptr is None else indptr(found.indptr)
    if data is not None:
        found.data = data
    return found


def changed(array, place, value, dtype=None):
    array = array.copy() if dtype is None else array.astype(dtype)
    array[place] = value
    return array


def frame(rows=X, names="abc"):
    return pandas.DataFrame(rows, columns=list(names))


# --- X that is taken ----------------------------------------------------------------------------

F16, WHOLE = X.astype(np.float16), (X * 100).round()
UNSORTED = sp.csr_matrix(
    (X[:, ::-1].ravel(), np.tile(np.array([2, 1, 0], np.int32), 40), np.arange(0, 121, 3)),
    shape=(40, 3),
)
TWICE = sp.csr_matrix(
    (
        np.repeat(X.ravel(), 2) * np.tile([0.25, 0.75], 120),
        np.repeat(np.tile(np.array([0, 1, 2], np.int32), 40), 2),
        np.arange(0, 241, 6),
    ),
    shape=(40, 3),
)
EXPLICIT = sp.csr_matrix(
    (X.ravel(), np.tile(np.array([0, 1, 2], np.int32), 40), np.arange(0, 121, 3)), shape=(40, 3)
)
READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False

#: Several forms of X for a line, with the dense rows that they stand for.
TAKEN_X: dict[str, list[tuple[Any, Any]]] = {
    "float64, C order": [(X, X)],
    "float32, C order": [(X.astype(np.float32), X.astype(np.float32))],
    "float16, integers, booleans": [(F16, F16), (WHOLE.astype(int), WHOLE), (X > 0, X > 0)],
    "numbers as objects or as text": [(X.astype(object), X), (X.astype(str), X)],
    "Fortran order": [(np.asfortranarray(X), X)],
    "a slice with steps, or backwards": [
        (np.repeat(X, 2, axis=1)[:, ::2], X),
        (X[::-1].copy()[::-1], X),
    ],
    "read-only arrays and memory maps": [(READ_ONLY, X)],
    "a list of lists": [(X.tolist(), X)],
    "CSR matrix or array": [(sp.csr_matrix(X), X), (sp.csr_array(X), X)],
    "CSC, COO, DOK, LIL, BSR, DIA": [
        (kind(X), X)
        for kind in (sp.csc_matrix, sp.coo_array, sp.dok_array, sp.lil_array, sp.bsr_array)
    ]
    + [(sp.dia_array(X), X)],
    "CSR of integers": [(sp.csr_array(WHOLE.astype(int)), WHOLE)],
    "CSR with indices of 64 bits": [(csr(dtype=np.int64), X + 10.0)],
    "CSR with unsorted indices": [(UNSORTED, X)],
    "CSR with an entry twice": [(TWICE, X)],
    "CSR with explicit zeros": [(EXPLICIT, X)],
    "empty rows": [(sp.csr_array(X), X), (X, X)],
    "a data frame": [(frame(), X), (pandas.DataFrame({"a": X[:, 0], "b": Y}), None)],
    "a data frame with sparse columns": [
        (pandas.DataFrame.sparse.from_spmatrix(sp.csr_matrix(X)), X)
    ],
}


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def test_every_line_of_x_that_is_taken_is_tested():
    assert list(TAKEN_X) == list(lines("X that is taken"))


@pytest.mark.parametrize("name", TAKEN_X)
def test_x_that_is_taken(name):
    becomes = lines("X that is taken")[name]
    for rows, meant in TAKEN_X[name]:
        before = dense(rows).copy() if sp.issparse(rows) or isinstance(rows, np.ndarray) else None
        found, labels = inputs.check_rows_and_labels(rows, Y, LinearClassifier())
        if meant is not None:
            np.testing.assert_allclose(dense(found).astype(float), np.asarray(meant, float))
        assert found.dtype == (np.float32 if "float32, C" in name else np.float64)
        if sp.issparse(found):
            assert found.format == "csr"
            assert found.has_canonical_format
        else:
            assert found.flags.c_contiguous
        if "used as" in becomes:
            parts = (found.data, rows.data) if sp.issparse(rows) else (found, rows)
            assert np.shares_memory(*parts)
        if before is not None:
            np.testing.assert_array_equal(dense(rows), before)
        np.testing.assert_array_equal(labels, Y)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_fit_does_not_see_in_which_form_its_rows_came(sparse):
    names = ["CSC, COO, DOK, LIL, BSR, DIA", "CSR with unsorted indices", "CSR with explicit zeros"]
    if not sparse:
        names = ["Fortran order", "a list of lists", "numbers as objects or as text"]
    expected = fitted(sp.csr_array(X) if sparse else X).predict_proba(X)
    for name in names:
        rows, _ = TAKEN_X[name][0]
        model = fitted(rows)
        np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-5, atol=1e-7)


def test_an_empty_row_is_predicted_by_the_intercepts():
    model = fitted()
    scores = model.intercept_ - model.intercept_.max()
    expected = np.exp(scores) / np.exp(scores).sum()
    for rows in (X[5:6], sp.csr_array(X[5:6])):
        np.testing.assert_allclose(model.predict_proba(rows)[0], expected, rtol=1e-5)


def test_a_memory_map_is_used_as_it_is(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found, _ = inputs.check_rows_and_labels(mapped, Y, LinearClassifier())
    assert np.shares_memory(found, mapped)


def test_names_of_columns():
    model = fitted(frame())
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(frame()), fitted().predict(X))


def test_polars_frames_and_series():
    polars = pytest.importorskip("polars")
    model = fitted(polars.DataFrame(X, schema=["a", "b", "c"]), polars.Series(WORDS[Y]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.predict(X[:1])[0] in WORDS
    categories = polars.Series(WORDS[Y], dtype=polars.Categorical)
    assert fitted(X, categories).classes_.tolist() == WORDS.tolist()


# --- X that is refused --------------------------------------------------------------------------


def nan_at(*rows):
    bad = X.copy()
    bad[list(rows), 1] = np.nan
    return bad


MASKED = np.ma.masked_array(X, X > 1.0)
MISSING = pandas.DataFrame({"a": pandas.Series([None, *Y[1:].tolist()], dtype="Int64")})
END = 120
REFUSED_X: dict[str, list[Any]] = {
    "NaN": [nan_at(3, 17), sp.csr_array(nan_at(3, 17))],
    "infinity": [changed(X, (4, 0), np.inf), sp.csr_array(changed(X, (4, 0), -np.inf))],
    "missing values of a data frame": [MISSING],
    "values beyond float32, in `fit`": [
        changed(X, (4, 0), 1e39),
        sp.csr_array(changed(X, (4, 0), 1e39)),
    ],
    "no value above 1e-36, in `fit`": [1e-40 * X, sp.csr_array(1e-40 * X)],
    "masked values": [MASKED],
    "dates": [X.astype("M8[s]"), X.astype("m8[s]")],
    "complex numbers": [X + 1j, sp.csr_array(X + 1j)],
    "text that is no number": [WORDS[Y][:, None]],
    "text in a data frame": [pandas.DataFrame({"a": WORDS[Y]})],
    "one axis": [X[:, 0]],
    "three axes": [X[:, :, None]],
    "no rows": [X[:0]],
    "no columns": [X[:, :0]],
    "CSR with an index beyond the columns": [
        csr(lambda i: changed(i, 7, 3)),
        csr(lambda i: changed(i, 7, 3, np.int64)),
        csr(lambda i: changed(i, END - 1, 3)),
    ],
    "CSR with a negative index": [csr(lambda i: changed(i, 0, -1))],
    "CSR whose indptr falls": [
        csr(indptr=lambda p: changed(p, 2, 1)),
        csr(indptr=lambda p: changed(p, 0, 1)),
        csr(indptr=lambda p: p[:-1]),
    ],
    "CSR whose indptr ends too far": [csr(indptr=lambda p: changed(p, -1, END + 1))],
    "CSR with indices that are no integers": [csr(lambda i: i.astype(float))],
    "another number of columns than in training": [],
    "names that are not those of training": [],
}


def words_of(title, name):
    return lines(title)[name]


def test_every_line_of_x_that_is_refused_is_tested():
    assert list(REFUSED_X) == list(lines("X that is refused"))


@pytest.mark.parametrize("name", [name for name, bad in REFUSED_X.items() if bad])
def test_x_that_is_refused(name):
    words = re.escape(words_of("X that is refused", name))
    model = fitted()
    for bad in REFUSED_X[name]:
        with pytest.raises(ValueError, match=words):
            LinearClassifier().fit(bad, Y[: len(bad)] if name == "no rows" else Y)
        if name.startswith("text") or name in ("no columns", "missing values of a data frame"):
            continue  # which have another number of columns, too
        if name.endswith("in `fit`"):
            continue
        with pytest.raises(ValueError, match=words):
            model.predict(bad)


@pytest.mark.parametrize("kind", [sp.csc_matrix, sp.csc_array])
def test_csc_is_checked_before_it_is_turned(kind):
    bad = kind(X + 10.0)
    bad.indices[3] = 40
    with pytest.raises(ValueError, match="damaged CSC matrix with the index 40, where 40 are coun"):
        LinearClassifier().fit(bad, Y)


def test_columns_of_predictions_are_those_of_training():
    model = fitted(frame())
    words = re.escape(words_of("X that is refused", "another number of columns than in training"))
    with pytest.raises(ValueError, match=words):
        fitted().predict(X[:, :2])
    words = re.escape(words_of("X that is refused", "names that are not those of training"))
    for names in ("abd", "bac"):
        with pytest.raises(ValueError, match=words):
            model.predict(frame(names=names))


# --- y that is taken ----------------------------------------------------------------------------


def integers(start, kind):
    return np.array([start, start + 1, start + 2, start + 3], kind)


ODD = np.array(["", "a\0b", "d\n", "日本 語"], dtype=object)
#: y and the classes that come of it.
TAKEN_Y: dict[str, list[tuple[Any, Any]]] = {
    "integers of any size": [
        (integers(start, kind)[Y], integers(start, kind))
        for kind, start in (("i1", -2), ("u1", 250), ("i8", 2**60), ("u8", 2**63))
    ],
    "booleans": [(Y > 1, np.array([False, True]))],
    "whole numbers as floats": [(Y * 1.5 * 2, np.arange(4) * 3.0)],
    "strings": [(WORDS[Y], WORDS)],
    "objects that are strings": [(WORDS.astype(object)[Y], WORDS.astype(object))],
    "NumPy's strings of any length": [
        (WORDS.astype(np.dtypes.StringDType())[Y], WORDS.astype(object))
    ],
    "a list or tuple of strings": [(WORDS[Y].tolist(), WORDS), (tuple(WORDS[Y].tolist()), WORDS)],
    "a pandas series": [(pandas.Series(WORDS[Y], dtype=object), WORDS.astype(object))],
    "a pandas categorical of words": [
        (pandas.Categorical(WORDS[Y]), WORDS.astype(object)),
        (pandas.Series(WORDS[Y], dtype="category"), WORDS.astype(object)),
    ],
    "a pandas categorical of integers": [(pandas.Series(Y, dtype="category"), np.arange(4))],
    "pandas' nullable integers": [(pandas.Series(Y, dtype="Int64"), np.arange(4.0))],
    "a polars series": [],
    "a column of shape (n, 1)": [(Y[:, None], np.arange(4))],
    "labels with blanks, line ends, NULs inside, any script": [(ODD[Y], ODD)],
}


def test_every_line_of_y_that_is_taken_is_tested():
    assert list(TAKEN_Y) == list(lines("y that is taken"))


@pytest.mark.parametrize("name", [name for name, taken in TAKEN_Y.items() if taken])
def test_y_that_is_taken(name):
    for labels, classes in TAKEN_Y[name]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = fitted(X, labels)
        assert [w.category.__name__ for w in caught] == (
            ["DataConversionWarning"] if "column" in name else []
        )
        np.testing.assert_array_equal(model.classes_, classes)
        assert model.classes_.dtype.kind == classes.dtype.kind
        expected = fitted(X, np.searchsorted(classes, np.asarray(labels).reshape(-1)))
        np.testing.assert_array_equal(model.predict(X), classes[expected.predict(X)])
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


# --- y that is refused --------------------------------------------------------------------------

REFUSED_Y: dict[str, Any] = {
    "fractions": Y + 0.5,
    "NaN": np.where(Y == 2, np.nan, Y.astype(float)),
    "infinity": np.where(Y == 2, np.inf, Y.astype(float)),
    "None among words": np.array(["a", None] * 20, dtype=object),
    "words and numbers in a list": ["a", 1] * 20,
    "words and numbers as objects": np.array(["a", 1] * 20, dtype=object),
    "a missing category": pandas.Series([None, *WORDS[Y][1:]], dtype="category"),
    "masked labels": np.ma.masked_array(Y, Y == 3),
    "a NUL at the end of a string in a list": ["a", "a\0"] * 20,
    "bytes": np.char.encode(WORDS)[Y],
    "numbers as objects": Y.astype(object),
    "complex numbers": Y + 0j,
    "several columns": np.stack([Y, Y], axis=1),
    "a sparse matrix": sp.csr_array(Y[:, None]),
    "one class": np.full(40, 3),
    "another number of rows than X": Y[:-1],
    "nothing": None,
}


def test_every_line_of_y_that_is_refused_is_tested():
    assert list(REFUSED_Y) == list(lines("y that is refused"))


@pytest.mark.parametrize("name", REFUSED_Y)
def test_y_that_is_refused(name):
    words = re.escape(words_of("y that is refused", name))
    with pytest.raises((ValueError, TypeError), match=words):
        LinearClassifier().fit(X, REFUSED_Y[name])
