"""Stochastic gradient ascent: the paper's adaptive steps, AdaGrad, and plain steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from bigcat.compile import implement
from bigcat.rows import Problem
from bigcat.solvers._base import AUTO, Solver
from bigcat.solvers.schedules import check_schedule, remaining
from bigcat.verbs import coordinate_rate, damping, move, move_vector, rate

#: Added to the root of AdaGrad's sums, so that rounding errors do not become full steps. Scaled
#: with the length of short rows, but not of long ones, because of the intercepts.
EPSILON = 1e-8
#: Maximal gradient norm of a row at a relative rate, for typical rows of length 1. AdaGrad never
#: forgets a longer one.
MAX_GRADIENT_NORM = 10.0


class AdaptiveTag(NamedTuple):
    """Tag of `Adaptive`."""

    learning_rate: float
    decay: float
    decay_every: int


class AdaGradTag(NamedTuple):
    """Tag of `AdaGrad`."""

    learning_rate: float
    decay: float
    n_steps: float  # until the rate is zero; infinity for none
    power: float
    max_norm: float  # gradient of a row
    epsilon: float  # negligible size of gradients


class VectorAdaGradTag(NamedTuple):
    """Tag of `AdaGrad` with one step size per vector."""

    learning_rate: float
    decay: float
    n_steps: float
    power: float
    max_norm: float
    epsilon: float


class SGDTag(NamedTuple):
    """Tag of `SGD`."""

    learning_rate: float
    decay: float


@dataclass(frozen=True, repr=False)
class Adaptive(Solver):
    """Step sizes of augment and reduce (after Kucukelbir et al., 2017).

    ``rate = learning_rate t^(-1/2) / (1 + sqrt(s))`` with ``s <- 0.1 g^2 + 0.9 s`` per coordinate,
    where g is the gradient of the *sum* over all rows as estimated from the batch. `learning_rate`
    is multiplied by `decay` every `decay_every` iterations. Coordinates without a gradient do not
    change; the first s of a coordinate is g^2.

    Parameters
    ----------
    learning_rate : float, default=0.02
        Step size before decay; tune it on a validation set.
    decay : float, default=0.9
        Factor of the rate per `decay_every` iterations.
    decay_every : int, default=2000
        Iterations between decays.
    batch_size, init
        See `Solver`.

    Examples
    --------
    >>> from bigcat.solvers import Adaptive
    >>> Adaptive().learning_rate
    0.02
    """

    name: ClassVar[str] = "adaptive"
    summary: ClassVar[str] = "the step sequence of augment and reduce"
    has_state: ClassVar[bool] = True
    gradient: ClassVar[str] = "sum"
    learning_rate: float = 0.02
    decay: float = 0.9
    decay_every: int = 2000

    def lower(self) -> AdaptiveTag:
        """Return the tag."""
        return AdaptiveTag(float(self.learning_rate), float(self.decay), int(self.decay_every))


@implement(rate, AdaptiveTag)
def _(solver, iteration, epoch):
    periods = (iteration - 1) // solver.decay_every
    return solver.learning_rate * solver.decay**periods / math.sqrt(iteration)


@implement(move, AdaptiveTag)
def _(solver, rate, weights, state, j, gradient):
    square = gradient * gradient
    old = state[j]
    s = square if old == 0.0 else old * weights.dtype.type(0.9) + square * weights.dtype.type(0.1)
    s = s if gradient != 0.0 else old  # dense rows come with their zeros; no branch, for speed
    state[j] = s
    weights[j] += rate * gradient / (1.0 + math.sqrt(s))


@implement(coordinate_rate, AdaptiveTag)
def _(solver, rate, state, j):
    return rate / (1.0 + math.sqrt(state[j]))


@dataclass(frozen=True, repr=False)
class AdaGrad(Solver):
    """AdaGrad (Duchi et al., 2011): ``rate = learning_rate / sqrt(sum of g^2)`` per coordinate.

    Start with the defaults: the rate "auto" adapts to the size of the rows. Steps are relative to
    the root of the upper quartile of |x|^2, and the gradient of a row is clipped to ten times that
    of a typical row.

    The rate is multiplied by `decay` each epoch. With ``schedule="linear"`` it also falls to zero
    over `max_epochs`, as the share of the remaining steps to the power of `power`: above 1 it
    begins higher and ends with shorter steps. The schedule "auto" is "linear" for the rate "auto",
    else "constant".

    With ``per="vector"`` each class or feature vector has one step size, from the mean of g^2 over
    its coordinates. It requires a rank and saves the memory of the sums; fits take up to a third
    less time once the weights exceed the cache, and predict as well or slightly better with sampled
    classes.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        Step size of the first step; "auto" is relative to the rows.
    decay : float, default=1.0
        Factor of the rate per epoch.
    schedule : {"auto", "linear", "constant"}, default="auto"
        Decay to zero over `max_epochs`, or none. Take "constant" for fits of unknown length.
    power : float, default=1.0
        Exponent of the linear schedule.
    per : {"coordinate", "vector"}, default="coordinate"
        Unit of the step sizes. Take "vector" to save memory with a rank.
    batch_size, init
        See `Solver`.

    Examples
    --------
    >>> from bigcat.solvers import AdaGrad
    >>> AdaGrad(learning_rate=0.5).decay
    1.0
    """

    name: ClassVar[str] = "adagrad"
    summary: ClassVar[str] = "step sizes by coordinate; little to tune"
    has_state: ClassVar[bool] = True
    #: Values of the rate "auto", for full and for low rank.
    auto_rate: ClassVar[float] = 1.0
    auto_rate_of_vectors: ClassVar[float] = 0.1
    learning_rate: float | str = AUTO
    decay: float = 1.0
    schedule: str = AUTO
    power: float = 1.0
    per: str = "coordinate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule != AUTO:
            check_schedule(self.schedule)
        if self.per not in ("coordinate", "vector"):
            raise ValueError(f"per={self.per!r} must be 'coordinate' or 'vector'")
        if not self.power > 0.0:
            raise ValueError(f"power={self.power!r} must be above 0")

    def with_constant_rate(self) -> AdaGrad:
        """Return a copy with a constant rate."""
        return replace(self, schedule="constant") if self.decays_to_zero else self

    @property
    def decays_to_zero(self) -> bool:
        """Return True if the schedule is linear."""
        return self.schedule == "linear" or (self.schedule == AUTO and self.relative)

    @property
    def needs_vectors(self) -> bool:
        """Return True with ``per="vector"``."""
        return self.per == "vector"

    def state_width(self, width: int) -> int:
        """Return the number of state values per row of the weights."""
        return 1 if self.per == "vector" else width

    @property
    def damped(self) -> bool:
        """Return True at a relative rate."""
        return self.relative

    def intercept_scale(self, problem: Problem) -> float:
        """Return the step size of the intercepts relative to that of the weights."""
        return math.sqrt(problem.usual_size) if self.relative else 1.0

    def lower(self) -> AdaGradTag | VectorAdaGradTag:
        """Return the tag if neither the rows nor the number of steps are known."""
        if self.relative:
            raise ValueError(
                f"learning_rate={self.learning_rate!r} needs the size of the rows, which is not "
                "known here; take a number"
            )
        if self.decays_to_zero:
            raise ValueError(
                f"schedule={self.schedule!r} needs the number of steps, which is not known here; "
                "take schedule='constant'"
            )
        return self._tag(float(self.learning_rate), math.inf)

    def lower_for(self, problem: Problem, n_steps: int) -> AdaGradTag | VectorAdaGradTag:
        """Return the tag for the rows and the number of steps of a fit."""
        steps = float(n_steps) if self.decays_to_zero else math.inf
        if not self.relative:
            return self._tag(float(self.learning_rate), steps)
        if problem.unit_rows:
            return self._tag(self.auto_rate_of_vectors, steps)
        usual, typical = math.sqrt(problem.usual_size), math.sqrt(problem.typical_size)
        epsilon = EPSILON * min(usual, 1.0)
        return self._tag(self.auto_rate / usual, steps, MAX_GRADIENT_NORM * typical, epsilon)

    def _tag(
        self, rate: float, n_steps: float, max_norm: float = math.inf, epsilon: float = EPSILON
    ) -> AdaGradTag | VectorAdaGradTag:
        tag = VectorAdaGradTag if self.per == "vector" else AdaGradTag
        return tag(rate, float(self.decay), n_steps, float(self.power), max_norm, epsilon)


def _falling_rate(solver, iteration, epoch):
    left = remaining(iteration, solver.n_steps)
    return solver.learning_rate * solver.decay**epoch * left**solver.power


def _adagrad_move(solver, rate, weights, state, j, gradient):
    # Without a branch and in the precision of the weights, so that loops vectorise.
    s = state[j] + gradient * gradient
    state[j] = s
    weights[j] += rate * gradient / (math.sqrt(s) + weights.dtype.type(solver.epsilon))


for _tag in (AdaGradTag, VectorAdaGradTag):
    implement(rate, _tag)(_falling_rate)
    implement(move, _tag)(_adagrad_move)


def _clipped(solver, label_grad, score_step, size):
    length = math.sqrt(size) * min(abs(label_grad), 1.0)
    return solver.max_norm / length if length > solver.max_norm else 1.0


for _tag in (AdaGradTag, VectorAdaGradTag):
    implement(damping, _tag)(_clipped)


@implement(move_vector, VectorAdaGradTag)
def _(solver, rate, weights, state, factor, gradient):
    number = weights.dtype.type
    squares = number(0.0)
    for j in range(weights.shape[0]):
        squares += gradient[j] * gradient[j]
    s = state[0] + factor * factor * squares / number(weights.shape[0])
    state[0] = s
    step = rate * factor / (math.sqrt(s) + number(solver.epsilon))
    for j in range(weights.shape[0]):
        weights[j] += step * gradient[j]


@implement(coordinate_rate, AdaGradTag)
def _(solver, rate, state, j):
    return rate / (math.sqrt(state[j]) + solver.epsilon)


@implement(coordinate_rate, VectorAdaGradTag)
def _(solver, rate, state, j):
    return rate / (math.sqrt(state[0]) + solver.epsilon)


@dataclass(frozen=True, repr=False)
class SGD(Solver):
    """Plain stochastic gradient steps on the mean of the batch.

    Parameters
    ----------
    learning_rate : float, default=0.5
        Step size, in units of the data: tune it, or take `AdaGrad` or `Damped`.
    decay : float, default=0.9
        Factor of the rate per epoch.
    batch_size, init
        See `Solver`.

    Examples
    --------
    >>> from bigcat.solvers import SGD
    >>> SGD(learning_rate=0.1, decay=0.9).linear
    True
    """

    name: ClassVar[str] = "sgd"
    summary: ClassVar[str] = "plain steps; no memory beside the weights"
    linear: ClassVar[bool] = True
    plain: ClassVar[bool] = True
    learning_rate: float = 0.5
    decay: float = 0.9

    def lower(self) -> SGDTag:
        """Return the tag."""
        return SGDTag(float(self.learning_rate), float(self.decay))


def _decayed_rate(solver, iteration, epoch):
    return solver.learning_rate * solver.decay**epoch


def _plain_move(solver, rate, weights, state, j, gradient):
    weights[j] += rate * gradient


def _one_rate(solver, rate, state, j):
    return rate


def plain_steps(tag: type) -> type:
    """Register the moves of plain SGD for a tag."""
    implement(move, tag)(_plain_move)
    implement(coordinate_rate, tag)(_one_rate)
    return tag


plain_steps(SGDTag)
implement(rate, SGDTag)(_decayed_rate)
