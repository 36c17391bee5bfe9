"""Dense made-up tables of more kinds: laboratories, views, spectra, derived columns, vectors."""

from __future__ import annotations

import numpy as np
from sklearn.preprocessing import PolynomialFeatures

from benchmarks.field.dense import Draw, Rows, labels

#: Code of a missing measurement in a table.
CODES = (0.0, -1.0, -999.0, 9_999.0)


# Tables


def views(n_features: int, n_classes: int, contrast: float, exponent: float = 1.2) -> Draw:
    """Counts whose tail is a power: most are small, some are millions."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        usual = 10.0 ** rng.uniform(0.0, 2.0, n_features)
        means = usual * np.exp(contrast * rng.standard_normal((n_classes, n_features)))
        tail = rng.random((n, n_features)) ** (-1.0 / exponent) - 1.0
        return np.floor(means[y] * tail).clip(0.0, 1e7), y

    return draw


def laboratory(n_features: int, n_classes: int, distance: float) -> Draw:
    """Lognormal values in units from thousandths to thousands, floored at a detection limit."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.7)
        logs = distance * rng.standard_normal((n_classes, n_features))[y]
        logs += rng.standard_normal((n, n_features))
        values = 10.0 ** rng.uniform(-3.0, 3.0, n_features) * np.exp(0.6 * logs)
        limits = np.quantile(values, rng.uniform(0.0, 0.3, n_features), axis=0).diagonal()
        return np.where(values < limits, limits / 2.0, values), y

    return draw


def fraud(n_features: int, share: float, scale: float) -> Draw:
    """Fraudulent payments, one in hundreds: amounts, hours, deviations from the usual."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        numbers = rng.standard_normal((n, n_features))
        score = scale * numbers @ rng.standard_normal(n_features) / np.sqrt(n_features)
        noisy = score + rng.logistic(size=n)
        amount, hour = np.exp(4.0 + 1.3 * numbers[:, 0]), rng.integers(24, size=n)
        X = np.column_stack([amount, hour, numbers[:, 1:]])
        return X, (noisy > np.quantile(noisy, 1.0 - share)).astype(np.int64)

    return draw


def one_price(n_classes: int, noise: float) -> Draw:
    """One column, a price in hundreds of thousands; classes are segments with soft edges."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        logs = rng.standard_normal(n)
        hidden = logs + noise * rng.logistic(size=n)
        edges = np.quantile(hidden, np.arange(1, n_classes) / n_classes)
        return 250_000.0 * np.exp(0.5 * logs[:, None]), np.searchsorted(edges, hidden)

    return draw


def number_as_class(n_features: int, n_classes: int, noise: float) -> Draw:
    """Ordered classes such as years of age, one per whole number; neighbours are alike."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        hidden = X @ rng.standard_normal(n_features) / np.sqrt(n_features)
        hidden += noise * rng.standard_normal(n)
        return X, (n_classes * (0.5 + 0.2 * hidden)).astype(int).clip(0, n_classes - 1)

    return draw


def codes_as_numbers(n_columns: int, n_classes: int, levels: int, effect: float) -> Draw:
    """Categories as whole numbers, whose order says nothing."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        codes = rng.integers(levels, size=(n, n_columns))
        effects = effect * rng.standard_normal((n_columns, levels, n_classes))
        scores = effects[np.arange(n_columns), codes].sum(axis=1)
        return codes.astype(float), np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)

    return draw


def spectra(n_features: int, n_classes: int, contrast: float) -> Draw:
    """Smooth curves: peaks, some of them specific to a class, times a factor, on a linear trend."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes)
        where = np.linspace(0.0, 1.0, n_features)
        places, widths = rng.uniform(0.0, 1.0, (12, 1)), rng.uniform(0.01, 0.06, (12, 1))
        peaks = np.exp(-0.5 * ((where - places) / widths) ** 2)
        usual = rng.uniform(0.5, 2.0, 12)
        heights = usual + contrast * rng.standard_normal((n_classes, 12))[y]
        heights += 0.3 * rng.standard_normal((n, 12))
        slope = rng.standard_normal((n, 1)) * where + rng.normal(1.0, 0.5, (n, 1))
        X = rng.uniform(0.8, 1.25, (n, 1)) * (heights @ peaks + slope)
        return X + 0.02 * rng.standard_normal(X.shape), y

    return draw


def k_mers(length: int, n_classes: int, contrast: float, letters: int = 150) -> Draw:
    """Counts of all words of a fixed length over four letters in a sequence; classes are Markov
    chains.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.3)
        logits = rng.standard_normal((4, 4)) + contrast * rng.standard_normal((n_classes, 4, 4))
        sequence = np.empty((n, letters), np.int64)
        sequence[:, 0] = rng.integers(4, size=n)
        for step in range(1, letters):
            scores = logits[y, sequence[:, step - 1]] + rng.gumbel(size=(n, 4))
            sequence[:, step] = np.argmax(scores, axis=1)
        n_words = letters - length + 1
        words = sum(sequence[:, i : i + n_words] * 4**i for i in range(length))
        place = np.arange(n)[:, None] * 4**length + words
        counts = np.bincount(place.ravel(), minlength=n * 4**length)
        return counts.reshape(n, -1).astype(float), y

    return draw


