"""Grouped rows whose test rows differ from training rows: new persons, copies, later times.

Rows of one person are all for training, all for validation or all for the test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.field.dense import N_TEST, Draw, Rows, Spoil, labels
from benchmarks.field.problem import Data, Problem, from_two_pools
from benchmarks.field.sparse import csr, unit_rows

#: Gives rows, labels and which person each is of; a person's rows come one after another.
DrawOfPeople = Callable[[np.random.Generator, int], tuple[Any, np.ndarray, np.ndarray]]
#: Gives rows and labels of times between 0 and 1.
DrawAtTimes = Callable[[np.random.Generator, np.ndarray], tuple[Any, np.ndarray]]
#: When the test rows begin.
LATER = 0.85


def of_people(
    family: str, variant: str, draw: DrawOfPeople, n: int, n_test: int = N_TEST
) -> Problem:
    """Make a problem with about so many training rows, whose test rows belong to other persons."""

    def make(rng: np.random.Generator) -> Data:
        X, y, person = draw(rng, n + n_test)
        n_train = int(np.searchsorted(person, person[n]))
        train, test = slice(None, n_train), slice(n_train, None)
        data = from_two_pools(X[train], y[train], X[test], y[test], rng, person[train])
        return replace(data, groups=person[train])

    return Problem(family, variant, make)


def at_times(family: str, variant: str, draw: DrawAtTimes, n: int, n_test: int = N_TEST) -> Problem:
    """A problem whose test rows are later than all others."""

    def make(rng: np.random.Generator) -> Data:
        before, after = rng.uniform(0.0, LATER, n), rng.uniform(LATER, 1.0, n_test)
        X, y = draw(rng, np.concatenate([before, after]))
        return from_two_pools(X[:n], y[:n], X[n:], y[n:], rng)

    return Problem(family, variant, make)


# People


def _people(rng: np.random.Generator, n: int, each: float) -> np.ndarray:
    """Return the person of each row: `each` rows per person on average, from one to many."""
    counts = rng.geometric(1.0 / each, size=n)
    return np.repeat(np.arange(n), counts)[:n]


def sessions(
    n_features: int, n_classes: int, each: float, distance: float, spread: float
) -> DrawOfPeople:
    """A person has a class and habits of her own, `spread` from her class; rows are sessions."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        person = _people(rng, n, each)
        class_of = labels(rng, person[-1] + 1, n_classes, 0.5)
        habits = distance * rng.standard_normal((n_classes, n_features))[class_of]
        habits += spread * rng.standard_normal(habits.shape)
        return habits[person] + 0.5 * rng.standard_normal((n, n_features)), class_of[person], person

    return draw


def panels(
    n_features: int, n_classes: int, each: float, distance: float, spread: float
) -> DrawOfPeople:
    """Repeated measurements of persons in two states, each person around a level of her own."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        person = _people(rng, n, each)
        y = labels(rng, n, n_classes, 0.3)
        level = spread * rng.standard_normal((person[-1] + 1, n_features))
        X = distance * rng.standard_normal((n_classes, n_features))[y] + level[person]
        return X + rng.standard_normal((n, n_features)), y, person

    return draw


def visits(n_pages: int, n_classes: int, each: float, signal: float) -> DrawOfPeople:
    """Pages of a visit: a visitor's eight favourites again and again, or her class's, or any."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray, np.ndarray]:
        person = _people(rng, n, each)
        n_people, size = person[-1] + 1, (n, 10)
        class_of = labels(rng, n_people, n_classes, 0.5)
        favourites = rng.integers(n_pages, size=(n_people, 8))
        of_class = rng.integers(n_pages, size=(n_classes, 15))
        kind = rng.random(size)
        pages = rng.integers(n_pages, size=size)
        pages = np.where(kind < 0.5, favourites[person[:, None], rng.integers(8, size=size)], pages)
        own = of_class[class_of[person][:, None], rng.integers(15, size=size)]
        return csr(np.where(kind > 1.0 - signal, own, pages), n_pages), class_of[person], person

    return draw


