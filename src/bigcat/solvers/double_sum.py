"""Vanilla SGD and U-max on the softmax's double sum (Fagan and Iyengar, unbiased softmax, 2018).

The double sum is minus the softmax bound of augment and reduce with u = log eta, so these are
two more ways to climb a bound that exists: the row's u takes a gradient step beside the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.compile import implement
from bigcat.solvers._base import Solver
from bigcat.solvers.sgd import plain_steps
from bigcat.verbs import at_local, local_floor, visit


@plain_steps
class VanillaTag(NamedTuple):
    learning_rate: float
    decay: float


@plain_steps
class UMaxTag(NamedTuple):
    learning_rate: float
    decay: float
    threshold: float
    local_bound: float


@dataclass(frozen=True, repr=False)
class DoubleSumSolver(Solver):
    """What the solvers of the double sum share: plain steps, one u a row."""

    linear: ClassVar[bool] = True
    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)
    bounds: ClassVar[tuple[str, ...] | None] = ("augment-reduce", "raman")
    default_batch_size: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class Vanilla(DoubleSumSolver):
    """Plain gradient steps on the weights and on the row's u = log eta (equation 7).

    The gradient holds exp(x . (w_k - w_y) - u): where u is far too small it overflows, and the
    fit stops with an error.  `learning_rate` is multiplied by `decay` each epoch.

    Examples
    --------
    >>> from bigcat.solvers import Vanilla
    >>> Vanilla(learning_rate=0.01).default_batch_size
    1
    """

    name: ClassVar[str] = "vanilla"
    promise: ClassVar[str] = "gradient steps on weights and u; can overflow"
    if_diverged: ClassVar[str] = (
        "vanilla steps grow exponentially where u lags behind the scores; take "
        "method='implicit', which cannot overflow, or method='umax', or lower learning_rate"
    )
    learning_rate: float = 0.01
    decay: float = 0.9

    def lower(self) -> VanillaTag:
        return VanillaTag(float(self.learning_rate), float(self.decay))


@implement(visit, VanillaTag)
def _(solver, bound, rng, local, progress, pace, label_score, others, counts, n, n_always, slopes):
    value, slope = at_local(bound, local[0], label_score, others, counts, n, slopes)
    local[0] += pace.rate * slope
    return value


@dataclass(frozen=True, repr=False)
class UMax(DoubleSumSolver):
    """Vanilla steps after u was raised to where the sampled classes alone would have it.

    If u lies more than `threshold` below log(1 + sum exp(psi_k - psi_y)) over the sampled
    classes, it is set to that, which never lowers the bound (Lemma 5) and bounds the gradient
    by (K - 1) exp(threshold) |x| a row (Algorithm 1).

    Parameters
    ----------
    learning_rate, decay : float
        The rate is multiplied by `decay` each epoch.
    threshold : float
        The paper's delta.
    local_bound : float
        Largest u: B_u of Lemma 2.  From below u is kept at its least possible optimum.
    weight_bound : float
        Radius of the ball, in all weights together, that they are projected to: B_W of Lemma 1
        and of the set in Theorem 1's proof.  Needs ``batch_size=1``.

    Examples
    --------
    >>> from bigcat.solvers import UMax
    >>> UMax(learning_rate=0.1).threshold
    1.0
    """

    name: ClassVar[str] = "umax"
    promise: ClassVar[str] = "gradient steps on weights and u with bounded gradients"
    if_diverged: ClassVar[str] = (
        "lower learning_rate, set UMax(weight_bound=...), or take method='implicit', whose steps "
        "cannot overflow"
    )
    learning_rate: float = 0.1
    decay: float = 0.9
    threshold: float = 1.0
    local_bound: float = math.inf
    weight_bound: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("threshold", "local_bound", "weight_bound"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}={getattr(self, name)!r} must be above 0")

    @property
    def weight_radius(self) -> float:
        return self.weight_bound

    def batch_size(self, asked: int | str) -> int:
        size = super().batch_size(asked)
        if size > 1 and self.weight_bound < math.inf:
            raise ValueError(
                f"weight_bound={self.weight_bound!r} needs batch_size=1, not {size}; set one of "
                "them otherwise"
            )
        return size

    def lower(self) -> UMaxTag:
        return UMaxTag(
            float(self.learning_rate),
            float(self.decay),
            float(self.threshold),
            float(self.local_bound),
        )


@implement(visit, UMaxTag)
def _(solver, bound, rng, local, progress, pace, label_score, others, counts, n, n_always, slopes):
    u = local[0]
    floor = local_floor(bound, label_score, others, n)
    if u < floor - solver.threshold:
        u = floor
    # The value is taken after the raise: before it could be anything.
    value, slope = at_local(bound, u, label_score, others, counts, n, slopes)
    lowest = local_floor(bound, label_score, others, 0)
    local[0] = min(max(u + pace.rate * slope, lowest), solver.local_bound)
    return value
