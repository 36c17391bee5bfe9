"""Text in one pass: hashed, or counted in bounded memory, by scikit-learn's vectorisers.

Each block of a conversion counts words of its own.  When all blocks have been seen it is known
which words are features, and only then do the blocks get their columns.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, check_columns
from bigcat.data.spans import Texts, WordTable
from bigcat.data.spill import read_arrays, read_json, write_arrays, write_json
from bigcat.data.words import Words, in_columns

#: Words whose rows are counted at a time.
MOST_WORDS = 1 << 21
#: Files beside the arrays.
WORDS, IDF = "words.json", "idf.npy"

_KINDS = ("HashingVectorizer", "CountVectorizer", "TfidfVectorizer")
_CHOOSES_WORDS = ("min_df", "max_df", "max_features", "vocabulary")
_WEIGHS = ("norm", "use_idf", "smooth_idf", "sublinear_tf")


def check(vectorizer: Any) -> None:
    """Raise for a vectoriser whose settings a manifest cannot hold."""
    kind = type(vectorizer).__name__
    if kind not in _KINDS:
        raise ValueError(f"vectorizer must be one of {', '.join(_KINDS)}, got {kind}")
    for name, value in vectorizer.get_params(deep=False).items():
        if callable(value) and name != "dtype":
            raise ValueError(f"the vectoriser's {name} is a function, which no file can hold")
    if vectorizer.input != "content":
        raise ValueError(f"the vectoriser's input must be 'content', got {vectorizer.input!r}")


def is_known(vectorizer: Any) -> bool:
    """Are its columns known before any text is seen?"""
    return type(vectorizer).__name__ == "HashingVectorizer" or hasattr(vectorizer, "vocabulary_")


def width(vectorizer: Any) -> int:
    """How many columns a known one has."""
    if hasattr(vectorizer, "vocabulary_"):
        return len(vectorizer.vocabulary_)
    return int(vectorizer.n_features)


def counter_of(vectorizer: Any) -> Any:
    """Counts all words of a block, as the vectoriser would."""
    from sklearn.feature_extraction.text import CountVectorizer

    given = vectorizer.get_params(deep=False)
    left_out = {*_CHOOSES_WORDS, *_WEIGHS, "dtype"}
    return CountVectorizer(**{k: v for k, v in given.items() if k not in left_out})


def write_words(path: Path, words: Words) -> None:
    """The words of a block, in how many of its rows each is, and how often."""
    from bigcat.kernels.number_words import count_in_columns

    rows, times = np.zeros((2, len(words.names)), np.int64)
    count_in_columns(words.counts.indices, words.counts.data, rows, times)
    write_arrays(path, words.names.content, words.names.spans, rows, times)


def read_words(path: Path) -> tuple[Texts, np.ndarray, np.ndarray]:
    content, spans, rows, times = read_arrays(path, 4)
    return Texts(content.tobytes(), spans), rows, times


class WordCounts:
    """In how many rows words occur, and how often, for no more than so many words.

    Where there are more, the rarest are forgotten: what is left of a word's count is low by no
    more than `forgotten` rows, and every word of more rows than that is there (Manku and Motwani
    2002).  Where nothing is forgotten, counts are exact.
    """

    def __init__(self, most: int = MOST_WORDS) -> None:
        self.most, self.forgotten, self.n_rows = most, 0, 0
        self.table = WordTable()
        self.rows, self.times = np.zeros(0, np.int64), np.zeros(0, np.int64)  # by number

    def add(self, n_rows: int, words: Texts, rows: np.ndarray, times: np.ndarray) -> None:
        """Of a block: the rows that it has, its different words, and how many have them."""
        self.n_rows += n_rows
        numbers = self.table.add(words)
        self.rows, self.times = (
            np.pad(counts, (0, len(self.table) - len(counts))) for counts in (self.rows, self.times)
        )
        self.rows[numbers] += rows
        self.times[numbers] += times
        if len(self.table) > self.most:
            self._forget()

    def _forget(self) -> None:
        while np.count_nonzero(self.rows > self.forgotten) > self.most:
            self.forgotten += 1
        kept = self.rows > self.forgotten
        words, self.table = self.table.words.take(kept), WordTable()
        self.table.add(words)
        self.rows, self.times = self.rows[kept], self.times[kept]

    def fitted(self, vectorizer: Any, path: Path) -> Any:
        """A copy of the vectoriser that knows the words which its options keep."""
        from sklearn.base import clone
        from sklearn.feature_extraction.text import TfidfTransformer

        found = clone(vectorizer)
        low, high = (_in_rows(d, self.n_rows) for d in (found.min_df, found.max_df))
        kept = np.flatnonzero((low <= self.rows) & (self.rows <= high))
        rows = dict(zip(self.table.words.take(kept).decoded(), self.rows[kept].tolist()))
        words = list(rows)
        if found.max_features is not None:
            times = dict(zip(words, self.times[kept].tolist()))
            words = sorted(words, key=lambda w: (-times[w], w))[: found.max_features]
        if not words:
            raise DataError(
                f"{path}: no word of {self.n_rows} rows is in as many of them as min_df="
                f"{found.min_df!r} and max_df={found.max_df!r} say; pass another vectoriser"
            )
        words.sort()
        found.vocabulary_ = {word: i for i, word in enumerate(words)}
        found.fixed_vocabulary_ = False
        if hasattr(found, "use_idf"):
            found._tfidf = TfidfTransformer(**{name: getattr(found, name) for name in _WEIGHS})
            found._tfidf.n_features_in_ = len(words)
            if found.use_idf:
                smooth = int(found.smooth_idf)
                with_word = np.array([rows[word] for word in words], np.float64)
                found._tfidf.idf_ = np.log((self.n_rows + smooth) / (with_word + smooth)) + 1.0
        return found


def _in_rows(df: Any, n_rows: int) -> float:
    return float(df) if isinstance(df, int) else df * n_rows


def table_of(vectorizer: Any) -> WordTable:
    """The words of a fitted vectoriser, numbered as its columns are."""
    table, vocabulary = WordTable(), vectorizer.vocabulary_
    table.add(Texts.of(sorted(vocabulary, key=vocabulary.get)))
    return table


def weigh(vectorizer: Any, table: WordTable, words: Words) -> sp.csr_matrix:
    """Counts of words as the features of a fitted vectoriser, whose `table_of` words is given."""
    columns, ones = table.find(words.names), np.ones(len(words.names), np.int64)
    X = in_columns(words, columns, ones, len(table), vectorizer.dtype)
    if hasattr(vectorizer, "_tfidf") and X.shape[0]:  # of no rows it makes an error
        X = vectorizer._tfidf.transform(X, copy=False)
    return sp.csr_matrix(X, dtype=np.float32)


# In a manifest


def pack(vectorizer: Any, folder: Path) -> dict[str, Any]:
    """Settings for the manifest; words and their weights go to files beside the arrays."""
    settings = {
        name: np.dtype(value).name if name == "dtype" else _plain(value)
        for name, value in vectorizer.get_params(deep=False).items()
        if name != "vocabulary"
    }
    packed: dict[str, Any] = {"kind": type(vectorizer).__name__, "settings": settings}
    if hasattr(vectorizer, "vocabulary_"):
        vocabulary = vectorizer.vocabulary_
        write_json(folder / WORDS, sorted(vocabulary, key=vocabulary.get))
        packed["words_sha256"] = _digest(folder / WORDS)
        if getattr(vectorizer, "use_idf", False):
            np.save(folder / IDF, vectorizer.idf_)
            packed["idf_sha256"] = _digest(folder / IDF)
    return packed


def unpack_fitted(packed: dict[str, Any], folder: Path, n_features: int) -> Any:
    """The vectoriser of finished rows; DataError for one that cannot make such rows."""
    try:
        vectorizer = unpack(packed, folder)
        found = vectorizer.transform([""]).shape[1]
    except DataError:
        raise
    except Exception as error:  # scikit-learn has no list of what it raises for odd settings
        raise DataError(
            f"{folder}: its vectoriser does not work ({type(error).__name__}: {error}); convert "
            "the data again"
        ) from error
    check_columns(folder, found, n_features)
    return vectorizer


def unpack(packed: dict[str, Any], folder: Path) -> Any:
    """The vectoriser, fitted if it was."""
    from sklearn.feature_extraction import text

    settings = dict(packed["settings"])
    settings["dtype"] = np.dtype(settings["dtype"]).type
    settings["ngram_range"] = tuple(settings["ngram_range"])
    if packed["kind"] not in _KINDS:
        raise DataError(f"{folder}: unknown vectoriser {packed['kind']!r}")
    vectorizer = getattr(text, packed["kind"])(**settings)
    check(vectorizer)
    if "words_sha256" not in packed:
        return vectorizer
    words = read_json(_checked(folder / WORDS, packed["words_sha256"]))
    vectorizer.vocabulary_ = {word: i for i, word in enumerate(words)}
    vectorizer.fixed_vocabulary_ = False
    if hasattr(vectorizer, "use_idf"):
        weighs = {name: settings[name] for name in _WEIGHS}
        vectorizer._tfidf = text.TfidfTransformer(**weighs)
        vectorizer._tfidf.n_features_in_ = len(words)
        if settings["use_idf"]:
            idf = _checked(folder / IDF, packed["idf_sha256"])
            vectorizer._tfidf.idf_ = np.load(idf, allow_pickle=False)
    return vectorizer


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else value


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checked(path: Path, digest: str) -> Path:
    if not path.is_file() or _digest(path) != digest:
        raise DataError(f"{path}: missing or damaged; convert the data again")
    return path
