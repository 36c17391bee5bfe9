"""Dense simulated tables from forms and exports: surveys, stations, loans, houses, places."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.field.dense import Draw, Rows, labels, zipf
from benchmarks.field.repeated import DrawOfPeople

#: Code of a question that was not asked.
NOT_ASKED = -1.0


def surveys(n_questions: int, n_classes: int, effect: float) -> Draw:
    """Answers from 1 to 5 in blocks of five; a no to the first of a block skips the others.

    Respondents differ in three hidden numbers, which blocks and the class go by.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        hidden = rng.standard_normal((n, 3))
        leaning = hidden @ rng.standard_normal((3, n_questions))
        answers = (3.0 + leaning + rng.standard_normal(leaning.shape)).round().clip(1.0, 5.0)
        for first in range(0, n_questions, 5):
            yes = leaning[:, first] + rng.logistic(size=n) > 0.0
            answers[:, first] = yes
            answers[~yes, first + 1 : first + 5] = NOT_ASKED
        scores = effect * hidden @ rng.standard_normal((3, n_classes))
        return answers, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def weather(n_classes: int, effect: float) -> Draw:
    """Weather of the next day from temperature, pressure, cloud cover, wind and rainfall."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        day = rng.integers(365, size=n)
        warm, low, wet = rng.standard_normal((3, n))
        degrees = 10.0 - 12.0 * np.cos(2 * np.pi * day / 365) + 4.0 * warm
        pressure = 1_013.0 - 9.0 * low
        humidity = (70.0 + 15.0 * wet + 5.0 * low).clip(10.0, 100.0)
        direction = rng.uniform(0.0, 360.0, n)
        wind = np.exp(1.5 + 0.5 * low + 0.4 * rng.standard_normal(n))
        rain = np.where(wet + low > 1.0, rng.exponential(6.0, n), 0.0)
        X = np.stack([day, degrees, pressure, humidity, direction, wind, rain], axis=1)
        causes = np.stack([warm, low, wet, np.cos(2 * np.pi * day / 365)], axis=1)
        scores = effect * causes @ rng.standard_normal((4, n_classes))
        return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def loans(n_columns: int, share: float, effect: float) -> Draw:
    """Defaults of loans from amounts and counts; missing values are medians, with a mark."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        hidden = rng.standard_normal((n, n_columns))
        score = effect * hidden @ rng.standard_normal(n_columns) / np.sqrt(n_columns)
        noisy = score + rng.logistic(size=n)
        X = np.exp(0.8 * hidden) * 10.0 ** rng.uniform(0.0, 5.0, n_columns)
        X[:, ::3] = rng.poisson(np.exp(0.7 * hidden[:, ::3]))
        missing = rng.random(X.shape) < rng.uniform(0.0, 0.4, n_columns)
        X = np.where(missing, np.median(X, axis=0), X)
        y = (noisy > np.quantile(noisy, 1.0 - share)).astype(np.int64)
        return np.hstack([X, missing.astype(float)]), y

    return draw


def houses(n_classes: int, spread: float) -> Draw:
    """Price quarter from log price, log area, rooms, year of building and monthly cost."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        usual = rng.standard_normal((n_classes, 3))[y]
        area = 4.5 + 0.2 * usual[:, 0] + 0.35 * spread * rng.standard_normal(n)
        price = 8.0 + area + 0.4 * usual[:, 1] + 0.15 * spread * rng.standard_normal(n)
        rooms = np.round(np.exp(area) / 28.0 + rng.normal(0.0, 0.7, n)).clip(1.0)
        year = (1_960 + 25 * usual[:, 2] + 18 * spread * rng.standard_normal(n)).round()
        monthly = np.exp(price - 6.0) * rng.uniform(0.9, 1.1, n)
        return np.stack([price, area, rooms, year.clip(1_700, 2_025), monthly], axis=1), y

    return draw


def places(n_classes: int, blur: float) -> Draw:
    """Latitude and longitude within a town; the nearest of so many offices, or one beside it."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        where = 0.05 * rng.standard_normal((n, 2))
        offices = 0.05 * rng.standard_normal((n_classes, 2))
        seen = where + 0.05 * blur * rng.standard_normal((n, 2))
        y = np.array([np.argmin(((offices - point) ** 2).sum(axis=1)) for point in seen])
        return np.array([48.14, 11.58]) + where, y

    return draw


