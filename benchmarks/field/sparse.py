"""Sparse made-up rows: words of topics, baskets of items, categories, codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.cost_against_classes import coded_classes
from benchmarks.field.dense import Draw, labels, zipf

Rows = tuple[Any, np.ndarray]


def csr(columns: np.ndarray, n_features: int, values: np.ndarray | None = None) -> Any:
    """A row per row of `columns`, values added up where a column comes twice; float32."""
    n, entries = columns.shape
    numbers = np.ones(columns.size) if values is None else values.ravel()
    ends = np.arange(0, columns.size + 1, entries)
    X = sp.csr_matrix(
        (numbers.astype(np.float32), columns.ravel().astype(np.int32), ends),
        shape=(n, n_features),
    )
    X.sum_duplicates()
    return X


def unit_rows(X: Any) -> Any:
    """Every row divided by its length."""
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.diags_array(1.0 / np.maximum(lengths, 1e-12)).astype(np.float32) @ X


def topics(
    n_features: int,
    n_classes: int,
    signal: float,
    exponent: float = 1.0,
    words: int = 20,
    unit: bool = True,
) -> Draw:
    """Texts: a share `signal` of a row's words are its class's own twelve, the others common ones.

    Common words follow Zipf's law.  Rows are counts, or counts scaled to unit length.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, exponent)
        own = rng.integers(n_features, size=(n_classes, 12))
        common = rng.permutation(n_features)
        columns = common[rng.choice(n_features, size=(n, words), p=zipf(n_features, 1.0))]
        from_class = rng.random((n, words)) < signal
        picks = own[y[:, None], rng.integers(12, size=(n, words))]
        X = csr(np.where(from_class, picks, columns), n_features)
        return (unit_rows(X).tocsr() if unit else X), y

    return draw


def baskets(n_items: int, n_clusters: int, loyalty: float, items: int = 6) -> Draw:
    """The next item from those in the basket: most come from one cluster, popular ones first."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        items_of = rng.permutation(n_items).reshape(n_clusters, -1)
        popularity = zipf(items_of.shape[1], 1.0)
        anything = rng.permutation(n_items)
        cluster = rng.choice(n_clusters, size=n, p=zipf(n_clusters, 0.5))
        picks = rng.choice(len(popularity), size=(n, items + 1), p=popularity)
        bought = items_of[cluster[:, None], picks]
        astray = rng.random(bought.shape) > loyalty
        bought[astray] = anything[rng.choice(n_items, size=astray.sum(), p=zipf(n_items, 1.0))]
        X = csr(bought[:, 1:], n_items)
        X.data[:] = 1.0
        return X, bought[:, 0]

    return draw


def chains(
    n_items: int, successors: int, loyalty: float, before: int = 4, by_place: bool = False
) -> Draw:
    """The next item of a walk: with probability `loyalty` one of the last one's few successors.

    The items before are one-hot by item, older ones with less weight; or, `by_place`, by item and
    place, all with the same.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        popular = rng.permutation(n_items)
        p = zipf(n_items, 1.0)
        follows = popular[rng.choice(n_items, size=(n_items, successors), p=p)]
        walk = np.empty((n, before + 1), np.int64)
        walk[:, 0] = popular[rng.choice(n_items, size=n, p=p)]
        for step in range(1, before + 1):
            last = walk[:, step - 1]
            loyal = follows[last, rng.integers(successors, size=n)]
            other = popular[rng.choice(n_items, size=n, p=p)]
            walk[:, step] = np.where(rng.random(n) < loyalty, loyal, other)
        if by_place:
            columns = walk[:, :before] + n_items * np.arange(before)
            return csr(columns, before * n_items), walk[:, before]
        weights = np.tile(0.7 ** np.arange(before)[::-1], (n, 1))
        return csr(walk[:, :before], n_items, weights), walk[:, before]

    return draw


