"""Batches whose rows share their classes: products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bigcat.kernels.train_batches import train_batches
from bigcat.training.routes.base import Journey, Route

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


class BatchScratch(NamedTuple):
    """Scratch memory of a thread: a batch's entries by feature, and where a class is in it."""

    back: np.ndarray  # gradients of the rows' embeddings
    gradient: np.ndarray  # of one feature's vector
    slot_of: np.ndarray  # of a feature, -1 between batches
    features: np.ndarray
    ends: np.ndarray
    members: np.ndarray
    values: np.ndarray
    place_of: np.ndarray  # of a class, -1 between batches


def _n_entries(journey: Journey) -> int:
    """Non-zeros of a batch, where they meet vectors of features one by one."""
    if not (journey.kind.has_vectors and journey.sizes.sparse):
        return 0
    return min(journey.batch_size * journey.sizes.row_values, max(journey.sizes.n_values, 1))


class SharedClasses(Route):
    """One draw for a batch of dense vectors, rows or embeddings."""

    multiplies = True

    @staticmethod
    def applies(journey: Journey) -> bool:
        solver = journey.parts.solver
        return (
            journey.parts.sampler.shared
            and journey.kind.sees_dense_rows(journey.sizes)
            and journey.batch_size > 1
            and not solver.needs_linear_scores
        )

    @staticmethod
    def scratch_numbers(journey: Journey) -> int:
        sizes, batch_size = journey.sizes, journey.batch_size
        width = journey.kind.trained_shape(sizes)[1]
        n_classes = journey.n_looked_at + batch_size
        of_batch = batch_size * (n_classes + 2 * width) + 2 * n_classes * width
        n_entries = _n_entries(journey)
        if n_entries:  # places of all features, and those of the batch with its entries
            n_touched = min(sizes.n_features, n_entries)
            return of_batch + sizes.n_features + 3 * n_touched + 2 * n_entries
        if journey.kind.has_vectors:  # dense rows: a copy of them, and a gradient of all features
            return of_batch + sizes.n_features * (width + batch_size)
        return of_batch

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.works = [self._work(passes) for _ in range(passes.n_threads)]

    @staticmethod
    def _work(passes: Passes) -> BatchScratch:
        journey, weights = passes.journey, passes.state.weights
        n_entries = _n_entries(journey)
        n_features = journey.sizes.n_features if n_entries else 0
        n_touched = min(n_features, n_entries)
        embeds = journey.kind.has_vectors
        return BatchScratch(
            back=np.empty((journey.batch_size if embeds else 0, weights.shape[1]), weights.dtype),
            gradient=np.empty(weights.shape[1], weights.dtype),
            slot_of=np.full(n_features, -1, np.int32),
            features=np.empty(n_touched, np.int32),
            ends=np.empty(n_touched, np.int64),
            members=np.empty(n_entries, np.int32),
            values=np.empty(n_entries, weights.dtype),
            place_of=np.full(journey.sizes.n_classes, -1, np.int32),
        )

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        work = self.works[thread]
        return self.passes.call(train_batches, work, thread, first, last, scale, n_together)
