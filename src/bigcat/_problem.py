"""What a fit is about: the rows, their labels and weights."""

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

    def class_weights(self) -> np.ndarray:
        """Sum of the rows' weights, a class each."""
        return np.bincount(self.labels, self.row_weights, self.n_classes)
