"""Measured data: the sets of the catalogue, and those of scikit-learn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from sklearn.preprocessing import KBinsDiscretizer, PolynomialFeatures, StandardScaler

from benchmarks import datasets
from benchmarks.field.problem import Data, Problem, from_one_pool, from_two_pools
from benchmarks.field.texts import put_together
from bigcat import data

#: Rows for training, at most, so that a problem takes seconds.
MAX_ROWS = 40_000
#: Sets whose files are shuffled and take long to read: of them only the first rows.
PREFIXES = ("yso", "geonames")
MAX_OF_PREFIX, MAX_TEST_OF_PREFIX = 45_000, 15_000
ROWS_OF_STDLIB = 800_000
MAX_TEST_WITHIN = 3_000
#: Ways to make features of texts that the catalogue does not take.
OTHER_WORDS: dict[str, Callable[[], Any]] = {
    "words and pairs": lambda: TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
    "hashed letters": lambda: HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=2**14, alternate_sign=False
    ),
    "counts": lambda: CountVectorizer(min_df=2),
}
#: Test share of scikit-learn's sets.
TEST_PART = 1 / 3

#: Rows and labels for training, and for the test.
Pools = tuple[Any, np.ndarray, Any, np.ndarray]
Change = Callable[[np.random.Generator, Pools], Pools]


def cuts(name: str, *parts: str) -> list[Problem]:
    """A set of the catalogue cut to parts of its training rows, such as "1/32".

    Rows are drawn at random; those of `PREFIXES` from as many first rows as the file has for
    the largest of the parts.
    """
    return [_cut(name, part, part) for part in parts]


def changed(name: str, part: str, into: str, change: Change) -> Problem:
    """A part of a set's rows, transformed."""
    return _cut(name, part, f"{part} {into}", change)


def in_other_words(name: str, part: str, words: str) -> Problem:
    """A part of a set of texts, with features of `OTHER_WORDS` instead of the catalogue's."""
    return _cut(name, part, f"{part} in {words}", words=words)


