"""Dense simulated rows, and changes to their columns and rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.field.problem import Data, Problem, from_two_pools

N_TEST = 2_000


class Size(NamedTuple):
    """Rows for training, features, classes."""

    rows: int
    features: int
    classes: int

    def __str__(self) -> str:
        return f"n={self.rows} D={self.features} K={self.classes}"


#: Shapes that families share in which something else is varied.
SHAPES = (Size(500, 20, 5), Size(3_000, 50, 20), Size(3_000, 20, 200), Size(10_000, 30, 10))

Rows = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], tuple[Any, np.ndarray]]
#: Gives rows, labels and the groups of `from_two_pools`.
Spoil = Callable[[np.random.Generator, Any, np.ndarray], tuple[Any, np.ndarray, np.ndarray]]


def drawn(
    family: str, variant: str, draw: Draw, n: int, spoil: Spoil | None = None, n_test: int = N_TEST
) -> Problem:
    """Return a problem with rows from ``draw(rng, number)``; `spoil` changes training rows only."""

    def make(rng: np.random.Generator) -> Data:
        X, y = draw(rng, n + n_test)
        X_train, y_train, groups = X[:n], y[:n], None
        if spoil is not None:
            X_train, y_train, groups = spoil(rng, X_train, y_train)
        return from_two_pools(X_train, y_train, X[n:], y[n:], rng, groups)

    return Problem(family, variant, make)


def cases(
    family: str,
    draw: Callable[..., Any],
    *sizes: tuple[Any, ...],
    make: Callable[[str, str, Any, int], Problem] = drawn,
) -> list[Problem]:
    """Return one problem per case: its size, and the further arguments of `draw`.

    `make` makes a problem of the family, its variant, what `draw` gives, and the number of rows.
    """
    return [
        make(
            family,
            " ".join(map(str, (size, *more))),
            draw(size.features, size.classes, *more),
            size.rows,
        )
        for size, *more in sizes
    ]


# Positions of rows


def zipf(n_classes: int, exponent: float) -> np.ndarray:
    """Frequencies that fall like a power of the rank; alike for exponent 0."""
    p = np.arange(1, n_classes + 1, dtype=float) ** -exponent
    return p / p.sum()


def labels(rng: np.random.Generator, n: int, n_classes: int, exponent: float = 0.0) -> np.ndarray:
    """Labels of these frequencies, numbered at random."""
    names = rng.permutation(n_classes)
    return names[rng.choice(n_classes, size=n, p=zipf(n_classes, exponent))]


def clouds(
    n_features: int,
    n_classes: int,
    distance: float,
    exponent: float = 0.0,
    rank: int | None = None,
) -> Draw:
    """A round cloud per class around a centre, `distance` per coordinate from the middle.

    Centres lie in `rank` dimensions where that is given.
    """

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, exponent)
        if rank is None:
            centres = rng.standard_normal((n_classes, n_features))
        else:
            centres = rng.standard_normal((n_classes, rank)) @ rng.standard_normal(
                (rank, n_features)
            )
            centres /= np.sqrt(rank)
        return distance * centres[y] + rng.standard_normal((n, n_features)), y

    return draw


def utilities(n_features: int, n_classes: int, scale: float, exponent: float = 0.0) -> Draw:
    """Standard normal rows; labels from a softmax whose scores have this standard deviation."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        coef = rng.standard_normal((n_features, n_classes)) * scale / np.sqrt(n_features)
        prior = np.log(rng.permutation(zipf(n_classes, exponent)))
        return X, np.argmax(X @ coef + prior + rng.gumbel(size=(n, n_classes)), axis=1)

    return draw


def several_clouds(n_features: int, n_classes: int, distance: float, each: int = 3) -> Draw:
    """Several clouds per class, so that class boundaries are not linear."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        centres = rng.standard_normal((n_classes, each, n_features))
        which = rng.integers(each, size=n)
        return distance * centres[y, which] + rng.standard_normal((n, n_features)), y

    return draw


def rare_class(n_features: int, share: float, scale: float) -> Draw:
    """Two classes, one of them rare."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        X = rng.standard_normal((n, n_features))
        score = X @ rng.standard_normal(n_features) * scale / np.sqrt(n_features)
        noisy = score + rng.logistic(size=n)
        return X, (noisy > np.quantile(noisy, 1.0 - share)).astype(np.int64)

    return draw


