"""Dense made-up rows of more kinds: angles, ranks, windows of time, stacked models, passages."""

from __future__ import annotations

import numpy as np
import sklearn.datasets

from benchmarks.field.dense import Draw, Rows, labels, zipf
from benchmarks.field.repeated import DrawOfPeople

#: Value of a column that was not measured.
NOT_MEASURED = -1.0


def _choices(rng: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Draw a class per row from the softmax of its scores."""
    return np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


# Tables


def angles(n_features: int, n_classes: int, concentration: float) -> Draw:
    """Directions in degrees from 0 to 360, around those of a class."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.4)
        usual = rng.uniform(-np.pi, np.pi, (n_classes, n_features))
        return np.degrees(rng.vonmises(usual[y], concentration)) % 360.0, y

    return draw


def leaves(n_features: int, n_classes: int, wrong: float) -> Draw:
    """Leaves of a random tree of decisions on uniform columns; a share of the labels is random."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.random((n, n_features))
        y = np.zeros(n, np.int64)
        for leaf in range(1, n_classes):
            split = rng.integers(leaf)
            column, inside = rng.integers(n_features), np.flatnonzero(y == split)
            if len(inside):
                edge = np.quantile(X[inside, column], rng.uniform(0.3, 0.7))
                y[inside[X[inside, column] > edge]] = leaf
        return X, np.where(rng.random(n) < wrong, rng.integers(n_classes, size=n), y)

    return draw


def two_populations(n_features: int, n_classes: int, effect: float) -> Draw:
    """Effects of half of the columns change their sign with a column of 0 and 1."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        population = rng.integers(2, size=n)
        signs = np.where(np.arange(n_features) % 2, 1.0, 2.0 * population[:, None] - 1.0)
        coef = effect * rng.standard_normal((n_features, n_classes)) / np.sqrt(n_features)
        return np.column_stack([population, X]), _choices(rng, (signs * X) @ coef)

    return draw


def not_measured(n_features: int, n_classes: int, distance: float) -> Draw:
    """Positive amounts with a code for missing values, which depends on the class."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        X = np.exp(distance * rng.standard_normal((n_classes, n_features))[y])
        X *= np.exp(0.5 * rng.standard_normal(X.shape))
        share = rng.beta(0.8, 1.6, (n_classes, n_features))
        return np.where(rng.random(X.shape) < share[y], NOT_MEASURED, X), y

    return draw


def background(n_features: int, n_classes: int, share: float) -> Draw:
    """Tight clouds, and a background class spread between them."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = np.where(rng.random(n) < share, 0, rng.integers(1, n_classes, size=n))
        centres = rng.uniform(-3.0, 3.0, (n_classes, n_features))
        X = centres[y] + 0.7 * rng.standard_normal((n, n_features))
        anywhere = rng.uniform(-4.0, 4.0, X.shape)
        return np.where(y[:, None] == 0, anywhere, X), y

    return draw


def rankings(n_things: int, n_classes: int, agreement: float) -> Draw:
    """The rank that a person gives to each of some things; classes agree on an order."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        liking = agreement * rng.standard_normal((n_classes, n_things))[y]
        order = np.argsort(-(liking + rng.gumbel(size=liking.shape)), axis=1)
        return np.argsort(order, axis=1) + 1, y

    return draw


def exposures(n_features: int, n_classes: int, contrast: float) -> Draw:
    """Counts of events; rows were observed for times that differ a hundredfold."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        rates = np.exp(contrast * rng.standard_normal((n_classes, n_features)) - 1.0)
        time = np.exp(rng.uniform(0.0, np.log(100.0), n))
        return np.column_stack([time, rng.poisson(time[:, None] * rates[y])]), y

    return draw


def swiss_roll(n_classes: int, noise: float) -> Draw:
    """`make_swiss_roll`: classes in order along a rolled-up sheet."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        seed = int(rng.integers(2**31))
        X, along = sklearn.datasets.make_swiss_roll(n, noise=noise, random_state=seed)
        return X, np.searchsorted(np.quantile(along, np.arange(1, n_classes) / n_classes), along)

    return draw


def wide_margins(n_features: int, n_classes: int, distance: float, wrong: float = 0.002) -> Draw:
    """Clouds far from each other; one label in 500 is random."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        centres = distance * rng.standard_normal((n_classes, n_features))
        X = centres[y] + rng.standard_normal((n, n_features))
        return X, np.where(rng.random(n) < wrong, rng.integers(n_classes, size=n), y)

    return draw


# Time


def oscillations(length: int, n_classes: int, noise: float) -> Draw:
    """Windows of waves that begin anywhere; classes differ in frequency and overtone."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        frequency = rng.uniform(0.02, 0.2, n_classes)[y][:, None]
        overtone = rng.uniform(0.0, 1.0, n_classes)[y][:, None]
        phase = rng.uniform(0.0, 1.0, (n, 1)) + frequency * np.arange(length)
        X = np.sin(2 * np.pi * phase) + overtone * np.sin(4 * np.pi * phase)
        return (X + noise * rng.standard_normal(X.shape)).astype(np.float32), y

    return draw


def typists(n_features: int, n_classes: int, spread: float, drift: float) -> Draw:
    """Typists by milliseconds between keys; habits drift, and rows are in the order of time."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        habits, drifts = rng.standard_normal((2, n_classes, n_features))
        time = np.linspace(-1.0, 1.0, n)[:, None]
        pace = 0.3 * rng.standard_normal((n, 1))
        logs = 0.3 * (habits[y] + drift * time * drifts[y]) + pace
        logs += 0.3 * spread * rng.standard_normal((n, n_features))
        return np.round(120.0 * np.exp(logs)), y

    return draw


# Vectors


def other_model(n_features: int, n_classes: int, right: float) -> Draw:
    """Overconfident probabilities that another model gives to classes of its own."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        confusion = rng.standard_normal((n_classes, n_features))
        confusion[np.arange(n_classes), np.arange(n_classes) % n_features] += right
        scores = 3.0 * (confusion[y] + rng.standard_normal((n, n_features)))
        scores -= scores.max(axis=1, keepdims=True)
        X = np.exp(scores)
        return (X / X.sum(axis=1, keepdims=True)).astype(np.float32), y

    return draw


def small_integers(n_features: int, n_classes: int, spread: float) -> Draw:
    """Embeddings of unit length as whole numbers from -127 to 127; power-law classes."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 1.0)
        centres = rng.standard_normal((n_classes, n_features)) + rng.standard_normal(n_features)
        X = centres[y] + spread * rng.standard_normal((n, n_features))
        X *= 300.0 / np.linalg.norm(X, axis=1, keepdims=True)
        return X.round().clip(-127, 127).astype(np.int8), y

    return draw


def tree(n_features: int, n_classes: int, spread: float, depth: int = 6) -> Draw:
    """Classes are tips of a tree, and steps from branch to branch get smaller; power law."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 1.3)
        centres = np.zeros((n_classes, n_features))
        for level in range(depth + 1):
            branch = np.arange(n_classes) * 2**level // n_classes
            centres += 0.7**level * rng.standard_normal((2**level, n_features))[branch]
        centres += 0.7**depth * rng.standard_normal(centres.shape)
        return centres[y] + spread * rng.standard_normal((n, n_features)), y

    return draw


def passages(n_features: int, n_classes: int, each: float, spread: float) -> DrawOfPeople:
    """Embeddings of passages of documents; a document has a class and a subject of its own."""

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        document = np.repeat(np.arange(n), rng.geometric(1.0 / each, size=n))[:n]
        class_of = labels(rng, document[-1] + 1, n_classes, 0.7)
        subjects = rng.standard_normal((n_classes, n_features))[class_of]
        subjects += spread * rng.standard_normal(subjects.shape)
        X = subjects[document] + rng.standard_normal((n, n_features))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X.astype(np.float32), class_of[document], document

    return draw


def mixture(n_features: int, n_classes: int, components: int, distance: float) -> Draw:
    """Components with mixing shares of their own in every class; rows are shared out at random."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        shares = rng.dirichlet(np.full(components, 0.15), size=n_classes).cumsum(axis=1)
        component = (shares[y] < rng.random((n, 1))).sum(axis=1).clip(0, components - 1)
        centres = distance * rng.standard_normal((components, n_features))
        factors = rng.standard_normal((components, n_features, 2))[component]
        hidden = rng.standard_normal((n, 1, 2))
        X = centres[component] + (factors * hidden).sum(axis=2)
        return X + 0.5 * rng.standard_normal(X.shape), y

    return draw


def heavy_columns(n_features: int, n_classes: int, degrees: float) -> Draw:
    """Student's t in units from 0.01 to 100; frequencies of classes follow a power law."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        units = 10.0 ** rng.uniform(-2.0, 2.0, n_features)
        y = rng.choice(n_classes, size=n, p=zipf(n_classes, 1.0))
        return units * rng.standard_t(degrees, (n, n_features)), y

    return draw
