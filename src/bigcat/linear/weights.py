"""Weights of a linear model: the interface that every kind implements.

A *kind* describes weights before they exist: memory, starting values, the array they are trained
in. *Weights* are fitted: they have a shape, give scores, can be saved and reordered. All
differences between kinds are methods here, so a new kind is one file and a line in
`linear/__init__.py`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from bigcat.rows import Problem, Sizes, read_only
from bigcat.solvers import Solver

#: Numbers drawn or computed at a time, to avoid a second copy in memory.
BLOCK_NUMBERS = 1 << 20
#: Weights converted to another precision at a time: they stay in the cache.
BLOCK_WEIGHTS = 1 << 16


class Operands(NamedTuple):
    """Arguments of prediction kernels."""

    # Read-only: class-major for dense rows, feature-major for sparse ones.  Of any precision, so
    # that weights less precise than the rows need no copy.
    weights: np.ndarray
    as_rows: Callable[[Any], Any]  # some rows of X in the form that goes with them
    sparse: bool  # True for sparse rows


class Weights(ABC):
    """Fitted weights, equivalent to an array (n_classes, n_features)."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Return the number of classes and of features."""

    @property
    @abstractmethod
    def kind(self) -> WeightsKind:
        """Return the kind of these weights."""

    @property
    @abstractmethod
    def class_vectors(self) -> np.ndarray:
        """Return one vector per class; scores are its inner products with the result of `embed`."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by their names in estimators and files.

        Rows are classes or features.
        """

    @classmethod
    @abstractmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of `arrays`."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Create weights from the arrays that `arrays` returns."""

    def check(self) -> None:
        """Raise ValueError if arrays, which may come from a file, contradict each other."""
        for name, array in self.arrays().items():
            if array.ndim != 2 or array.dtype != np.float32:
                raise ValueError(
                    f"{name} has shape {array.shape} of {array.dtype}, not two axes of float32"
                )

    @abstractmethod
    def matrices(self) -> tuple[np.ndarray, ...]:
        """Return the matrices whose product with rows gives the scores."""

    @property
    def n_in_prediction_matrices(self) -> int:
        """Return the total size of `matrices`."""
        return self.size

    @abstractmethod
    def embed(self, X: Any) -> np.ndarray:
        """Return rows as dense vectors that meet the class vectors."""

    def beside(self, X: Any) -> Any:
        """Return sparse scores to add to products of vectors; None if there are none."""
        return None

    @abstractmethod
    def operands(self, sparse: bool, dtype: DTypeLike) -> Operands:
        """Return the arguments of kernels that visit all classes."""

    @abstractmethod
    def products(self, sparse: bool, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
        """Return a function that maps rows to their scores for all classes, without intercepts."""

    @abstractmethod
    def take(self, classes: np.ndarray) -> Self:
        """Return a copy with reordered classes."""

    @abstractmethod
    def grown(self, places: np.ndarray, n_classes: int) -> Self:
        """Return weights of more classes: class k becomes ``places[k]``, the others are zero.

        `places` ascend.
        """

    def check_resumable(self) -> None:  # noqa: B027  # most can
        """Raise ValueError if training cannot continue from these weights."""

    @abstractmethod
    def dense(self) -> np.ndarray:
        """Return the weights as one array, for models of moderate size."""

    @abstractmethod
    def multiplied(self, factor: float) -> Self:
        """Multiply all scores by a factor, in place."""

    @abstractmethod
    def of_features(self, factors: np.ndarray) -> Self:
        """Adapt to rows as they were before features were multiplied by `factors`, in place."""

    @abstractmethod
    def reordered(self, places: np.ndarray, n_threads: int) -> Self:
        """Reorder the classes as `take` does, in place, since a copy may exceed the memory."""

    def copy(self) -> Self:
        """Return a copy."""
        return self.from_arrays({k: a.copy(order="K") for k, a in self.arrays().items()})

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the weights in another precision, without a copy if possible."""
        arrays = self.arrays().items()
        return self.from_arrays({k: a.astype(dtype, copy=False) for k, a in arrays})

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """Return the total number of stored values."""
        return sum(array.size for array in self.arrays().values())

    @property
    def is_finite(self) -> bool:
        """Return True if all values are finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = sum(array.sum(dtype=np.float64) for array in self.arrays().values())
        return bool(np.isfinite(total))


@dataclass(frozen=True)
class WeightsKind(ABC):
    """Kind of weights: all that is known before they exist."""

    #: True if rows are scaled to a mean length of 1 before scoring.
    scales_rows: ClassVar[bool]
    #: True if scores are linear in the trained array.
    linear_scores: ClassVar[bool]
    #: True if kernels use the problem's rows as they are.
    sees_problem_rows: ClassVar[bool]
    #: True if computing all scores is fast enough to monitor some rows each epoch.
    quick_scores: ClassVar[bool] = True
    #: True if classes and features have vectors that may be moved as a whole.
    has_vectors: ClassVar[bool]

    @property
    @abstractmethod
    def rank(self) -> int | None:
        """Return the rank of the scores; None for full rank."""

    @abstractmethod
    def n_weights(self, n_features: int, n_classes: int) -> int:
        """Return the number of weights."""

    def n_temporary(self, n_features: int, n_classes: int, trained: bool) -> int:
        """Return the size of temporary arrays needed to create or use the trained array.

        `trained` selects the use after training. 0 if both are views.
        """
        return 0

    @abstractmethod
    def working_dtype(self, dtype: DTypeLike, n_features: int, n_classes: int) -> type:
        """Return the dtype of training for input of a dtype; fitted weights are always float32."""

    # Before and after training

    @abstractmethod
    def start(self, problem: Problem, random: bool, random_state: np.random.RandomState) -> Weights:
        """Return starting weights: zero if possible, or the papers' small random ones."""

    @abstractmethod
    def trained_shape(self, sizes: Sizes) -> tuple[int, int]:
        """Return the shape of the trained array, majors and minors."""

    @abstractmethod
    def as_trained(self, weights: Weights, problem: Problem, dtype: DTypeLike) -> np.ndarray:
        """Return weights in the layout and precision of training, as a view if possible."""

    @abstractmethod
    def as_weights(self, trained: np.ndarray, problem: Problem, for_good: bool = False) -> Weights:
        """Return the weights of a trained array, as a view if possible.

        `for_good` states that `trained` will not be trained any further.
        """

    @abstractmethod
    def turned(self, state: np.ndarray, problem: Problem) -> np.ndarray:
        """Convert solver state between the layout of training and one for all formats of rows."""

    # During training

    @abstractmethod
    def rows_of_thread(self, problem: Problem, n_looked_at: int) -> Any:
        """Return the rows for kernels, with scratch memory for one thread.

        A row visits at most `n_looked_at` classes.
        """

    @abstractmethod
    def sees_dense_rows(self, sizes: Sizes) -> bool:
        """Return True if classes meet dense vectors, either rows or embeddings."""

    @abstractmethod
    def majors_of_row(self, sizes: Sizes, n_classes: int) -> int:
        """Return the maximal number of majors of a row that visits `n_classes` classes."""

    # L-BFGS: weights as one float64 matrix

    def as_matrix(self, weights: Weights, problem: Problem) -> np.ndarray:
        """Return the weights as one float64 matrix, for L-BFGS."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def of_matrix(self, matrix: np.ndarray, problem: Problem) -> Weights:
        """Return the weights of a matrix of L-BFGS."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def scores(self, matrix: np.ndarray, x: Any, problem: Problem) -> np.ndarray:
        """Return the scores of some rows for all classes, without intercepts."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def add_gradient(
        self,
        gradient: np.ndarray,
        matrix: np.ndarray,
        x: Any,
        grads: np.ndarray,
        problem: Problem,
    ) -> None:
        """Add the gradient of ``sum(grads * scores)`` with respect to the matrix to `gradient`."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def check_solver(self, solver: Solver) -> None:
        """Raise ValueError for a solver that does not support this kind."""
        if solver.needs_vectors and not self.has_vectors:
            raise ValueError(
                f"{solver!r} moves whole vectors of classes and features, which need a rank; "
                "set rank, or per='coordinate'"
            )
        if solver.needs_linear_scores and not (self.linear_scores and self.sees_problem_rows):
            what = "unscaled rows"
            if not self.linear_scores:
                what = "scores linear in the weights"
            raise ValueError(
                f"rank={self.rank} does not support solver={solver.name!r}, whose steps need "
                f"{what}; set solver='adagrad' or rank=None"
            )


def draw_normals(array: np.ndarray, scale: float, random_state: np.random.RandomState) -> None:
    """Fill an array with normal numbers in blocks of rows; the stream equals that of one call."""
    rows = max(1, BLOCK_NUMBERS // max(array.shape[1], 1))
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        block[...] = scale * random_state.standard_normal(block.shape)


def spread(rows: np.ndarray, places: np.ndarray, n: int) -> np.ndarray:
    """Return an array of `n` rows, zero but for the given ones, in the same memory order."""
    order = "F" if rows.flags.f_contiguous and not rows.flags.c_contiguous else "C"
    found: np.ndarray = np.zeros((n, *rows.shape[1:]), rows.dtype, order)  # type: ignore[call-overload]
    found[places] = rows
    return found


def contiguous(array: np.ndarray) -> np.ndarray:
    """Return a read-only C-ordered view, or a copy if necessary, for kernels."""
    return read_only(np.ascontiguousarray(array))


def class_scores(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return ``rows @ vectors.T`` in the precision of the rows, without converting all vectors."""
    if vectors.dtype == rows.dtype:
        return np.asarray(rows @ vectors.T)
    out = np.empty((len(rows), len(vectors)), rows.dtype)
    step = max(64, BLOCK_WEIGHTS // max(vectors.shape[1], 1))
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step].astype(rows.dtype)
        np.matmul(rows, block.T, out=out[:, start : start + step])
    return out


def sparse_products(matrix: np.ndarray, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
    """Return a function that multiplies rows by a matrix in the given precision.

    Few sparse rows need few rows of the matrix, and only these are converted.
    """
    whole = functools.cache(lambda: np.ascontiguousarray(matrix, dtype))
    fits = matrix.dtype == dtype and matrix.flags.c_contiguous
    left = 0 if fits else len(matrix)

    def product(x: Any) -> np.ndarray:
        nonlocal left
        if not scipy.sparse.issparse(x) or x.nnz > left:
            return np.asarray(x @ whole())
        left -= x.nnz
        present, places = np.unique(x.indices, return_inverse=True)
        x = scipy.sparse.csr_array((x.data, places, x.indptr), shape=(x.shape[0], len(present)))
        return np.asarray(x @ matrix[present].astype(dtype, copy=False))

    return product
