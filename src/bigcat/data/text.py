"""``label<TAB>text``, one row per line, and scikit-learn's vectorisers of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, error_at
from bigcat.data.reading import Chunk, LinesReader, Text, numbered


class TsvReader(LinesReader):
    """Reader of ``label<TAB>text`` in UTF-8."""

    is_text = True

    def parse(self, piece: Text) -> Chunk:
        lines = self.decoded(piece).replace("\r\n", "\n").removesuffix("\n").split("\n")
        if not self.labelled:
            return Chunk(lines, np.zeros(len(lines), np.int64), [0], {})
        rows = [line.partition("\t") for line in lines]
        for number, (label, tab, _) in enumerate(rows, piece.first_line):
            if not tab:
                raise error_at(self.path, number, "label<TAB>text", f"no tab in {label[:40]!r}")
        kept = [(label, text) for label, _, text in rows if label]
        codes, names = numbered(label for label, _ in kept)
        facts = {"rows_without_label": len(rows) - len(kept)}
        return Chunk([text for _, text in kept], codes, names, facts)


def default_vectorizer(**options: Any) -> Any:
    r"""Return the tf-idf of lower-case words ``\w+`` of at least two rows, float32, unit rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    options = {"token_pattern": r"\w+", "min_df": 2, "dtype": np.float32} | options
    return TfidfVectorizer(**options)


def is_fitted(vectorizer: Any) -> bool:
    """Return True if the vectoriser can transform, as a HashingVectorizer always can."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(vectorizer)
    except NotFittedError:
        return False
    return True


def vectorize(path: Path, texts: list[str], vectorizer: Any = None) -> tuple[Any, Any]:
    """Return float32 features and the vectoriser, a copy that is fitted unless it was."""
    from sklearn.base import clone

    vectorizer = default_vectorizer() if vectorizer is None else vectorizer
    fitted = is_fitted(vectorizer)
    vectorizer = vectorizer if fitted else clone(vectorizer)
    try:
        X = vectorizer.transform(texts) if fitted else vectorizer.fit_transform(texts)
    except ValueError as error:
        raise nothing_left(path, len(texts), error) from error
    return as_float32(X), vectorizer


def nothing_left(path: Path, n_rows: int, error: object) -> DataError:
    """Return the error of a vectoriser that finds no feature."""
    return DataError(
        f"{path}: the vectoriser found nothing to work with in {n_rows} rows ({error}); "
        "pass another one, such as vectorizer=TfidfVectorizer(min_df=1)"
    )


def as_float32(X: Any) -> Any:
    """Return canonical CSR, or an array in C order."""
    if not sp.issparse(X):
        return np.ascontiguousarray(X, dtype=np.float32)
    X = sp.csr_matrix(X, dtype=np.float32)
    X.sum_duplicates()
    return X
