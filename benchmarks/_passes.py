"""Training passes over a problem without an estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import FullRank
from bigcat.rows import Problem
from bigcat.training.loop import Listener, run_epochs
from bigcat.training.passes import Passes
from bigcat.training.state import State, initial_weights


class Silent(Listener):
    """A listener that lets every pass go on."""

    def compiled(self, seconds: float) -> None:
        pass

    def chunk_done(self, part: float, value: float) -> None:
        pass

    def epoch_done(self, value: float, seconds: float) -> bool:
        return False


def new_state(problem: Problem, parts: Parts) -> State:
    """Return a full-rank state that starts from zero, with every page of the weights touched."""
    random_state = np.random.RandomState(0)
    parts = replace(parts, solver=parts.solver.with_options(init="zero"))
    start = initial_weights(problem, parts, FullRank(), random_state)
    state = State.new(problem, parts, FullRank(), start, random_state)
    state.weights += 0.0
    return state


def make_passes(
    problem: Problem, parts: Parts, state: State, n_threads: int = 1, epochs: int = 1
) -> Passes:
    """Return full-rank passes row by row."""
    return Passes(
        problem,
        parts,
        FullRank(),
        state,
        batch_size=1,
        max_epochs=epochs,
        random_state=np.random.RandomState(0),
        n_threads=n_threads,
    )


def run_passes(
    problem: Problem, parts: Parts, state: State, n_threads: int = 1, epochs: int = 1
) -> None:
    run_epochs(make_passes(problem, parts, state, n_threads, epochs), epochs, Silent())
