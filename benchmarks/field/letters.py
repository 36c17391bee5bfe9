"""Sparse made-up rows of more kinds: letters, collocations, log lines, boards, matches, graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.field.dense import Draw, labels, zipf
from benchmarks.field.sparse import Rows, csr, unit_rows

LETTERS = 26
#: Odd numbers by which grams are put into columns.
_STEPS = (2_654_435_761, 40_503, 97_531, 1_000_003)


def from_lists(lengths: np.ndarray, columns: np.ndarray, n_features: int) -> Any:
    """Rows of so many columns each, counted; float32."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    ones = np.ones(len(row), np.float32)
    return sp.csr_matrix((ones, (row, columns)), (len(lengths), n_features))


def hash_columns(grams: list[np.ndarray], n_columns: int) -> np.ndarray:
    """A column for each tuple of whole numbers."""
    mixed = np.sum([(gram + 1) * step for gram, step in zip(grams, _STEPS)], axis=0)
    return (mixed ^ (mixed >> 13)) % n_columns


def _by_rarity(X: Any) -> Any:
    """Counts times the logarithm of how rare their column is, rows of unit length."""
    n, d = X.shape
    rarity = 1.0 + np.log((1.0 + n) / (1.0 + np.bincount(X.indices, minlength=d)))
    return unit_rows(X.multiply(rarity).tocsr().astype(np.float32)).tocsr()


# Texts


def names(n_columns: int, n_classes: int, contrast: float) -> Draw:
    """Origin of names from hashed groups of one to three letters; classes are Markov chains."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.8)
        usual = 1.5 * rng.standard_normal((LETTERS, LETTERS))
        chain = np.exp(usual + contrast * rng.standard_normal((n_classes, LETTERS, LETTERS)))
        steps = np.cumsum(chain / chain.sum(axis=2, keepdims=True), axis=2)
        name = np.empty((n, 10), np.int64)
        name[:, 0] = rng.integers(LETTERS, size=n)
        for place in range(1, 10):
            before = steps[y, name[:, place - 1]]
            name[:, place] = (before < rng.random((n, 1))).sum(axis=1).clip(0, LETTERS - 1)
        length = rng.integers(4, 11, size=n)
        inside = np.arange(10) < length[:, None]
        rows, columns = [], []
        for size in (1, 2, 3):
            grams = [name[:, i : 10 - size + 1 + i] for i in range(size)]
            kept = inside[:, size - 1 :]
            rows.append(np.nonzero(kept)[0])
            columns.append(hash_columns(grams, n_columns)[kept])
        row = np.concatenate(rows)
        ones = np.ones(len(row), np.float32)
        X = sp.csr_matrix((ones, (row, np.concatenate(columns))), (n, n_columns))
        return unit_rows(X).tocsr(), y

    return draw


def collocations(n_columns: int, n_classes: int, signal: float, n_words: int = 3_000) -> Draw:
    """Hashed words and pairs of neighbours; the order of words separates classes."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.7)
        follows = rng.integers(n_words, size=(n_classes, 40, 2))
        text = rng.choice(n_words, size=(n, 16), p=zipf(n_words, 0.9))
        for place in range(0, 16, 2):
            chosen = rng.random(n) < signal
            pairs = follows[y[chosen], rng.integers(40, size=chosen.sum())]
            text[chosen, place : place + 2] = pairs
        single = hash_columns([text], n_columns)
        double = hash_columns([text[:, :-1], text[:, 1:]], n_columns)
        return unit_rows(csr(np.hstack([single, double]), n_columns)).tocsr(), y

    return draw


def log_lines(n_features: int, n_classes: int, templates: int = 6) -> Draw:
    """Lines of a program: words of one of its templates, and two that hardly come again."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 1.0)
        n_words = n_features // 4
        lines = rng.choice(n_words, size=(n_classes, templates, 7), p=zipf(n_words, 0.5))
        words = lines[y, rng.integers(templates, size=n)]
        left_out = rng.random(words.shape) < 0.3
        words = np.where(left_out, rng.integers(n_words, size=words.shape), words)
        odd = rng.integers(n_words, n_features, size=(n, 2))
        X = csr(np.hstack([words, odd]), n_features)
        X.data[:] = 1.0
        return X, y

    return draw


def short_messages(n_features: int, n_classes: int, signal: float) -> Draw:
    """None to six words, weighted by rarity, of unit length: some rows are empty."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        lengths = rng.integers(0, 7, size=n)
        row = np.repeat(np.arange(n), lengths)
        common = rng.choice(n_features, size=len(row), p=zipf(n_features, 1.0))
        own = rng.integers(n_features, size=(n_classes, 25))
        picks = own[y[row], rng.integers(25, size=len(row))]
        columns = np.where(rng.random(len(row)) < signal, picks, common)
        return _by_rarity(from_lists(lengths, columns, n_features)), y

    return draw


