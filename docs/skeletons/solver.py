"""Skeleton of a solver: how one weight moves.

Copy this file and replace each line marked FILL; docs/extending/solver.md shows one filled in.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Solver, coordinate_rate, implement, move, rate


class Tag(NamedTuple):
    """What the kernels get to see: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, repr=False)
class MySolver(Solver):
    """What people see."""

    # name, summary    for tables and errors
    # has_state        one remembered number for each weight?
    # linear           is a step linear in the gradient?
    # gradient         of the "mean" per row, or of the "sum" over all rows
    # bounds, noises   those that it can move, by name; None for all
    # plain, damped, implicit, moves_posteriors: see bigcat.solvers.Solver
    # learning_rate    "auto" where it is in units of the rows
    # ... and the options that people may set
    ...  # FILL: declarations

    def lower(self):
        ...  # FILL: lower


@implement(rate, Tag)
def _(solver, iteration, epoch):
    """Step size before any scaling by coordinate."""
    ...  # FILL: rate


@implement(move, Tag)
def _(solver, rate, weights, state, j, gradient):
    """Move weights[j] up the gradient, and state[j] along."""
    ...  # FILL: move


@implement(coordinate_rate, Tag)
def _(solver, rate, state, j):
    """The step size that `move` has for coordinate j now."""
    ...  # FILL: coordinate_rate
