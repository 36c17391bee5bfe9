"""Preprocessing of the data of a fit, as one object with one inverse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from bigcat._system import available_cores
from bigcat.rows import ColumnScaling, SparseColumnScaling
from bigcat.training.advice import warn_of_far_out
from bigcat.training.data import TrainingData
from bigcat.training.fit import FitResult, Start

#: Minimal number of classes that are numbered by frequency in training.  The frequent ones, which
#: most steps visit, then share cache lines and are one run.
MANY_CLASSES = 2_048


@dataclass(frozen=True)
class Preprocessing:
    """Order of the classes and scale of the columns."""

    order: np.ndarray | None  # classes as in training; None for their own
    columns: ColumnScaling | SparseColumnScaling | None

    @classmethod
    def of(
        cls, data: TrainingData, n_classes: int, scales_columns: bool, centred: bool
    ) -> Preprocessing:
        """Choose the order of the classes and the scaling for the data."""
        order = None
        if n_classes >= MANY_CLASSES:
            counts = np.bincount(data.labels, data.row_weights, n_classes)
            order = by_frequency(counts)
        columns: ColumnScaling | SparseColumnScaling | None = None
        if scales_columns and scipy.sparse.issparse(data.X):
            columns = SparseColumnScaling.of(data.X, data.row_weights)
        elif scales_columns:
            columns = ColumnScaling.of(data.X, data.row_weights, centred=centred)
            warn_of_far_out(columns, data.X)
        return cls(order, columns)

    def data(self, data: TrainingData) -> TrainingData:
        """Return the data with scaled columns and renumbered classes."""
        if self.order is not None:
            data = data.renumbered(np.argsort(self.order))
        return data if self.columns is None else data.turned(self.columns)

    def start(self, start: Start) -> Start:
        """Return a copy of given weights, for `data`, that training may change."""
        weights, intercept = start[0].copy(), start[1].copy()
        if self.order is None:
            return weights, intercept
        return weights.reordered(self.order, available_cores()), intercept[self.order]

    def classes(self, classes: np.ndarray) -> np.ndarray:
        """Return labels in the order of training."""
        return classes if self.order is None else classes[self.order]

    def result(self, result: FitResult) -> FitResult:
        """Turn a result back to the units and the order of the user, in place."""
        if self.columns is not None:
            result.weights = result.weights.of_features(self.columns.factors)
            result.solver_state = None  # the solver state is of scaled columns
            if self.columns.centres is not None:
                centres = self.columns.centres[None].astype(np.float64)
                precise = result.weights.astype(np.float64)
                shift = precise.products(False, np.float64)(centres)[0]
                result.intercept = (result.intercept - shift).astype(np.float32)
        if self.order is None:
            return result
        number = np.argsort(self.order)
        if result.solver_state is not None:  # it is in the other order
            result.solver_state.weights_state = result.solver_state.intercepts_state = np.empty(0)
        result.weights = result.weights.reordered(number, available_cores())
        result.intercept = result.intercept[number]
        result.exact_classes = np.sort(self.order[result.exact_classes])
        return result


def by_frequency(class_weights: np.ndarray) -> np.ndarray:
    """Return the classes from the most frequent one down."""
    return np.argsort(-class_weights, kind="stable")