def within(name: str, part: str) -> Problem:
    """A part of a set whose test rows are other training rows, not the set's own."""

    def apart(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, _, _ = pools
        order = rng.permutation(len(y))
        n_test = min(len(y) // 4, MAX_TEST_WITHIN)
        test, train = order[:n_test], order[n_test:]
        return X[train], y[train], X[test], y[test]

    return _cut(name, part, f"{part} within", apart)


def _cut(
    name: str, part: str, variant: str, change: Change | None = None, words: str | None = None
) -> Problem:
    def make(rng: np.random.Generator) -> Data:
        split, n_all = _load(name, words)
        n = int(n_all * Fraction(part))
        if n > MAX_ROWS:
            raise ValueError(f"{part} of {name} are {n:,} rows, more than {MAX_ROWS:,}")
        rows = np.sort(rng.permutation(len(split.train.y))[:n])
        pools = (split.train.X[rows], split.train.y[rows], split.test.X, split.test.y)
        if change is not None:
            pools = change(rng, pools)
        return from_two_pools(*pools, rng)

    return Problem(name, variant, make)


# Problems made of the rows of a set


def as_components(n_components: int) -> Change:
    """Dense scores of the training rows' leading components, of falling variances."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        found = TruncatedSVD(n_components, random_state=int(rng.integers(2**31))).fit(X)
        return found.transform(X), y, found.transform(X_test), y_test

    return change


def as_hashed(n_columns: int) -> Change:
    """Columns put together in fewer, with random signs."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        both = put_together(rng, X.shape[1], n_columns, sp.vstack([X, X_test]).tocsr())
        return both[: len(y)], y, both[len(y) :], y_test

    return change


def one_against_others(place: int) -> Change:
    """Two classes: the one at the given rank by frequency, and all others."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        chosen = _by_frequency(y)[place]
        return X, (y == chosen).astype(np.int64), X_test, (y_test == chosen).astype(np.int64)

    return change


def some_classes(n_classes: int) -> Change:
    """Rows of so many classes, at random among twice as many frequent ones."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        kept = rng.permutation(_by_frequency(y)[: 2 * n_classes])[:n_classes]
        rows, test = np.isin(y, kept), np.isin(y_test, kept)
        return X[rows], y[rows], X_test[test], y_test[test]

    return change


def merged_classes(n_classes: int) -> Change:
    """Classes merged at random into `n_classes`."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        names, codes = np.unique(np.concatenate([y, y_test]), return_inverse=True)
        together = rng.permutation(len(names)) % n_classes
        return X, together[codes[: len(y)]], X_test, together[codes[len(y) :]]

    return change


def some_columns(share: float) -> Change:
    """A share of the columns, at random."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        kept = np.sort(rng.permutation(X.shape[1])[: round(share * X.shape[1])])
        return X[:, kept], y, X_test[:, kept], y_test

    return change


def as_indicators(above: float = 0.0) -> Change:
    """1 where a value is larger, else 0."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        return (above < X).astype(np.float32), y, (above < X_test).astype(np.float32), y_test

    return change


def as_whitened(n_components: int) -> Change:
    """Scores of the leading components, all scaled to variance one."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = as_components(n_components)(rng, pools)
        scaler = StandardScaler().fit(X)
        return scaler.transform(X), y, scaler.transform(X_test), y_test

    return change


def as_polynomials(degree: int) -> Change:
    """Products of columns beside the columns."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        made = PolynomialFeatures(degree, include_bias=False).fit(X)
        return made.transform(X), y, made.transform(X_test), y_test

    return change


def as_bins(n_bins: int) -> Change:
    """Columns as one-hot bins of equal frequency; sparse."""

    def change(rng: np.random.Generator, pools: Pools) -> Pools:
        X, y, X_test, y_test = pools
        made = KBinsDiscretizer(n_bins, quantile_method="averaged_inverted_cdf").fit(X)
        return made.transform(X), y, made.transform(X_test), y_test

    return change


def _by_frequency(y: np.ndarray) -> np.ndarray:
    """Classes, the most frequent first."""
    classes, counts = np.unique(y, return_counts=True)
    return classes[np.argsort(-counts, kind="stable")]


# Reading


@functools.lru_cache(maxsize=1)  # a family's problems come one after another
def _load(name: str, words: str | None = None) -> tuple[data.Split, int]:
    """Return the set, with the features `words` if given, and its number of training rows."""
    if name == "stdlib":
        split = data.stdlib_corpus(ROWS_OF_STDLIB)
        return split, len(split.train)
    n_all = next(entry["rows_train"] for entry in datasets.available() if entry["name"] == name)
    first: dict[str, Any] = {}
    if name in PREFIXES:
        first = {"n_train": MAX_OF_PREFIX, "n_test": MAX_TEST_OF_PREFIX}
    if words is not None:
        first["vectorizer"] = OTHER_WORDS[words]()
    return datasets.load(name, unseen="keep", **first), n_all


def splits(name: str, n_splits: int, *parts: float, first: int = 0) -> list[Problem]:
    """A set of scikit-learn's: some random splits of all rows, and parts of the training rows.

    Splits are numbered from `first` on; other numbers are other splits.
    """

    def make(part: float, rng: np.random.Generator) -> Data:
        X, y = _from_scikit_learn(name)
        order = rng.permutation(len(y))
        n_test = int(TEST_PART * len(y))
        rest = order[n_test:]
        rest = rest[: round(part * len(rest))]
        return from_two_pools(X[rest], y[rest], X[order[:n_test]], y[order[:n_test]], rng)

    numbers = range(first, first + n_splits)
    whole = [Problem(name, f"split {k}", functools.partial(make, 1.0)) for k in numbers]
    return whole + [Problem(name, f"part {p:g}", functools.partial(make, p)) for p in parts]


def derived(name: str, into: str, change: Change) -> Problem:
    """A random split of a set of scikit-learn's, transformed."""

    def make(rng: np.random.Generator) -> Data:
        X, y = _from_scikit_learn(name)
        order = rng.permutation(len(y))
        n_test = int(TEST_PART * len(y))
        test, train = order[:n_test], order[n_test:]
        return from_two_pools(*change(rng, (X[train], y[train], X[test], y[test])), rng)

    return Problem(name, into, make)


def _from_scikit_learn(name: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":  # a number: which fifth it is in
        y = np.searchsorted(np.quantile(y, [0.2, 0.4, 0.6, 0.8]), y)
    return X, y


def small_tables(name: str, n_splits: int) -> list[Problem]:
    """Return a small table of the catalogue whose test part is too small: random splits."""

    def make(rng: np.random.Generator) -> Data:
        split, _ = _load(name)
        X = np.concatenate([split.train.X, split.test.X])
        y = np.concatenate([split.train.y, split.test.y])
        return from_one_pool(X, y, int(TEST_PART * len(y)), rng)

    return [Problem(name, f"split {k}", make) for k in range(n_splits)]
