"""Low rank plus single weights for pairs of class and feature that occur together.

The low-rank vectors carry what classes and features have in common. The pair weights, at most as
many as the data have non-zeros, carry the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from bigcat.linear.low_rank import LowRank, LowRankWeights
from bigcat.linear.weights import Operands, Weights, WeightsKind, draw_normals
from bigcat.rows import (
    DenseRows,
    PairedRows,
    Problem,
    Sizes,
    as_rows,
    is_sparse,
    read_only,
    trained_pairs,
)
from bigcat.solvers import Solver


@dataclass(frozen=True, eq=False)
class PairedWeights(Weights):
    """Weights ``classes @ features.T`` plus a sparse matrix.

    Parameters
    ----------
    low : LowRankWeights
    offsets : array of shape (n_features + 1,)
        Start of each feature's pairs.
    pair_classes : array of int32
        Ascending for each feature.
    pair_weights : array
    """

    low: LowRankWeights
    offsets: np.ndarray
    pair_classes: np.ndarray
    pair_weights: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.low.shape

    @property
    def kind(self) -> LowRank:
        return self.low.kind

    @property
    def class_vectors(self) -> np.ndarray:
        return self.low.class_vectors

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return (*LowRankWeights.names(), "pair_offset", "pair_class", "pair_coef")

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.low.arrays(),
            "pair_offset": self.offsets,
            "pair_class": self.pair_classes,
            "pair_coef": self.pair_weights,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        pairs = (arrays[name] for name in ("pair_offset", "pair_class", "pair_coef"))
        return cls(LowRankWeights.from_arrays(arrays), *pairs)

    def check(self) -> None:
        self.low.check()
        n_classes, n_features = self.shape
        offsets, classes, weights = self.offsets, self.pair_classes, self.pair_weights
        if not all(a.ndim == 1 for a in (offsets, classes, weights)):
            raise ValueError("pair_offset, pair_class and pair_coef have more than one axis")
        if offsets.dtype.kind != "i" or classes.dtype != np.int32 or weights.dtype != np.float32:
            raise ValueError(
                f"pair_offset, pair_class and pair_coef are of {offsets.dtype}, {classes.dtype} "
                f"and {weights.dtype}, not of integers, int32 and float32"
            )
        # Kernels use these numbers without bounds checks.
        rising = (
            len(offsets) == n_features + 1 and offsets[0] == 0 and (np.diff(offsets) >= 0).all()
        )
        if not rising or not offsets[-1] == len(classes) == len(weights):
            raise ValueError("pair_offset does not rise from 0 to the number of pairs")
        if len(classes) and not 0 <= classes.min() <= classes.max() < n_classes:
            raise ValueError(f"pair_class holds numbers outside of {n_classes} classes")
        within = np.diff(classes) > 0
        starts = offsets[1:-1]
        within[starts[(starts > 0) & (starts < len(classes))] - 1] = True  # of two features
        if not within.all():
            raise ValueError("pair_class does not ascend for each feature")

    def astype(self, dtype: DTypeLike) -> Self:
        pair_weights = self.pair_weights.astype(dtype, copy=False)
        return replace(self, low=self.low.astype(dtype), pair_weights=pair_weights)

    def matrices(self) -> tuple[np.ndarray, ...]:
        return (self.dense().T,)

    @property
    def n_in_prediction_matrices(self) -> int:
        return self.shape[0] * self.shape[1]

    def embed(self, X: Any) -> np.ndarray:
        return self.low.embed(X)

    def beside(self, X: Any) -> Any:
        return scipy.sparse.csr_array(X) @ self.matrix(np.float32)

    def check_resumable(self) -> None:
        raise ValueError(
            "this model is a weighted sum of several fits and cannot be trained on more rows; "
            "fit it again on all rows, or start with rank=256, which supports partial_fit"
        )

    def matrix(self, dtype: DTypeLike) -> Any:
        """Return the pairs as a sparse matrix, (n_features, n_classes)."""
        values = self.pair_weights.astype(dtype, copy=False)
        shape = self.shape[::-1]
        return scipy.sparse.csr_array((values, self.pair_classes, self.offsets), shape=shape)

    def operands(self, sparse: bool, dtype: DTypeLike) -> Operands:
        low = self.low.operands(True, dtype)
        pairs = (
            read_only(self.offsets),
            read_only(self.pair_classes),
            read_only(self.pair_weights),
        )

        def paired(x: Any) -> PairedRows:
            x = scipy.sparse.csr_array(x)
            rows = as_rows(x, dtype)
            embedded = as_rows(low.as_rows(x), dtype)
            assert is_sparse(rows)
            assert isinstance(embedded, DenseRows)
            return PairedRows(embedded, rows, *pairs)

        return Operands(low.weights, paired, False)

    def products(self, sparse: bool, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
        low, pairs = self.low.products(sparse, dtype), self.matrix(dtype)

        def scores(x: Any) -> np.ndarray:
            of_pairs = scipy.sparse.csr_array(x) @ pairs
            return np.asarray(low(x) + of_pairs.toarray())

        return scores

    def dense(self) -> np.ndarray:
        return np.asarray(self.low.dense() + self.matrix(np.float32).T.toarray())

    def multiplied(self, factor: float) -> Self:
        self.low.multiplied(factor)
        np.multiply(self.pair_weights, np.float32(factor), out=self.pair_weights)
        return self

    def of_features(self, factors: np.ndarray) -> Self:
        self.low.of_features(factors)
        per_pair = np.repeat(factors, np.diff(self.offsets)).astype(np.float32)
        np.multiply(self.pair_weights, per_pair, out=self.pair_weights)
        return self

    def take(self, classes: np.ndarray) -> Self:
        matrix = self.matrix(self.pair_weights.dtype)[:, classes].tocsr()
        matrix.sort_indices()
        return replace(
            self,
            low=self.low.take(classes),
            offsets=matrix.indptr.astype(self.offsets.dtype),
            pair_classes=matrix.indices.astype(self.pair_classes.dtype),
            pair_weights=matrix.data,
        )

    def grown(self, places: np.ndarray, n_classes: int) -> Self:
        return replace(
            self,
            low=self.low.grown(places, n_classes),
            pair_classes=places[self.pair_classes].astype(self.pair_classes.dtype),
        )

    def reordered(self, places: np.ndarray, n_threads: int) -> Self:
        return self.take(places)


@dataclass(frozen=True)
class CoOccurringPairs(WeightsKind):
    """Kind with one weight per class and feature that occur together in a training row.

    Full rank in the memory of the data: all other weights stay zero.

    Parameters
    ----------
    offsets : array of shape (n_features + 1,)
        Start of each feature's pairs.
    classes : array of int32
        Classes of the pairs, ascending for each feature.
    """

    offsets: np.ndarray = field(compare=False, repr=False)
    classes: np.ndarray = field(compare=False, repr=False)
    scales_rows: ClassVar[bool] = False
    linear_scores: ClassVar[bool] = True
    quick_scores: ClassVar[bool] = False
    sees_problem_rows: ClassVar[bool] = False
    has_vectors: ClassVar[bool] = False

    @classmethod
    def of(cls, X: Any, labels: np.ndarray, n_classes: int) -> Self:
        """Find the pairs of CSR rows and their labels."""
        occurs = scipy.sparse.csr_array((np.ones(X.nnz, bool), X.indices, X.indptr), shape=X.shape)
        n = X.shape[0]
        places = (np.ones(n, bool), labels, np.arange(n + 1))
        of_label = scipy.sparse.csr_array(places, shape=(n, n_classes))
        together = (occurs.T.tocsr() @ of_label).tocsr()
        together.sort_indices()
        return cls(together.indptr.astype(np.int64), together.indices.astype(np.int32))

    @property
    def rank(self) -> None:
        return None

    def n_weights(self, n_features: int, n_classes: int) -> int:
        return len(self.classes)

    def working_dtype(self, dtype: DTypeLike, n_features: int, n_classes: int) -> type:
        return np.float32

    def start(
        self, problem: Problem, random: bool, random_state: np.random.RandomState
    ) -> PairedWeights:
        weights = np.zeros((1, len(self.classes)), np.float32)
        if random:  # A&R section 4: a standard deviation of 0.1
            draw_normals(weights, 0.1, random_state)
        return self.as_weights(weights, problem)

    def trained_shape(self, sizes: Sizes) -> tuple[int, int]:
        return 1, len(self.classes)

    def as_trained(self, weights: Weights, problem: Problem, dtype: DTypeLike) -> np.ndarray:
        assert isinstance(weights, PairedWeights)
        return np.ascontiguousarray(weights.pair_weights[None], dtype)

    def as_weights(
        self, trained: np.ndarray, problem: Problem, for_good: bool = False
    ) -> PairedWeights:
        none = LowRankWeights(
            np.zeros((problem.n_classes, 0), np.float32),
            np.zeros((problem.n_features, 0), np.float32),
        )
        return PairedWeights(none, self.offsets, self.classes, trained[0])

    def turned(self, state: np.ndarray, problem: Problem) -> np.ndarray:
        return state

    def rows_of_thread(self, problem: Problem, n_looked_at: int) -> Any:
        rows = problem.rows
        assert is_sparse(rows)
        n_found = problem.sizes.row_values * n_looked_at
        return trained_pairs(rows, self.offsets, self.classes, problem.n_classes, n_found)

    def sees_dense_rows(self, sizes: Sizes) -> bool:
        return False

    def majors_of_row(self, sizes: Sizes, n_classes: int) -> int:
        return 1

    def check_solver(self, solver: Solver) -> None:
        """Raise ValueError for a solver that sums the gradient of a batch, or of all rows."""
        if not (solver.linear and solver.stochastic):
            raise ValueError(
                "weights of pairs need a solver that steps row by row, "
                f"not solver={solver.name!r}; set solver='damped' or 'sgd'"
            )
