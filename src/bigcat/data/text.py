"""``label<TAB>text``, one row per line, turned into features by a scikit-learn vectoriser."""

from __future__ import annotations

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


def read_tsv(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    vectorizer: Any = None,
    max_rows: int | None = None,
) -> Dataset:
    """Rows of ``label<TAB>text``; see :func:`bigcat.data.read` for the vectoriser."""
    check_line_ends(path, raw)
    labels, texts = split_rows(path, decode(path, raw), max_rows)
    kept = [label != "" for label in labels]
    texts = [text for text, keep in zip(texts, kept) if keep]
    y = integers_or_strings([label for label in labels if label])
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
    if raw.count(b"\r") > raw.count(b"\r\n"):
        position = next(found.start() for found in re.finditer(rb"\r(?!\n)", raw))
        line = raw.count(b"\n", 0, position) + 1
        expected = "lines that end in a newline (alone or after a carriage return)"
        raise error_at(path, line, expected, "a carriage return alone")


def check_label(path: Path, line: int, label: str) -> None:
    """Raise for a NUL, which NumPy drops from the end of a string: two labels would be one."""
    if "\0" in label:
        raise error_at(path, line, "a label without NUL characters", repr(label[:40]))


def split_rows(path: Path, text: str, max_rows: int | None = None) -> tuple[list[str], list[str]]:
    """Labels and texts of the first `max_rows` lines."""
    lines = text.rstrip("\r\n").split("\n")[:max_rows]  # no other character ends a row
    labels, texts = [], []
    for number, line in enumerate(lines, 1):
        label, tab, rest = line.partition("\t")
        if not tab:
            raise error_at(path, number, "label<TAB>text", f"no tab in {line[:40]!r}")
        check_label(path, number, label)
        labels.append(label.strip())
        texts.append(rest)
    return labels, texts


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