def taxonomy(n_features: int, branches: tuple[int, int, int], signal: float) -> Draw:
    """Texts of a tree of three levels: words of a row are its branch's at any level, or common."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        n_classes = int(np.prod(branches))
        y = labels(rng, n, n_classes, 0.8)
        size = (n, 18)
        columns = rng.choice(n_features, size=size, p=zipf(n_features, 0.8))
        kind = rng.random(size)
        nodes = [y // (n_classes // branches[0]), y // branches[2], y]
        for level, node in enumerate(nodes):
            own = rng.integers(n_features, size=(node.max() + 1, 20 // (level + 1)))
            picks = own[node[:, None], rng.integers(own.shape[1], size=size)]
            chosen = (kind >= level * signal / 3.0) & (kind < (level + 1) * signal / 3.0)
            columns = np.where(chosen, picks, columns)
        return _by_rarity(csr(columns, n_features)), y

    return draw


# Categories and items


def boards(n_squares: int, n_classes: int, sharpness: float, n_pieces: int = 7) -> Draw:
    """Pieces on each square, one-hot; a few hidden numbers determine the move."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        pieces = rng.choice(n_pieces, size=(n, n_squares), p=zipf(n_pieces, 1.0))
        columns = pieces + n_pieces * np.arange(n_squares)
        X = csr(columns, n_squares * n_pieces)
        hidden = X @ (rng.standard_normal((X.shape[1], 10)) / np.sqrt(n_squares))
        scores = sharpness * hidden @ rng.standard_normal((10, n_classes))
        scores += np.log(rng.permutation(zipf(n_classes, 0.7)))
        return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def matches(n_teams: int, scale: float) -> Draw:
    """Home has +1 and guests -1; lost, drawn or won."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        strength = scale * rng.standard_normal(n_teams)
        home = rng.integers(n_teams, size=n)
        guest = (home + rng.integers(1, n_teams, size=n)) % n_teams
        edge = strength[home] - strength[guest] + 0.3 + rng.logistic(size=n)
        signs = np.tile([1.0, -1.0], (n, 1))
        return csr(np.column_stack([home, guest]), n_teams, signs), np.digitize(edge, [-0.5, 0.5])

    return draw


def clicks(n_features: int, share: float, effect: float, n_fields: int = 8) -> Draw:
    """Few of many are clicked on: eight categories, of two values up to most of the columns."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        sizes = np.geomspace(2, n_features / 2.5, n_fields).astype(int)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        codes = np.stack([rng.choice(s, size=n, p=zipf(s, 1.0)) for s in sizes], axis=1)
        columns = codes + starts[:-1]
        score = effect * rng.standard_normal(starts[-1])[columns].sum(axis=1)
        noisy = score + rng.logistic(size=n)
        y = (noisy > np.quantile(noisy, 1.0 - share)).astype(np.int64)
        return csr(columns, int(starts[-1])), y

    return draw


def playlists(n_items: int, n_artists: int, loyalty: float, before: int = 5) -> Draw:
    """The next song from five before it and their artists; who likes one likes its neighbours."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        artist_of = rng.choice(n_artists, size=n_items, p=zipf(n_artists, 0.7))
        by_artist = np.argsort(artist_of, kind="stable")
        first = np.searchsorted(artist_of[by_artist], np.arange(n_artists + 1))
        known = np.flatnonzero(np.diff(first))
        taste = rng.choice(len(known), size=n, p=zipf(len(known), 0.5))[:, None]
        near = rng.integers(-2, 3, size=(n, before + 1))
        far = rng.integers(len(known), size=near.shape)
        chosen = np.where(rng.random(near.shape) < loyalty, (taste + near) % len(known), far)
        artist = known[chosen]
        place = (rng.random(artist.shape) ** 2 * np.diff(first)[artist]).astype(int)
        songs = by_artist[first[artist] + place]
        columns = np.hstack([songs[:, 1:], n_items + artist[:, 1:]])
        return csr(columns, n_items + n_artists), songs[:, 0]

    return draw


def neighbours(n_nodes: int, n_classes: int, loyalty: float, degree: float = 8.0) -> Draw:
    """Group of a person from her acquaintances among many other persons."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        group_of = np.sort(rng.choice(n_classes, size=n_nodes, p=zipf(n_classes, 0.6)))
        first = np.searchsorted(group_of, np.arange(n_classes + 1))
        inhabited = np.flatnonzero(np.diff(first))
        y = rng.choice(inhabited, size=n)
        lengths = 1 + rng.poisson(degree - 1.0, size=n)
        row = np.repeat(np.arange(n), lengths)
        group, u = y[row], rng.random(len(row))
        inside = first[group] + (u * (first[group + 1] - first[group])).astype(int)
        anybody = rng.integers(n_nodes, size=len(row))
        known = np.where(rng.random(len(row)) < loyalty, inside, anybody)
        X = from_lists(lengths, known, n_nodes)
        X.data[:] = 1.0
        return X, y

    return draw
