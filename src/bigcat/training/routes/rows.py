"""Row by row: every part, any form of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bigcat.kernels.train_rows import Scratch, train_rows
from bigcat.training.plan import is_buffered
from bigcat.training.routes.base import Journey, Route

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


def _n_slots(journey: Journey) -> int:
    """Majors whose gradients a batch has to sum before anything moves."""
    if not is_buffered(journey.parts.solver, journey.kind, journey.batch_size):
        return 0
    of_row = journey.kind.majors_of_row(journey.sizes, journey.n_looked_at)
    return min(journey.kind.trained_shape(journey.sizes)[0], journey.batch_size * of_row)


class RowByRow(Route):
    """The general kernel: classes are drawn and scores gathered for each row."""

    multiplies = False

    @staticmethod
    def applies(journey: Journey) -> bool:
        return True

    @staticmethod
    def scratch_numbers(journey: Journey) -> int:
        n_slots = _n_slots(journey)
        n_majors, n_minors = journey.kind.trained_shape(journey.sizes)
        if not n_slots:
            return 0  # some numbers per row of a batch: nothing beside the rest
        return n_slots * (n_minors + 2) + journey.sizes.n_classes + 2 * n_majors

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.works = [self._work(passes) for _ in range(passes.n_threads)]

    @staticmethod
    def _work(passes: Passes) -> Scratch:
        weights, n_slots = passes.state.weights, _n_slots(passes.journey)
        return Scratch(
            gradient=np.zeros((n_slots, weights.shape[1]), weights.dtype),
            intercept_gradient=np.zeros(passes.problem.n_classes if n_slots else 0, weights.dtype),
            slot_of=np.full(len(weights) if n_slots else 0, -1, np.int64),
            touched=np.empty(n_slots, np.int64),
        )

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        work = self.works[thread]
        return self.passes.call(train_rows, work, thread, first, last, scale, n_together)
