r"""Text vectorisers: in files, and fitted to words that were counted chunk by chunk.

A vectoriser does what its options say: read files whose names are in the text
(``input="filename"``), match a regular expression for hours, or make millions of n-grams.  So
options from a file must be harmless, unless the caller trusts the file's author.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from bigcat._io.checks import check, check_floats, is_number, is_whole, shown
from bigcat.data.dataset import DataError, check_columns
from bigcat.data.text import nothing_left

#: Most words whose rows are counted at a time.
MAX_WORDS = 1 << 21
VECTORIZER = "vectorizer.json"

#: Kinds that files hold.
VECTORIZERS = ("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
_CHOOSES_WORDS = ("min_df", "max_df", "max_features", "vocabulary")
_WEIGHTS = ("norm", "use_idf", "smooth_idf", "sublinear_tf")


#: Longest n-gram of a vectoriser from a file.
MAX_NGRAM = 20

#: Single characters, then at most one run of one kind: at each place of the text, the engine gives
#: up after a few steps or takes the whole run.  A word boundary after the run can make it go back
#: over the run; that is linear, too, where a match begins at a boundary.
_CHARACTER = r"(?:\\[wWdDsS]|\[\^?(?:\\[\\wdsWDS\].'-]|[^\\\[\]])+\]|[A-Za-z0-9_@#'-])"
_RUN = rf"{_CHARACTER}(?:[+*]|\{{\d,\d?\}})?"
_LINEAR_PATTERN = re.compile(
    rf"(?:\(\?u\))?(?:\\b{_CHARACTER}{{0,8}}{_RUN}\\b|(?:\\b)?{_CHARACTER}{{0,8}}{_RUN})"
)


def is_linear(pattern: str) -> bool:
    r"""Return True if finding all matches of a regular expression takes time linear in the text.

    Examples
    --------
    >>> from bigcat.data.vectorizers import is_linear
    >>> [is_linear(p) for p in (r"(?u)\b\w\w+\b", r"\w+", r"[a-z'-]+", r"(?:a+)+$", r"\w+\b")]
    [True, True, True, False, False]
    """
    return _LINEAR_PATTERN.fullmatch(pattern) is not None


def _is_stop_words(value: Any) -> bool:
    words = isinstance(value, list | set | tuple) and all(isinstance(word, str) for word in value)
    return value is None or value == "english" or words


def _is_ngram_range(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(is_whole(n, 1) for n in value)
    return pair and value[0] <= value[1] <= MAX_NGRAM


_ENCODINGS = {"utf-8", "utf8", "utf-8-sig", "ascii", "latin-1", "iso-8859-1", "cp1252", "utf-16"}
#: Harmless values of the options of the three.
_HARMLESS: dict[str, Any] = {
    "input": {"content"},
    "encoding": _ENCODINGS,
    "decode_error": {"strict", "ignore", "replace"},
    "strip_accents": {None, "ascii", "unicode"},
    "lowercase": bool,
    "preprocessor": {None},
    "tokenizer": {None},
    "analyzer": {"word", "char", "char_wb"},
    "stop_words": _is_stop_words,
    "token_pattern": lambda value: value is None or (isinstance(value, str) and is_linear(value)),
    "ngram_range": _is_ngram_range,
    "max_df": is_number,
    "min_df": is_number,
    "max_features": lambda value: value is None or is_whole(value, 1),
    "binary": bool,
    "dtype": {"float64", "float32", "int64", "int32"},
    "norm": {None, "l1", "l2"},
    "use_idf": bool,
    "smooth_idf": bool,
    "sublinear_tf": bool,
    "n_features": lambda value: is_whole(value, 1, 2**31 - 1),
    "alternate_sign": bool,
}


class UntrustedError(ValueError):
    """An option of a vectoriser that could do harm."""


def check_vectorizer(vectorizer: Any) -> None:
    """Raise TypeError for a vectoriser that no file can hold."""
    kind = type(vectorizer).__name__
    if kind not in VECTORIZERS:
        raise TypeError(
            f"files hold {', '.join(VECTORIZERS)}, got {kind}; keep it in a file of its own, such "
            "as one of skops"
        )
    for name, value in vectorizer.get_params(deep=False).items():
        if callable(value) and name != "dtype":
            raise TypeError(
                f"the vectoriser's {name} is {value!r}, and a file holds no functions; keep the "
                "vectoriser yourself"
            )


def describe_vectorizer(vectorizer: Any, fitted: bool = True) -> dict[str, Any] | None:
    """Return kind, options and words of a vectoriser, all of which a file can hold."""
    if vectorizer is None:
        return None
    check_vectorizer(vectorizer)
    kind, options = type(vectorizer).__name__, vectorizer.get_params(deep=False)
    options["dtype"] = np.dtype(options["dtype"]).name
    options.pop("vocabulary", None)  # its words are stored below
    words = idf = None
    if kind != "HashingVectorizer" and (fitted or hasattr(vectorizer, "vocabulary_")):
        check_is_fitted(vectorizer, "vocabulary_")
        vocabulary = vectorizer.vocabulary_
        words = np.array(sorted(vocabulary, key=vocabulary.get), object)
        idf = vectorizer.idf_ if options.get("use_idf") else None
    return {"kind": kind, "options": options, "words": words, "idf": idf}


def make_vectorizer(stored: dict[str, Any], trusted: bool = False) -> Any:
    """Return the vectoriser; UntrustedError for options that could do harm, unless trusted."""
    from sklearn.feature_extraction import text

    check("vectorizer.kind", stored["kind"], {*VECTORIZERS})
    kind, options, words = stored["kind"], dict(stored["options"]), stored["words"]
    for name, value in () if trusted else options.items():
        try:
            check(name, value, _HARMLESS[name])
        except (KeyError, ValueError):
            raise UntrustedError(f"{name}={shown(value)}") from None
    if options.get("token_pattern", "") is None and options["analyzer"] == "word":
        raise ValueError("the vectoriser has token_pattern=None, which finds no words")
    vectorizer = getattr(text, kind)(**options | {"dtype": np.dtype(options["dtype"]).type})
    if kind == "HashingVectorizer" or words is None:
        return vectorizer
    idf = None
    if options.get("use_idf"):
        idf = stored["idf"]
        check_floats("vectorizer.idf", idf, (len(words),), minimum=0.0)
    vectorizer = with_words(vectorizer, words.tolist(), idf)
    if words.dtype != object or n_features_of(vectorizer) != len(words):
        raise ValueError("the words of the vectoriser are not different strings")
    return vectorizer


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

    def __init__(self) -> None:
        self.forgotten, self.n_rows = 0, 0
        self.rows: Counter[str] = Counter()
        self.times: Counter[str] = Counter()

    def add(self, n_rows: int, words: list[str], rows: np.ndarray, times: np.ndarray) -> None:
        """Add the words of a chunk."""
        self.n_rows += n_rows
        self.rows.update(dict(zip(words, rows.tolist())))
        self.times.update(dict(zip(words, times.tolist())))
        if len(self.rows) > MAX_WORDS:
            kept = self.rows.most_common(MAX_WORDS + 1)
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
    """Write kind, options, words and their weights to a file; return its digest."""
    packed = describe_vectorizer(vectorizer)
    text = json.dumps(packed, default=list)  # of arrays and sets
    (folder / VECTORIZER).write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def load_vectorizer(folder: Path, digest: str, n_features: int) -> Any:
    """Return the vectoriser of a folder; DataError for one that cannot make such rows."""
    try:
        content = (folder / VECTORIZER).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError("its digest is another")
        packed = json.loads(content)
        options = packed["options"]
        options["ngram_range"] = tuple(options["ngram_range"])
        check("input", options["input"], {"content"})
        for name, kind in (("words", object), ("idf", np.float64)):
            packed[name] = None if packed[name] is None else np.array(packed[name], kind)
        vectorizer = make_vectorizer(packed, trusted=True)
        found = vectorizer.transform([""]).shape[1]
    except Exception as error:  # scikit-learn has no list of what it raises for odd settings
        raise DataError(
            f"{folder}: its vectoriser does not work ({type(error).__name__}: {error}); convert "
            "the data again"
        ) from error
    check_columns(folder, found, n_features)
    return vectorizer
