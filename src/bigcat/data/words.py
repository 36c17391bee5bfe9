"""The words of many texts at once, counted, and the features that are made of them.

The words are those of scikit-learn's analysers, and features those of its vectorisers, bit by bit.
But with the usual patterns compiled kernels cut and count them, in lower case or as they are, and
each different word is looked up or hashed once.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.data.numbered import Numbered
from bigcat.data.spans import Texts, WordTable

#: Patterns that take whole runs of letters: those that scikit-learn and bigcat take by themselves;
#: and how many letters the shortest word has.
_RUNS = {r"\w+": 1, r"(?u)\b\w\w+\b": 2}
#: In lower case the first depends on its neighbours, and the second is two characters.
_ODD_LETTERS = "\u03a3\u0130"


class Words(NamedTuple):
    """The words of some texts."""

    counts: sp.csr_matrix  # a row for each text, its columns in no order
    names: Texts  # by column


def words_of(vectorizer: Any, texts: Texts) -> Words:
    """What the vectoriser's analyser finds in texts."""
    if _takes_runs(vectorizer):
        found = _cut(vectorizer, texts)
    else:
        found = _analysed(vectorizer, texts)
    if vectorizer.binary:
        found.counts.data.fill(1)
    return found


def _takes_runs(vectorizer: Any) -> bool:
    """Whether words are runs of letters, in lower case or as they are, and nothing else is done."""
    otherwise = ("strip_accents", "preprocessor", "tokenizer", "stop_words")
    return (
        vectorizer.analyzer == "word"
        and tuple(vectorizer.ngram_range) == (1, 1)
        and vectorizer.token_pattern in _RUNS
        and all(getattr(vectorizer, name) is None for name in otherwise)
    )


def _analysed(vectorizer: Any, texts: Texts) -> Words:
    """Text by text, as scikit-learn does it."""
    analyze = vectorizer.build_analyzer()
    of_texts = [analyze(text) for text in texts.decoded()]
    ends = np.cumsum([0, *map(len, of_texts)])
    found = Numbered.of(word for words in of_texts for word in words)
    ones = np.ones(len(found.numbers), np.int32)
    counts = sp.csr_matrix((ones, found.numbers, ends), shape=(len(texts), len(found.names)))
    counts.sum_duplicates()
    return Words(counts, Texts.of(found.names))


def _cut(vectorizer: Any, texts: Texts) -> Words:
    from bigcat.kernels.number_words import count_in_rows

    if vectorizer.lowercase and not texts.raw.isascii():
        texts = _without_odd_letters(vectorizer, texts)
    letters = letters_of_words(vectorizer.lowercase, 128 if texts.raw.isascii() else 0x110000)
    table = WordTable()
    numbers, ends = table.add_words_of(texts, letters, _RUNS[vectorizer.token_pattern])
    times = np.empty(len(numbers), np.int32)
    count_in_rows(ends, numbers, np.full(len(table), -1), times)
    counted = (times[: ends[-1]], numbers[: ends[-1]], ends)
    return Words(sp.csr_matrix(counted, shape=(len(texts), len(table))), table.words)


@functools.cache
def letters_of_words(lowercase: bool, end: int) -> np.ndarray:
    r"""What is written for each character of a word (``\w``) below `end`, 0 for all others."""
    codes = np.arange(end, dtype="<i4")
    characters = codes.tobytes().decode("utf-32-le", "surrogatepass")
    letters = np.zeros(end, np.int32)
    for run in re.finditer(r"\w+", characters):
        letters[run.start() : run.end()] = codes[run.start() : run.end()]
    if not lowercase:
        return letters
    for odd in _ODD_LETTERS:
        characters = characters.replace(odd, "?")
    lower = np.frombuffer(characters.lower().encode("utf-32-le", "surrogatepass"), "<i4")
    return np.asarray(letters[lower])  # whether it is in a word is asked of what is written


def _without_odd_letters(vectorizer: Any, texts: Texts) -> Texts:
    """Texts with such letters are cut by scikit-learn; the words it finds take their place."""
    content, odd = np.frombuffer(texts.raw, np.uint8), np.zeros(len(texts), bool)
    for letter in map(str.encode, _ODD_LETTERS):
        if letter in texts.raw:
            at = np.flatnonzero((content[:-1] == letter[0]) & (content[1:] == letter[1]))
            begins, ends = np.searchsorted(at, texts.spans).T
            odd |= begins < ends
    if not odd.any():
        return texts
    analyze = vectorizer.build_analyzer()
    found = Texts.of(" ".join(analyze(text)) for text in texts.take(odd).decoded())
    spans = texts.spans.copy()
    spans[odd] = found.spans + len(texts.raw)
    return Texts(texts.raw + found.raw, spans)


def in_columns(
    words: Words, columns: np.ndarray, signs: np.ndarray, n_columns: int, dtype: Any
) -> sp.csr_matrix:
    """Counts of words by columns, in order; takes the counts' own memory.

    Word k is in column ``columns[k]``, or in none if that is -1, and counts ``signs[k]`` each time.
    """
    from bigcat.kernels.number_words import put_in_columns

    counts = words.counts
    ends = counts.indptr.astype(np.int64)
    longest = int(np.diff(ends).max(initial=0))
    keys, spare = np.empty(longest, np.int64), np.empty(longest, np.int64)
    put_in_columns(ends, counts.indices, counts.data, columns, signs, keys, spare)
    placed = (counts.data[: ends[-1]].astype(dtype), counts.indices[: ends[-1]], ends)
    X = sp.csr_matrix(placed, shape=(counts.shape[0], n_columns))
    X.has_canonical_format = True
    return X


def hashed(vectorizer: Any, texts: Texts) -> sp.csr_matrix:
    """What a HashingVectorizer makes of texts."""
    from sklearn.preprocessing import normalize

    from bigcat.kernels.number_words import murmur_hashes

    words = words_of(vectorizer, texts)
    hashes = np.empty(len(words.names), np.int64)
    murmur_hashes(words.names.content, words.names.spans, hashes)
    signs = np.ones(len(hashes), np.int64)
    if vectorizer.alternate_sign:
        signs[hashes < 0] = -1
    columns = np.abs(hashes) % vectorizer.n_features
    X = in_columns(words, columns, signs, vectorizer.n_features, vectorizer.dtype)
    if vectorizer.binary:
        X.data.fill(1)
    if vectorizer.norm is not None and len(texts):  # of no rows it makes an error
        X = normalize(X, norm=vectorizer.norm, copy=False)
    return sp.csr_matrix(X, dtype=np.float32)