def categories(
    cardinalities: tuple[int, ...], n_classes: int, effect: float, n_numeric: int = 0
) -> Draw:
    """One-hot categories of Zipf frequencies, each value with an effect on every class.

    Numeric columns beside them have means and scales as they come.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        starts = np.concatenate([[0], np.cumsum(cardinalities)])
        columns = np.empty((n, len(cardinalities)), np.int64)
        scores = rng.gumbel(size=(n, n_classes))
        for j, size in enumerate(cardinalities):
            code = rng.choice(size, size=n, p=zipf(size, 1.0))
            scores += (effect * rng.standard_normal((size, n_classes)))[code]
            columns[:, j] = starts[j] + code
        X = csr(columns, int(starts[-1]))
        if n_numeric:
            numbers = rng.standard_normal((n, n_numeric))
            scores += effect * numbers @ rng.standard_normal((n_numeric, n_classes))
            units = 10.0 ** rng.uniform(-1.0, 3.0, n_numeric)
            numbers = units * (numbers + rng.uniform(-3.0, 3.0, n_numeric))
            X = sp.hstack([X, sp.csr_matrix(numbers.astype(np.float32))]).tocsr()
        return X, np.argmax(scores, axis=1)

    return draw


def codes(n_classes: int) -> Draw:
    """`coded_classes`, whose truth is linear in 128 features at any number of classes."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        seed = int(rng.integers(2**31))
        made = coded_classes(n_classes, max(n, 4 * n_classes), 1, seed)
        rows = rng.permutation(len(made.y))[:n]  # the first have one of each class
        return made.X[rows], made.y[rows]

    return draw


def weighted_texts(n_features: int, n_classes: int, main: float, words: int = 30) -> Draw:
    """Texts of two classes each, whose label is the one with the share `main` of the words.

    Every class has a Zipf law over an order of its own; counts are weighted by the logarithm of
    how rare words are, and rows are of unit length.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y, other = (labels(rng, n, n_classes, 0.7) for _ in range(2))
        own = rng.integers(n_features, size=(n_classes, 200))
        which = np.where(rng.random((n, words)) < main, y[:, None], other[:, None])
        places = rng.choice(200, size=(n, words), p=zipf(200, 0.8))
        X = csr(own[which, places], n_features)
        rarity = np.log(n / (1.0 + np.bincount(X.indices, minlength=n_features))).clip(0.1)
        return unit_rows(X.multiply(rarity).tocsr().astype(np.float32)).tocsr(), y

    return draw


def tags(n_features: int, n_classes: int, strength: float) -> Draw:
    """Yes or no: every class has each tag with a probability of its own, most of them small."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        logits = rng.normal(-4.0, 1.0, n_features)
        logits = logits + strength * rng.standard_normal((n_classes, n_features))
        has = rng.random((n, n_features)) < 1.0 / (1.0 + np.exp(-logits[y]))
        return sp.csr_matrix(has.astype(np.float32)), y

    return draw


def amounts(n_payees: int, n_classes: int, effect: float, sigma: float) -> Draw:
    """Payments to payees, few per row, in lognormal amounts; the payees determine the label."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        payees = rng.choice(n_payees, size=(n, 5), p=zipf(n_payees, 0.8))
        paid = np.exp(rng.normal(3.0, sigma, (n, 5)))
        coef = effect * rng.standard_normal((n_payees, n_classes))
        scores = coef[payees].sum(axis=1) + rng.gumbel(size=(n, n_classes))
        return csr(payees, n_payees, paid), np.argmax(scores, axis=1)

    return draw


def latent_baskets(n_items: int, rank: int, sharpness: float, items: int = 8) -> Draw:
    """Purchases of persons and items with vectors: near items, popular ones more often."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        popularity = np.log(rng.permutation(zipf(n_items, 0.8)))
        vectors = rng.standard_normal((n_items, rank)) / np.sqrt(rank)
        bought = np.empty((n, items + 1), np.int64)
        for start in range(0, n, 1_000):
            people = rng.standard_normal((min(1_000, n - start), rank))
            scores = sharpness * people @ vectors.T + popularity
            for item in range(items + 1):
                noise = rng.gumbel(size=scores.shape)
                bought[start : start + len(people), item] = np.argmax(scores + noise, axis=1)
        X = csr(bought[:, 1:], n_items)
        X.data[:] = 1.0
        return X, bought[:, 0]

    return draw


def crossed(cardinality: int, n_classes: int, effect: float) -> Draw:
    """Three categories and all pairs of their values, as one-hot columns; pairs matter, too."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        size = cardinality
        codes = rng.choice(size, size=(n, 3), p=zipf(size, 0.7))
        columns = [codes[:, j] + j * size for j in range(3)]
        for number, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
            columns.append(3 * size + number * size**2 + codes[:, a] * size + codes[:, b])
        n_features = 3 * size + 3 * size**2
        coef = effect * rng.standard_normal((n_features, n_classes))
        coef[3 * size :] *= 0.5
        scores = sum(coef[column] for column in columns) + rng.gumbel(size=(n, n_classes))
        return csr(np.stack(columns, axis=1), n_features), np.argmax(scores, axis=1)

    return draw
