"""The problem, and what a fit carries from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigcat._problem import Problem

__all__ = ["Problem", "State"]


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
