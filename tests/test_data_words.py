"""Words that are cut, counted and hashed together are those of scikit-learn, bit by bit."""

import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.utils import murmurhash3_32

from bigcat.data import vectorizers, words
from bigcat.data.spans import Texts, WordTable
from bigcat.kernels.number_words import murmur_hashes

TEXTS = [
    "The cat, the DOG and the cat_1",
    "",
    "  ,;! ",
    "ΟΔΟΣ",  # its last letter is another one in lower case, as it ends a word
    "Σ",
    "İstanbul straße a b\tcc\x0bdd\x85e",
    "naïve café 日本語 ½ 1e5 a\u0300",
    "the" * 50,
    *(f"word{i % 7} Word{i % 3} w" for i in range(20)),
]
OPTIONS = [
    {},
    {"token_pattern": r"\w+"},
    {"token_pattern": r"\w+", "lowercase": False},
    {"token_pattern": r"\w+", "binary": True},
    {"token_pattern": r"[a-z]\w*"},
    {"ngram_range": (1, 2)},
    {"analyzer": "char_wb", "ngram_range": (2, 3)},
    {"strip_accents": "unicode"},
    {"stop_words": ["the"]},
]


def assert_same_bits(found, expected):
    expected = sp.csr_matrix(expected, dtype=np.float32)
    expected.sort_indices()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def spelled(found):
    """Counts with their columns in order, and their names."""
    found.counts.sort_indices()
    return found.counts, found.names.decoded()


@pytest.fixture(params=["on one line each", "on several lines"])
def texts(request):
    return TEXTS if request.param == "on one line each" else [*TEXTS, "two\nlines", "\n"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("more", [{}, {"alternate_sign": False, "norm": "l1"}, {"norm": None}])
def test_hashed(texts, options, more):
    vectorizer = HashingVectorizer(n_features=16, dtype=np.float32, **options, **more)
    assert_same_bits(words.hashed(vectorizer, Texts.of(texts)), vectorizer.transform(texts))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_counted(texts, options):
    counter = CountVectorizer(**options)
    found, names = spelled(words.words_of(counter, Texts.of(texts)))
    expected = counter.fit_transform(texts)
    assert sorted(names) == sorted(counter.vocabulary_)
    found = sp.csr_matrix(found[:, np.argsort(names)])
    found.sort_indices()
    assert_same_bits(found, expected[:, [counter.vocabulary_[name] for name in sorted(names)]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("more", [{}, {"sublinear_tf": True, "norm": "l1"}, {"use_idf": False}])
def test_weighed(texts, options, more, dtype):
    """By words of other texts, as scikit-learn weighs them in the vectoriser's precision."""
    assert_weighed(TfidfVectorizer(**options, **more, dtype=dtype), texts)


def assert_weighed(vectorizer, texts):
    vectorizer.fit(texts[::2])
    found = words.words_of(vectorizer, Texts.of(texts))
    X = vectorizers.weigh(vectorizer, vectorizers.table_of(vectorizer), found)
    assert_same_bits(X, vectorizer.transform(texts))


def test_of_no_words():
    vectorizer = HashingVectorizer(n_features=8)
    for texts in ([], ["", " "]):
        assert words.hashed(vectorizer, Texts.of(texts)).shape == (len(texts), 8)
        assert words.words_of(CountVectorizer(), Texts.of(texts)).counts.shape == (len(texts), 0)


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("pattern", words._RUNS)
def test_words_of_any_characters_are_those_of_scikit_learn(pattern, lowercase):
    """Characters of one byte and of more, at the beginning, the end and beside each other."""
    rng = np.random.default_rng(0)
    letters = np.array(list("aZ09_ .-\n\t\x00\x7fé\u0300Σßİ日½\u2028\u212a\u023aĀ😀𝔘𐐀\U00020000"))
    plain = letters[:12]
    texts = [
        "".join(rng.choice(plain if i % 2 else letters, rng.integers(9))) for i in range(3_000)
    ]
    counter = CountVectorizer(token_pattern=pattern, lowercase=lowercase)
    assert_counted(counter, texts)


def assert_counted(counter, texts):
    analyse = counter.build_analyzer()
    counts, names = spelled(words.words_of(counter, Texts.of(texts)))
    assert len(set(names)) == len(names)
    for row, text in zip(counts, texts):
        found = {names[j]: times for j, times in zip(row.indices, row.data)}
        assert found == Counter(analyse(text))


@pytest.mark.parametrize("lowercase", [True, False])
def test_letters_are_those_of_python(lowercase):
    letters = words.letters_of_words(lowercase, 0x110000)
    for code in range(0x110000):
        if chr(code) not in words._ODD_LETTERS:
            written = chr(code).lower() if lowercase else chr(code)
            found = re.findall(r"\w+", written)
            assert letters[code] == (ord(found[0]) if found else 0)


def test_more_words_than_a_table_of_them_begins_with():
    texts = [
        f"word{i % 4_000} {'x' * (i % 50)}y{i % 7} {'x' * (i % 50)}y{i % 7}" for i in range(12_000)
    ]
    assert_counted(CountVectorizer(), texts)


@given(st.lists(st.binary(max_size=20)), st.lists(st.binary(max_size=20)))
def test_a_table_of_words(first, second):
    """Any bytes, with zeros and without; words that are added and words that are looked for."""
    table = WordTable()
    known: dict[bytes, int] = {}
    expected = [known.setdefault(word, len(known)) for word in first]
    assert table.add(one_after_the_other(first)).tolist() == expected
    assert table.find(one_after_the_other(second)).tolist() == [known.get(w, -1) for w in second]
    expected = [known.setdefault(word, len(known)) for word in second]
    assert table.add(one_after_the_other(second)).tolist() == expected
    words = table.words
    assert [words.raw[begin:end] for begin, end in words.spans.tolist()] == list(known)
    assert len(table) == len(known)


def one_after_the_other(found):
    return Texts.one_after_the_other(b"".join(found), np.cumsum([0, *map(len, found)]))


@given(st.binary(max_size=40))
def test_hashes_of_words_are_those_of_scikit_learn(word):
    hashes = np.empty(1, np.int64)
    murmur_hashes(np.frombuffer(word, np.uint8), np.array([[0, len(word)]]), hashes)
    assert hashes[0] == murmurhash3_32(word, seed=0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 99)), max_size=200))
