"""What every solver declares; the compiled side of the stochastic ones is `bigcat.verbs`."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from bigcat.part import Part
from bigcat.rows import Problem

#: A learning rate of the solver's own, in units of the rows' size.
AUTO = "auto"
SCHEDULES = ("linear", "constant")
INITS = ("frequencies", "zero", "random")
#: The intercept is a constant feature; its square is this part of the mean |x|^2 of the rows.
INTERCEPT_SHARE = 0.2


def check_schedule(schedule: str) -> None:
    if schedule not in SCHEDULES:
        raise ValueError(
            f"schedule={schedule!r} is not known; choose one of {', '.join(map(repr, SCHEDULES))}"
        )


def steps_to_zero(schedule: str, n_steps: int) -> float:
    """Steps until the rate is zero: all of them, or infinitely many."""
    return float(n_steps) if schedule == "linear" else math.inf


@dataclass(frozen=True, repr=False)
class Solver(Part):
    """How parameters move, and where from.

    Parameters
    ----------
    batch_size : int
        Rows per step.
    init : {"frequencies", "zero", "random"}, default="frequencies"
        Start from the class frequencies, from equal probabilities, or from small random weights.
    """

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
    #: Are its steps the rate times the gradient and nothing else, local parameters the bound's?
    plain: ClassVar[bool] = False
    #: Can it move the means of a posterior: by coordinate, local parameters the bound's?
    moves_posteriors: ClassVar[bool] = False
    #: Bounds and noises that it can move; None for all.
    bounds: ClassVar[tuple[str, ...] | None] = None
    noises: ClassVar[tuple[str, ...] | None] = None
    #: What to try when numbers are no longer finite.
    divergence_remedy: ClassVar[str] = (
        "lower learning_rate, scale the columns of X to similar size, or take solver='adagrad'"
    )
    batch_size: int = field(default=64, kw_only=True)
    init: str = field(default="frequencies", kw_only=True)

    @property
    def rate(self) -> float | str | None:
        """The learning rate; "auto" for one that fits the rows, None for a solver without one."""
        return getattr(self, "learning_rate", None)

    @property
    def relative(self) -> bool:
        """Is the rate in units of the rows' size?"""
        return self.rate == AUTO

    @property
    def decays_to_zero(self) -> bool:
        """Does its rate fall to zero over the epochs that are planned?"""
        return False

    @property
    def damped(self) -> bool:
        """Does it shorten the steps of some rows, for which it has to know |x|^2 of each?"""
        return False

    def with_rate(self, rate: float) -> Self:
        """The same at another learning rate."""
        return self.with_options(learning_rate=rate)

    def with_scaled_rate(self, part: float) -> Self:
        """The same at a part of its rate, where that is a number."""
        rate = self.rate
        return self if rate is None or isinstance(rate, str) else self.with_rate(part * rate)

    def with_constant_rate(self) -> Self:
        """The same for passes of which it is not known how many more will come."""
        return self

    @classmethod
    def supports_bound(cls, name: str) -> bool:
        return cls.bounds is None or name in cls.bounds

    @classmethod
    def supports_noise(cls, name: str) -> bool:
        return cls.noises is None or name in cls.noises

    @property
    def averages(self) -> bool:
        """Does it fit an average of the weights along the way?"""
        return False

    @property
    def weight_radius(self) -> float:
        """Radius of the ball that the weights are kept in."""
        return math.inf

    @property
    def needs_linear_scores(self) -> bool:
        """Are its steps solved for scores that are linear in the weights?"""
        return self.implicit or self.weight_radius < math.inf

    @property
    def needs_vectors(self) -> bool:
        """Does it move the vectors of classes and features as a whole, so that it needs a rank?"""
        return False

    def state_width(self, width: int) -> int:
        """Numbers that it remembers for each row of the weights, which have that width."""
        return width if self.has_state else 0

    @property
    def n_work_arrays(self) -> int:
        """Arrays of the size of the weights, where it keeps them itself."""
        return 0

    def lower(self) -> Any:
        """Tag below the seam."""
        raise TypeError(f"{type(self).__name__} has no compiled form")

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        """Tag below the seam for a run of `n_steps` steps at most; most solvers know all before."""
        return self.lower()

    def intercept_scale(self, problem: Problem) -> float:
        """Step size of the intercepts, for one of 1 of the weights."""
        return 1.0

    def __post_init__(self) -> None:
        if self.init not in INITS:
            raise ValueError(
                f"init={self.init!r} is not known; choose one of {', '.join(map(repr, INITS))}"
            )
        size, rate = self.batch_size, self.rate
        is_whole = isinstance(size, numbers.Integral) and not isinstance(size, bool)
        if self.stochastic and not (is_whole and size >= 1):
            raise ValueError(f"batch_size={size!r} must be a whole number of at least 1")
        if rate is None or rate == AUTO:
            return
        if not (isinstance(rate, numbers.Real) and 0.0 < rate < math.inf):
            raise ValueError(f"learning_rate={rate!r} must be a finite number above 0")


class DivergedError(FloatingPointError):
    """Training produced numbers that are not finite."""
