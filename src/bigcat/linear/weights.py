"""Weights as people see them, and as they are trained.

Weights of full rank are an array (n_classes, n_features), in training a view of it in the layout
that goes with the rows (`bigcat._weights`).  Those of low rank are two factors, in training one
array with the vectors of the classes and then those of the features (`bigcat._embedded`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bigcat.rows import Problem, class_major, is_sparse, weights_shape


@dataclass(frozen=True, eq=False)
class Factors:
    """Weights of low rank, ``classes @ features.T``; goes where an array of weights goes.

    Parameters
    ----------
    classes : array of shape (n_classes, rank)
    features : array of shape (n_features, rank)
    """

    classes: np.ndarray
    features: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.classes), len(self.features)

    @property
    def rank(self) -> int:
        return self.classes.shape[1]

    @property
    def size(self) -> int:
        return self.classes.size + self.features.size

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, classes: Any) -> Factors:
        return Factors(self.classes[classes], self.features)

    def copy(self, order: str = "C") -> Factors:
        return Factors(self.classes.copy(), self.features.copy())

    def astype(self, dtype: Any, copy: bool = True) -> Factors:
        return Factors(
            self.classes.astype(dtype, copy=copy), self.features.astype(dtype, copy=copy)
        )

    def sum(self, dtype: Any = None) -> float:
        return self.classes.sum(dtype=dtype) + self.features.sum(dtype=dtype)

    def embed(self, X: Any) -> np.ndarray:
        """``X @ features``, dense, whatever X is."""
        return np.asarray(X @ self.features)


Weights = np.ndarray | Factors


def trained_shape(problem: Problem) -> tuple[int, int]:
    """Shape of the weights in training."""
    if problem.rank is None:
        return weights_shape(problem.rows, problem.n_features, problem.n_classes)
    return problem.n_classes + problem.n_features, problem.rank


def as_trained(weights: Weights, problem: Problem, dtype: Any) -> np.ndarray:
    """Weights in the layout and precision of training; a view where they are in it already."""
    if isinstance(weights, Factors):
        vectors = np.empty(trained_shape(problem), dtype)
        vectors[: problem.n_classes] = weights.classes
        vectors[problem.n_classes :] = weights.features / weights.features.dtype.type(problem.unit)
        return vectors
    oriented = weights.T if is_sparse(problem.rows) else weights
    return np.ascontiguousarray(oriented, dtype=dtype)


def as_public(trained: np.ndarray, problem: Problem, for_good: bool = False) -> Weights:
    """The inverse of `as_trained`: a view, but for the features' vectors.

    `for_good` makes those a view too, after which `trained` cannot be trained on.
    """
    if problem.rank is None:
        return class_major(trained, problem.rows)
    classes, features = trained[: problem.n_classes], trained[problem.n_classes :]
    features = np.multiply(
        features, features.dtype.type(problem.unit), out=features if for_good else None
    )
    return Factors(classes, features)