def connections(n_features: int, n_classes: int, contrast: float, kinds: int = 400) -> Draw:
    """Log of a machine: bytes, seconds, counts and flags; six rows in ten are of a few usual kinds.

    Usual ones come again to the last bit, in all parts of a problem.
    """

    def rows(rng: np.random.Generator, logs: np.ndarray) -> np.ndarray:
        X = np.floor(np.exp(2.0 + 1.5 * logs + rng.standard_normal(logs.shape)))
        X[:, ::2] = logs[:, ::2] + rng.logistic(size=X[:, ::2].shape) > 1.0
        return X

    def draw(rng: np.random.Generator, n: int) -> Rows:
        order = rng.permutation(n_classes)
        classes = contrast * rng.standard_normal((n_classes, n_features))
        y = order[rng.choice(n_classes, size=n, p=zipf(n_classes, 2.0))]
        usual = order[rng.choice(n_classes, size=kinds, p=zipf(n_classes, 1.5))]
        usual_rows = rows(rng, classes[usual])
        X, again = rows(rng, classes[y]), rng.random(n) < 0.6
        which = rng.choice(kinds, size=n, p=zipf(kinds, 1.0))
        return np.where(again[:, None], usual_rows[which], X), np.where(again, usual[which], y)

    return draw


def cards(n_hands: int = 4) -> Draw:
    """Suits and ranks of five cards; how often the most frequent rank is there: nothing linear."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        deck = np.argsort(rng.random((n, 52)), axis=1)[:, :5]
        ranks = np.sort(deck % 13, axis=1)
        same = (ranks[:, :, None] == ranks[:, None, :]).sum(axis=2).max(axis=1)
        X = np.hstack([deck // 13 + 1, deck % 13 + 1]).astype(float)
        return X, np.minimum(same, n_hands) - 1

    return draw


def parity(n_features: int, right: float) -> Draw:
    """Binary switches; the class is the parity of three, which no linear score can represent."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.integers(2, size=(n, n_features))
        wrong = rng.random(n) > right
        return X.astype(float), (X[:, :3].sum(axis=1) + wrong) % 2

    return draw


def genotypes(n_features: int, n_classes: int, apart: float) -> Draw:
    """0, 1 or 2 copies of a variant; frequencies of a population differ little from the usual."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.4)
        logits = rng.normal(-1.0, 1.2, n_features)
        logits = logits + apart * rng.standard_normal((n_classes, n_features))
        frequencies = 1.0 / (1.0 + np.exp(-logits))
        return rng.binomial(2, frequencies[y]).astype(np.int8), y

    return draw


def long_tail(n_features: int, frequent: int, share: float, spread: float) -> Draw:
    """Some classes have a share of the rows, and all others are of classes with hardly any.

    Those are so many that most have one row.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        n_classes = frequent + n // 2
        usual = rng.choice(frequent, size=n, p=zipf(frequent, 0.5))
        odd = frequent + rng.integers(n_classes - frequent, size=n)
        y = np.where(rng.random(n) < share, usual, odd)
        centres = rng.standard_normal((n_classes, n_features))
        return centres[y] + spread * rng.standard_normal((n, n_features)), y

    return draw


def machines(n_features: int, n_classes: int, each: float, distance: float) -> DrawOfPeople:
    """States of machines, each with a zero and a gain of its own; rows of a machine are many."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        counts = 1 + rng.poisson(each - 1.0, size=n)
        machine = np.repeat(np.arange(n), counts)[:n]
        n_machines = machine[-1] + 1
        y = labels(rng, n, n_classes, 0.4)
        states = distance * rng.standard_normal((n_classes, n_features))
        gains = np.exp(0.3 * rng.standard_normal((n_machines, n_features)))
        zeros = 1.5 * rng.standard_normal((n_machines, n_features))
        readings = gains[machine] * (states[y] + 0.4 * rng.standard_normal((n, n_features)))
        return 20.0 + 3.0 * (readings + zeros[machine]), y, machine

    return draw


def with_leak(draw: Draw, share: float) -> Draw:
    """Columns of 0 and 1 that name the class, in a share of the rows: what should not be there."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        leaked = np.eye(int(y.max()) + 1)[y] * (rng.random((n, 1)) < share)
        return np.hstack([X, leaked]), y

    return change


def sorted_by_class(
    rng: np.random.Generator, X: Any, y: np.ndarray
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Training rows of a class come one after another."""
    order = np.argsort(y, kind="stable")
    return X[order], y[order], np.arange(len(y))
