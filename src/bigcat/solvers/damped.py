"""Plain steps relative to the row size, shortened where they would overshoot."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from bigcat.compile import device, implement
from bigcat.rows import Problem
from bigcat.solvers._base import INTERCEPT_SHARE, Solver
from bigcat.solvers.schedules import check_schedule, remaining, steps_to_zero
from bigcat.verbs import coordinate_rate, damping, move, rate


class DampedTag(NamedTuple):
    """Tag with the absolute learning rate."""

    learning_rate: float
    n_steps: float  # until the rate is zero; infinity for a constant rate


@dataclass(frozen=True, repr=False)
class Damped(Solver):
    """Plain steps with a relative rate, shortened to the implicit step along the gradient.

    The rate is divided by the mean ``|x|^2`` of the rows (plus a constant feature of a fifth of
    that for the intercept), so one value suits rows of any size: a rate of 1 moves the score of a
    row's label by up to 1.  A row with label probability q moves by ``u`` times its gradient, ``u =
    1 / (1 - q + q exp(a u))``, where ``a`` is the change of the label's score by the whole step. So
    large rates do no harm to rows that are fitted already.

    Parameters
    ----------
    learning_rate : float, default=1.0
        Change of the label's score by one step, at most. Raise it for fits of few epochs.
    schedule : {"linear", "constant"}, default="linear"
        "linear" decays the rate to zero over `max_epochs`; "constant" keeps it, for fits of unknown
        length.
    average : bool, default=False
        Fit an average of the weights in which late ones count more: as good as a decaying rate,
        for fits of unknown length. Doubles the memory of the weights.
    batch_size, init
        See `Solver`.

    Examples
    --------
    >>> from bigcat.solvers import Damped
    >>> Damped(learning_rate=4.0).schedule
    'linear'
    """

    name: ClassVar[str] = "damped"
    summary: ClassVar[str] = "rate in units of the rows; little to tune"
    linear: ClassVar[bool] = True
    plain: ClassVar[bool] = True
    divergence_remedy: ClassVar[str] = "lower learning_rate"
    learning_rate: float = 1.0
    schedule: str = "linear"
    average: bool = False
    batch_size: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_schedule(self.schedule)

    @property
    def damped(self) -> bool:
        """Return True: long steps are shortened."""
        return True

    @property
    def decays_to_zero(self) -> bool:
        """Return True with ``schedule="linear"``."""
        return self.schedule == "linear"

    @property
    def averages(self) -> bool:
        """Return `average`."""
        return self.average

    def with_constant_rate(self) -> Damped:
        """Return a copy with a constant rate."""
        return replace(self, schedule="constant")

    def intercept_scale(self, problem: Problem) -> float:
        """Return the squared size of the intercept's constant feature."""
        return INTERCEPT_SHARE * problem.scored_size

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        """Return the tag with the rate in absolute units."""
        size = problem.scored_size
        if problem.fit_intercept:
            size += self.intercept_scale(problem)
        return DampedTag(self.learning_rate / size, steps_to_zero(self.schedule, n_steps))


@implement(rate, DampedTag)
def _(solver, iteration, epoch):
    return solver.learning_rate * remaining(iteration, solver.n_steps)


@implement(move, DampedTag)
def _(solver, rate, weights, state, j, gradient):
    weights[j] += rate * gradient


@implement(coordinate_rate, DampedTag)
def _(solver, rate, state, j):
    return rate


@device
def shortened(grad, whole):
    """Return u in (0, 1] with u (1 - q + q exp(whole u grad)) = 1, where grad = 1 - q."""
    missing = min(max(grad, 0.0), 1.0)
    q, a = 1.0 - missing, whole * missing
    if q < 1e-300 or (a < 30.0 and q * math.expm1(a) < 1e-3):
        return 1.0
    # u exp(a u) q + u missing = 1.  Its left side is convex and grows, so Newton's method comes
    # down to the root from any point above it: 1 is one, and so is log(1 + a / q) / a if a / q > 2.
    u = 1.0
    if a > 2.0 * q:
        u = min(1.0, math.log1p(a / q) / a)
    for _ in range(8):
        e = q * math.exp(a * u)
        excess = u * (e + missing) - 1.0
        change = excess / (e * (1.0 + a * u) + missing)
        u -= change
        if abs(change) < 1e-3 * u:
            break
    return u


@implement(damping, DampedTag)
def _(solver, label_grad, score_step, size):
    return shortened(label_grad, score_step)
