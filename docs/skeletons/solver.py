"""Skeleton of a solver: how one weight moves.

Copy this file and replace each line marked FILL; docs/extending/solver.md shows one filled in.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Solver, coordinate_rate, implement, move, rate


class Tag(NamedTuple):
    """Options as kernels see them: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, repr=False)
class MySolver(Solver):
    """Options as users see them."""

    # name, summary    for tables and errors
    # has_state        True to keep one number of state per weight
    # linear           True if a step is linear in the gradient
    # gradient         that of the "mean" per row, or of the "sum" over all rows
    # bounds, noises   names of the supported ones; None for all
    # plain, damped, implicit: see bigcat.solvers.Solver
    # learning_rate    "auto" if it is relative to the size of the rows
    # ... and the options of users
    ...  # FILL: declarations

    def lower(self):
        ...  # FILL: lower


@implement(rate, Tag)
def _(solver, iteration, epoch):
    """Return the step size, before any scaling by coordinate."""
    ...  # FILL: rate


@implement(move, Tag)
def _(solver, rate, weights, state, j, gradient):
    """Move weights[j] up the gradient, and update state[j]."""
    ...  # FILL: move


@implement(coordinate_rate, Tag)
def _(solver, rate, state, j):
    """Return the step size that `move` would now use for coordinate j."""
    ...  # FILL: coordinate_rate
