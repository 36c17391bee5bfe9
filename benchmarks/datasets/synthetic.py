"""Made-up data with known truth: the papers' toy problems, and sets of any size.

Every function takes a `seed` and gives the same data for the same seed and NumPy version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

_CHUNK_CELLS = 2**22  # utilities or random numbers held at once


@dataclass(frozen=True, eq=False)
class CategoricalCounts:
    """Labels ``y`` drawn from ``probabilities`` (of the classes 0, 1, ...), no features."""

    y: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True, eq=False)
class TitsiasSmall:
    """The two sets of one-vs-each's Figure 1.

    ``values``: 200 draws of ten values (panel a). ``X``, ``y``: 200 points in the plane, of
    five classes (panels b and c).
    """

    values: np.ndarray
    X: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class LinearUtilities:
    """``y = argmax_k (X @ coef.T + intercept + noise)_k``."""

    X: Any
    y: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True, eq=False)
class ZipfClasses:
    """Sparse rows ``X`` that look like their class, labels ``y`` of the given frequencies."""

    X: Any
    y: np.ndarray
    probabilities: np.ndarray


@dataclass(frozen=True, eq=False)
class PredictableClasses:
    """Softmax data of `predictable_classes`.

    ``coef`` is (classes, features) and ``intercept`` (classes,); the last class's are 0.
    """

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    def probabilities(self, X: np.ndarray | None = None) -> np.ndarray:
        """True class probabilities of the rows of `X`, by default of all rows drawn."""
        return _softmax((self.X if X is None else X) @ self.coef.T + self.intercept)


def categorical_counts(
    n: int = 300_000, n_classes: int = 10_000, seed: int = 0
) -> CategoricalCounts:
    """Labels with p_k proportional to u_k squared, u_k uniform on [0, 1].

    The toy problem of augment-and-reduce, section 4.1 (these defaults), and of one-vs-each,
    section 4.1 (``n=1_000_000``). Some classes stay unseen.

    Examples
    --------
    >>> from benchmarks.datasets.synthetic import categorical_counts
    >>> toy = categorical_counts(n=1000, n_classes=50)
    >>> toy.y.shape, round(float(toy.probabilities.sum()), 6)
    ((1000,), 1.0)
    """
    _at_least_one(n=n, n_classes=n_classes)
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n_classes) ** 2
    p /= p.sum()
    return CategoricalCounts(_draw(rng, p, n), p)


def titsias_small(seed: int = 0) -> TitsiasSmall:
    """Data like those of one-vs-each's Figure 1; the paper gives their sizes only.

    The ten values have probabilities proportional to u squared as in the larger toy problem, and
    each occurs. The five classes are round clouds on a circle, near enough to overlap.

    Examples
    --------
    >>> from benchmarks.datasets.synthetic import titsias_small
    >>> toy = titsias_small()
    >>> toy.values.shape, toy.X.shape, sorted(set(toy.y.tolist()))
    ((200,), (200, 2), [0, 1, 2, 3, 4])
    """
    n, n_values, n_classes = 200, 10, 5
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.1, 1.0, size=n_values) ** 2
    values = np.concatenate([np.arange(n_values), _draw(rng, p / p.sum(), n - n_values)])
    y = np.repeat(np.arange(n_classes), n // n_classes)
    angle = 2 * np.pi * y / n_classes
    centres = 2.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    X = (centres + rng.normal(size=(n, 2))).astype(np.float32)
    return TitsiasSmall(rng.permutation(values), X, y)


def linear_utilities(
    n: int,
    n_features: int,
    n_classes: int,
    noise: str = "gumbel",
    *,
    density: float = 1.0,
    scale: float = 1.0,
    seed: int = 0,
) -> LinearUtilities:
    """Labels from the model itself: the class of the largest utility.

    Parameters
    ----------
    n, n_features, n_classes : int
        Sizes.
    noise : {"gumbel", "gaussian", "logistic"}
        Standard noise, added to each utility: softmax, probit and logistic models.
    density : float
        Share of entries that are not zero; below 1 the rows are CSR, with at least one entry each.
    scale : float
        Standard deviation of the utilities before noise: larger is easier.
    seed : int
        For numpy's default generator.

    Examples
    --------
    >>> from benchmarks.datasets.synthetic import linear_utilities
    >>> toy = linear_utilities(100, 5, 3, noise="gaussian")
    >>> toy.X.shape, toy.coef.shape, toy.intercept.shape
    ((100, 5), (3, 5), (3,))
    """
    _at_least_one(n=n, n_features=n_features, n_classes=n_classes)
    if not 0 < density <= 1:
        raise ValueError(f"density must lie above 0 and at most 1, got {density}")
    rng = np.random.default_rng(seed)
    draw = {"gumbel": rng.gumbel, "gaussian": rng.normal, "logistic": rng.logistic}
    if noise not in draw:
        raise ValueError(f"noise must be one of {', '.join(draw)}, got {noise!r}")
    if density == 1:
        X: Any = rng.normal(size=(n, n_features)).astype(np.float32)
        entries = n_features
    else:
        entries = max(1, round(density * n_features))
        columns = np.empty((n, entries), np.int32)
        for rows in _chunks(n, n_features):
            order = np.argsort(rng.random((len(columns[rows]), n_features)), axis=1)
            columns[rows] = np.sort(order[:, :entries], axis=1)
        X = _csr(columns, rng.normal(size=(n, entries)), n_features)
    # A row's `entries` standard normal values and the intercept share the variance equally.
    sd = scale / np.sqrt(entries + 1)
    coef = (sd * rng.normal(size=(n_classes, n_features))).astype(np.float32)
    intercept = (sd * rng.normal(size=n_classes)).astype(np.float32)
    y = np.empty(n, np.int64)
    for rows in _chunks(n, n_classes):
        utilities = X[rows] @ coef.T + intercept
        y[rows] = np.argmax(utilities + draw[noise](size=utilities.shape), axis=1)
    return LinearUtilities(X, y, coef, intercept)


def zipf_classes(
    n: int,
    n_classes: int,
    n_features: int = 10_000,
    *,
    row_entries: int = 20,
    signal: float = 0.5,
    exponent: float = 1.0,
    seed: int = 0,
) -> ZipfClasses:
    """Zipf class frequencies and sparse rows, for up to millions of classes.

    Class k has probability proportional to ``(k + 1) ** -exponent`` and `row_entries` features of
    its own. Each entry of a row is one of these with probability `signal`, any feature otherwise;
    rows have unit length. No array of n by `n_classes` is made.

    Examples
    --------
    >>> from benchmarks.datasets.synthetic import zipf_classes
    >>> toy = zipf_classes(1000, 100_000)
    >>> toy.X.shape
    (1000, 10000)
    """
    _at_least_one(n=n, n_classes=n_classes, n_features=n_features, row_entries=row_entries)
    if not 0 <= signal <= 1:
        raise ValueError(f"signal must lie between 0 and 1, got {signal}")
    rng = np.random.default_rng(seed)
    p = np.arange(1, n_classes + 1, dtype=float) ** -exponent
    p /= p.sum()
    y = _draw(rng, p, n)
    own = rng.integers(n_features, size=(n_classes, row_entries), dtype=np.int32)
    columns = rng.integers(n_features, size=(n, row_entries), dtype=np.int32)
    from_class = rng.random((n, row_entries), dtype=np.float32) < signal
    picks = rng.integers(row_entries, size=(n, row_entries))
    columns[from_class] = own[y[:, None], picks][from_class]
    X = _csr(columns, np.ones(columns.shape), n_features)
    X.sum_duplicates()
    lengths = np.diff(X.indptr)
    X.data[:] = np.repeat(lengths**-0.5, lengths)
    return ZipfClasses(X, y, p)


def predictable_classes(
    n: int,
    n_classes: int,
    n_features: int,
    sigma_high: float = 2.0,
    *,
    sigma_low: float = 0.001,
    sigma_intercept: float = 0.25,
    seed: int = 0,
) -> PredictableClasses:
    """The simulator of categorical-from-binary (section G.1.1): features that speak for one class.

    Features are standard normal. Class k < n_classes - 1 has ``n_features / (n_classes - 1)``
    features of its own, whose weights have the standard deviation `sigma_high`; its other weights
    have `sigma_low`, its intercept `sigma_intercept`. The last class has score 0. Labels follow
    the softmax of the scores.

    The draws come from NumPy's legacy generator in the order of the authors' program, which has
    standard deviations where the text has variances, and `n_classes` - 1 groups of features where
    the text has `n_classes`: their seed gives their data.

    Parameters
    ----------
    n, n_classes, n_features : int
        Sizes; at least two classes.
    sigma_high : float
        Larger is easier to predict; at least `sigma_low`.
    sigma_low, sigma_intercept : float
        Standard deviations.
    seed : int
        Between 0 and 2**32 - 1.

    Examples
    --------
    >>> from benchmarks.datasets.synthetic import predictable_classes
    >>> drawn = predictable_classes(120, 3, 6, sigma_high=2.0, seed=1)
    >>> drawn.X.shape, drawn.coef.shape, drawn.probabilities(drawn.X[:5]).shape
    ((120, 6), (3, 6), (5, 3))
    """
    _at_least_one(n=n, n_features=n_features)
    if n_classes < 2:
        raise ValueError(f"n_classes must be at least 2, got {n_classes}")
    if not 0 <= sigma_low <= sigma_high:
        raise ValueError(
            f"sigma_high must be at least sigma_low, and neither below 0, got {sigma_high} and "
            f"{sigma_low}"
        )
    if sigma_intercept < 0:
        raise ValueError(f"sigma_intercept must not be below 0, got {sigma_intercept}")
    rng = np.random.RandomState(seed)
    n_free = n_classes - 1
    intercept = np.append(rng.normal(scale=sigma_intercept, size=n_free), 0.0)
    group = np.floor(np.arange(n_features) / (n_features / n_free))
    scale = np.where(group == np.arange(n_free)[:, None], sigma_high, sigma_low)
    coef = np.vstack([rng.normal(scale=scale), np.zeros(n_features)])
    X = rng.normal(size=(n, n_features))
    y = np.empty(n, np.int64)
    for rows in _chunks(n, n_classes):
        p = _softmax(X[rows] @ coef.T + intercept)
        y[rows] = [np.argmax(rng.multinomial(1, row)) for row in p]
    return PredictableClasses(X, y, coef, intercept)


def _softmax(scores: np.ndarray) -> np.ndarray:
    p: np.ndarray = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def _draw(rng: np.random.Generator, p: np.ndarray, n: int) -> np.ndarray:
    cumulative = np.cumsum(p)
    cumulative[-1] = 1.0  # whatever rounding made of it
    return np.searchsorted(cumulative, rng.random(n), side="right").astype(np.int64)


def _chunks(n: int, n_columns: int) -> list[slice]:
    step = max(1, _CHUNK_CELLS // n_columns)
    return [slice(start, start + step) for start in range(0, n, step)]


def _csr(columns: np.ndarray, values: np.ndarray, n_features: int) -> Any:
    n, entries = columns.shape
    indptr = np.arange(0, n * entries + 1, entries)
    data = values.astype(np.float32).ravel()
    return sp.csr_matrix((data, columns.astype(np.int32).ravel(), indptr), shape=(n, n_features))


def _at_least_one(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
