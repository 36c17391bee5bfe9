"""The training loop by itself, for tests of what its steps do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from bigcat.combinations import Parts
from bigcat.linear import FullRank, WeightsKind
from bigcat.rows import Problem
from bigcat.training.loop import Listener, run_epochs
from bigcat.training.passes import Passes
from bigcat.training.state import State


class Observer(Listener):
    """Hands each epoch's value to a function."""

    def __init__(self, on_epoch: Callable[[float], Any]) -> None:
        self.on_epoch = on_epoch

    def compiled(self, seconds: float) -> None:
        pass

    def chunk_done(self, part: float, value: float) -> None:
        pass

    def epoch_done(self, value: float, seconds: float) -> bool:
        self.on_epoch(value)
        return False


def drive(
    problem: Problem,
    parts: Parts,
    state: State,
    on_epoch: Callable[[float], Any],
    *,
    kind: WeightsKind | None = None,
    batch_size: int = 1,
    epochs: int = 1,
    seed: int | np.random.RandomState = 3,
    shuffle: bool = True,
    n_threads: int = 1,
) -> Passes:
    """Train a state in place; what was driven is returned."""
    passes = Passes(
        problem,
        parts,
        kind or FullRank(),
        state,
        batch_size=batch_size,
        max_epochs=epochs,
        random_state=check_random_state(seed),
        shuffle=shuffle,
        n_threads=n_threads,
    )
    run_epochs(passes, epochs, Observer(on_epoch))
    return passes
