"""Blocks of rows: chunks of Dask collections, or runs of folders that each worker reads by itself.

Both kinds of blocks have the same methods, so that a fit does not know which it is about.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from dask import delayed, is_dask_collection
from distributed import Future
from sklearn.utils.class_weight import compute_class_weight

from bigcat.dask.cluster import Cluster
from bigcat.dask.survey import Survey, merge_surveys, survey_rows
from bigcat.data.dataset import DataError
from bigcat.data.files import stacked
from bigcat.data.shards import Index, Shards, open_shards
from bigcat.estimators import inputs
from bigcat.linear.labels import encode
from bigcat.training.data import TrainingData

#: Bytes of rows in a block, at most.
MAX_BLOCK_BYTES = 1 << 27
#: Surveys that one task adds up.
SURVEYS_PER_TASK = 16


@dataclass(frozen=True)
class ClassNumbers:
    """Numbers of the classes in training, and how much their rows count.

    Parameters
    ----------
    classes : array
        Labels, sorted.
    number : array
        Of each of them, in training.
    factors : array or None
        What row weights are multiplied by, for each class in the order of training.
    may_be_held : array of bool or None
        Classes, in the order of training, that keep a training row when the rows at the ends of all
        blocks are held out.
    """

    classes: np.ndarray
    number: np.ndarray
    factors: np.ndarray | None = None
    may_be_held: np.ndarray | None = None

    @classmethod
    def of(cls, survey: Survey, class_weight: Any) -> ClassNumbers:
        """Return the numbers of the surveyed classes, the most frequent first."""
        factors = None
        if isinstance(class_weight, str):  # "balanced"
            present = survey.counts > 0
            each = survey.counts.sum() / (present.sum() * np.maximum(survey.counts, 1))
            factors = np.where(present, each, 0.0)[survey.order]
        elif class_weight is not None:
            found = compute_class_weight(class_weight, classes=survey.classes, y=survey.classes)
            factors = found[survey.order]
        return cls(survey.classes, np.argsort(survey.order), factors)

    def data(self, X: Any, labels: np.ndarray, weights: np.ndarray) -> TrainingData:
        """Return rows whose labels are places in `classes` as training data."""
        numbers = self.number[labels]
        if self.factors is not None:
            weights = weights * self.factors[numbers]
        return TrainingData(X, numbers, weights)


class CheckedRows(NamedTuple):
    """Checked rows of a chunk, with labels of any kind."""

    X: Any
    y: np.ndarray
    weights: np.ndarray

    def survey(self, with_digest: bool) -> Survey:
        """Survey the rows."""
        return survey_rows(self.X, self.y, self.weights, with_digest)


class MemoryRows(NamedTuple):
    """Rows in the memory of a worker, with the places of their labels among all classes."""

    X: Any
    labels: np.ndarray
    weights: np.ndarray

    def places(self, first: int, last: int, seed: int) -> np.ndarray:
        """Return some rows, in an order that depends on the seed."""
        return np.random.RandomState(seed).permutation(len(self.labels))[first:last]

    def take(self, numbers: ClassNumbers, places: np.ndarray) -> TrainingData:
        """Return some rows as training data."""
        return numbers.data(self.X[places], self.labels[places], self.weights[places])


@dataclass(frozen=True)
class FolderRows:
    """Rows of a folder, read by the task that needs them."""

    folder: str
    fingerprint: str
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def _read(self, first: int, last: int) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return rows, the places of their labels, and the folder's classes."""
        try:
            shards = opened(self.folder, self.fingerprint)
            X, labels = shards.run(self.first + first, self.first + last)
            shards.let_go()  # Dask kills workers whose mapped files count as memory
            return X, labels, shards.classes
        except OSError as error:
            raise DataError(
                f"{self.folder}: rows {self.first + first} to {self.first + last - 1} cannot be "
                f"read ({error}); every worker must see the folder under this name"
            ) from error

    def survey(self, with_digest: bool) -> Survey:
        """Read and survey the rows."""
        X, labels, classes = self._read(0, len(self))
        found = survey_rows(X, labels, np.ones(len(labels)))
        return Survey(**{**vars(found), "classes": classes[found.classes]})

    def places(self, first: int, last: int, seed: int) -> np.ndarray:
        """Return neighbouring rows: those of a folder are in random order."""
        return np.arange(first, last)

    def take(self, numbers: ClassNumbers, places: np.ndarray) -> TrainingData:
        """Read some rows as training data."""
        X, labels, classes = self._read(int(places[0]), int(places[-1]) + 1)
        if not np.array_equal(classes, numbers.classes):  # folders may differ, or lack a class
            there = np.flatnonzero(np.bincount(labels, minlength=len(classes)))
            number = np.zeros(len(classes), np.int64)
            number[there] = encode(classes[there], numbers.classes)
            labels = number[labels]
        return numbers.data(X, labels, np.ones(len(labels)))


