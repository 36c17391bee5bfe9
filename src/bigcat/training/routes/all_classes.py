"""All classes of every row at vector speed: the exact softmax of full rank with plain steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bigcat.kernels.train_all_classes import train_dense, train_sparse
from bigcat.training.routes.base import Journey, Route

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


class AllClasses(Route):
    """Kernels of their own, which neither draw nor gather classes."""

    @staticmethod
    def applies(journey: Journey) -> bool:
        parts = journey.parts
        return (
            journey.kind.linear_scores
            and journey.kind.sees_problem_rows
            and parts.noise.softmax
            and parts.bound.is_likelihood
            and parts.sampler.all_classes
            and parts.solver.plain
        )

    @staticmethod
    def scratch_numbers(journey: Journey) -> int:
        sizes = journey.sizes
        of_row = sizes.n_classes + (0 if sizes.sparse else sizes.n_features)
        return 2 * journey.batch_size * of_row

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        sparse = passes.problem.sizes.sparse
        self.kernel: Callable[..., tuple[float, float]] = train_sparse if sparse else train_dense
        self.multiplies = not sparse

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        p, state = self.passes, self.passes.state
        return self.kernel(
            p.training_rows(p.problem.rows),
            p.span(first, last, n_together),
            p.plan,
            p.solver,
            state.weights,
            state.intercepts,
            p.order.geometry.squared_norms,
            scale,
        )
