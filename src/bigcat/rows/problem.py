"""What a fit is about: the rows, their labels and weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bigcat.rows.forms import Rows
from bigcat.rows.sums import squared_norms


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
    rank: int | None = None  # of the scores; None where each class has a weight for each feature
    head: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # kept exact

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    @cached_property
    def mean_size(self) -> float:
        """Mean |x|^2 of the rows; 1 where all are empty."""
        norms = squared_norms(self.rows)
        mean = float(norms @ self.row_weights / self.row_weights.sum())
        return mean if mean > 0.0 else 1.0

    @property
    def scored_size(self) -> float:
        """Mean |x|^2 of the rows as they are scored: 1 where they are multiplied by `unit`."""
        return self.mean_size if self.rank is None else 1.0

    @property
    def unit(self) -> float:
        """What rows are multiplied by before they are embedded, so that their mean |x|^2 is 1."""
        return self.mean_size**-0.5

    def class_weights(self) -> np.ndarray:
        """Sum of the rows' weights, a class each."""
        return np.bincount(self.labels, self.row_weights, self.n_classes)
