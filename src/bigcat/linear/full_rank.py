"""Full-rank weights: one per class and feature, in the layout that goes with the rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
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
from bigcat.rows import (
    Problem,
    Sizes,
    class_major,
    gather_majors,
    gather_minors,
    is_sparse,
    weights_shape,
)

#: Number of weights up to which training keeps float64 input in float64.
MAX_FLOAT64_WEIGHTS = 1 << 24


@dataclass(frozen=True, eq=False)
class FullRankWeights(Weights):
    """Weights in one array ``coef``, (n_classes, n_features), of any memory order."""

    coef: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.coef.shape[0], self.coef.shape[1]

    @property
    def kind(self) -> FullRank:
        return FullRank()

    @property
    def class_vectors(self) -> np.ndarray:
        return self.coef

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return ("coef",)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"coef": self.coef}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        return cls(arrays["coef"])

    def matrices(self) -> tuple[np.ndarray, ...]:
        return (self.coef.T,)

    def embed(self, X: Any) -> np.ndarray:
        rows: np.ndarray = X.toarray() if scipy.sparse.issparse(X) else X
        return rows

    def operands(self, sparse: bool, dtype: DTypeLike) -> Operands:
        # No copy of weights that lie as the kernels want them: those of training on such rows.
        weights = self.coef.T if sparse else self.coef
        return Operands(contiguous(weights), lambda x: x, sparse)

    def products(self, sparse: bool, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
        if sparse:
            return sparse_products(self.coef.T, dtype)
        return lambda x: class_scores(x, self.coef)

    def take(self, classes: np.ndarray) -> Self:
        return type(self)(self.coef[classes])

    def grown(self, places: np.ndarray, n_classes: int) -> Self:
        return type(self)(spread(self.coef, places, n_classes))

    def dense(self) -> np.ndarray:
        return self.coef

    def multiplied(self, factor: float) -> Self:
        np.multiply(self.coef, self.coef.dtype.type(factor), out=self.coef)
        return self

    def of_features(self, factors: np.ndarray) -> Self:
        np.multiply(self.coef, factors.astype(self.coef.dtype), out=self.coef)
        return self

    def reordered(self, places: np.ndarray, n_threads: int) -> Self:
        if self.coef.flags.c_contiguous:
            gather_majors(self.coef, places)
            return self
        weights = self.coef.T
        edges = np.linspace(0, len(weights), n_threads + 1).astype(int)
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda a, b: gather_minors(weights[a:b], places), edges[:-1], edges[1:]))
        return self


@dataclass(frozen=True)
class FullRank(WeightsKind):
    """Kind with one weight per class and feature."""

    scales_rows: ClassVar[bool] = False
    linear_scores: ClassVar[bool] = True
    sees_problem_rows: ClassVar[bool] = True
    has_vectors: ClassVar[bool] = False

    @property
    def rank(self) -> None:
        return None

    def n_weights(self, n_features: int, n_classes: int) -> int:
        return n_features * n_classes

    def working_dtype(self, dtype: DTypeLike, n_features: int, n_classes: int) -> type:
        few = self.n_weights(n_features, n_classes) <= MAX_FLOAT64_WEIGHTS
        return np.float64 if few and dtype != np.float32 else np.float32

    def start(
        self, problem: Problem, random: bool, random_state: np.random.RandomState
    ) -> FullRankWeights:
        dtype = problem.rows.values.dtype
        zeros = np.zeros(self.trained_shape(problem.sizes), dtype)
        weights = class_major(zeros, problem.rows)
        if random:  # A&R section 4: a standard deviation of 0.1
            draw_normals(weights, 0.1, random_state)
        return FullRankWeights(weights)

    def trained_shape(self, sizes: Sizes) -> tuple[int, int]:
        return weights_shape(sizes.sparse, sizes.n_features, sizes.n_classes)

    def as_trained(self, weights: Weights, problem: Problem, dtype: DTypeLike) -> np.ndarray:
        assert isinstance(weights, FullRankWeights)
        oriented = weights.coef.T if is_sparse(problem.rows) else weights.coef
        return np.ascontiguousarray(oriented, dtype)

    def as_weights(
        self, trained: np.ndarray, problem: Problem, for_good: bool = False
    ) -> FullRankWeights:
        return FullRankWeights(class_major(trained, problem.rows))

    def turned(self, state: np.ndarray, problem: Problem) -> np.ndarray:
        return class_major(state, problem.rows)

    def rows_of_thread(self, problem: Problem, n_looked_at: int) -> Any:
        return problem.rows

    def sees_dense_rows(self, sizes: Sizes) -> bool:
        return not sizes.sparse

    def majors_of_row(self, sizes: Sizes, n_classes: int) -> int:
        return sizes.row_values if sizes.sparse else n_classes

    def as_matrix(self, weights: Weights, problem: Problem) -> np.ndarray:
        assert isinstance(weights, FullRankWeights)
        return weights.coef.astype(np.float64)

    def of_matrix(self, matrix: np.ndarray, problem: Problem) -> FullRankWeights:
        return FullRankWeights(matrix)

    def scores(self, matrix: np.ndarray, x: Any, problem: Problem) -> np.ndarray:
        return np.asarray(x @ matrix.T)

    def add_gradient(
        self,
        gradient: np.ndarray,
        matrix: np.ndarray,
        x: Any,
        grads: np.ndarray,
        problem: Problem,
    ) -> None:
        if scipy.sparse.issparse(x):
            gradient += np.asarray((x.T @ grads).T)
        else:
            gradient += grads.T @ x
