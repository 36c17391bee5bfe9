"""What does not change during a fit, as its kernels see it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from bigcat.combinations import Parts
from bigcat.kernels.train_rows import KernelPlan
from bigcat.linear import WeightsKind
from bigcat.rows import Problem
from bigcat.solvers import Solver


class Extent(NamedTuple):
    """How many rows a problem has, some of which may be trained on elsewhere."""

    n_rows: int
    weight: float  # the sum of theirs
    rows_per_epoch: int  # of those that are trained on here

    @classmethod
    def of(cls, problem: Problem) -> Self:
        return cls(problem.n_rows, float(problem.row_weights.sum()), problem.n_rows)


def make_plan(
    problem: Problem, parts: Parts, kind: WeightsKind, batch_size: int, extent: Extent | None = None
) -> KernelPlan:
    solver, sampler = parts.solver, parts.sampler
    extent = extent or Extent.of(problem)
    scale = extent.weight if solver.gradient == "mean" else 1.0
    ridge = problem.l2 / scale
    width = sampler.width(problem.n_classes, problem.head)
    shape = kind.trained_shape(problem.sizes)
    majors = 0
    if ridge > 0.0 and not solver.linear:
        majors = _sweep_majors(problem, width + 1, batch_size, shape)
    return KernelPlan(
        batch_size=batch_size,
        width=width,
        buffered=is_buffered(solver, kind, batch_size),
        implicit=solver.implicit,
        damped=solver.damped,
        fit_intercept=problem.fit_intercept,
        intercept_scale=solver.intercept_scale(problem),
        # What a batch's mean gradient is multiplied by to estimate what the solver works on.
        gradient_scale=extent.n_rows / scale if solver.gradient == "mean" else extent.n_rows,
        shrink=ridge if solver.linear else 0.0,
        sweep=ridge * shape[0] / majors if majors else 0.0,
        sweep_majors=majors,
        weight_bound=float(solver.weight_radius),
    )


def is_buffered(solver: Solver, kind: WeightsKind, batch_size: int) -> bool:
    """Must a batch's gradient be summed before anything moves?

    Not where rows can be applied one by one: with steps and scores that are linear in the weights.
    """
    return batch_size > 1 and not (solver.linear and kind.linear_scores)


def can_share(solver: Solver) -> bool:
    """May several threads work on the same weights?  Not where a step needs all of them."""
    return not solver.implicit and solver.weight_radius == np.inf


def _sweep_majors(problem: Problem, n_classes: int, batch_size: int, shape: tuple[int, int]) -> int:
    """The ridge as proximal sweeps, where step sizes differ from coordinate to coordinate.

    Sampled steps touch few coordinates, the ridge all of them.  After each batch the next few
    major rows of the weights are shrunk for all the batches since their last turn: right on
    average over an epoch, stable for any strength, and no dearer than the data, since there are
    as many sweeps per epoch as cost what the data cost, but at least one.
    """
    n_batches = -(-problem.n_rows // batch_size)
    cost = problem.sizes.n_values * n_classes / (shape[0] * shape[1])
    sweeps = min(max(cost, 1.0), n_batches)
    return min(int(np.ceil(shape[0] * sweeps / n_batches)), shape[0])
