"""What a fit carries from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import Weights, WeightsKind
from bigcat.linear.weights import BLOCK_NUMBERS
from bigcat.numerics.random import new_state
from bigcat.rows import Problem
from bigcat.training.snapshot import Snapshot, fill

#: What a snapshot has of a state.
_ARRAYS = ("weights", "intercepts", "weights_state", "intercepts_state", "local")
_COUNTS = ("iteration", "epoch", "sweep_cursor")


@dataclass
class Average:
    """A running average of the weights in which late ones count more.

    The k-th of them gets the share 4 / (k + 3), so that an early one is soon forgotten: the
    polynomial-decay average of Shamir and Zhang (2013) with eta = 3.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    n_seen: int = 0

    def add(self, weights: np.ndarray, scale: float, intercepts: np.ndarray) -> None:
        """Take in `scale` times the weights, some rows of them at a time, and the intercepts."""
        self.n_seen += 1
        number = self.weights.dtype.type
        share = number(4.0 / (self.n_seen + 3.0))
        self.intercepts *= 1 - share
        self.intercepts += share * intercepts
        rows = max(1, BLOCK_NUMBERS // weights.shape[1])
        for start in range(0, len(weights), rows):
            mean, now = (array[start : start + rows] for array in (self.weights, weights))
            mean *= 1 - share
            mean += share * (now * number(scale))


@dataclass
class State:
    """What the next step needs: saving it is a checkpoint.

    `weights` has the layout of training (`bigcat.linear.WeightsKind.as_trained`).
    """

    weights: np.ndarray
    intercepts: np.ndarray
    weights_state: np.ndarray
    intercepts_state: np.ndarray
    local: np.ndarray
    rng: np.ndarray
    iteration: int = 0
    epoch: int = 0
    sweep_cursor: int = 0
    average: Average | None = None

    @classmethod
    def new(
        cls,
        problem: Problem,
        parts: Parts,
        kind: WeightsKind,
        start: tuple[Weights, np.ndarray],
        random_state: np.random.RandomState,
        *,
        keeps_start: bool = False,
    ) -> Self:
        """Before the first step: weights in the rows' layout and working precision.

        Training moves the arrays of `start`, where they are in that layout already, unless
        `keeps_start`.
        """
        weights, intercepts = start
        solver, dtype = parts.solver, problem.rows.values.dtype
        n_majors, n_minors = kind.trained_shape(problem.sizes)
        trained = kind.as_trained(weights, problem, dtype)
        if keeps_start:
            if any(np.may_share_memory(trained, array) for array in weights.arrays().values()):
                trained = kind.storage.copy(trained)
            intercepts = intercepts.copy()
        state = cls(
            weights=trained,
            intercepts=np.ascontiguousarray(intercepts, dtype=dtype),
            weights_state=kind.storage.zeros((n_majors, solver.state_width(n_minors)), dtype),
            intercepts_state=np.zeros(problem.n_classes if solver.has_state else 0, dtype),
            local=parts.bound.initial_local(parts.noise, intercepts)[problem.labels],
            rng=new_state(random_state),
        )
        if solver.averages:
            state.average = Average(kind.storage.copy(state.weights), state.intercepts.copy())
        return state

    def resume(self, before: State, problem: Problem, kind: WeightsKind) -> None:
        """Go on where another fit to rows of the same features and classes ended.

        What that fit left behind stays as it is.
        """
        self.iteration, self.epoch, self.rng = before.iteration, before.epoch, before.rng.copy()
        remembered = kind.turned(before.weights_state, problem)
        if remembered.shape == self.weights_state.shape:  # not after a change of solver
            self.weights_state[...] = remembered
            self.intercepts_state[...] = before.intercepts_state
        self.sweep_cursor = before.sweep_cursor % len(self.weights)

    def to_resume(self, problem: Problem, kind: WeightsKind) -> State:
        """What `resume` needs, without weights and what belongs to the rows."""
        return replace(
            self,
            weights=np.empty(0),
            intercepts=np.empty(0),
            local=np.empty((0, 0)),
            weights_state=kind.turned(self.weights_state, problem),
            average=None,
        )

    def snapshot(self) -> Snapshot:
        """As it is now, without the random numbers of kernels, which threads have of their own."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        numbers = {name: getattr(self, name) for name in _COUNTS}
        if self.average is not None:
            arrays |= {
                "average": self.average.weights,
                "average_intercepts": self.average.intercepts,
            }
            numbers["n_seen"] = self.average.n_seen
        return Snapshot(numbers, arrays)

    def restore(self, kept: Snapshot) -> None:
        """Be what a snapshot was taken of, in the same arrays."""
        for name in _ARRAYS:
            fill(getattr(self, name), kept.arrays[name])
        for name in _COUNTS:
            setattr(self, name, kept.numbers[name])
        if self.average is not None:
            fill(self.average.weights, kept.arrays["average"])
            fill(self.average.intercepts, kept.arrays["average_intercepts"])
            self.average.n_seen = kept.numbers["n_seen"]

    @property
    def fitted(self) -> State | Average:
        """Whose weights are the fit's: the average where there is one."""
        return self.average or self
