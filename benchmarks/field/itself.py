"""Rows from Python itself: Unicode character names and docstrings of the standard library."""

from __future__ import annotations

import ast
import functools
import sys
import sysconfig
import unicodedata
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from benchmarks.field.problem import Data, Problem, from_one_pool

#: Parts of the standard library that are not written for its readers.
LEFT_OUT = {"test", "idlelib", "lib2to3", "site-packages", "turtledemo", "__pycache__"}
#: Names that are made by a rule.
BY_RULE = ("CJK ", "HANGUL SYLLABLE", "TANGUT ", "EGYPTIAN ", "NUSHU ", "KHITAN ")
TEST_PART = 1 / 4


@functools.lru_cache(maxsize=1)
def _characters() -> tuple[list[str], list[str]]:
    """Names and categories, such as "Lu" for large letters."""
    named = [(unicodedata.name(chr(code), ""), chr(code)) for code in range(sys.maxunicode)]
    kept = [(name, c) for name, c in named if name and not name.startswith(BY_RULE)]
    return [name for name, _ in kept], [unicodedata.category(c) for _, c in kept]


@functools.lru_cache(maxsize=1)
def _docstrings() -> tuple[list[str], list[str]]:
    """Return docstrings of functions and classes of the standard library with their modules."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder).parts[0].removesuffix(".py")
        if LEFT_OUT & set(path.relative_to(folder).parts) or module.startswith("_"):
            continue
        for node in ast.walk(ast.parse(path.read_text(errors="replace"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            if said := ast.get_docstring(node):
                found.append((said, module))
    return [said for said, _ in found], [module for _, module in found]


def _problem(family: str, variant: str, part: float, read, vectorizer) -> Problem:
    def make(rng: np.random.Generator) -> Data:
        texts, labels = read()
        chosen = rng.permutation(len(texts))[: round(part * len(texts))]
        X = vectorizer.fit_transform([texts[i] for i in chosen])
        y = np.unique([labels[i] for i in chosen], return_inverse=True)[1]
        return from_one_pool(X.tocsr(), y, int(TEST_PART * len(y)), rng)

    return Problem(family, variant, make)


def _first_word() -> tuple[list[str], list[str]]:
    """The first word of a character's name from the others."""
    names = [name.split(" ", 1) for name in _characters()[0] if " " in name]
    return [rest for _, rest in names], [first for first, _ in names]


def problems() -> list[Problem]:
    """Small parts and large ones, as counts, by rarity and hashed."""
    words = r"[^ -]+"
    a_million = HashingVectorizer(alternate_sign=True)  # as it comes: 2**20 columns
    return [
        _problem("unicode", "category, counts", 0.03, _characters, CountVectorizer()),
        _problem(
            "unicode", "category, words", 0.5, _characters, TfidfVectorizer(token_pattern=words)
        ),
        _problem("unicode", "first word", 0.8, _first_word, CountVectorizer(binary=True, min_df=2)),
        _problem("docstrings", "tf-idf", 0.5, _docstrings, TfidfVectorizer(sublinear_tf=True)),
        _problem("docstrings", "counts", 0.15, _docstrings, CountVectorizer(min_df=2)),
        _problem("docstrings", "a million columns", 0.25, _docstrings, a_million),
    ]
