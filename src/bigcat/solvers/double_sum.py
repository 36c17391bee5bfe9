"""Vanilla SGD and U-max on the softmax's double sum (Fagan and Iyengar, 2018).

The double sum is minus the softmax bound of augment and reduce with u = log eta. Both solvers take
a gradient step on the row's u together with the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from bigcat.compile import device, implement
from bigcat.rows import Problem
from bigcat.solvers._base import AUTO, INTERCEPT_SHARE, Solver
from bigcat.solvers.damped import shortened
from bigcat.solvers.schedules import decaying_rate
from bigcat.solvers.sgd import plain_steps
from bigcat.verbs import at_local, damping, local_floor, rate, visit

#: Maximal change of a row's own scores, and of its u, by one step at a relative rate.
MAX_SCORE_STEP, MAX_LOCAL_STEP = 3.0, 1.0
#: Maximal lag of u behind the sampled classes at a relative rate; beyond it vanilla would overflow.
MAX_LOCAL_LAG = 30.0


def double_sum_steps(tag: type) -> type:
    """Register plain steps for a tag, with a rate that decays per epoch or linearly."""
    plain_steps(tag)
    implement(rate, tag)(decaying_rate)
    return tag


@double_sum_steps
class VanillaTag(NamedTuple):
    """Tag of `Vanilla`."""

    learning_rate: float
    decay: float
    n_steps: float
    relative: bool
    lag: float


@double_sum_steps
class UMaxTag(NamedTuple):
    """Tag of `UMax`."""

    learning_rate: float
    decay: float
    n_steps: float
    relative: bool
    threshold: float
    local_bound: float


@dataclass(frozen=True, repr=False)
class DoubleSumSolver(Solver):
    """Base class of solvers of the double sum: plain steps, one u per row.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        "auto" is `auto_rate` over the typical |x|^2, so that rows of any scale take the same steps.
        The row's u then has its own step size (`Bound.local_progress`): each row is visited once
        per epoch, and a rate that falls with that of the weights would leave u at its early value.
    decay : float, optional
        Factor of the rate per epoch; by default the rate decays to zero over `max_epochs`.
    """

    linear: ClassVar[bool] = True
    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)
    bounds: ClassVar[tuple[str, ...] | None] = ("augment-reduce", "raman")
    auto_rate: ClassVar[float]
    learning_rate: float | str = AUTO
    decay: float | None = None
    batch_size: int = field(default=1, kw_only=True)

    @property
    def decays_to_zero(self) -> bool:
        """Return True with ``decay=None``."""
        return self.decay is None

    def with_constant_rate(self) -> Self:
        """Return a copy with a constant rate."""
        return replace(self, decay=1.0) if self.decay is None else self

    def intercept_scale(self, problem: Problem) -> float:
        """Return the step size of the intercepts relative to that of the weights."""
        return INTERCEPT_SHARE * problem.typical_size if self.relative else 1.0

    def tag(self, rate: float, decay: float, n_steps: float) -> Any:
        """Return the tag for an absolute rate."""
        raise TypeError(f"{type(self).__name__} has no compiled form")

    def lower(self) -> Any:
        """Return the tag for rows of size 1 and a fit of unknown length."""
        return self._tag(self.auto_rate, math.inf)

    def lower_for(self, problem: Problem, n_steps: int) -> Any:
        """Return the tag for the rows and the number of steps of a fit."""
        size = problem.typical_size
        if problem.fit_intercept:
            size += self.intercept_scale(problem)
        return self._tag(self.auto_rate / size, n_steps if self.decays_to_zero else math.inf)

    def _tag(self, auto_rate: float, n_steps: float) -> Any:
        rate = auto_rate if self.relative else self.learning_rate
        decay = 1.0 if self.decay is None else self.decay
        return self.tag(float(rate), float(decay), float(n_steps))


@device
def _limit(grads, n, step_size):
    """Shorten a step that would move one of its own scores by more than `MAX_SCORE_STEP`."""
    largest = 0.0
    for c in range(n + 1):
        largest = max(largest, abs(grads[c]))
    whole = step_size.rate * step_size.squared_norm * largest
    if whole > MAX_SCORE_STEP:
        for c in range(n + 1):
            grads[c] *= MAX_SCORE_STEP / whole


@device
def _rise(solver, progress, step_size, grad):
    """Return the change of u: bounded steps of its own at a relative rate."""
    if solver.relative:
        return min(progress * grad, MAX_LOCAL_STEP)
    return step_size.rate * grad


def _shortened(solver, label_grad, score_step, size):
    """Shorten long steps at a relative rate, as `Damped` does."""
    return shortened(label_grad, score_step) if solver.relative else 1.0


for _tag in (VanillaTag, UMaxTag):
    implement(damping, _tag)(_shortened)


@dataclass(frozen=True, repr=False)
class Vanilla(DoubleSumSolver):
    """Plain gradient steps on the weights and on the row's u = log eta (equation 7).

    The gradient contains exp(x . (w_k - w_y) - u), which overflows if u is far too small; the fit
    then stops with an error. At the rate "auto" it cannot: long steps are shortened as in `Damped`,
    and u stays within 30 of its optimum for the sampled classes.

    Examples
    --------
    >>> from bigcat.solvers import Vanilla
    >>> Vanilla(learning_rate=0.01).batch_size
    1
    """

    name: ClassVar[str] = "vanilla"
    summary: ClassVar[str] = "gradient steps on weights and u; can overflow"
    divergence_remedy: ClassVar[str] = (
        "vanilla steps grow exponentially where u lags behind the scores; take "
        "method='implicit', which cannot overflow, or method='umax', or lower learning_rate"
    )
    auto_rate: ClassVar[float] = 1.0

    @property
    def damped(self) -> bool:
        """Return True at a relative rate."""
        return self.relative

    def tag(self, rate: float, decay: float, n_steps: float) -> VanillaTag:
        """Return the tag for an absolute rate."""
        lag = MAX_LOCAL_LAG if self.relative else math.inf
        return VanillaTag(rate, decay, n_steps, self.relative, lag)


@implement(visit, VanillaTag)
def _(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    u = local[0]
    if solver.lag < math.inf:
        u = max(u, local_floor(bound, label_score, others, n) - solver.lag)
    value, grad = at_local(bound, u, label_score, others, counts, n, grads)
    local[0] = u + _rise(solver, progress, step_size, grad)
    if solver.relative:
        _limit(grads, n, step_size)
    return value


@dataclass(frozen=True, repr=False)
class UMax(DoubleSumSolver):
    """Vanilla steps after raising u to its optimum for the sampled classes alone.

    If u lies more than `threshold` below log(1 + sum exp(psi_k - psi_y)) over the sampled classes,
    it is set to that value. This never lowers the bound (Lemma 5) and bounds the gradient by (K -
    1) exp(threshold) |x| per row (Algorithm 1).

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        "auto" is relative to the row size, with long steps shortened as in `Damped`.
    decay : float, optional
        Factor of the rate per epoch; by default the rate decays to zero over `max_epochs`.
    threshold : float, default=1.0
        The paper's delta. Lower it if the fit diverges.
    local_bound : float, default=inf
        Maximal u: B_u of Lemma 2.
    weight_bound : float, default=inf
        Radius of the ball to which all weights together are projected: B_W of Lemma 1 and of the
        set in Theorem 1's proof. Set it if the fit diverges; requires ``batch_size=1``.

    Examples
    --------
    >>> from bigcat.solvers import UMax
    >>> UMax(learning_rate=0.1).threshold
    1.0
    """

    name: ClassVar[str] = "umax"
    summary: ClassVar[str] = "gradient steps on weights and u with bounded gradients"
    divergence_remedy: ClassVar[str] = (
        "lower learning_rate, set UMax(weight_bound=...), or take method='implicit', whose steps "
        "cannot overflow"
    )
    auto_rate: ClassVar[float] = 1.0
    threshold: float = 1.0
    local_bound: float = math.inf
    weight_bound: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("threshold", "local_bound", "weight_bound"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}={getattr(self, name)!r} must be above 0")
        if self.batch_size > 1 and self.weight_bound < math.inf:
            raise ValueError(
                f"weight_bound={self.weight_bound!r} needs batch_size=1, not {self.batch_size}; "
                "set batch_size=1, or leave weight_bound out"
            )

    @property
    def damped(self) -> bool:
        """Return True at a relative rate."""
        return self.relative

    @property
    def weight_radius(self) -> float:
        """Return `weight_bound`."""
        return self.weight_bound

    def tag(self, rate: float, decay: float, n_steps: float) -> UMaxTag:
        """Return the tag for an absolute rate."""
        limits = (float(self.threshold), float(self.local_bound))
        return UMaxTag(rate, decay, n_steps, self.relative, *limits)


@implement(visit, UMaxTag)
def _(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    u = local[0]
    floor = local_floor(bound, label_score, others, n)
    if u < floor - solver.threshold:
        u = floor
    # The value is taken after the raise; before it the value is unbounded below.
    value, grad = at_local(bound, u, label_score, others, counts, n, grads)
    u += _rise(solver, progress, step_size, grad)
    if not solver.relative:
        # As in the paper. With Raman's form u rises at once and falls by small steps: at rates of
        # about 1 the fit ends 0.5 % from the optimum, without this line 0.04 %.
        u = max(u, local_floor(bound, label_score, others, 0))
    local[0] = min(u, solver.local_bound)
    if solver.relative:
        _limit(grads, n, step_size)
    return value