@dataclass(frozen=True)
class Block:
    """A block of rows on the cluster.

    Parameters
    ----------
    rows : Future of MemoryRows, or FolderRows
    n_rows : int
    end : int
        Rows from this one on may be held out.
    """

    rows: Future[MemoryRows] | FolderRows
    n_rows: int
    end: int


# Tasks


def checked(X: Any, y: Any, weights: Any) -> CheckedRows | None:
    """Return a chunk of collections as rows; None for an empty one."""
    if X.shape[0] == 0:
        return None
    X, y = inputs.check_rows_and_labels(plain(X), plain(y), "bigcat.dask.LinearClassifier")
    if weights is None:
        return CheckedRows(X, y, np.ones(len(y)))
    weights = np.asarray(plain(weights), np.float64)
    if len(weights) != len(y) or not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise ValueError(
            "sample_weight must hold one finite number of at least 0 per row; a chunk of "
            f"{len(y)} rows has {len(weights)}, the lowest {weights.min(initial=0.0)}"
        )
    return CheckedRows(X, y, weights)


def plain(values: Any) -> Any:
    """Return the values of data frames and series."""
    return values.to_numpy() if hasattr(values, "to_numpy") else values


def survey_of(rows: CheckedRows | FolderRows | None, with_digest: bool) -> Survey | None:
    """Survey rows; return None for none."""
    return None if rows is None else rows.survey(with_digest)


def size_of(survey: Survey | None) -> tuple[int, int]:
    """Return the number of rows and their bytes."""
    return (0, 0) if survey is None else (survey.n_rows, survey.n_bytes)


def in_memory(chunks: Sequence[CheckedRows], numbers: ClassNumbers) -> MemoryRows:
    """Return some chunks as one block."""
    return MemoryRows(
        stacked([rows.X for rows in chunks]),
        np.concatenate([encode(rows.y, numbers.classes) for rows in chunks]),
        np.concatenate([rows.weights for rows in chunks]),
    )


def concatenated(parts: Sequence[TrainingData]) -> TrainingData:
    """Return the rows of several parts as one."""
    return TrainingData(
        stacked([part.X for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.row_weights for part in parts]),
    )


def labels_at_end(
    rows: MemoryRows | FolderRows, numbers: ClassNumbers, end: int, n: int
) -> np.ndarray:
    """Count the rows of each class among those that may be held out."""
    labels = rows.take(numbers, np.arange(end, n)).that_counts().labels
    return np.bincount(labels, minlength=len(numbers.classes))


def training_rows(
    rows: MemoryRows | FolderRows, numbers: ClassNumbers, first: int, last: int, end: int, seed: int
) -> TrainingData:
    """Return some rows without those from `end` on that are held out."""
    places = rows.places(first, last, seed)
    found = rows.take(numbers, places)
    if numbers.may_be_held is not None:
        held = (places >= end) & numbers.may_be_held[found.labels]
        found = found.take(np.flatnonzero(~held))
    return found.that_counts()


