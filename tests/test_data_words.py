"""Words that are cut, counted and hashed together are those of scikit-learn, bit by bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from bigcat.data import words
from bigcat.data.text import Texts

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
    assert_same_bits(words.hashed(vectorizer, Texts.of(texts)), vectorizer.transform(texts))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_counted(texts, options, monkeypatch):
    monkeypatch.setattr(words, "_TOGETHER", 5)
    counter = CountVectorizer(**options)
    found, names = words.count(counter, Texts.of(texts))
    expected = counter.fit_transform(texts)
    assert sorted(names) == sorted(counter.vocabulary_)
    found = sp.csr_matrix(found[:, np.argsort(names)])
    found.sort_indices()
    assert_same_bits(found, expected[:, [counter.vocabulary_[name] for name in sorted(names)]])


def test_of_no_words():
    vectorizer = HashingVectorizer(n_features=8)
    for texts in ([], ["", " "]):
        assert words.hashed(vectorizer, Texts.of(texts)).shape == (len(texts), 8)
        assert words.count(CountVectorizer(), Texts.of(texts))[0].shape == (len(texts), 0)


@pytest.mark.parametrize("pattern", words._WITHIN_LINES)
def test_words_of_any_characters_are_those_of_scikit_learn(pattern):
    """Characters of one byte and of more, at the beginning, the end and beside each other."""
    rng = np.random.default_rng(0)
    letters = np.array(list("aZ09_ .-\n\t\x00\x7fé\u0300Σß日½\u2028"))
    plain = letters[:12]
    texts = [
        "".join(rng.choice(plain if i % 2 else letters, rng.integers(9))) for i in range(3_000)
    ]
    for lowercase in (True, False):
        counter = CountVectorizer(token_pattern=pattern, lowercase=lowercase)
        analyse = counter.build_analyzer()
        found = words.words_of(counter, Texts.of(texts))
        spelled = [found.names[number] for number in found.numbers]
        assert spelled == [word for text in texts for word in analyse(text)]
        assert np.diff(found.ends).tolist() == [len(analyse(text)) for text in texts]


def test_more_words_than_a_table_of_them_begins_with():
    texts = [f"word{i % 4_000} {'x' * (i % 50)}y{i % 7}" for i in range(12_000)]
    found = words.words_of(CountVectorizer(), Texts.of(texts))
    assert [found.names[number] for number in found.numbers] == " ".join(texts).split()
    assert len(set(found.names)) == len(found.names)