def unit_embeddings(n_features: int, n_classes: int, spread: float, exponent: float = 0.5) -> Draw:
    """Directions around one per class, with one that all rows share, as sentence vectors have."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, exponent)
        centres = rng.standard_normal((n_classes, n_features))
        common = 1.5 * rng.standard_normal(n_features)
        X = centres[y] + common + spread * rng.standard_normal((n, n_features))
        return X / np.linalg.norm(X, axis=1, keepdims=True), y

    return draw


def poisson_counts(n_features: int, n_classes: int, contrast: float) -> Draw:
    """Integer counts whose means depend on column (from 0.1 to 100) and class."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        y = labels(rng, n, n_classes, 0.5)
        usual = 10.0 ** rng.uniform(-1.0, 2.0, n_features)
        means = usual * np.exp(contrast * rng.standard_normal((n_classes, n_features)))
        return rng.poisson(means[y]).astype(float), y

    return draw


def mixed_columns(n_numeric: int, cardinalities: tuple[int, ...], n_classes: int) -> Draw:
    """Numbers of unlike units (years, incomes) beside one-hot categories, as in a table."""

    def draw(rng: np.random.Generator, n: int) -> Rows:
        codes = [rng.choice(c, size=n, p=zipf(c, 1.0)) for c in cardinalities]
        numbers = rng.standard_normal((n, n_numeric))
        scores = numbers @ rng.standard_normal((n_numeric, n_classes))
        scores += sum(rng.standard_normal((c, n_classes))[k] for c, k in zip(cardinalities, codes))
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        units = 10.0 ** rng.uniform(-1.0, 4.0, n_numeric)
        one_hot = [np.eye(c)[k] for c, k in zip(cardinalities, codes)]
        return np.hstack([units * (numbers + rng.uniform(-5, 5, n_numeric)), *one_hot]), y

    return draw


def noise(draw: Draw) -> Draw:
    """Return the same rows with shuffled labels."""

    def shuffled(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray]:
        X, y = draw(rng, n)
        return X, rng.permutation(y)

    return shuffled


def without_signal(family: str, draws: dict[str, tuple[Draw, int]]) -> list[Problem]:
    """Return one problem per data set, with that many training rows and shuffled labels."""
    return [drawn(family, f"{kind} n={n}", noise(draw), n) for kind, (draw, n) in draws.items()]


# Transformations of columns, of all rows


def scaled(draw: Draw, decades: float) -> Draw:
    """Columns times 10 to powers between -decades and decades."""

    def change(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray]:
        X, y = draw(rng, n)
        factors = 10.0 ** rng.uniform(-decades, decades, X.shape[1])
        return (X.multiply(factors).tocsr() if hasattr(X, "tocsr") else X * factors), y

    return change


def correlated(draw: Draw, correlation: float) -> Draw:
    """Each column mixed with the one before, so that neighbours are correlated."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        for j in range(1, X.shape[1]):
            X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
        return X, y

    return change


def rounded(draw: Draw, levels: int) -> Draw:
    """Marks from 1 to `levels`, as in a questionnaire."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        edges = np.quantile(X, np.arange(1, levels) / levels, axis=0)
        marks = [np.searchsorted(edges[:, j], X[:, j]) for j in range(X.shape[1])]
        return np.stack(marks, axis=1) + 1.0, y

    return change


def with_gaps(draw: Draw, share: float) -> Draw:
    """Some values are missing, and stand there as zeros."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return np.where(rng.random(X.shape) < share, 0.0, X), y

    return change


def with_wrong_labels(draw: Draw, share: float) -> Draw:
    """Some rows have the label of another row."""

    def change(rng: np.random.Generator, n: int) -> tuple[Any, np.ndarray]:
        X, y = draw(rng, n)
        wrong = np.flatnonzero(rng.random(n) < share)
        y[wrong] = y[rng.permutation(wrong)]
        return X, y

    return change


def shifted(draw: Draw, mean: float, signs: bool = False) -> Draw:
    """Columns plus a constant, of either sign where `signs` is set."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return X + (mean * rng.choice([-1.0, 1.0], X.shape[1]) if signs else mean), y

    return change


def with_large_column(draw: Draw, factor: float = 1e4) -> Draw:
    """The first column times a factor."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        X[:, 0] *= factor
        return X, y

    return change


def with_copies_of_columns(draw: Draw, copies: int) -> Draw:
    """Every column several times."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return np.hstack([X] * copies), y

    return change


def heavy_tailed(draw: Draw, sigma: float) -> Draw:
    """Exponentials of the columns: lognormal."""

    def change(rng: np.random.Generator, n: int) -> Rows:
        X, y = draw(rng, n)
        return np.exp(sigma * X), y

    return change


# Transformations of training rows


def outlier(
    rng: np.random.Generator, X: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One row times 10^4."""
    X, groups = X.copy(), np.arange(len(y))
    row = rng.integers(len(y))
    X[row] *= 1e4
    groups[row] = -1
    return X, y, groups


def copies_of_rows(copies: int) -> Spoil:
    """The same number of rows, with exact duplicates."""

    def change(
        rng: np.random.Generator, X: Any, y: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        rows = np.tile(np.arange(len(y) // copies), copies)
        return X[rows], y[rows], rows

    return change