def held_rows(
    rows: MemoryRows | FolderRows, numbers: ClassNumbers, end: int, n: int
) -> TrainingData:
    """Return the rows from `end` on that are held out."""
    found = rows.take(numbers, np.arange(end, n))
    if numbers.may_be_held is not None:
        found = found.take(np.flatnonzero(numbers.may_be_held[found.labels]))
    return found.that_counts()


# From collections and folders to blocks


class FolderSource:
    """Folders of `bigcat.data.convert`, which every worker finds under the same name."""

    def __init__(self, cluster: Cluster, folders: Sequence[tuple[str, Index]]) -> None:
        self.cluster = cluster
        n = sum(index.n_rows for _, index in folders)
        n_workers, max_bytes = min(cluster.n_workers, n), _max_bytes(cluster)
        self.runs: list[list[FolderRows]] = []
        for worker in range(n_workers):
            self.runs.append([])
            first, last, begin = n * worker // n_workers, n * (worker + 1) // n_workers, 0
            for name, index in folders:
                a, b = max(first - begin, 0), min(last - begin, index.n_rows)
                per_run = max(1, int(max_bytes * index.n_rows / max(index.n_bytes, 1)))
                if a < b:
                    edges = np.linspace(a, b, -(-(b - a) // per_run) + 1).astype(int).tolist()
                    self.runs[-1] += [
                        FolderRows(name, index.fingerprint, c, d) for c, d in pairwise(edges)
                    ]
                begin += index.n_rows

    def survey(self, with_digest: bool) -> Future[Survey]:
        """Start a survey of all rows."""
        submit = self.cluster.submit
        surveys = [
            submit("survey", survey_of, run, with_digest, worker=worker)
            for worker, runs in enumerate(self.runs)
            for run in runs
        ]
        return merged(self.cluster, surveys)

    def blocks(self, numbers: Future[ClassNumbers]) -> list[list[Block]]:
        """Return the blocks of each worker."""
        return [[Block(run, len(run), len(run)) for run in runs] for runs in self.runs]


class CollectionSource:
    """Dask arrays or data frames, chunk by chunk."""

    def __init__(self, cluster: Cluster, X: Any, y: Any, sample_weight: Any) -> None:
        self.cluster = cluster
        chunks = _chunks("X", X)
        labels = _chunks("y", y, like=X, n=len(chunks))
        weights: list[Any] = [None] * len(chunks)
        if sample_weight is not None:
            weights = _chunks("sample_weight", sample_weight, like=X, n=len(chunks))
        tasks = [delayed(checked, pure=False)(*part) for part in zip(chunks, labels, weights)]
        self.chunks: list[Future[CheckedRows]] = cluster.client.compute(tasks)

    def survey(self, with_digest: bool) -> Future[Survey]:
        """Start a survey of all rows."""
        submit = self.cluster.submit
        surveys = [submit("survey", survey_of, chunk, with_digest) for chunk in self.chunks]
        sizes = self.cluster.results([submit("size", size_of, survey) for survey in surveys])
        there = [i for i, (n_rows, _) in enumerate(sizes) if n_rows]
        if not there:
            raise ValueError("X has no rows; a fit needs some")
        self.chunks = [self.chunks[i] for i in there]
        self.sizes = [sizes[i] for i in there]
        return merged(self.cluster, [surveys[i] for i in there])

    def blocks(self, numbers: Future[ClassNumbers]) -> list[list[Block]]:
        """Give each chunk to the worker with the fewest rows; small chunks make one block."""
        n_workers = min(self.cluster.n_workers, len(self.chunks))
        groups: list[list[list[int]]] = [[] for _ in range(n_workers)]
        n_rows, left = [0] * n_workers, [0] * n_workers
        for i, (rows, n_bytes) in enumerate(self.sizes):
            worker = n_rows.index(min(n_rows))
            n_rows[worker] += rows
            if n_bytes > left[worker]:
                groups[worker].append([])
                left[worker] = _max_bytes(self.cluster)
            groups[worker][-1].append(i)
            left[worker] -= n_bytes
        found: list[list[Block]] = [[] for _ in groups]
        for worker, blocks in enumerate(groups):
            for block in blocks:
                chunks = [self.chunks[i] for i in block]
                rows = self.cluster.submit("rows", in_memory, chunks, numbers, worker=worker)
                n = sum(self.sizes[i][0] for i in block)
                found[worker].append(Block(rows, n, n))
        self.chunks = []  # in blocks now
        return found


def source_of(
    cluster: Cluster, X: Any, y: Any, sample_weight: Any = None
) -> FolderSource | CollectionSource:
    """Return the rows that were given as X and y."""
    several = X if isinstance(X, list | tuple) else [X]
    if several and all(isinstance(one, Shards | str | os.PathLike) for one in several):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "rows in folders have labels and count once each; leave y and sample_weight out"
            )
        return FolderSource(cluster, [folder_of(one) for one in several])
    if y is None:
        raise ValueError("y is missing; give the labels of X, or folders of rows as X")
    return CollectionSource(cluster, X, y, sample_weight)


def merged(cluster: Cluster, surveys: list[Future[Survey]]) -> Future[Survey]:
    """Add surveys up, a few at a time."""
    while len(surveys) > 1:
        some = range(0, len(surveys), SURVEYS_PER_TASK)
        groups = [surveys[i : i + SURVEYS_PER_TASK] for i in some]
        surveys = [cluster.submit("survey", merge_surveys, group) for group in groups]
    return surveys[0]


def _max_bytes(cluster: Cluster) -> int:
    """Return the bytes of a block: a small part of a worker's memory."""
    if cluster.memory_limit is None:
        return MAX_BLOCK_BYTES
    return min(MAX_BLOCK_BYTES, cluster.memory_limit // (16 * cluster.workers_per_machine))


def chunks_of_rows(X: Any) -> list[Any]:
    """Return the chunks of a collection as delayed values, each with whole rows."""
    if X.ndim == 2 and hasattr(X, "rechunk") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def chunks_like(name: str, values: Any, like: Any, n: int) -> list[Any]:
    """Return chunks with the rows of those of another collection, of which there are `n`."""
    if hasattr(values, "rechunk") and hasattr(like, "chunks") and values.ndim == 1:
        rows = like.chunks[0]
        if values.chunks[0] != rows and not np.isnan(sum(rows)):
            if sum(rows) != values.shape[0]:
                raise ValueError(
                    f"X has {sum(rows):,} rows and {name} {values.shape[0]:,}; they must agree"
                )
            values = values.rechunk((rows,))
    chunks = chunks_of_rows(values)
    if len(chunks) != n:
        raise ValueError(
            f"X has {n} chunks of rows and {name} {len(chunks)}; give both the same partitions"
        )
    return chunks


def _chunks(name: str, values: Any, like: Any = None, n: int = 0) -> list[Any]:
    if not is_dask_collection(values) or not hasattr(values, "to_delayed"):
        what = type(values).__name__
        if isinstance(values, np.ndarray) or scipy.sparse.issparse(values):
            what += " in this process's memory"
        raise ValueError(
            f"{name} is a {what}; give a Dask array or data frame (dask.array.from_array makes "
            "one), or take bigcat.LinearClassifier for rows that one machine holds"
        )
    return chunks_of_rows(values) if like is None else chunks_like(name, values, like, n)


def folder_of(given: Shards | str | os.PathLike[str]) -> tuple[str, Index]:
    """Return the name of a folder and its index."""
    if isinstance(given, Shards):
        return str(given.folder.absolute()), given.index
    return str(Path(given).absolute()), Index.read(Path(given))


@functools.lru_cache(maxsize=8)
def opened(name: str, fingerprint: str) -> Shards:
    """Open a folder, once per process: reading the names of many classes takes a while."""
    shards = open_shards(name)
    if shards.fingerprint != fingerprint:
        raise DataError(f"{name}: its rows changed since the fit began; fit again")
    return shards
