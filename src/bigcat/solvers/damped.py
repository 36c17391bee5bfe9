"""Plain steps that need no tuning: in units of the rows' size, and none longer than its gain."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from bigcat.compile import device, implement
from bigcat.rows import Problem
from bigcat.solvers._base import (
    INTERCEPT_SHARE,
    Solver,
    check_schedule,
    steps_to_zero,
)
from bigcat.verbs import coordinate_rate, damping, move, rate


class DampedTag(NamedTuple):
    learning_rate: float
    n_steps: float  # until the rate is zero; infinity for a constant rate


@dataclass(frozen=True, repr=False)
class Damped(Solver):
    """Plain steps with a relative rate, each shortened to what the row itself can gain by it.

    The rate is divided by the mean ``|x|^2`` of the rows (the intercept included, as a constant
    feature of a fifth of that), so that the same number fits rows of any size: a rate of 1
    moves the score of a row's label by up to 1.  A row with label probability q is moved by ``u``
    times its gradient, ``u = 1 / (1 - q + q exp(a u))``, where ``a`` is what the whole step would
    add to the label's score: the implicit step along the gradient.  So large rates do no harm to
    rows that are fitted already.

    Parameters
    ----------
    learning_rate : float
    schedule : {"linear", "constant"}
        "linear" lets the rate fall to zero over `max_epochs`; "constant" keeps it.
    average : bool
        Fit an average of the weights along the way, in which late ones count more: as good as a
        rate that falls, without knowing the end.  Needs the weights twice.

    Examples
    --------
    >>> from bigcat.solvers import Damped
    >>> Damped(learning_rate=4.0).schedule
    'linear'
    """

    name: ClassVar[str] = "damped"
    promise: ClassVar[str] = "rate in units of the rows; little to tune"
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
        return True

    @property
    def decays_to_zero(self) -> bool:
        return self.schedule == "linear"

    @property
    def averages(self) -> bool:
        return self.average

    def with_constant_rate(self) -> Damped:
        return replace(self, schedule="constant")

    def intercept_scale(self, problem: Problem) -> float:
        return INTERCEPT_SHARE * problem.scored_size

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        size = problem.scored_size
        if problem.fit_intercept:
            size += self.intercept_scale(problem)
        return DampedTag(self.learning_rate / size, steps_to_zero(self.schedule, n_steps))


@implement(rate, DampedTag)
def _(solver, iteration, epoch):
    return solver.learning_rate * max(0.0, 1.0 - (iteration - 1) / solver.n_steps)


@implement(move, DampedTag)
def _(solver, rate, weights, state, j, gradient):
    weights[j] += rate * gradient


@implement(coordinate_rate, DampedTag)
def _(solver, rate, state, j):
    return rate


@device
def shortened(grad, whole):
    """The u in (0, 1] with u (1 - q + q exp(whole slope u)) = 1, where slope = 1 - q."""
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
