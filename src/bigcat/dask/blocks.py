"""Where rows come from: chunks of Dask collections, or folders that each worker reads by itself.

A *block* is a run of rows that a task can have at once, as `TrainingData` or as a `Run` of a
folder.  The same functions take either, so that nothing above knows which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from distributed import Future

from bigcat.dask.folders import Folder, opened
from bigcat.dask.survey import Survey, survey_rows
from bigcat.data.dataset import DataError
from bigcat.estimators import inputs
from bigcat.linear.labels import encode
from bigcat.training.data import TrainingData


@dataclass(frozen=True)
class Known:
    """What is known of the classes, once all rows were surveyed.

    Parameters
    ----------
    classes : array
        Labels, sorted.
    number : array
        Of each of them, in training.
    factors : array or None
        How much rows of each count, as trained.
    may_be_held : array of bool or None
        Classes, as trained, that keep a row when all those at the ends of blocks are held out.
    """

    classes: np.ndarray
    number: np.ndarray
    factors: np.ndarray | None = None
    may_be_held: np.ndarray | None = None

    def sample(self, X: Any, labels: np.ndarray, weights: np.ndarray) -> TrainingData:
        """Rows with the numbers of their labels, which are places in `classes`."""
        numbers = self.number[labels]
        if self.factors is not None:
            weights = weights * self.factors[numbers]
        return TrainingData(X, numbers, weights)


class Rows(NamedTuple):
    """Checked rows of a chunk, with labels of any kind."""

    X: Any
    y: np.ndarray
    weights: np.ndarray

    def survey(self, with_digest: bool) -> Survey:
        return survey_rows(self.X, self.y, self.weights, with_digest)


class Numbered(NamedTuple):
    """Rows in the workers' memory, with the places of their labels among all classes."""

    X: Any
    labels: np.ndarray
    weights: np.ndarray

    def places(self, first: int, last: int, seed: int) -> np.ndarray:
        """Some rows in an order that depends on the seed."""
        return np.random.RandomState(seed).permutation(len(self.labels))[first:last]

    def sample(self, known: Known, places: np.ndarray) -> TrainingData:
        return known.sample(self.X[places], self.labels[places], self.weights[places])


