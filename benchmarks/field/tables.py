"""Dense simulated tables: sensors, dates, numbers of customers, binary answers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.field.dense import Draw, Rows, labels

#: Seconds since 1970 at the beginning of 2020, and in a day.
START_OF_2020, DAY = 1_577_836_800, 86_400


def sensors(n_features: int, n_classes: int, distance: float, drift: float) -> Draw:
    """Readings around a state's own, each sensor with its zero, its unit and a slow drift.

    Rows are of random times, so that all parts of a problem have seen all of the drift.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        states = distance * rng.standard_normal((n_classes, n_features))
        walk = np.cumsum(rng.standard_normal((400, n_features)), axis=0) / 20.0
        readings = states[y] + drift * walk[rng.integers(400, size=n)]
        readings += rng.standard_normal((n, n_features))
        zeros, units = rng.uniform(-20, 200, n_features), 10.0 ** rng.uniform(-2, 2, n_features)
        return zeros + units * readings, y

    return draw


def dates(n_classes: int, effect: float) -> Draw:
    """Time of an event: seconds since 1970, year, month, weekday, hour, and an amount."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        seconds = START_OF_2020 + rng.integers(4 * 365 * DAY, size=n)
        days = (seconds - START_OF_2020) // DAY
        hour, amount = (seconds % DAY) // 3_600, np.exp(rng.normal(3.0, 1.2, n))
        columns = [seconds, 2020 + days // 365, 1 + days % 365 // 31, days % 7, hour, amount]
        X = np.stack(columns, axis=1).astype(float)
        causes = np.stack([days / 400.0, days % 7 >= 5, hour / 7.0, np.log(amount)], axis=1)
        scores = effect * (causes - causes.mean(axis=0)) @ rng.standard_normal((4, n_classes))
        return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def with_numbers_of_customers(draw: Draw) -> Draw:
    """Two more columns: a number without information, and one whose first digit has a little."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        customer = rng.integers(1_000_000, 9_999_999, n)
        region = np.where(rng.random(n) < 0.3, y % 9, rng.integers(9, size=n))
        postcode = 10_000 * (1 + region) + rng.integers(10_000, size=n)
        return np.column_stack([customer, X, postcode]), y

    return change


def indicators(n_features: int, n_classes: int, strength: float) -> Draw:
    """Columns of 0 and 1, from rare ones to usual ones."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.3)
        logits = rng.normal(-1.5, 1.5, n_features)
        logits = logits + strength * rng.standard_normal((n_classes, n_features))
        return (rng.random((n, n_features)) < 1.0 / (1.0 + np.exp(-logits[y]))).astype(float), y

    return draw


def bursts(n_features: int, n_classes: int, contrast: float) -> Draw:
    """Counts that spread far more than Poisson's, with many zeros."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        usual = 10.0 ** rng.uniform(-0.5, 2.0, n_features)
        means = usual * np.exp(contrast * rng.standard_normal((n_classes, n_features)))
        rates = means[y] * rng.gamma(0.7, 1.0 / 0.7, (n, n_features))
        return np.where(rng.random(rates.shape) < 0.2, 0, rng.poisson(rates)).astype(float), y

    return draw


def components(n_features: int, n_classes: int, distance: float, power: float, first: int) -> Draw:
    """Principal components: deviations fall by a power law, the `first` few separate classes.

    Beyond those, a class differs by a tenth of that.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        centres = distance * rng.standard_normal((n_classes, n_features))
        centres[:, first:] *= 0.1
        deviations = 10.0 * np.arange(1, n_features + 1) ** -power
        return deviations * (centres[y] + rng.standard_normal((n, n_features))), y

    return draw


def common_direction(n_features: int, n_classes: int, spread: float, length: float) -> Draw:
    """Embeddings that share a mean of many times the distance between classes; any length."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.7)
        centres = rng.standard_normal((n_classes, n_features))
        common = length * rng.standard_normal(n_features)
        X = common + centres[y] + spread * rng.standard_normal((n, n_features))
        return X * rng.uniform(0.7, 1.3, (n, 1)), y

    return draw


