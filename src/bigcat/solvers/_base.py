"""Base class of solvers; the compiled side of stochastic ones is in `bigcat.verbs`."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from bigcat.part import Part
from bigcat.rows import Problem

#: Solver-specific default learning rate, in units of the row size.
AUTO = "auto"
INITS = ("frequencies", "zero", "random")
#: Square of the intercept's constant feature, as a share of the mean |x|^2 of the rows.
INTERCEPT_SHARE = 0.2


@dataclass(frozen=True, repr=False)
class Solver(Part):
    """Update rule and starting values of the parameters.

    Parameters
    ----------
    batch_size : int
        Rows per step. Larger batches are faster on dense rows with shared draws of classes and need
        more epochs.
    init : {"frequencies", "zero", "random"}, default="frequencies"
        Start from the class frequencies, from equal probabilities, or from small random weights.
        Change it only to reproduce published runs.
    """

    name: ClassVar[str]
    #: One-line description for tables.
    summary: ClassVar[str]
    #: True for mini-batches and sampled classes, False for whole passes over everything.
    stochastic: ClassVar[bool] = True
    #: True if the solver keeps state per weight and intercept; see `state_width`.
    has_state: ClassVar[bool] = False
    #: True if steps are linear in the gradient, so that rows of a batch can be applied one by one.
    linear: ClassVar[bool] = False
    #: Gradient of the "sum" over all rows, or of the "mean" per row.
    gradient: ClassVar[str] = "mean"
    #: True if gradients are taken at the new weights, which requires |x|^2 of each row.
    implicit: ClassVar[bool] = False
    #: True if a step is the rate times the gradient, and the bound moves its local parameters.
    plain: ClassVar[bool] = False
    #: Supported bounds and noises; None for all.
    bounds: ClassVar[tuple[str, ...] | None] = None
    noises: ClassVar[tuple[str, ...] | None] = None
    #: Advice in the error message of a diverged fit.
    divergence_remedy: ClassVar[str] = (
        "lower learning_rate, scale the columns of X to similar size, or take solver='adagrad'"
    )
    batch_size: int = field(default=64, kw_only=True)
    init: str = field(default="frequencies", kw_only=True)

    @property
    def rate(self) -> float | str | None:
        """Return the learning rate; "auto" for one relative to the rows, None if there is none."""
        return getattr(self, "learning_rate", None)

    @property
    def relative(self) -> bool:
        """Return True if the learning rate is in units of the row size."""
        return self.rate == AUTO

    @property
    def decays_to_zero(self) -> bool:
        """Return True if the learning rate falls to zero over the planned epochs."""
        return False

    @property
    def damped(self) -> bool:
        """Return True if the solver shortens steps of some rows, which requires their |x|^2."""
        return False

    def with_rate(self, rate: float) -> Self:
        """Return a copy with another learning rate."""
        return self.with_options(learning_rate=rate)

    def with_scaled_rate(self, part: float) -> Self:
        """Return a copy with the learning rate times `part`, if the rate is a number."""
        rate = self.rate
        return self if rate is None or isinstance(rate, str) else self.with_rate(part * rate)

    def with_constant_rate(self) -> Self:
        """Return a copy for a fit of unknown length."""
        return self

    @classmethod
    def supports_bound(cls, name: str) -> bool:
        """Return True if the solver can optimise the bound of that name."""
        return cls.bounds is None or name in cls.bounds

    @classmethod
    def supports_noise(cls, name: str) -> bool:
        """Return True if the solver can be used with the noise of that name."""
        return cls.noises is None or name in cls.noises

    @property
    def averages(self) -> bool:
        """Return True if the solver fits an average of the weights along the way."""
        return False

    @property
    def weight_radius(self) -> float:
        """Return the radius of the ball that the weights are projected to."""
        return math.inf

    @property
    def needs_linear_scores(self) -> bool:
        """Return True if the steps require scores linear in the weights."""
        return self.implicit or self.weight_radius < math.inf

    @property
    def needs_vectors(self) -> bool:
        """Return True if the solver moves whole vectors of classes and features."""
        return False

    def state_width(self, width: int) -> int:
        """Return the number of state values per row of the weights, given the row's width."""
        return width if self.has_state else 0

    @property
    def n_work_arrays(self) -> int:
        """Return the number of arrays as large as the weights that the solver holds."""
        return 0

    def lower(self) -> Any:
        """Return the tag that compiled code sees."""
        raise TypeError(f"{type(self).__name__} has no compiled form")

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        """Return the tag for a fit of `n_steps` steps at most."""
        return self.lower()

    def intercept_scale(self, problem: Problem) -> float:
        """Return the step size of the intercepts relative to that of the weights."""
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
    """Training produced values that are not finite."""
