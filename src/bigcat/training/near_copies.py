"""Rows that are copies of each other but for a little noise, and so must not judge each other.

An image turned or blurred five ways, a measurement repeated, a session cut into pieces: a held-out
row that has such a twin among the rows fitted to says nothing about new rows.

Noise is little beside the distances between other rows *of the same class*: of a row with near
copies, the distances to the rows of its class have a gap after the first few.  Where rows lie
without twins, in m dimensions, the k-th of these distances is below a part r of the next with
probability r^(m k); and m is what the distances further out say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from bigcat.machine import one_blas_thread
from bigcat.training.sample import Kinds, Sample, equal_values, kinds_of_rows, rows_together

#: Rows that a first look takes, of so many classes at most, which cost time; and the part of these
#: rows from which on near copies are searched.
LOOKED_AT, CLASSES_LOOKED_AT, MANY = 64, 16, 0.5
#: Dense columns are measured by the distance between their quartiles, of some rows, and cut here:
#: rows that share one far value, such as a code for what is missing, are no copies for that.
ROWS_OF_QUARTILES, FARTHEST = 1_000, 2.0
#: Near copies of a row, at most; and how many of the rows further out say what is usual.
MOST_NEAR, FURTHER_OUT = 15, 32
#: Rows of the class, at least, so that there are some further out.
LEAST_OF_CLASS = 4
#: A gap: the next distance is so many times as large, and chance would do that this rarely.
GAP, CHANCE = 2.0, 1e-4
#: Squared distances below this part of the rows' squares are rounding.
ROUNDING = 1e-12
#: Products that a search for all near copies may take; of more rows, some are looked up.
MOST_PRODUCTS = 1 << 34
#: Distances kept at a time.
AT_A_TIME = 1 << 21


def kinds_of(sample: Sample) -> Kinds:
    """Copies, and where many rows have them, near copies; or the groups that rows have."""
    if sample.groups is not None:
        return rows_together(sample)
    exact = kinds_of_rows(sample).of_row
    neighbours = _Neighbours(sample)
    sizes = np.bincount(sample.labels)[sample.labels]
    # Always the same rows: whether there are near copies is no matter of a seed.
    rows = np.random.RandomState(0).permutation(np.flatnonzero(sizes >= LEAST_OF_CLASS))
    if not len(rows):
        return Kinds(exact)
    classes = np.unique(sample.labels[rows[:CLASSES_LOOKED_AT]])
    first = rows[np.isin(sample.labels[rows], classes)][:LOOKED_AT]
    nearest = list(neighbours.nearest(first))
    dimension = _dimension([distances for _, distances, _ in nearest])
    if dimension is None:
        return Kinds(exact)
    n_near = sum(_number_before_gap(distances, dimension) > 0 for _, distances, _ in nearest)
    if n_near < MANY * len(first):
        return Kinds(exact)
    products = sizes[rows].astype(np.float64).cumsum() * max(neighbours.values_per_row, 1.0)
    rows = rows[: max(int(np.searchsorted(products, MOST_PRODUCTS)), LOOKED_AT)]
    pairs, n_near = [np.stack([np.arange(len(exact)), _first_of(exact)])], 0
    for row, distances, others in neighbours.nearest(rows):
        near = others[: _number_before_gap(distances, dimension)]
        n_near += len(near) > 0
        pairs.append(np.stack([np.full(len(near), row), near]))
    ends = np.concatenate(pairs, axis=1)
    graph = scipy.sparse.coo_array((np.ones(ends.shape[1]), ends), shape=(len(exact),) * 2)
    kind = connected_components(graph, directed=False)[1]
    told = {"near_copies": n_near / len(rows)}
    if len(rows) == np.count_nonzero(sizes >= LEAST_OF_CLASS):
        return Kinds(kind, told=told)
    return Kinds(kind, np.isin(np.arange(kind.max() + 1), kind[rows]), told)


def _first_of(kind: np.ndarray) -> np.ndarray:
    """Of each row, the first one of its kind."""
    _, first, place = np.unique(kind, return_index=True, return_inverse=True)
    return np.asarray(first[place])


class _Neighbours:
    """The nearest rows of the same class that are not equal."""

    def __init__(self, sample: Sample) -> None:
        self.X, self.labels, *_ = sample
        self.sparse = scipy.sparse.issparse(self.X)
        self.values = equal_values(self.X)
        self.by_class = np.argsort(self.labels, kind="stable")
        self.ends = np.bincount(self.labels).cumsum()
        self.values_per_row = (self.X.nnz if self.sparse else self.X.size) / len(self.labels)
        if not self.sparse:
            some = self.X[:: -(-len(self.labels) // ROWS_OF_QUARTILES)]
            quarter = len(some) // 4
            places = [quarter, len(some) // 2, len(some) - 1 - quarter]
            low, self.middle, high = np.partition(some, places, axis=0)[places].astype(np.float64)
            self.reach = np.where(high > low, high - low, 1.0)

    def rows(self, rows: np.ndarray) -> Any:
        """As distances are taken between."""
        X = self.X[rows].astype(np.float64)
        if self.sparse:
            return X
        return np.clip((X - self.middle) / self.reach, -FARTHEST, FARTHEST)

    def nearest(self, rows: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Each row, by classes, with the distances to its neighbours, which rise, and their rows.

        Infinite where there are no more.
        """
        for label in np.unique(self.labels[rows]):
            mine = rows[self.labels[rows] == label]
            others = self.by_class[self.ends[label - 1] if label else 0 : self.ends[label]]
            n = min(FURTHER_OUT, len(others) - 1)
            step = max(1, AT_A_TIME // len(others))
            for part in (mine[i : i + step] for i in range(0, len(mine), step)):
                distances = self._distances(part, others)
                places = np.argpartition(distances, n - 1, axis=1)[:, :n]
                found = np.take_along_axis(distances, places, axis=1)
                order = np.argsort(found, axis=1, kind="stable")
                places = np.take_along_axis(places, order, axis=1)
                yield from zip(part, np.take_along_axis(found, order, axis=1), others[places])

    def _distances(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Infinite to rows that are equal."""
        mine = self.rows(rows)
        found = np.empty((len(rows), len(others)))
        step = max(1, int(AT_A_TIME / max(self.values_per_row, 1.0)))
        for part in (slice(i, i + step) for i in range(0, len(others), step)):
            theirs = self.rows(others[part])
            with one_blas_thread:
                products = mine @ theirs.T
            products = products.toarray() if self.sparse else products
            sums = _squares(mine)[:, None] + _squares(theirs)
            found[:, part] = np.sqrt(np.maximum(sums - 2.0 * products, ROUNDING * sums))
        found[self.values[rows][:, None] == self.values[others]] = np.inf
        return found


def _squares(X: Any) -> np.ndarray:
    squares = X.multiply(X) if scipy.sparse.issparse(X) else X * X
    return np.asarray(squares.sum(axis=1)).ravel()


def _dimension(distances: list[np.ndarray]) -> float | None:
    """In how many dimensions rows lie, by those further out; None where there are too few."""
    found = []
    for of_row in distances:
        logs = np.log(of_row[np.isfinite(of_row)])
        if len(logs) > 2:
            # From the j-th to the n-th distance the logarithm grows by the sum of 1 / (i m) over i
            # from j to n - 1, in the mean.
            grows = (1.0 / np.arange(1, len(logs)))[::-1].cumsum()[::-1]
            outer = slice(len(logs) // 2, None)
            found.append((logs[-1] - logs[:-1][outer]).mean() / grows[outer].mean())
    return 1.0 / max(float(np.median(found)), 1e-9) if found else None


def _number_before_gap(distances: np.ndarray, dimension: float) -> int:
    """Near copies of a row: its neighbours before the clearest gap, if there is one."""
    near = distances[: MOST_NEAR + 1]
    near = near[np.isfinite(near)]
    if len(near) < 2:
        return 0
    jumps = np.diff(np.log(near))
    # The logarithm of how rarely chance does the same.
    rarity = dimension * np.arange(1, len(near)) * np.where(jumps > np.log(GAP), jumps, 0.0)
    at = int(rarity.argmax())
    return at + 1 if rarity[at] > -np.log(CHANCE) else 0
