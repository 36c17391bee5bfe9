"""The words of many texts at once, numbered, and the features that are made of them.

The words are those of scikit-learn's analysers, and features those of its vectorisers, bit by bit.
But each different word is looked up or hashed once.  With the usual patterns a compiled kernel cuts
texts in ASCII; the others are cut together where no word can reach beyond a line.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.data.numbered import Numbered
from bigcat.data.text import Texts

#: Patterns of words without newlines: those that scikit-learn and bigcat take by themselves; and
#: how many letters the shortest word has.
_WITHIN_LINES = {r"\w+": 1, r"(?u)\b\w\w+\b": 2}
#: Texts that are cut together; their words are in memory at the same time.
_TOGETHER = 5_000


class Words(NamedTuple):
    """The words of some texts, one after the other."""

    numbers: np.ndarray  # of the words, in the order in which they are first met
    ends: np.ndarray  # of the texts; the first begins at 0
    names: list[str]  # by number


class _Numbers(dict[str, int]):
    """Numbers words in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def words_of(vectorizer: Any, texts: Texts) -> Words:
    """What the vectoriser's analyser finds in texts."""
    if not _cuts_within_lines(vectorizer):
        return _analysed(vectorizer, texts.decoded())
    words, is_ascii = _cut_ascii(vectorizer, texts)
    if is_ascii.all():
        return words
    others = texts.take(~is_ascii).decoded()
    cut = _analysed if any("\n" in text for text in others) else _cut_together
    return _merged(words, cut(vectorizer, others), is_ascii)


def _cut_ascii(vectorizer: Any, texts: Texts) -> tuple[Words, np.ndarray]:
    """Words of the texts in ASCII, the others being left empty; and which texts are in it."""
    from bigcat.kernels.number_words import cut_words

    raw = texts.raw.lower() if vectorizer.lowercase else texts.raw
    least = _WITHIN_LINES[vectorizer.token_pattern]
    sizes = texts.spans[:, 1] - texts.spans[:, 0]
    spans = np.empty((int((sizes // (least + 1) + 1).sum()), 2), np.int32)  # a blank between words
    ends = np.zeros(len(texts) + 1, np.int64)
    is_ascii = np.empty(len(texts), bool)
    n = cut_words(np.frombuffer(raw, np.uint8), texts.spans, least, spans, ends, is_ascii)
    found = Numbered.of_spans(raw, spans[:n], lambda begin, end: raw[begin:end].decode())
    return Words(found.numbers, ends, found.names), is_ascii


def _merged(words: Words, others: Words, is_first: np.ndarray) -> Words:
    """Words of all texts, from those of the first kind and of the others."""
    number_of = {name: i for i, name in enumerate(words.names)}
    numbers = [number_of.setdefault(name, len(number_of)) for name in others.names]
    lengths = np.diff(words.ends)
    lengths[~is_first] = np.diff(others.ends)
    of_first = np.repeat(is_first, lengths)
    found = np.empty(len(of_first), np.int32)
    found[of_first] = words.numbers
    found[~of_first] = np.array(numbers, np.int32)[others.numbers]
    return Words(found, np.concatenate([[0], np.cumsum(lengths)]), list(number_of))


def _analysed(vectorizer: Any, texts: list[str]) -> Words:
    """Text by text, as scikit-learn does it."""
    analyze, numbers = vectorizer.build_analyzer(), _Numbers()
    found: list[int] = []
    ends = [0]
    for text in texts:
        found.extend(map(numbers.__getitem__, analyze(text)))
        ends.append(len(found))
    return Words(np.array(found, np.int32), np.array(ends), list(numbers))


def _cuts_within_lines(vectorizer: Any) -> bool:
    """Whether a text is words of a pattern, in lower case or as they are, and nothing else."""
    otherwise = ("strip_accents", "preprocessor", "tokenizer", "stop_words")
    return (
        vectorizer.analyzer == "word"
        and tuple(vectorizer.ngram_range) == (1, 1)
        and vectorizer.token_pattern in _WITHIN_LINES
        and all(getattr(vectorizer, name) is None for name in otherwise)
    )


def _cut_together(vectorizer: Any, texts: list[str]) -> Words:
    """A newline after each text is a word of its own, with the number 0."""
    numbers = _Numbers({"\n": 0})
    find_all = re.compile(rf"{vectorizer.token_pattern}|\n").findall
    found = []
    for i in range(0, len(texts), _TOGETHER):
        text = "\n".join([*texts[i : i + _TOGETHER], ""])
        if vectorizer.lowercase:
            text = text.lower()
        found.append(np.array([numbers[word] for word in find_all(text)], np.int32))
    together = np.concatenate([np.zeros(0, np.int32), *found])
    is_word = together > 0
    ends = np.cumsum(is_word)[~is_word]
    return Words(together[is_word] - 1, np.concatenate([[0], ends]), list(numbers)[1:])


def count(counter: Any, texts: Texts) -> tuple[sp.csr_matrix, list[str]]:
    """Counts of the words of some texts, and these words."""
    numbers, ends, names = words_of(counter, texts)
    ones = np.ones(len(numbers), np.float32)
    X = sp.csr_matrix((ones, numbers, ends), shape=(len(texts), len(names)))
    X.sum_duplicates()
    if counter.binary:
        X.data.fill(1.0)
    return X, names


def hashed(vectorizer: Any, texts: Texts) -> sp.csr_matrix:
    """What a HashingVectorizer makes of texts."""
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.preprocessing import normalize

    numbers, ends, names = words_of(vectorizer, texts)
    shape = (len(texts), vectorizer.n_features)
    if not names:  # of which FeatureHasher makes an error
        return sp.csr_matrix(shape, dtype=np.float32)
    options = {
        name: getattr(vectorizer, name) for name in ("n_features", "dtype", "alternate_sign")
    }
    hasher = FeatureHasher(input_type="string", **options)
    each = hasher.transform([name] for name in names)  # a row with one value for each word
    X = sp.csr_matrix((each.data[numbers], each.indices[numbers], ends), shape=shape)
    X.sum_duplicates()
    if vectorizer.binary:
        X.data.fill(1)
    if vectorizer.norm is not None:
        X = normalize(X, norm=vectorizer.norm, copy=False)
    return sp.csr_matrix(X, dtype=np.float32)