# Transformations of training rows


def augmented(side: int, times: int) -> Spoil:
    """The same number of pictures, as copies moved by a pixel, brighter or darker."""

    def change(
        rng: np.random.Generator, X: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.tile(np.arange(len(y) // times), times)
        pictures = X[rows].reshape(len(rows), side, side)
        moves = rng.integers(-1, 2, size=(len(rows), 2))
        for move in np.unique(moves, axis=0):
            chosen = (moves == move).all(axis=1)
            pictures[chosen] = np.roll(pictures[chosen], move, axis=(1, 2))
        bright = rng.uniform(0.8, 1.2, (len(rows), 1))
        return (pictures.reshape(len(rows), -1) * bright).astype(X.dtype), y[rows], rows

    return change


def oversampled(between: bool) -> Spoil:
    """Rows of rare classes come again until all classes are as frequent; tests are as they were.

    Parameters
    ----------
    between : bool
        Rows that come again are moved towards another one of their class.
    """

    def change(
        rng: np.random.Generator, X: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        by_class = [np.flatnonzero(y == k) for k in np.unique(y)]
        most = max(map(len, by_class))
        again = [rng.choice(mine, most - len(mine)) for mine in by_class]
        others = np.concatenate([rng.choice(mine, most - len(mine)) for mine in by_class])
        rows = np.concatenate(again)
        more = X[rows]
        if between:
            more = more + rng.random((len(rows), 1)) * (X[others] - more)
        groups = np.concatenate([np.arange(len(y)), rows])
        return np.concatenate([X, more]), y[groups], groups

    return change


# Later times


def moving(n_features: int, n_classes: int, distance: float, drift: float) -> DrawAtTimes:
    """Clouds whose centres move, each at a speed and in a direction of its own."""

    def draw(rng: np.random.Generator, times: np.ndarray) -> Rows:
        y = labels(rng, len(times), n_classes, 0.5)
        centres, speeds = rng.standard_normal((2, n_classes, n_features))
        X = distance * (centres[y] + drift * times[:, None] * speeds[y])
        return X + rng.standard_normal(X.shape), y

    return draw


def other_frequencies(n_features: int, n_classes: int, change: float) -> DrawAtTimes:
    """Fixed clouds whose class frequencies change over time."""

    def draw(rng: np.random.Generator, times: np.ndarray) -> Rows:
        logs = rng.standard_normal(n_classes) + change * np.outer(
            times, rng.standard_normal(n_classes)
        )
        y = np.argmax(logs + rng.gumbel(size=logs.shape), axis=1)
        centres = 0.6 * rng.standard_normal((n_classes, n_features))
        return centres[y] + rng.standard_normal((len(times), n_features)), y

    return draw


def new_words(n_features: int, n_classes: int, signal: float) -> DrawAtTimes:
    """Texts of classes whose words change: of sixty in a row, twenty are in use at a time."""

    def draw(rng: np.random.Generator, times: np.ndarray) -> tuple[Any, np.ndarray]:
        y = labels(rng, len(times), n_classes, 0.6)
        size = (len(times), 15)
        own = rng.integers(n_features, size=(n_classes, 60))
        in_use = (40 * times).astype(int)[:, None] + rng.integers(20, size=size)
        common = rng.integers(n_features, size=size)
        columns = np.where(rng.random(size) < signal, own[y[:, None], in_use], common)
        return unit_rows(csr(columns, n_features)).tocsr(), y

    return draw


def picture(side: int, n_classes: int, contrast: float) -> Draw:
    """Smooth pictures, a template per class with noise that is smooth, too; float32."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        templates = _smooth(rng.standard_normal((n_classes, side, side)))
        X = contrast * templates[y] + _smooth(rng.standard_normal((n, side, side)))
        return X.reshape(n, -1).astype(np.float32), y

    return draw


def _smooth(pictures: np.ndarray) -> np.ndarray:
    """Sums over three by three pixels, around the edges."""
    moved = [np.roll(pictures, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.sum(moved, axis=0) / 3.0
