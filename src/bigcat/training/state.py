"""State of a fit between two steps, and its start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import Weights, WeightsKind
from bigcat.linear.weights import BLOCK_NUMBERS
from bigcat.noise import Noise
from bigcat.numerics.random import new_state
from bigcat.probabilities import score_scale
from bigcat.rows import Problem
from bigcat.training.snapshot import Snapshot, fill

#: Fields of a state in a snapshot.
_ARRAYS = ("weights", "intercepts", "weights_state", "intercepts_state", "local")
_COUNTS = ("iteration", "epoch", "sweep_cursor")


@dataclass
class Average:
    """Running average of the weights in which late ones count more.

    The k-th of them gets the share 4 / (k + 3), so that an early one is soon forgotten: the
    polynomial-decay average of Shamir and Zhang (2013) with eta = 3.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    n_seen: int = 0

    def add(self, weights: np.ndarray, scale: float, intercepts: np.ndarray) -> None:
        """Add `scale` times the weights, some rows at a time, and the intercepts."""
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
    """State that the next step needs: saving it is a checkpoint.

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
        """Return the state before the first step: weights in training layout and precision.

        Training moves the arrays of `start`, where they are in that layout already, unless
        `keeps_start`.
        """
        weights, intercepts = start
        solver, dtype = parts.solver, problem.rows.values.dtype
        n_majors, n_minors = kind.trained_shape(problem.sizes)
        trained = kind.as_trained(weights, problem, dtype)
        if keeps_start:
            if any(np.may_share_memory(trained, array) for array in weights.arrays().values()):
                trained = trained.copy(order="K")
            intercepts = intercepts.copy()
        state = cls(
            weights=trained,
            intercepts=np.ascontiguousarray(intercepts, dtype=dtype),
            weights_state=np.zeros((n_majors, solver.state_width(n_minors)), dtype),
            intercepts_state=np.zeros(problem.n_classes if solver.has_state else 0, dtype),
            local=parts.bound.initial_local(parts.noise, intercepts)[problem.labels],
            rng=new_state(random_state),
        )
        if solver.averages:
            state.average = Average(state.weights.copy(), state.intercepts.copy())
        return state

    def resume(self, before: State, problem: Problem, kind: WeightsKind) -> None:
        """Continue another fit to rows of the same features and classes, which stays unchanged."""
        self.iteration, self.epoch, self.rng = before.iteration, before.epoch, before.rng.copy()
        remembered = kind.turned(before.weights_state, problem)
        if remembered.shape == self.weights_state.shape:  # not after a change of solver
            self.weights_state[...] = remembered
            self.intercepts_state[...] = before.intercepts_state
        self.sweep_cursor = before.sweep_cursor % len(self.weights)

    def to_resume(self, problem: Problem, kind: WeightsKind) -> State:
        """Return the solver state for `resume`, without weights and values of the rows."""
        return replace(
            self,
            weights=np.empty(0),
            intercepts=np.empty(0),
            local=np.empty((0, 0)),
            weights_state=kind.turned(self.weights_state, problem),
            average=None,
        )

    def snapshot(self) -> Snapshot:
        """Return a snapshot without the random numbers of kernels, which threads own."""
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
        """Restore a snapshot, in the same arrays."""
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
        """Weights of the fit: the average if there is one."""
        return self.average or self


def initial_weights(
    problem: Problem,
    parts: Parts,
    kind: WeightsKind,
    random_state: np.random.RandomState,
) -> tuple[Weights, np.ndarray]:
    """Return weights in the memory layout of the rows, and intercepts."""
    init = parts.solver.init
    weights = kind.start(problem, init == "random", random_state)
    if init == "random":  # A&R section 4: standard deviations 0.1 and 0.001
        intercepts = 0.001 * random_state.standard_normal(problem.n_classes)
        return weights, intercepts if problem.fit_intercept else np.zeros(problem.n_classes)
    intercepts = np.zeros(problem.n_classes)
    if init == "frequencies" and problem.fit_intercept:
        intercepts = scores_of_frequencies(problem.class_weights(), parts.noise)
        if not parts.bound.needs_log_probabilities:
            intercepts -= intercepts.mean()
    return weights, intercepts


def scores_of_frequencies(counts: np.ndarray, noise: Noise) -> np.ndarray:
    """Return the intercepts of a model of the class frequencies."""
    scores: np.ndarray = log_frequencies(counts) * score_scale(noise, len(counts))
    return scores


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """Return finite log frequencies: an absent class counts half the rows of the rarest one."""
    at_least = 0.5 * counts[counts > 0].min()
    logs: np.ndarray = np.log(np.maximum(counts, at_least) / counts.sum())
    return logs
