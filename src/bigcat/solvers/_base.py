"""What every solver declares; the compiled side of the stochastic ones is `bigcat.verbs`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bigcat.rows import Problem


class Rates(NamedTuple):
    """Learning rates to try, by factors of two, and how the best of them is found.

    The fit takes a `share` of the lowest rate that is `as_good` as the best, within that part of
    the log-likelihood.
    """

    first: float
    lowest: float
    highest: float
    share: float = 1.0
    as_good: float = 0.005


SCHEDULES = ("linear", "constant")


def check_schedule(schedule: str) -> None:
    if schedule not in SCHEDULES:
        raise ValueError(
            f"schedule={schedule!r} is not known; choose one of {', '.join(map(repr, SCHEDULES))}"
        )


def steps_to_zero(schedule: str, n_steps: int) -> float:
    """Steps until the rate is zero: all of them, or infinitely many."""
    return float(n_steps) if schedule == "linear" else math.inf


@dataclass(frozen=True)
class Solver:
    """How parameters move."""

    name: ClassVar[str]
    #: One line for tables.
    promise: ClassVar[str]
    #: Mini-batches and sampled classes, or whole passes over everything?
    stochastic: ClassVar[bool] = True
    #: Remembers numbers for the weights and intercepts: as many again, or see `state_width`?
    has_state: ClassVar[bool] = False
    #: Is a step linear in the gradient, so that a batch's rows can be applied one by one?
    linear: ClassVar[bool] = False
    #: Is the gradient that of the sum over all rows ("sum") or of the mean a row ("mean")?
    gradient: ClassVar[str] = "mean"
    #: Are its slopes those of the new weights, so that it has to know |x|^2 of each row?
    implicit: ClassVar[bool] = False
    #: Does it shorten a row's step by what the row can gain, for which it has to know |x|^2 too?
    damped: ClassVar[bool] = False
    #: Bounds and noises that it can move; None for all.
    bounds: ClassVar[tuple[str, ...] | None] = None
    noises: ClassVar[tuple[str, ...] | None] = None
    #: Rows a step where the user does not say.
    default_batch_size: ClassVar[int] = 64
    #: What to try when numbers are no longer finite.
    if_diverged: ClassVar[str] = (
        "lower learning_rate, scale the columns of X to similar size, or take solver='adagrad'"
    )

    def batch_size(self, asked: int | str) -> int:
        """Rows a step: what the user asked for, or the solver's own."""
        return self.default_batch_size if asked == "auto" else int(asked)

    @property
    def needs_vectors(self) -> bool:
        """Does it move the vectors of classes and features as a whole, so that it needs a rank?"""
        return False

    def state_width(self, width: int) -> int:
        """Numbers that it remembers for each row of the weights, which have that width."""
        return width if self.has_state else 0

    def lower(self) -> Any:
        """Tag below the seam."""
        raise TypeError(f"{type(self).__name__} has no compiled form")

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        """Tag below the seam for a run of `n_steps` steps at most; most solvers know all before."""
        return self.lower()

    def intercept_scale(self, problem: Problem) -> float:
        """Step size of the intercepts, for one of 1 of the weights."""
        return 1.0

    def rates_to_try(self) -> Rates:
        """For a search of the rate."""
        raise TypeError(f"{type(self).__name__} has no rates to try")

    def __post_init__(self) -> None:
        rate = getattr(self, "learning_rate", 1.0)
        if not rate > 0.0:
            raise ValueError(f"learning_rate={rate!r} must be above 0")


class DivergedError(FloatingPointError):
    """Training produced numbers that are not finite."""
