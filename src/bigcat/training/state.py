"""The problem, and what a fit carries from one step to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigcat.rows import Problem

__all__ = ["Average", "Problem", "State"]


@dataclass
class Average:
    """A running average of the weights in which late ones count more.

    The k-th of them gets the share 4 / (k + 3), so that an early one is soon forgotten: the
    polynomial-decay average of Shamir and Zhang (2013) with eta = 3.
    """

    weights: np.ndarray
    intercepts: np.ndarray
    n_seen: int = 0

    def add(self, weights: np.ndarray, intercepts: np.ndarray) -> None:
        self.n_seen += 1
        share = self.weights.dtype.type(4.0 / (self.n_seen + 3.0))
        for mean, now in ((self.intercepts, intercepts), (self.weights, weights)):
            mean *= 1 - share
            mean += share * now


@dataclass
class State:
    """What the next step needs: saving it is a checkpoint.

    `weights` has the layout that goes with the rows (`bigcat.rows.layout`).
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
