"""Sparse made-up rows of more kinds: interactions, chains, nested places, peaks, digits, pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.field.dense import Draw, labels, zipf
from benchmarks.field.letters import from_lists
from benchmarks.field.repeated import DrawOfPeople
from benchmarks.field.sparse import Rows, csr, unit_rows


def _choices(rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Draw a class per row from the softmax of its scores."""
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


# Categories


def exclusive_pairs(n_columns: int, n_classes: int, right: float, values: int = 4) -> Draw:
    """One-hot categories; the class is a sum of two of them modulo its number of values.

    Other columns are slightly more frequent in some classes, which is all that single columns show.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        codes = rng.integers(values, size=(n, n_columns))
        y = (codes[:, 0] + codes[:, 1]) % n_classes
        y = np.where(rng.random(n) < right, y, rng.integers(n_classes, size=n))
        follows = rng.random((n, n_columns - 2)) < 0.15
        codes[:, 2:] = np.where(follows, (y % values)[:, None], codes[:, 2:])
        return csr(codes + values * np.arange(n_columns), values * n_columns), y

    return draw


def nested_places(n_shops: int, n_classes: int, effect: float) -> Draw:
    """Shops in towns in regions, all one-hot; effects add up, and most shops are rare."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        n_towns, n_regions = n_shops // 10, max(n_shops // 100, 2)
        shop = rng.permutation(n_shops)[rng.choice(n_shops, size=n, p=zipf(n_shops, 0.9))]
        town = rng.integers(n_towns, size=n_shops)[shop]
        region = rng.integers(n_regions, size=n_towns)[town]
        scores = np.zeros((n, n_classes))
        for size, code in ((n_shops, shop), (n_towns, town), (n_regions, region)):
            scores += effect * rng.standard_normal((size, n_classes))[code]
        columns = np.column_stack([shop, n_shops + town, n_shops + n_towns + region])
        return csr(columns, n_shops + n_towns + n_regions), _choices(rng, scores)

    return draw


def barcodes(n_digits: int, n_classes: int, wrong: float) -> Draw:
    """Digits one-hot by place; the class is a maker, whose prefix has three to seven digits."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.8)
        prefixes = rng.integers(10, size=(n_classes, n_digits))
        prefixes[:, :2] = rng.integers(10, size=(max(n_classes // 10, 2), 2))[
            rng.integers(max(n_classes // 10, 2), size=n_classes)
        ]
        length = rng.integers(3, 8, size=n_classes)
        inside = np.arange(n_digits) < length[y][:, None]
        misread = rng.random((n, n_digits)) < wrong
        digits = np.where(inside & ~misread, prefixes[y], rng.integers(10, size=inside.shape))
        return csr(digits + 10 * np.arange(n_digits), 10 * n_digits), y

    return draw


def given_away(n_values: int, n_classes: int, right: float) -> Draw:
    """One category of many values nearly determines the class; four others are noise."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        code = rng.choice(n_values, size=n, p=zipf(n_values, 0.7))
        y = rng.integers(n_classes, size=n_values)[code]
        y = np.where(rng.random(n) < right, y, rng.integers(n_classes, size=n))
        others = rng.choice(50, size=(n, 4), p=zipf(50, 1.0)) + n_values + 50 * np.arange(4)
        return csr(np.column_stack([code, others]), n_values + 200), y

    return draw


# Sequences


