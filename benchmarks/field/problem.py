"""Problems of the field test, with training, validation and test rows."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: Share of the training rows that select settings, and their maximal number.
VALIDATION_PART = 0.25
MAX_VALIDATION_ROWS = 2_000
#: Maximal test rows; with many classes, maximal scores of them, but a minimal number of rows.
MAX_TEST_ROWS = 4_000
MAX_SCORES, MIN_ROWS_SCORED = 20_000_000, 500
#: Length of runs of neighbouring rows of a series that stay on one side of the validation split.
BLOCK = 50


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of a problem.

    Attributes
    ----------
    X, y
        Training rows, including the validation rows (``is_validation``).
    X_test, y_test
        Test rows, all with classes of `y`.
    n_dropped : int
        Test rows of classes that `y` does not have, which are left out.
    groups : array, optional
        Which training rows belong together, where that is known and test rows are of others.
    """

    X: Any
    y: np.ndarray
    is_validation: np.ndarray
    X_test: Any
    y_test: np.ndarray
    n_dropped: int
    groups: np.ndarray | None = None

    @property
    def train(self) -> tuple[Any, np.ndarray]:
        return self.X[~self.is_validation], self.y[~self.is_validation]

    @property
    def validation(self) -> tuple[Any, np.ndarray]:
        """Validation rows, of classes that the training rows have too."""
        seen = np.isin(self.y, self.y[~self.is_validation])
        chosen = self.is_validation & seen
        return self.X[chosen], self.y[chosen]


@dataclass(frozen=True)
class Problem:
    """Member of a family; `make(rng)` returns the same data for the same generator state."""

    family: str
    variant: str
    make: Callable[[np.random.Generator], Data]

    @property
    def name(self) -> str:
        return f"{self.family}/{self.variant}"

    def data(self) -> Data:
        """Return the rows; the seed is a checksum of the name."""
        return self.make(np.random.default_rng(zlib.crc32(self.name.encode())))


def from_one_pool(X: Any, y: np.ndarray, n_test: int, rng: np.random.Generator) -> Data:
    """Rows at random: `n_test` of them for the test, the others to train on."""
    order = rng.permutation(len(y))
    test, rest = order[:n_test], order[n_test:]
    return from_two_pools(X[rest], y[rest], X[test], y[test], rng)


def from_two_pools(
    X: Any,
    y: np.ndarray,
    X_test: Any,
    y_test: np.ndarray,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
) -> Data:
    """Validation rows at random from the first pool, test rows from the second.

    Parameters
    ----------
    groups : array of shape (n,), optional
        Rows of one group are all for validation or all not; those of group -1 never are.  Else
        the choice of a setting would go by rows that it was fitted to, or by one outlier.
    """
    n, classes = len(y), np.unique(y)
    scored = max(MAX_SCORES // len(classes), MIN_ROWS_SCORED)
    n_validation = min(int(VALIDATION_PART * n), MAX_VALIDATION_ROWS, scored)
    if groups is None:
        groups = np.arange(n)
    choosable = np.unique(groups[groups >= 0])
    n_chosen = n_validation * len(choosable) // n
    is_validation = np.isin(groups, rng.permutation(choosable)[:n_chosen])
    seen = np.flatnonzero(np.isin(y_test, classes))
    n_dropped = len(y_test) - len(seen)
    kept = np.sort(rng.permutation(seen)[: min(MAX_TEST_ROWS, scored)])
    return Data(X, y, is_validation, X_test[kept], y_test[kept], n_dropped)


def from_series(X: Any, y: np.ndarray, n_test: int, rng: np.random.Generator) -> Data:
    """Take the last `n_test` rows for the test, and blocks of the others for validation."""
    n = len(y) - n_test
    return from_two_pools(X[:n], y[:n], X[n:], y[n:], rng, np.arange(n) // BLOCK)


def from_groups(
    X: Any, y: np.ndarray, groups: np.ndarray, n_test: int, rng: np.random.Generator
) -> Data:
    """Split whole groups at random, with at least `n_test` rows in the test set."""
    names, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(names))
    n_groups = int(np.searchsorted(np.cumsum(counts[order]), n_test)) + 1
    test = np.isin(codes, order[:n_groups])
    train = ~test
    data = from_two_pools(X[train], y[train], X[test], y[test], rng, codes[train])
    return replace(data, groups=codes[train])


def from_ordered(X: Any, y: np.ndarray, n_test: int, rng: np.random.Generator) -> Data:
    """Draw test rows at random; the others keep their order."""
    test = np.zeros(len(y), bool)
    test[rng.permutation(len(y))[:n_test]] = True
    return from_two_pools(X[~test], y[~test], X[test], y[test], rng)
