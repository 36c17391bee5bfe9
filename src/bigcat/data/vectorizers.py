"""Vectorisers of converted text: words counted chunk by chunk, and settings in a folder of rows."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, check_columns
from bigcat.data.text import nothing_left

#: Most words whose rows are counted at a time.
MAX_WORDS = 1 << 21
VECTORIZER = "vectorizer.json"

#: Kinds that files hold.
VECTORIZERS = ("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
_CHOOSES_WORDS = ("min_df", "max_df", "max_features", "vocabulary")
_WEIGHTS = ("norm", "use_idf", "smooth_idf", "sublinear_tf")


def check_vectorizer(vectorizer: Any) -> None:
    """Raise for a vectoriser whose settings JSON cannot hold."""
    kind = type(vectorizer).__name__
    if kind not in VECTORIZERS:
        raise ValueError(f"vectorizer must be one of {', '.join(VECTORIZERS)}, got {kind}")
    for name, value in vectorizer.get_params(deep=False).items():
        if callable(value) and name != "dtype":
            raise ValueError(f"the vectoriser's {name} is a function, which no file can hold")
    if vectorizer.input != "content":
        raise ValueError(f"the vectoriser's input must be 'content', got {vectorizer.input!r}")


def n_features_of(vectorizer: Any) -> int:
    """Return the number of features of a fitted vectoriser."""
    if hasattr(vectorizer, "vocabulary_"):
        return len(vectorizer.vocabulary_)
    return int(vectorizer.n_features)


def counter_of(vectorizer: Any) -> Any:
    """Return a CountVectorizer of all words of a chunk, cut as the vectoriser cuts them."""
    from sklearn.feature_extraction.text import CountVectorizer

    given = vectorizer.get_params(deep=False)
    left_out = {*_CHOOSES_WORDS, *_WEIGHTS, "dtype"}
    return CountVectorizer(**{k: v for k, v in given.items() if k not in left_out})


class WordCounts:
    """Numbers of rows with each word and of its occurrences, for a bounded number of words.

    Beyond it the rarest are forgotten: a word's count is then low by at most `forgotten` rows, and
    every word of more rows is there (Manku and Motwani 2002).
    """

    def __init__(self, max_words: int | None = None) -> None:
        self.max_words = MAX_WORDS if max_words is None else max_words
        self.forgotten, self.n_rows = 0, 0
        self.rows: Counter[str] = Counter()
        self.times: Counter[str] = Counter()

    def add(self, n_rows: int, words: list[str], rows: np.ndarray, times: np.ndarray) -> None:
        """Add the words of a chunk."""
        self.n_rows += n_rows
        self.rows.update(dict(zip(words, rows.tolist())))
        self.times.update(dict(zip(words, times.tolist())))
        if len(self.rows) > self.max_words:
            kept = self.rows.most_common(self.max_words + 1)
            self.forgotten = max(self.forgotten, kept.pop()[1])
            self.rows = Counter({word: n for word, n in kept if n > self.forgotten})
            self.times = Counter({word: self.times[word] for word in self.rows})

    def fitted(self, vectorizer: Any, path: Path) -> Any:
        """Return a copy of the vectoriser, fitted to the words that its options keep."""
        from sklearn.base import clone

        low, high = (
            bound if isinstance(bound, int) else bound * self.n_rows
            for bound in (vectorizer.min_df, vectorizer.max_df)
        )
        words = [word for word, n in self.rows.items() if low <= n <= high]
        if vectorizer.max_features is not None:
            words = sorted(words, key=lambda w: (-self.times[w], w))[: vectorizer.max_features]
        if not words:
            kept = f"min_df={vectorizer.min_df!r} and max_df={vectorizer.max_df!r} keep no word"
            raise nothing_left(path, self.n_rows, kept)
        words.sort()
        idf = None
        if getattr(vectorizer, "use_idf", False):
            smooth = int(vectorizer.smooth_idf)
            rows = np.array([self.rows[word] for word in words], np.float64)
            idf = np.log((self.n_rows + smooth) / (rows + smooth)) + 1.0
        return with_words(clone(vectorizer), words, idf)


def with_words(vectorizer: Any, words: list[str], idf: np.ndarray | None) -> Any:
    """Return the vectoriser, fitted to words and their weights."""
    from sklearn.feature_extraction.text import TfidfTransformer

    vectorizer.vocabulary_ = {word: i for i, word in enumerate(words)}
    vectorizer.fixed_vocabulary_ = False
    if hasattr(vectorizer, "use_idf"):
        vectorizer._tfidf = TfidfTransformer(
            **{name: getattr(vectorizer, name) for name in _WEIGHTS}
        )
        vectorizer._tfidf.n_features_in_ = len(words)
        if idf is not None:
            vectorizer._tfidf.idf_ = idf
    return vectorizer


def weigh(vectorizer: Any, counts: sp.csr_matrix, words: list[str]) -> sp.csr_matrix:
    """Return counts of a chunk's words as features of a fitted vectoriser."""
    columns = np.array([vectorizer.vocabulary_.get(word, -1) for word in words], np.int64)
    kept = np.flatnonzero(columns >= 0)
    ones = np.ones(len(kept), vectorizer.dtype)
    shape = (len(words), len(vectorizer.vocabulary_))
    X = counts.astype(vectorizer.dtype) @ sp.csr_matrix((ones, (kept, columns[kept])), shape)
    if hasattr(vectorizer, "_tfidf") and X.shape[0]:
        X = vectorizer._tfidf.transform(X, copy=False)
    return X


def save_vectorizer(vectorizer: Any, folder: Path) -> str:
    """Write kind, settings, words and their weights to a file; return its digest."""
    settings = {
        name: sorted(value) if isinstance(value, set | frozenset) else value
        for name, value in vectorizer.get_params(deep=False).items()
        if name not in ("vocabulary", "dtype")
    }
    packed = {"kind": type(vectorizer).__name__, "dtype": np.dtype(vectorizer.dtype).name}
    words = getattr(vectorizer, "vocabulary_", None)
    words = words and sorted(words, key=words.get)
    idf = vectorizer.idf_.tolist() if getattr(vectorizer, "use_idf", False) else None
    text = json.dumps({**packed, "settings": settings, "words": words, "idf": idf})
    (folder / VECTORIZER).write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def load_vectorizer(folder: Path, digest: str, n_features: int) -> Any:
    """Return the vectoriser of a folder; DataError for one that cannot make such rows."""
    from sklearn.feature_extraction import text

    try:
        content = (folder / VECTORIZER).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError("its digest is another")
        packed = json.loads(content)
        if packed["kind"] not in VECTORIZERS:
            raise ValueError(f"unknown vectoriser {packed['kind']!r}")
        settings = packed["settings"]
        settings["ngram_range"] = tuple(settings["ngram_range"])
        dtype = np.dtype(packed["dtype"]).type
        vectorizer = getattr(text, packed["kind"])(dtype=dtype, **settings)
        check_vectorizer(vectorizer)
        if packed["words"] is not None:
            idf = None if packed["idf"] is None else np.array(packed["idf"], np.float64)
            vectorizer = with_words(vectorizer, packed["words"], idf)
        found = vectorizer.transform([""]).shape[1]
    except Exception as error:  # scikit-learn has no list of what it raises for odd settings
        raise DataError(
            f"{folder}: its vectoriser does not work ({type(error).__name__}: {error}); convert "
            "the data again"
        ) from error
    check_columns(folder, found, n_features)
    return vectorizer
