"""Sparse made-up rows of other kinds: long and hashed texts, ratings, events, one-hot bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.field.dense import Draw, labels, zipf
from benchmarks.field.sparse import Rows, csr, unit_rows


def long_texts(n_features: int, n_classes: int, signal: float, words: float) -> Draw:
    """Texts of lognormal length, some `words` in the median: logarithms of counts by rarity.

    A share `signal` of the words is of the class's own sixty.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.4)
        own = rng.integers(n_features, size=(n_classes, 60))
        lengths = np.exp(rng.normal(np.log(words), 0.6, n)).astype(int) + 5
        text = np.repeat(np.arange(n), lengths)
        column = rng.choice(n_features, size=len(text), p=zipf(n_features, 1.0))
        from_class = rng.random(len(text)) < signal
        picks = own[y[text], rng.integers(60, size=len(text))]
        column = np.where(from_class, picks, column)
        ones = np.ones(len(text), np.float32)
        X = sp.csr_matrix((ones, (text, column)), (n, n_features))
        X.data = 1.0 + np.log(X.data)
        rarity = np.log(n / (1.0 + np.bincount(X.indices, minlength=n_features))).clip(0.1)
        return unit_rows(X.multiply(rarity).tocsr().astype(np.float32)).tocsr(), y

    return draw


def hashed(draw: Draw, n_columns: int) -> Draw:
    """Columns hashed at random into fewer, with random signs."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return put_together(rng, X.shape[1], n_columns, X), y

    return change


def put_together(rng: np.random.Generator, n_features: int, n_columns: int, X: Any) -> Any:
    """The rows in hashed columns."""
    signs = rng.choice(np.array([-1.0, 1.0], np.float32), n_features)
    places = (np.arange(n_features), rng.integers(n_columns, size=n_features))
    return (X @ sp.csr_matrix((signs, places), (n_features, n_columns))).tocsr()


def grouped_texts(
    n_features: int, n_groups: int, each: int, of_group: float, of_class: float, words: int = 20
) -> Draw:
    """Classes in groups: shares of a row's words are its group's own, and its class's own."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_groups * each, 0.6)
        size = (n, words)
        groups = rng.integers(n_features, size=(n_groups, 30))
        own = rng.integers(n_features, size=(n_groups * each, 5))
        columns = rng.choice(n_features, size=size, p=zipf(n_features, 0.9))
        kind = rng.random(size)
        by_group = groups[(y // each)[:, None], rng.integers(30, size=size)]
        by_class = own[y[:, None], rng.integers(5, size=size)]
        columns = np.where(kind < of_group, by_group, columns)
        columns = np.where(kind > 1.0 - of_class, by_class, columns)
        return unit_rows(csr(columns, n_features)).tocsr(), y

    return draw


def ratings(n_items: int, n_classes: int, sharpness: float, rated: int = 12) -> Draw:
    """Preferred kind of item from ratings of 1 to 5 of some popular items."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        kinds = rng.standard_normal((n_classes, 6))
        items = rng.standard_normal((n_items, 6))
        people = rng.standard_normal((n, 6))
        scores = sharpness * people @ kinds.T + rng.gumbel(size=(n, n_classes))
        seen = rng.choice(n_items, size=(n, rated), p=zipf(n_items, 0.6))
        liking = np.einsum("nr,nir->ni", people, items[seen]) + rng.standard_normal((n, rated))
        X = csr(seen, n_items, (3.0 + liking).round().clip(1, 5))
        X.data = np.minimum(X.data, 5.0)
        return X, np.argmax(scores, axis=1)

    return draw


def events(n_features: int, n_classes: int, contrast: float, kinds: int = 8) -> Draw:
    """Counts of events: few kinds per row, each from once to thousands of times."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        which = rng.choice(n_features, size=(n, kinds), p=zipf(n_features, 0.8))
        logs = contrast * rng.standard_normal((n_classes, n_features))
        level = logs[y[:, None], which] + rng.normal(1.0, 1.5, (n, kinds))
        return csr(which, n_features, 1.0 + rng.poisson(np.exp(level.clip(-3.0, 8.0)))), y

    return draw


def binned(draw: Draw, n_bins: int) -> Draw:
    """Dense columns as one-hot bins of equal frequency."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        edges = np.quantile(X, np.arange(1, n_bins) / n_bins, axis=0)
        bins = [np.searchsorted(edges[:, j], X[:, j]) + j * n_bins for j in range(X.shape[1])]
        return csr(np.stack(bins, axis=1), n_bins * X.shape[1]), y

    return change


def worn_copies(copies: int, kept: float) -> Any:
    """The same number of rows, as copies of which each lacks some values.

    Training rows only; copies of a row form a group for the validation split.
    """

    def change(
        rng: np.random.Generator, X: Any, y: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        rows = np.tile(np.arange(len(y) // copies), copies)
        worn = X[rows].tocsr(copy=True)
        worn.data *= rng.random(worn.nnz) < kept
        worn.eliminate_zeros()
        return worn, y[rows], rows

    return change
