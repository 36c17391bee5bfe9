"""``label<TAB>text``, one row per line, turned into features by a scikit-learn vectoriser."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import (
    DataError,
    Dataset,
    check_columns,
    error_at,
    integers_or_strings,
    make_dataset,
)
from bigcat.data.numbered import Numbered
from bigcat.data.spans import Texts

_NEWLINE, _TAB = b"\n\t"
#: Bytes that are compared at once: they stay in the processor's cache.
_PIECE = 1 << 18
#: Bytes at the end that are looked at before all of them are.
_TAIL = 1 << 10


def read_tsv(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    vectorizer: Any = None,
    max_rows: int | None = None,
) -> Dataset:
    """Rows of ``label<TAB>text``; see :func:`bigcat.data.read` for the vectoriser."""
    labels, rows = labelled_texts(path, raw.removeprefix(codecs.BOM_UTF8), max_rows)
    kept, labels = labels.without_empty()
    texts = rows.take(kept).decoded()
    y = integers_or_strings(labels.spelled())
    if not texts:  # of which a HashingVectorizer makes a StopIteration
        raise DataError(f"{path}: expected labelled rows, found none")
    X, vectorizer = vectorize(path, texts, vectorizer)
    check_columns(path, X.shape[1], n_features)
    return make_dataset(X, y, "tsv", vectorizer, rows_without_label=len(kept) - len(texts))


def decode(path: Path, raw: bytes, encoding: str = "utf-8-sig") -> str:
    """UTF-8 text with its byte-order mark removed; an error names the line of a stray byte."""
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        raise error_at(path, line, "UTF-8 text", found) from None


def check_line_ends(path: Path, raw: bytes) -> None:
    """Raise for a carriage return without a newline: to us it would be a blank inside a row."""
    if b"\r" in raw and raw.count(b"\r") > raw.count(b"\r\n"):
        position = next(found.start() for found in re.finditer(rb"\r(?!\n)", raw))
        line = raw.count(b"\n", 0, position) + 1
        expected = "lines that end in a newline (alone or after a carriage return)"
        raise error_at(path, line, expected, "a carriage return alone")


def count_of(byte: bytes, raw: bytes, start: int) -> int:
    """``raw.count(byte, start)``, eight times as fast where there are many."""
    content = np.frombuffer(raw, np.uint8)
    pieces = (content[at : at + _PIECE] for at in range(start, len(raw), _PIECE))
    return sum(int(np.count_nonzero(piece == byte[0])) for piece in pieces)


def without_line_ends(raw: bytes) -> int:
    """How long a text is without the line ends that it ends in, which are few as a rule."""
    tail = raw[-_TAIL:]
    kept = tail.rstrip(b"\r\n")
    return len(raw) - len(tail) + len(kept) if kept else len(raw.rstrip(b"\r\n"))


def check_label(path: Path, line: int, label: str) -> None:
    """Raise for a NUL, which NumPy drops from the end of a string: two labels would be one."""
    if "\0" in label:
        raise error_at(path, line, "a label without NUL characters", repr(label[:40]))


def check_utf8(path: Path, raw: bytes) -> None:
    """Raise for bytes that are no text."""
    if not raw.isascii():
        decode(path, raw, "utf-8")


def labelled_texts(path: Path, raw: bytes, max_rows: int | None = None) -> tuple[Numbered, Texts]:
    """Labels and texts of the first `max_rows` lines of ``label<TAB>text``."""
    check_line_ends(path, raw)
    check_utf8(path, raw)
    text = np.frombuffer(raw, np.uint8)
    pieces = range(0, len(raw), _PIECE)
    marks = np.concatenate(
        [np.zeros(0, int), *(np.flatnonzero(text[i : i + _PIECE] <= _NEWLINE) + i for i in pieces)]
    )
    kind = text[marks]
    ends = marks[kind == _NEWLINE]  # no other character ends a row
    length = without_line_ends(raw)
    ends = np.append(ends[ends < length], length)[:max_rows]
    begins = np.concatenate([[0], ends[:-1] + 1])
    tabs = np.append(marks[kind == _TAB], len(raw))
    tabs = tabs[np.searchsorted(tabs, begins)]  # the first one of each row, if that has one
    without = np.flatnonzero(tabs >= ends)
    whole = slice(0, without[0] if len(without) else None)

    def spelled(begin: int, end: int) -> str:
        label = raw[begin:end].decode()
        if "\0" in label:
            check_label(path, raw.count(b"\n", 0, begin) + 1, label)
        return label.strip()

    labels = Numbered.of_spans(raw, np.stack([begins, tabs], axis=1)[whole], spelled)
    if len(without):
        row = without[0]
        line = raw[begins[row] : ends[row]].decode()
        raise error_at(path, int(row) + 1, "label<TAB>text", f"no tab in {line[:40]!r}")
    return labels, Texts(raw, np.stack([tabs + 1, ends], axis=1))


def default_vectorizer(**options: Any) -> Any:
    r"""Lower-case words (``\w+``) of at least two rows, tf-idf, rows of unit length, float32."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    options = {"token_pattern": r"\w+", "min_df": 2, "dtype": np.float32} | options
    return TfidfVectorizer(**options)


def vectorize(path: Path, texts: list[str], vectorizer: Any = None) -> tuple[Any, Any]:
    """CSR float32 features and the fitted vectoriser: a fitted one is used, a new one fitted."""
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if vectorizer is None:
        vectorizer = default_vectorizer()
    try:
        check_is_fitted(vectorizer)
        fitted = True
    except NotFittedError:
        fitted = False
        vectorizer = clone(vectorizer)
    try:
        X = vectorizer.transform(texts) if fitted else vectorizer.fit_transform(texts)
    except ValueError as error:
        raise DataError(
            f"{path}: the vectoriser found nothing to work with in {len(texts)} rows ({error}); "
            "pass another one, such as vectorizer=TfidfVectorizer(min_df=1)"
        ) from error
    if sp.issparse(X):
        X = sp.csr_matrix(X, dtype=np.float32)
        X.sum_duplicates()
        return X, vectorizer
    return np.ascontiguousarray(X, dtype=np.float32), vectorizer