def hierarchy(
    n_features: int, n_groups: int, each: int, far: float, near: float, wrong: float = 0.0
) -> Draw:
    """Classes in groups, near to each other; a share `wrong` has the label of a sibling."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_groups * each, 0.5)
        groups = far * rng.standard_normal((n_groups, n_features))
        own = near * rng.standard_normal((n_groups * each, n_features))
        X = groups[y // each] + own[y] + rng.standard_normal((n, n_features))
        siblings = each * (y // each) + rng.integers(each, size=n)
        return X, np.where(rng.random(n) < wrong, siblings, y)

    return draw


def genes(n_features: int, n_classes: int, n_informative: int, distance: float) -> Draw:
    """Many more columns than rows: levels between 4 and 14, few of which separate classes."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        X = rng.uniform(5.0, 11.0, n_features) + rng.standard_normal((n, n_features))
        X += rng.standard_normal((n, 5)) @ rng.standard_normal((5, n_features)) / 2.0
        informative = rng.permutation(n_features)[:n_informative]
        X[:, informative] += distance * rng.standard_normal((n_classes, n_informative))[y]
        return X.clip(4.0, 14.0), y

    return draw


def ordered(n_features: int, n_levels: int, scale: float) -> Draw:
    """Levels of one hidden number, each as frequent as the others."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        hidden = X @ rng.standard_normal(n_features) * scale / np.sqrt(n_features)
        hidden += rng.logistic(size=n)
        edges = np.quantile(hidden, np.arange(1, n_levels) / n_levels)
        return X, np.searchsorted(edges, hidden)

    return draw


def shares(n_features: int, n_classes: int, contrast: float) -> Draw:
    """Parts of a whole: rows add up to 1."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        usual = rng.gamma(1.0, 1.0, n_features) + 0.05
        parts = usual * np.exp(contrast * rng.standard_normal((n_classes, n_features)))
        X = rng.gamma(2.0 * parts[y])
        return X / X.sum(axis=1, keepdims=True), y

    return draw


def pixels(side: int, n_classes: int, noise: float) -> Draw:
    """Whole numbers from 0 to 255, most of them 0, around a blurred template per class; float32."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        rough = rng.standard_normal((n_classes, side, side))
        near = [np.roll(rough, (i, j), (1, 2)) for i in range(3) for j in range(3)]
        bright = 60.0 * np.sum(near, axis=0).reshape(n_classes, -1)[y] - 100.0
        bright += noise * rng.standard_normal(bright.shape)
        return bright.round().clip(0.0, 255.0).astype(np.float32), y

    return draw


def unlike_spreads(n_features: int, n_classes: int, distance: float) -> Draw:
    """Clouds with their own deviations, so that class boundaries are curved."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        centres = distance * rng.standard_normal((n_classes, n_features))
        deviations = np.exp(0.5 * rng.standard_normal((n_classes, n_features)))
        return centres[y] + deviations[y] * rng.standard_normal((n, n_features)), y

    return draw


# Transformations of columns, of all rows


def with_dull_columns(draw: Draw) -> Draw:
    """Beside every column a constant, a copy, and the sum of it and the next."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        constants = np.tile(rng.integers(-9, 9, X.shape[1]).astype(float), (n, 1))
        return np.hstack([X, constants, X, X + np.roll(X, 1, axis=1)]), y

    return change


def with_code_for_missing(draw: Draw, share: float, code: float = -999.0) -> Draw:
    """Missing values, coded as an impossible number."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return np.where(rng.random(X.shape) < share, code, X), y

    return change


# Transformations of training rows


def near_copies(copies: int, jitter: float) -> Any:
    """The same number of rows, as near-duplicates with a little noise."""

    def change(
        rng: np.random.Generator, X: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = np.tile(np.arange(len(y) // copies), copies)
        return X[rows] + jitter * rng.standard_normal((len(rows), X.shape[1])), y[rows], rows

    return change
