"""Sparse simulated rows of records: cells, tickets, titles, diagnoses, trips, entities."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.field.dense import Draw, labels, zipf
from benchmarks.field.letters import from_lists, hash_columns
from benchmarks.field.repeated import DrawOfPeople
from benchmarks.field.sparse import Rows, csr

AMINO_ACIDS, LETTERS = 20, 26


# Counts and texts


def cells(n_genes: int, n_classes: int, contrast: float) -> Draw:
    """Counts of each gene in the readings of a cell, some hundred to ten thousand in all."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.8)
        logs = np.log(zipf(n_genes, 1.0)) + contrast * rng.standard_normal((n_classes, n_genes))
        levels = np.exp(logs)
        steps = np.cumsum(levels / levels.sum(axis=1, keepdims=True), axis=1)
        readings = np.exp(rng.normal(6.0, 0.9, n)).astype(int) + 20
        genes = [
            np.searchsorted(steps[k], rng.random(count)).clip(0, n_genes - 1)
            for k, count in zip(y, readings)
        ]
        return from_lists(readings, np.concatenate(genes), n_genes), y

    return draw


def tickets(n_words: int, n_classes: int, signal: float, words: float = 25.0) -> Draw:
    """Texts of any length: counts times the logarithm of how rare a word is, and no more."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.9)
        lengths = np.exp(rng.normal(np.log(words), 0.9, n)).astype(int) + 1
        row = np.repeat(np.arange(n), lengths)
        own = rng.integers(n_words, size=(n_classes, 50))
        common = rng.choice(n_words, size=len(row), p=zipf(n_words, 1.0))
        picks = own[y[row], rng.integers(50, size=len(row))]
        X = from_lists(lengths, np.where(rng.random(len(row)) < signal, picks, common), n_words)
        rarity = np.log(n / np.maximum(np.bincount(X.indices, minlength=n_words), 1.0))
        return X.multiply(rarity).tocsr().astype(np.float32), y

    return draw


def reports(n_words: int, n_classes: int, signal: float, words: int) -> Draw:
    """Very long texts as counts: the mixture of eight topics is a class's, and then a text's."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.3)
        mixtures = rng.dirichlet(np.full(8, 1.0 / signal), size=n_classes)
        law = zipf(n_words, 1.0)
        topics = np.cumsum(np.stack([rng.permutation(law) for _ in range(8)]) + law, axis=1)
        topics /= topics[:, -1:]
        lengths = rng.integers(words // 2, 2 * words, size=n)
        places = []
        for k, length in zip(y, lengths):
            shares = rng.multinomial(length, rng.dirichlet(20.0 * mixtures[k] + 0.01))
            found = [np.searchsorted(t, rng.random(count)) for t, count in zip(topics, shares)]
            places.append(np.concatenate(found).clip(0, n_words - 1))
        return from_lists(lengths, np.concatenate(places), n_words), y

    return draw


def proteins(n_classes: int, changed: float, length: int = 120) -> Draw:
    """Groups of three amino acids; a family's sequences are a forebear's, in which some changed."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.7)
        forebears = rng.integers(AMINO_ACIDS, size=(n_classes, length))
        sequence = forebears[y]
        branch = rng.integers(4, size=n)
        for side in range(4):  # what one branch of every family has changed
            other = rng.integers(AMINO_ACIDS, size=(n_classes, length))
            here = (rng.random((n_classes, length)) < changed)[y] & (branch == side)[:, None]
            sequence = np.where(here, other[y], sequence)
        anew = rng.random(sequence.shape) < changed
        sequence = np.where(anew, rng.integers(AMINO_ACIDS, size=sequence.shape), sequence)
        code = sequence[:, :-2] * 400 + sequence[:, 1:-1] * 20 + sequence[:, 2:]
        return csr(code, AMINO_ACIDS**3), y

    return draw


def titles(n_features: int, n_classes: int, n_brands: int) -> Draw:
    """A brand, one of its models, the thing, and two remarks: names of products in a shop.

    Columns: words of things first, then remarks, brands, and models, which hardly come again.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.8)
        n_things, n_remarks = max(n_classes // 2, 10), 200
        thing = rng.integers(n_things, size=(n_classes, 3))[y, rng.integers(3, size=n)]
        makes = rng.integers(n_classes, size=(n_brands, 6))
        makers = [np.flatnonzero((makes == k).any(axis=1)) for k in range(n_classes)]
        brand = np.array(
            [rng.choice(m) if len(m) else rng.integers(n_brands) for m in (makers[k] for k in y)]
        )
        remarks = n_things + rng.choice(n_remarks, size=(n, 2), p=zipf(n_remarks, 1.0))
        first = n_things + n_remarks + n_brands
        model = first + (brand * 97 + rng.integers(40, size=n)) % (n_features - first)
        columns = np.column_stack([thing, remarks, n_things + n_remarks + brand, model])
        X = csr(columns, n_features)
        X.data[:] = 1.0
        return X, y

    return draw


def queries(n_columns: int, n_classes: int, mistakes: float) -> Draw:
    """Typed words: the letters of a class's name, some wrong, in hashed groups of three."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 1.0)
        names = rng.choice(LETTERS, size=(n_classes, 11), p=zipf(LETTERS, 0.5))
        typed = names[y]
        wrong = rng.random(typed.shape) < mistakes
        typed = np.where(wrong, rng.integers(LETTERS, size=typed.shape), typed)
        grams = hash_columns([typed[:, :-2], typed[:, 1:-1], typed[:, 2:]], n_columns)
        return csr(grams, n_columns), y

    return draw


def entities(n_columns: int, n_classes: int, kept: float) -> Draw:
    """Names of persons, each with few rows; a name loses some of its words."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = rng.integers(n_classes, size=n)
        words = rng.choice(n_columns, size=(n_classes, 6), p=zipf(n_columns, 0.6))[y]
        lost = rng.random(words.shape) > kept
        X = csr(np.where(lost, 0, words), n_columns)
        return X, y

    return draw


# Codes and categories


def diagnoses(n_codes: int, n_classes: int, effect: float) -> Draw:
    """Codes of a patient, and the chapters that they are in; diseases come together."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        n_chapters = 20
        chapter_of = rng.integers(n_chapters, size=n_codes)
        burden = rng.dirichlet(np.full(n_chapters, 0.2), size=n)
        lengths = 1 + rng.geometric(0.2, size=n)
        row = np.repeat(np.arange(n), lengths)
        steps = np.cumsum(burden, axis=1)[row]
        chapter = (steps < rng.random((len(row), 1))).sum(axis=1).clip(0, n_chapters - 1)
        by_chapter = np.argsort(chapter_of, kind="stable")
        first = np.searchsorted(chapter_of[by_chapter], np.arange(n_chapters + 1))
        size = first[chapter + 1] - first[chapter]
        code = by_chapter[first[chapter] + (rng.random(len(row)) ** 3 * size).astype(int)]
        both = sp.csr_matrix(
            (np.ones(2 * len(row)), (np.tile(row, 2), np.concatenate([code, n_codes + chapter]))),
            (n, n_codes + n_chapters),
            dtype=np.float32,
        )
        own = sp.csr_matrix((np.ones(len(row)), (row, code)), (n, n_codes))
        scores = effect * (own @ rng.standard_normal((n_codes, n_classes)))
        scores += effect * 3.0 * burden @ rng.standard_normal((n_chapters, n_classes))
        both.data[:] = 1.0
        return both, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def who_and_what(n_people: int, n_things: int, sharpness: float) -> Draw:
    """Ratings in stars, with a column for each person and for each thing; both matter."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        person = rng.choice(n_people, size=n, p=zipf(n_people, 0.6))
        thing = rng.choice(n_things, size=n, p=zipf(n_things, 0.8))
        mild, good = rng.standard_normal(n_people), rng.standard_normal(n_things)
        tastes, kinds = rng.standard_normal((n_people, 4)), rng.standard_normal((n_things, 4))
        liking = mild[person] + good[thing] + 0.5 * (tastes[person] * kinds[thing]).sum(axis=1)
        noisy = sharpness * liking + rng.logistic(size=n)
        y = np.digitize(noisy, np.quantile(noisy, [0.05, 0.15, 0.4, 0.75]))
        return csr(np.column_stack([person, n_people + thing]), n_people + n_things), y

    return draw


def hours(n_pages: int, n_classes: int, effect: float) -> Draw:
    """One-hot hour, weekday, device and page; what is done next goes by the time of day."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        hour, weekday = rng.integers(24, size=n), rng.integers(7, size=n)
        device = rng.choice(5, size=n, p=zipf(5, 1.0))
        page = rng.choice(n_pages, size=n, p=zipf(n_pages, 1.1))
        angle = 2 * np.pi * hour / 24
        causes = np.stack([np.cos(angle), np.sin(angle), weekday >= 5], axis=1)
        scores = effect * causes @ rng.standard_normal((3, n_classes))
        scores += effect * rng.standard_normal((n_pages, n_classes))[page]
        scores += np.log(rng.permutation(zipf(n_classes, 1.0)))
        columns = np.column_stack([hour, 24 + weekday, 31 + device, 36 + page])
        return csr(columns, 36 + n_pages), np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def trips(side: int, near: float) -> Draw:
    """Destinations given the origin, coarse and fine, and the time; most are near, some are
    centres.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        start = np.abs(rng.normal(side / 2, side / 5, (n, 2))).astype(int).clip(0, side - 1)
        steps = np.round(rng.standard_normal((n, 2)) * 1.5).astype(int)
        hour = rng.integers(24, size=n)
        centres = rng.integers(side, size=(6, 2))
        there = centres[(hour // 4 + rng.integers(2, size=n)) % 6]
        goes_near = rng.random(n) < near
        end = np.where(goes_near[:, None], (start + steps).clip(0, side - 1), there)
        coarse = (start[:, 0] // 5) * side + start[:, 1] // 5
        fine = start[:, 0] * side + start[:, 1]
        columns = np.column_stack([fine, side**2 + coarse, 2 * side**2 + hour])
        return csr(columns, 2 * side**2 + 24), end[:, 0] * side + end[:, 1]

    return draw


def recipes(n_things: int, n_classes: int, signal: float) -> Draw:
    """Ingredients of a dish, each once; some go together in every cuisine."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        goes_with = rng.integers(n_things, size=(n_things, 3))
        things = rng.choice(n_things, size=(n, 9), p=zipf(n_things, 0.9))
        own = rng.choice(n_things, size=(n_classes, 25), p=zipf(n_things, 0.4))
        from_class = own[y[:, None], rng.integers(25, size=things.shape)]
        things = np.where(rng.random(things.shape) < signal, from_class, things)
        together = rng.random((n, 4)) < 0.6
        pairs = goes_with[things[:, :4], rng.integers(3, size=(n, 4))]
        things[:, 5:] = np.where(together, pairs, things[:, 5:])
        X = csr(things, n_things)
        X.data[:] = 1.0
        return X, y

    return draw


def tail(n_features: int, frequent: int, share: float) -> Draw:
    """Texts: some classes have a share of the rows, and nearly all others have one row."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        n_classes = frequent + n
        usual = rng.choice(frequent, size=n, p=zipf(frequent, 0.7))
        odd = frequent + rng.integers(n_classes - frequent, size=n)
        y = np.where(rng.random(n) < share, usual, odd)
        own = rng.integers(n_features, size=(n_classes, 8))
        words = rng.choice(n_features, size=(n, 12), p=zipf(n_features, 1.0))
        picks = own[y[:, None], rng.integers(8, size=words.shape)]
        return csr(np.where(rng.random(words.shape) < 0.5, picks, words), n_features), y

    return draw


def molecules(n_bits: int, n_classes: int, each: float, effect: float) -> DrawOfPeople:
    """Fingerprints: bits of a scaffold and of what hangs on it; the test has other scaffolds."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
        scaffold = np.repeat(np.arange(n), 1 + rng.poisson(each - 1.0, size=n))[:n]
        parts = rng.choice(n_bits, size=(scaffold[-1] + 1, 25), p=zipf(n_bits, 0.7))
        hung = rng.choice(n_bits, size=(n, 12), p=zipf(n_bits, 0.7))
        X = csr(np.hstack([parts[scaffold], hung]), n_bits)
        X.data[:] = 1.0
        scores = effect * (X @ rng.standard_normal((n_bits, n_classes)))
        own = 2.0 * rng.standard_normal((scaffold[-1] + 1, n_classes))[scaffold]
        y = np.argmax(scores + own + rng.gumbel(size=scores.shape), axis=1)
        return X, y, scaffold

    return draw


def receipts(n_goods: int, n_classes: int, each: float, signal: float) -> DrawOfPeople:
    """Kinds of customers by the goods of a receipt; a shop has its own assortment and customers."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
        shop = np.repeat(np.arange(n), rng.geometric(1.0 / each, size=n))[:n]
        n_shops, size = shop[-1] + 1, (n, 8)
        customers = rng.dirichlet(np.full(n_classes, 0.5), size=n_shops).cumsum(axis=1)[shop]
        y = (customers < rng.random((n, 1))).sum(axis=1).clip(0, n_classes - 1)
        assortment = rng.choice(n_goods, size=(n_shops, 30), p=zipf(n_goods, 0.6))
        of_class = rng.integers(n_goods, size=(n_classes, 30))
        goods = assortment[shop[:, None], rng.integers(30, size=size)]
        wanted = of_class[y[:, None], rng.integers(30, size=size)]
        return csr(np.where(rng.random(size) < signal, wanted, goods), n_goods), y, shop

    return draw