def second_order(n_symbols: int, sharpness: float) -> Draw:
    """The next symbol of a chain from two before, one-hot by place; rows are in order."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        follows = rng.integers(n_symbols, size=(n_symbols, n_symbols, 3))
        single = rng.integers(n_symbols, size=(n_symbols, 3))
        any_ = rng.choice(n_symbols, size=n + 2, p=zipf(n_symbols, 0.8))
        kind, pick = rng.random(n + 2), rng.integers(3, size=n + 2)
        walk = any_.copy()
        for t in range(2, n + 2):
            if kind[t] < sharpness / 2:
                walk[t] = follows[walk[t - 2], walk[t - 1], pick[t]]
            elif kind[t] < sharpness:
                walk[t] = single[walk[t - 1], pick[t]]
        return csr(np.column_stack([walk[1:-1], n_symbols + walk[:-2]]), 2 * n_symbols), walk[2:]

    return draw


def hidden_states(n_symbols: int, n_classes: int, stay: float, around: int = 3) -> Draw:
    """The hidden state of a chain from the symbols around it, one-hot by place; in order."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        size = n + 2 * around
        change = rng.random(size) > stay
        change[0] = True
        state = rng.integers(n_classes, size=change.sum())[np.cumsum(change) - 1]
        emits = rng.dirichlet(np.full(n_symbols, 0.1), size=n_classes).cumsum(axis=1)
        symbol = np.array(
            [np.searchsorted(emits[k], u) for k, u in zip(state, rng.random(size))]
        ).clip(0, n_symbols - 1)
        width = 2 * around + 1
        windows = np.lib.stride_tricks.sliding_window_view(symbol, width)
        return csr(windows + n_symbols * np.arange(width), width * n_symbols), state[around:-around]

    return draw


