"""Low-rank weights: inner products of a vector per class and a vector per feature.

In training both are one array, class vectors first (`bigcat.rows.embedded`), for rows of mean
length 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from bigcat.linear.weights import (
    Operands,
    Weights,
    WeightsKind,
    class_scores,
    contiguous,
    draw_normals,
    sparse_products,
    spread,
)
from bigcat.rows import Problem, Sizes, embedded, gather_majors

#: Number of weights up to which training keeps float64 input in float64: products of matrices take
#: twice as long in float64.
MAX_FLOAT64_FACTORS = 1 << 16
#: Length of a typical row's embedding at the start.
EMBEDDED_SIZE = 1.4


@dataclass(frozen=True, eq=False)
class LowRankWeights(Weights):
    """Weights ``classes @ features.T``.

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
    def kind(self) -> LowRank:
        return LowRank(self.classes.shape[1])

    @property
    def class_vectors(self) -> np.ndarray:
        return self.classes

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("embedding", "class_embedding")

    def arrays(self) -> dict[str, np.ndarray]:
        return {"embedding": self.features, "class_embedding": self.classes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(arrays["class_embedding"], arrays["embedding"])

    def matrices(self) -> tuple[np.ndarray, ...]:
        return self.features, self.classes.T

    def check(self) -> None:
        super().check()
        if self.classes.shape[1] != self.features.shape[1]:
            raise ValueError(
                f"class_embedding has shape {self.classes.shape} and embedding "
                f"{self.features.shape}, which are vectors of different length"
            )

    def embed(self, X: Any) -> np.ndarray:
        return np.asarray(X @ self.features)

    def operands(self, sparse: bool, dtype: DTypeLike) -> Operands:
        embed = sparse_products(self.features, dtype)
        return Operands(contiguous(self.classes), embed, False)

    def products(self, sparse: bool, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
        embed = sparse_products(self.features, dtype)
        return lambda x: class_scores(embed(x), self.classes)

    def take(self, classes: np.ndarray) -> Self:
        return type(self)(self.classes[classes], self.features)

    def grown(self, places: np.ndarray, n_classes: int) -> Self:
        return type(self)(spread(self.classes, places, n_classes), self.features)

    def dense(self) -> np.ndarray:
        return np.asarray(self.classes @ self.features.T)

    def multiplied(self, factor: float) -> Self:
        np.multiply(self.classes, self.classes.dtype.type(factor), out=self.classes)
        return self

    def of_features(self, factors: np.ndarray) -> Self:
        column = factors[:, None].astype(self.features.dtype)
        np.multiply(self.features, column, out=self.features)
        return self

    def reordered(self, places: np.ndarray, n_threads: int) -> Self:
        gather_majors(self.classes, places)
        return self


@dataclass(frozen=True)
class LowRank(WeightsKind):
    """Kind with vectors of length `width` for classes and features."""

    width: int
    scales_rows: ClassVar[bool] = True
    linear_scores: ClassVar[bool] = False
    sees_problem_rows: ClassVar[bool] = False
    has_vectors: ClassVar[bool] = True

    @property
    def rank(self) -> int:
        return self.width

    def n_weights(self, n_features: int, n_classes: int) -> int:
        return (n_features + n_classes) * self.width

    def n_temporary(self, n_features: int, n_classes: int, trained: bool) -> int:
        # Feature vectors are multiplied, and both kinds are copied into one array.
        multiplied = n_features * self.width
        return multiplied if trained else multiplied + self.n_weights(n_features, n_classes)

    def working_dtype(self, dtype: DTypeLike, n_features: int, n_classes: int) -> type:
        few = self.n_weights(n_features, n_classes) <= MAX_FLOAT64_FACTORS
        return np.float64 if few and dtype != np.float32 else np.float32

    def start(
        self, problem: Problem, random: bool, random_state: np.random.RandomState
    ) -> LowRankWeights:
        dtype = problem.rows.values.dtype
        classes = np.zeros((problem.n_classes, self.width), dtype)
        if random:  # A&R section 4: a standard deviation of 0.1
            draw_normals(classes, 0.1, random_state)
        # Random projections, which nearly preserve angles, scaled to `EMBEDDED_SIZE`.
        features = np.zeros((problem.n_features, self.width), dtype)
        draw_normals(features, 1.0, random_state)
        features *= dtype.type(EMBEDDED_SIZE * problem.unit / math.sqrt(self.width))
        return LowRankWeights(classes, features)

    def trained_shape(self, sizes: Sizes) -> tuple[int, int]:
        return sizes.n_classes + sizes.n_features, self.width

    def as_trained(self, weights: Weights, problem: Problem, dtype: DTypeLike) -> np.ndarray:
        assert isinstance(weights, LowRankWeights)
        vectors = np.zeros(self.trained_shape(problem.sizes), dtype)
        vectors[: problem.n_classes] = weights.classes
        unit = weights.features.dtype.type(problem.unit)
        np.divide(weights.features, unit, out=vectors[problem.n_classes :], casting="same_kind")
        return vectors

    def as_weights(
        self, trained: np.ndarray, problem: Problem, for_good: bool = False
    ) -> LowRankWeights:
        classes, features = trained[: problem.n_classes], trained[problem.n_classes :]
        unit = features.dtype.type(problem.unit)
        out = features if for_good else np.zeros(features.shape, features.dtype)
        return LowRankWeights(classes, np.multiply(features, unit, out=out))

    def turned(self, state: np.ndarray, problem: Problem) -> np.ndarray:
        return state

    def rows_of_thread(self, problem: Problem, n_looked_at: int) -> Any:
        return embedded(problem, self.width)

    def sees_dense_rows(self, sizes: Sizes) -> bool:
        return True

    def majors_of_row(self, sizes: Sizes, n_classes: int) -> int:
        return n_classes + sizes.row_values

    def as_matrix(self, weights: Weights, problem: Problem) -> np.ndarray:
        return self.as_trained(weights.astype(np.float64), problem, np.float64)

    def of_matrix(self, matrix: np.ndarray, problem: Problem) -> LowRankWeights:
        return self.as_weights(matrix, problem)

    def _embedded(self, matrix: np.ndarray, x: Any, problem: Problem) -> np.ndarray:
        return problem.unit * np.asarray(x @ matrix[problem.n_classes :])

    def scores(self, matrix: np.ndarray, x: Any, problem: Problem) -> np.ndarray:
        return np.asarray(self._embedded(matrix, x, problem) @ matrix[: problem.n_classes].T)

    def add_gradient(
        self,
        gradient: np.ndarray,
        matrix: np.ndarray,
        x: Any,
        grads: np.ndarray,
        problem: Problem,
    ) -> None:
        k, vectors = problem.n_classes, matrix[: problem.n_classes]
        gradient[:k] += grads.T @ self._embedded(matrix, x, problem)
        gradient[k:] += x.T @ (problem.unit * (grads @ vectors))
