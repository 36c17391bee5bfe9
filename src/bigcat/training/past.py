"""Update of a fitted model by new rows: known classes, and room for new ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bigcat.linear import Weights
from bigcat.linear.weights import spread
from bigcat.noise import Noise
from bigcat.training.fit import Start
from bigcat.training.state import State, scores_of_frequencies


@dataclass(frozen=True)
class Past:
    """Classes that a model has seen, among those that it is going to have.

    Parameters
    ----------
    counts : array of shape (n_classes,)
        Rows seen of each class.
    places : array
        Numbers of the known classes, ascending; the others are new.
    """

    counts: np.ndarray
    places: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, places: np.ndarray, n_classes: int) -> Past:
        """Return the past of a model with these row counts."""
        return cls(spread(np.asarray(counts), places, n_classes), places)

    @property
    def n_classes(self) -> int:
        """Return the number of classes, new ones among them."""
        return len(self.counts)

    def start(
        self, weights: Weights, intercept: np.ndarray, counts: np.ndarray, noise: Noise
    ) -> Start:
        """Return weights and intercepts to start from, after `counts` new rows of each class.

        A new class has no weights yet, and the intercept of its share of all rows: known intercepts
        tell how far they lie from those of the class frequencies.
        """
        if len(self.places) == self.n_classes:
            return weights, intercept
        total = self.counts + counts
        grown = scores_of_frequencies(total, noise)
        if intercept.any():
            grown += np.average(intercept - grown[self.places], weights=self.counts[self.places])
        else:
            grown[:] = 0.0
        grown[self.places] = intercept
        start = weights.grown(self.places, self.n_classes)
        return start, grown.astype(intercept.dtype)

    def grown(self, state: State | None) -> State | None:
        """Return a solver state with room for the new classes."""
        if state is None or len(self.places) == self.n_classes:
            return state
        known, rest = np.split(state.weights_state, [len(self.places)])
        weights_state = spread(known, self.places, self.n_classes)
        if len(rest):
            weights_state = np.concatenate([weights_state, rest])
        intercepts = state.intercepts_state
        if len(intercepts):
            intercepts = spread(intercepts, self.places, self.n_classes)
        return replace(state, weights_state=weights_state, intercepts_state=intercepts)