@dataclass(frozen=True)
class Run:
    """Rows of a folder, which whoever needs them reads."""

    folder: str
    fingerprint: str
    first: int
    last: int

    def _read(self, first: int, last: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """Rows, the places of their labels, and the classes."""
        try:
            shards = opened(self.folder, self.fingerprint)
            X, labels = shards.run(self.first + first, self.first + last)
            shards.let_go()  # Dask kills workers that have too much in memory
            return X, labels, shards.classes
        except OSError as error:
            raise DataError(
                f"{self.folder}: rows {self.first + first} to {self.first + last - 1} cannot be "
                f"read ({error}); every worker must see the folder under this name"
            ) from error

    def survey(self, with_digest: bool) -> Survey:
        X, labels, classes = self._read(0, self.last - self.first)
        found = survey_rows(X, labels, np.ones(len(labels)))
        return Survey(**{**vars(found), "classes": classes[found.classes]})

    def places(self, first: int, last: int, seed: int) -> np.ndarray:
        """Rows that lie together: those of a folder are in random order."""
        return np.arange(first, last)

    def sample(self, known: Known, places: np.ndarray) -> TrainingData:
        X, labels, classes = self._read(int(places[0]), int(places[-1]) + 1)
        if not np.array_equal(classes, known.classes):  # some folders have others, or none of one
            there = np.flatnonzero(np.bincount(labels, minlength=len(classes)))
            number = np.zeros(len(classes), np.int64)
            number[there] = encode(classes[there], known.classes)
            labels = number[labels]
        return known.sample(X, labels, np.ones(len(labels)))


@dataclass(frozen=True)
class Block:
    """A block, and how many rows it has.

    Parameters
    ----------
    rows : Future of Numbered, or Run
    n_rows : int
    end : int
        From this row on, rows may be held out.
    """

    rows: Future[Numbered] | Run
    n_rows: int
    end: int


# What tasks do


def checked(X: Any, y: Any, weights: Any) -> Rows | None:
    """A chunk of collections as rows; None for an empty one."""
    if X.shape[0] == 0:
        return None
    X, y = inputs.check_rows_and_labels(_plain(X), _plain(y), "bigcat.dask.LinearClassifier")
    if weights is None:
        return Rows(X, y, np.ones(len(y)))
    weights = np.asarray(_plain(weights), np.float64)
    if len(weights) != len(y) or not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise ValueError(
            "sample_weight must hold one finite number of at least 0 per row; a chunk of "
            f"{len(y)} rows has {len(weights)}, the lowest {weights.min(initial=0.0)}"
        )
    return Rows(X, y, weights)


def _plain(values: Any) -> Any:
    """Of data frames and series, their values."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def survey_of(rows: Rows | Run | None, with_digest: bool) -> Survey | None:
    return None if rows is None else rows.survey(with_digest)


def numbered(chunks: Sequence[Rows], known: Known) -> Numbered:
    """Some chunks as one block."""
    return Numbered(
        stacked([rows.X for rows in chunks]),
        np.concatenate([encode(rows.y, known.classes) for rows in chunks]),
        np.concatenate([rows.weights for rows in chunks]),
    )


def stacked(parts: Sequence[Any]) -> Any:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    return scipy.sparse.vstack(parts) if scipy.sparse.issparse(parts[0]) else np.concatenate(parts)


def one_below_the_other(samples: Sequence[TrainingData]) -> TrainingData:
    return TrainingData(
        stacked([sample.X for sample in samples]),
        np.concatenate([sample.labels for sample in samples]),
        np.concatenate([sample.row_weights for sample in samples]),
    )


def labels_at_end(rows: Numbered | Run, known: Known, end: int, n: int) -> np.ndarray:
    """How often classes have rows from `end` on: those that might be held out."""
    labels = rows.sample(known, np.arange(end, n)).that_counts().labels
    return np.bincount(labels, minlength=len(known.classes))


def kept_rows(
    rows: Numbered | Run, known: Known, first: int, last: int, end: int, seed: int
) -> TrainingData:
    """Some rows, without those from `end` on that are held out."""
    places = rows.places(first, last, seed)
    sample = rows.sample(known, places)
    if known.may_be_held is not None:
        held = (places >= end) & known.may_be_held[sample.labels]
        sample = sample.take(np.flatnonzero(~held))
    return sample.that_counts()


def held_rows(rows: Numbered | Run, known: Known, end: int, n: int) -> TrainingData:
    """Rows from `end` on, those of them that are held out."""
    sample = rows.sample(known, np.arange(end, n))
    if known.may_be_held is not None:
        sample = sample.take(np.flatnonzero(known.may_be_held[sample.labels]))
    return sample.that_counts()


# From what people have to blocks


def runs_of(folders: Sequence[Folder], n_lanes: int, most_bytes: int) -> list[list[Run]]:
    """The rows of folders, cut into as many lanes of as many rows each."""
    n = sum(folder.n_rows for folder in folders)
    lanes: list[list[Run]] = []
    for lane in range(n_lanes):
        lanes.append([])
        first, last, begin = n * lane // n_lanes, n * (lane + 1) // n_lanes, 0
        for folder in folders:
            a, b = max(first - begin, 0), min(last - begin, folder.n_rows)
            per_run = max(1, int(most_bytes * folder.n_rows / max(folder.n_bytes, 1)))
            if a < b:
                edges = np.linspace(a, b, -(-(b - a) // per_run) + 1).astype(int).tolist()
                lanes[-1] += [
                    Run(folder.name, folder.fingerprint, c, d) for c, d in pairwise(edges)
                ]
            begin += folder.n_rows
    return lanes