def test_words_are_put_in_columns(row):
    """Columns in order, those of no column left out, those of one column added up."""
    columns = np.array([5, -1, 2**31 - 2, 0, 5, -1, 3, 3, 3, 2])
    signs = np.array([1, 1, -1, -1, -1, 1, 1, 1, -1, 1])
    expected: dict[int, int] = {}
    for word, times in row:
        if columns[word] >= 0:
            expected[columns[word]] = expected.get(columns[word], 0) + signs[word] * times
    numbers, times = np.array([*row, (0, 0)], np.int32)[:-1].T.copy()
    counts = sp.csr_matrix((times, numbers, np.array([0, 0, len(row), len(row)])), shape=(3, 10))
    X = words.in_columns(words.Words(counts, Texts.of([])), columns, signs, 2**31 - 1, np.float64)
    assert X.indices.tolist() == sorted(expected)
    assert X.data.tolist() == [expected[column] for column in sorted(expected)]
    assert X.indptr.tolist() == [0, 0, len(expected), len(expected)]


def test_interpreted_kernels_agree():
    """They are plain Python too: words are the same with compilation switched off."""
    code = (
        "from tests.test_data_words import *; v = HashingVectorizer(n_features=16);"
        "assert_same_bits(words.hashed(v, Texts.of(TEXTS)), v.transform(TEXTS));"
        "assert_counted(CountVectorizer(), TEXTS);"
        "assert_weighed(TfidfVectorizer(dtype=np.float32), TEXTS)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:overflow", "-c", code],  # hashes wrap around
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