def splice_sites(length: int, n_classes: int, strength: float) -> Draw:
    """Letters of a sequence one-hot by place, around a site whose motif moves by one letter."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.8)
        letters = rng.integers(4, size=(n, length))
        motifs = rng.integers(4, size=(n_classes, 8))
        first = length // 2 - 4 + rng.integers(-1, 2, size=n)
        for place in range(8):
            there = rng.random(n) < strength
            letters[there, first[there] + place] = motifs[y[there], place]
        return csr(letters + 4 * np.arange(length), 4 * length), y

    return draw


def search_sessions(n_words: int, n_classes: int, each: float, loyalty: float) -> DrawOfPeople:
    """Words of a query and the hashed page before; the page that is opened; users have tastes."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
        user = np.repeat(np.arange(n), rng.geometric(1.0 / each, size=n))[:n]
        words_of = rng.choice(n_words, size=(n_classes, 6), p=zipf(n_words, 0.5))
        pages = rng.choice(n_classes, size=(user[-1] + 1, 5), p=zipf(n_classes, 0.6))
        own = pages[user, rng.integers(5, size=n)]
        other = rng.choice(n_classes, size=n, p=zipf(n_classes, 0.6))
        y = rng.permutation(n_classes)[np.where(rng.random(n) < loyalty, own, other)]
        words = words_of[y[:, None], rng.integers(6, size=(n, 3))]
        noise = rng.choice(n_words, size=words.shape, p=zipf(n_words, 0.9))
        words = np.where(rng.random(words.shape) < 0.6, words, noise)
        hashed = np.roll(y, 1) % (n_words // 2)
        before = np.where(np.diff(user, prepend=-1) == 0, hashed, n_words // 2)
        columns = np.column_stack([words, n_words + before])
        return csr(columns, n_words + n_words // 2 + 1), y, user

    return draw


# Amounts and counts


def mass_peaks(n_bins: int, n_classes: int, kept: float) -> Draw:
    """Square roots of the intensities of a substance's peaks; some are lost, some are noise."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.3)
        common = rng.permutation(n_bins)
        places = common[rng.choice(n_bins, size=(n_classes, 20), p=zipf(n_bins, 0.5))]
        heights = rng.gamma(0.6, 1.0, (n_classes, 20))
        here = places[y] + (rng.random((n, 20)) < 0.1)
        strength = heights[y] * np.exp(0.4 * rng.standard_normal((n, 20)))
        strength *= rng.random((n, 20)) < kept
        noise = rng.integers(n_bins, size=(n, 10))
        columns = np.hstack([here % n_bins, noise])
        values = np.sqrt(np.hstack([strength, rng.gamma(0.5, 0.2, noise.shape)]))
        X = unit_rows(csr(columns, n_bins, values)).tocsr()
        X.eliminate_zeros()
        return X, y

    return draw


def species(n_species: int, n_classes: int, width: float) -> Draw:
    """Counts of the species on a plot; each lives around a point of two gradients."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        where = rng.uniform(-1.0, 1.0, (n, 2))
        homes = rng.uniform(-1.3, 1.3, (n_species, 2))
        centres = rng.uniform(-1.0, 1.0, (n_classes, 2))
        distances = ((where[:, None] - centres) ** 2).sum(axis=2)
        y = _choices(rng, -distances / 0.02)
        far = ((where[:, None] - homes) ** 2).sum(axis=2) / width**2
        usual = np.exp(rng.normal(0.0, 1.0, n_species))
        counts = rng.poisson(usual * np.exp(-far / 2.0) * rng.gamma(1.0, 1.0, far.shape))
        return sp.csr_matrix(counts.astype(np.float32)), y

    return draw


def portfolios(n_assets: int, n_classes: int, loyalty: float) -> Draw:
    """Shares of what a fund holds, which add up to 1; a few holdings are most of it."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        lengths = 3 + rng.poisson(20.0, size=n)
        fund = np.repeat(np.arange(n), lengths)
        own = rng.integers(n_assets, size=(n_classes, 60))
        anything = rng.choice(n_assets, size=len(fund), p=zipf(n_assets, 0.8))
        picks = own[y[fund], rng.integers(60, size=len(fund))]
        held = np.where(rng.random(len(fund)) < loyalty, picks, anything)
        amounts = rng.pareto(1.2, len(fund)) + 0.1
        X = sp.csr_matrix((amounts, (fund, held)), (n, n_assets), dtype=np.float32)
        X.data /= np.repeat(np.asarray(X.sum(axis=1)).ravel(), np.diff(X.indptr))
        return X, y

    return draw


# Texts


def few_texts_each(n_words: int, n_classes: int, kept: float) -> Draw:
    """Short texts by rarity; most classes have one row or two."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = rng.permutation(n_classes)[(n_classes * rng.random(n) ** 1.5).astype(int)]
        own = rng.choice(n_words, size=(n_classes, 12), p=zipf(n_words, 0.7))
        picks = own[y[:, None], rng.integers(12, size=(n, 9))]
        common = rng.choice(n_words, size=(n, 9), p=zipf(n_words, 0.9))
        X = csr(np.where(rng.random((n, 9)) < kept, picks, common), n_words)
        rarity = np.log((1.0 + n) / (1.0 + np.bincount(X.indices, minlength=n_words)))
        return unit_rows(X.multiply(rarity).tocsr().astype(np.float32)).tocsr(), y

    return draw


def words_and_numbers(n_words: int, n_classes: int, signal: float) -> Draw:
    """Words of a title by rarity beside a price, a weight and a year in their own units."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.7)
        own = rng.integers(n_words, size=(n_classes, 15))
        common = rng.choice(n_words, size=(n, 8), p=zipf(n_words, 1.0))
        picks = own[y[:, None], rng.integers(15, size=(n, 8))]
        words = unit_rows(csr(np.where(rng.random((n, 8)) < signal, picks, common), n_words))
        logs = 0.8 * rng.standard_normal((n_classes, 2))[y] + 0.5 * rng.standard_normal((n, 2))
        year = 2_000 + 8 * rng.standard_normal(n_classes)[y] + 5 * rng.standard_normal(n)
        numbers = np.column_stack([np.exp(3.0 + logs[:, 0]), np.exp(logs[:, 1]), year.round()])
        return sp.hstack([words, sp.csr_matrix(numbers.astype(np.float32))]).tocsr(), y

    return draw


def differences(n_words: int, effect: float) -> Draw:
    """Words of one text less those of another; which has more of some quality, or neither."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        words = rng.choice(n_words, size=(n, 24), p=zipf(n_words, 0.8))
        signs = np.tile(np.repeat([1.0, -1.0], 12), (n, 1))
        X = csr(words, n_words, signs)
        X.eliminate_zeros()
        score = effect * (X @ rng.standard_normal(n_words)) + rng.logistic(size=n)
        return X, np.digitize(score, [-1.0, 1.0])

    return draw


def weak_words(n_words: int, share: float, effect: float) -> Draw:
    """Yes or no from many words of which each says little; one class is less frequent."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        lengths = 5 + rng.poisson(60.0, size=n)
        X = from_lists(
            lengths, rng.choice(n_words, int(lengths.sum()), p=zipf(n_words, 0.7)), n_words
        )
        X = unit_rows(X).tocsr()
        score = effect * (X @ rng.standard_normal(n_words)) + rng.logistic(size=n)
        return X, (score > np.quantile(score, 1.0 - share)).astype(np.int64)

    return draw