# Vectors


def whitened(n_features: int, n_classes: int, distance: float, telling: int) -> Draw:
    """Whitened columns of variance one; classes differ in `telling` directions.

    In these they are `distance` apart and the spread within a class is a third of the usual.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        hidden = rng.standard_normal((n, n_features))
        hidden[:, :telling] /= 3.0
        hidden[:, :telling] += distance / 3.0 * rng.standard_normal((n_classes, telling))[y]
        mixed = hidden @ rng.standard_normal((n_features, n_features))
        mixed -= mixed.mean(axis=0)
        variances, directions = np.linalg.eigh(mixed.T @ mixed / n)
        return mixed @ directions[:, ::-1] / np.sqrt(variances[::-1]), y

    return draw


def few_directions(n_features: int, n_classes: int, spread: float, strength: float) -> Draw:
    """Vectors of unit length; their four directions of largest variance are noise."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.6)
        X = rng.standard_normal((n_classes, n_features))[y]
        X += spread * rng.standard_normal((n, n_features))
        X += strength * rng.standard_normal((n, 4)) @ rng.standard_normal((4, n_features))
        return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y

    return draw


def two_vectors(n_features: int, n_classes: int, noise: float) -> Draw:
    """Similarity of two texts from distances and products of the coordinates of their vectors.

    Classes are degrees of likeness, from none to all.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        half = n_features // 2
        y = labels(rng, n, n_classes)
        one, other = rng.standard_normal((2, n, half))
        share = (y / (n_classes - 1))[:, None]
        other = share * one + (1.0 - share) * other + noise * rng.standard_normal((n, half))
        lengths = (np.linalg.norm(v, axis=1, keepdims=True) for v in (one, other))
        one, other = (v / length for v, length in zip((one, other), lengths))
        return np.hstack([np.abs(one - other), one * other]), y

    return draw


def nearly_one_each(n_features: int, n_classes: int, spread: float) -> Draw:
    """Identity of persons: one row of each, a second of every fourth, then rows of random ones.

    The first five rows in four classes are for training.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        everybody = rng.permutation(n_classes)
        n_train = n_classes + n_classes // 4
        anybody = rng.integers(n_classes, size=n - n_train)
        y = np.concatenate([everybody, everybody[: n_train - n_classes], anybody])
        faces = rng.standard_normal((n_classes, n_features))
        return faces[y] + spread * rng.standard_normal((n, n_features)), y

    return draw


# Transformations of columns, of all rows


def with_several_codes(draw: Draw, share: float) -> Draw:
    """Columns with their own codes for missing values; large values are missing more often."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        codes = rng.choice(CODES, X.shape[1])
        missing = rng.random(X.shape) < share * np.where(np.median(X, axis=0) < X, 1.5, 0.5)
        return np.where(missing, codes, X), y

    return change


def polynomials(draw: Draw, degree: int) -> Draw:
    """All products of columns, and the columns, in units that products give."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return PolynomialFeatures(degree, include_bias=False).fit_transform(X), y

    return change


def waves(draw: Draw, n_waves: int, width: float) -> Draw:
    """Cosines of random sums of columns (random Fourier features)."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        sums = X @ rng.standard_normal((X.shape[1], n_waves)) / width
        return np.sqrt(2.0 / n_waves) * np.cos(sums + rng.uniform(0.0, 2 * np.pi, n_waves)), y

    return change


def hidden_layer(draw: Draw, n_units: int) -> Draw:
    """Outputs of hidden units of a network: sums of columns, 0 where they are negative; float32."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        weights = rng.standard_normal((X.shape[1], n_units)) / np.sqrt(X.shape[1])
        return np.maximum(X @ weights - 0.3, 0.0).astype(np.float32), y

    return change


def with_annotators(draw: Draw, share: float) -> Draw:
    """Labels of annotators: some confuse neighbouring classes, one in twenty repeats one label."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        kind, n_classes = rng.random(n), int(y.max()) + 1
        mistaken = np.where(kind < share, (y + 1) % n_classes, y)
        return X, np.where(kind > 0.95, 0, mistaken)

    return change
