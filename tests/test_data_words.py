"""Words that are cut, counted and hashed together are those of scikit-learn, bit by bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from bigcat.data import words

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


@pytest.fixture(params=["on one line each", "on several lines"])
def texts(request):
    return TEXTS if request.param == "on one line each" else [*TEXTS, "two\nlines", "\n"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("more", [{}, {"alternate_sign": False, "norm": "l1"}, {"norm": None}])
def test_hashed(texts, options, more, monkeypatch):
    monkeypatch.setattr(words, "_TOGETHER", 5)
    vectorizer = HashingVectorizer(n_features=16, dtype=np.float32, **options, **more)
    assert_same_bits(words.hashed(vectorizer, texts), vectorizer.transform(texts))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_counted(texts, options, monkeypatch):
    monkeypatch.setattr(words, "_TOGETHER", 5)
    counter = CountVectorizer(**options)
    found, names = words.count(counter, texts)
    expected = counter.fit_transform(texts)
    assert sorted(names) == sorted(counter.vocabulary_)
    found = sp.csr_matrix(found[:, np.argsort(names)])
    found.sort_indices()
    assert_same_bits(found, expected[:, [counter.vocabulary_[name] for name in sorted(names)]])


def test_of_no_words():
    vectorizer = HashingVectorizer(n_features=8)
    for texts in ([], ["", " "]):
        assert words.hashed(vectorizer, texts).shape == (len(texts), 8)
        assert words.count(CountVectorizer(), texts)[0].shape == (len(texts), 0)
