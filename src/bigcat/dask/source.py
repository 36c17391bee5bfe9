"""From what people have to lanes of blocks: collections of Dask, and folders of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from dask import delayed, is_dask_collection
from distributed import Future

from bigcat.dask.blocks import Known, Rows, checked, numbered, runs_of, survey_of
from bigcat.dask.cluster import Cluster
from bigcat.dask.folders import Folder, folders_of, is_of_folders
from bigcat.dask.survey import Survey, merge_surveys

#: Bytes of rows that a block has at most.
MOST_BYTES = 1 << 27
#: Surveys that one task adds up.
AT_ONCE = 16

#: What a block is made of, and how many rows it has.
Lanes = list[list[tuple[Any, int]]]


class Source(ABC):
    """Rows with labels, somewhere."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @abstractmethod
    def survey(self, with_digest: bool) -> Future[Survey]:
        """One pass over all rows: a task that gives the `Survey`."""

    @abstractmethod
    def lanes(self, known: Future[Known]) -> Lanes:
        """Blocks, once the classes are known."""

    def _merged(self, surveys: list[Future[Survey]]) -> Future[Survey]:
        while len(surveys) > 1:
            groups = [surveys[i : i + AT_ONCE] for i in range(0, len(surveys), AT_ONCE)]
            surveys = [self.cluster.submit("survey", merge_surveys, group) for group in groups]
        return surveys[0]


class Folders(Source):
    """Folders of `bigcat.data.convert`, which every worker finds under the same name."""

    def __init__(self, cluster: Cluster, folders: Sequence[Folder]) -> None:
        super().__init__(cluster)
        n_rows = sum(folder.n_rows for folder in folders)
        self.runs = runs_of(folders, min(cluster.n_lanes, n_rows), _most_bytes(cluster))

    def survey(self, with_digest: bool) -> Future[Survey]:
        return self._merged(
            [
                self.cluster.submit("survey", survey_of, run, with_digest, lane=lane)
                for lane, runs in enumerate(self.runs)
                for run in runs
            ]
        )

    def lanes(self, known: Future[Known]) -> Lanes:
        return [[(run, run.last - run.first) for run in runs] for runs in self.runs]


class Collections(Source):
    """Dask arrays or data frames, chunk by chunk."""

    def __init__(self, cluster: Cluster, X: Any, y: Any, sample_weight: Any) -> None:
        super().__init__(cluster)
        chunks = _chunks("X", X)
        labels = _chunks("y", y, like=X, n=len(chunks))
        weights: list[Any] = [None] * len(chunks)
        if sample_weight is not None:
            weights = _chunks("sample_weight", sample_weight, like=X, n=len(chunks))
        tasks = [delayed(checked, pure=False)(*part) for part in zip(chunks, labels, weights)]
        self.chunks: list[Future[Rows]] = cluster.client.compute(tasks)

    def survey(self, with_digest: bool) -> Future[Survey]:
        surveys = [
            self.cluster.submit("survey", survey_of, chunk, with_digest) for chunk in self.chunks
        ]
        sizes = self.cluster.results(
            [self.cluster.submit("sizes", size_of, survey) for survey in surveys]
        )
        there = [i for i, (n_rows, _) in enumerate(sizes) if n_rows]
        if not there:
            raise ValueError("X has no rows; a fit needs some")
        self.chunks = [self.chunks[i] for i in there]
        self.sizes = [sizes[i] for i in there]
        return self._merged([surveys[i] for i in there])

    def lanes(self, known: Future[Known]) -> Lanes:
        """Chunks go to the lane that has the fewest rows, and are put together to blocks."""
        most_bytes = _most_bytes(self.cluster)
        groups: list[list[list[int]]] = [
            [] for _ in range(min(self.cluster.n_lanes, len(self.chunks)))
        ]
        n_rows, left = [0] * len(groups), [0] * len(groups)
        for i, (rows, n_bytes) in enumerate(self.sizes):
            lane = n_rows.index(min(n_rows))
            n_rows[lane] += rows
            if n_bytes > left[lane]:
                groups[lane].append([])
                left[lane] = most_bytes
            groups[lane][-1].append(i)
            left[lane] -= n_bytes
        found: Lanes = [[] for _ in groups]
        for lane, blocks in enumerate(groups):
            for block in blocks:
                chunks = [self.chunks[i] for i in block]
                rows = self.cluster.submit("rows", numbered, chunks, known, lane=lane)
                found[lane].append((rows, sum(self.sizes[i][0] for i in block)))
        self.chunks = []  # in blocks now
        return found


def size_of(survey: Survey | None) -> tuple[int, int]:
    """Rows and bytes."""
    return (0, 0) if survey is None else (survey.n_rows, survey.n_bytes)


def source_of(cluster: Cluster, X: Any, y: Any, sample_weight: Any = None) -> Source:
    """Whatever was given as X and y."""
    if is_of_folders(X):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "rows in folders have labels and count once each; leave y and sample_weight out"
            )
        return Folders(cluster, folders_of(X))
    if y is None:
        raise ValueError("y is missing; give the labels of X, or folders of rows as X")
    return Collections(cluster, X, y, sample_weight)


def _most_bytes(cluster: Cluster) -> int:
    """Of a block: a small part of what a lane may have."""
    if cluster.memory_limit is None:
        return MOST_BYTES
    return min(MOST_BYTES, cluster.memory_limit // (16 * cluster.lanes_per_worker))


def chunks_of_rows(X: Any) -> list[Any]:
    """The chunks of a collection as delayed values, each with whole rows."""
    if X.ndim == 2 and hasattr(X, "rechunk") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return list(np.ravel(X.to_delayed()))


def _chunks(name: str, values: Any, like: Any = None, n: int | None = None) -> list[Any]:
    if not is_dask_collection(values) or not hasattr(values, "to_delayed"):
        what = type(values).__name__
        if isinstance(values, np.ndarray) or scipy.sparse.issparse(values):
            what += " in this process's memory"
        raise ValueError(
            f"{name} is a {what}; give a Dask array or data frame (dask.array.from_array makes "
            "one), or take bigcat.LinearClassifier for rows that one machine holds"
        )
    if like is not None and hasattr(values, "rechunk") and hasattr(like, "chunks"):
        rows = like.chunks[0]
        if values.ndim == 1 and values.chunks[0] != rows and not np.isnan(sum(rows)):
            if sum(rows) != values.shape[0]:
                raise ValueError(
                    f"X has {sum(rows):,} rows and {name} {values.shape[0]:,}; they must agree"
                )
            values = values.rechunk((rows,))
    chunks = chunks_of_rows(values)
    if n is not None and len(chunks) != n:
        raise ValueError(
            f"X has {n} chunks of rows and {name} {len(chunks)}; give both the same partitions"
        )
    return chunks
