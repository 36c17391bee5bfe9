"""The problem, and what a fit carries from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bigcat._weights import Rows


@dataclass(frozen=True)
class Problem:
    """Rows with encoded labels and weights; everything checked already."""

    rows: Rows
    labels: np.ndarray  # int64, 0..n_classes-1
    row_weights: np.ndarray  # float64
    n_features: int
    n_classes: int
    l2: float = 0.0
    fit_intercept: bool = True
    head: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # kept exact

    @property
    def n_rows(self) -> int:
        return len(self.labels)


@dataclass
class State:
    """What the next step needs: saving it is a checkpoint.

    `weights` has the layout that goes with the rows (`bigcat._weights`).
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
