"""Weights of a linear model as objects: what every kind of them can do.

A *kind* says how weights are kept before there are any: what they need, where training starts, in
which array they are trained.  *Weights* are fitted ones: they have a shape, are scored with, saved
and put in another order.  `full_rank` and `low_rank` are the two kinds; whatever differs between
them is a method here, so that a third one is one file and a line in `linear/__init__.py`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from bigcat.rows import Problem, Sizes, read_only
from bigcat.solvers import Solver
from bigcat.storage import MEMORY, Storage

#: Numbers that are drawn, or worked out, at a time, so that they need not be in memory twice.
BLOCK_NUMBERS = 1 << 20
#: Weights that are turned into another precision at a time: they stay in the cache.
BLOCK_WEIGHTS = 1 << 16


class Operands(NamedTuple):
    """What prediction kernels take."""

    # Read-only: class-major for dense rows, feature-major for sparse ones.  In any precision: what
    # is less precise than the rows costs no copy.
    weights: np.ndarray
    as_rows: Callable[[Any], Any]  # some rows of X in the form that goes with them
    sparse: bool  # are those sparse?


class Weights(ABC):
    """Fitted weights, (n_classes, n_features) whatever they are made of."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Classes and features."""

    @property
    @abstractmethod
    def kind(self) -> WeightsKind: ...

    @property
    @abstractmethod
    def class_vectors(self) -> np.ndarray:
        """One vector per class; scores are its inner products with what `embed` gives."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays by the names that estimators and files give them; a row is a class or feature."""

    @classmethod
    @abstractmethod
    def names(cls) -> tuple[str, ...]:
        """The names of `arrays`."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self: ...

    def check(self) -> None:
        """Raise ValueError where arrays, which may be those of a file, contradict each other."""
        for name, array in self.arrays().items():
            if array.ndim != 2 or array.dtype != np.float32:
                raise ValueError(
                    f"{name} has shape {array.shape} of {array.dtype}, not two axes of float32"
                )

    @abstractmethod
    def matrices(self) -> tuple[np.ndarray, ...]:
        """What rows are multiplied by, one matrix after the other, to give scores."""

    @property
    def n_in_prediction_matrices(self) -> int:
        """How many numbers `matrices` will have."""
        return self.size

    @abstractmethod
    def embed(self, X: Any) -> np.ndarray:
        """Rows as dense vectors that meet the class vectors."""

    def beside(self, X: Any) -> Any:
        """What rows score beside the products of vectors, as a sparse matrix; None for nothing."""
        return None

    @abstractmethod
    def operands(self, sparse: bool, dtype: DTypeLike) -> Operands:
        """For kernels that visit all classes of rows of that form; rows in that precision."""

    @abstractmethod
    def operands_in_place(self) -> Operands:
        """For kernels that visit some classes: weights as they lie, rows in the form for that."""

    @abstractmethod
    def products(self, sparse: bool, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
        """A function of some rows that gives their scores for all classes, without intercepts."""

    @abstractmethod
    def take(self, classes: np.ndarray) -> Self:
        """A copy with the classes in another order."""

    def check_resumable(self) -> None:  # noqa: B027  # most can
        """Raise where more rows cannot be trained on from these weights."""

    @abstractmethod
    def dense(self) -> np.ndarray:
        """One number per class and feature: for models of which that is few."""

    @abstractmethod
    def multiplied(self, factor: float) -> Self:
        """With scores that many times as large, in place."""

    @abstractmethod
    def of_features(self, factors: np.ndarray) -> Self:
        """For rows as they were before features were multiplied by `factors`, in place."""

    @abstractmethod
    def reordered(self, places: np.ndarray, n_threads: int) -> Self:
        """As `take`, but in place, since a copy may not fit."""

    def copy(self, storage: Storage = MEMORY) -> Self:
        return self.from_arrays({k: storage.copy(a) for k, a in self.arrays().items()})

    def astype(self, dtype: DTypeLike, storage: Storage = MEMORY) -> Self:
        """In another precision; no copy where it is right already."""
        arrays = self.arrays().items()
        return self.from_arrays(
            {k: a if a.dtype == dtype else storage.copy(a, dtype) for k, a in arrays}
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(array.size for array in self.arrays().values())

    @property
    def is_finite(self) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            total = sum(array.sum(dtype=np.float64) for array in self.arrays().values())
        return bool(np.isfinite(total))


@dataclass(frozen=True)
class WeightsKind(ABC):
    """How weights are kept: everything about them that is known before there are any."""

    #: Where the arrays of a fit are made that are as large as the weights.
    storage: Storage = field(default=MEMORY, kw_only=True, compare=False, repr=False)
    #: Are rows scaled to a mean length of 1 before they are scored?
    scales_rows: ClassVar[bool]
    #: Are scores linear in the trained array?
    linear_scores: ClassVar[bool]
    #: Do kernels see the problem's own rows, not another form of them?
    sees_problem_rows: ClassVar[bool]
    #: Are scores of all classes quick enough for a look at some rows after each epoch?
    quick_scores: ClassVar[bool] = True
    #: Do classes and features have vectors, which may be moved as a whole?
    has_vectors: ClassVar[bool]

    def stored_in(self, storage: Storage) -> Self:
        return replace(self, storage=storage)

    @property
    @abstractmethod
    def rank(self) -> int | None:
        """Of the scores; None for full rank."""

    @abstractmethod
    def n_weights(self, n_features: int, n_classes: int) -> int: ...

    def n_temporary(self, n_features: int, n_classes: int, trained: bool) -> int:
        """Numbers beside the trained array while it is made, or, when trained, looked at.

        None where both are views.
        """
        return 0

    @abstractmethod
    def working_dtype(self, dtype: DTypeLike, n_features: int, n_classes: int) -> type:
        """In which numbers to train, for X of that type; fitted weights are float32 always."""

    # Before training, and after

    @abstractmethod
    def start(self, problem: Problem, random: bool, random_state: np.random.RandomState) -> Weights:
        """Weights to start from: zeros where they can be, or the papers' small random ones."""

    @abstractmethod
    def trained_shape(self, sizes: Sizes) -> tuple[int, int]:
        """Majors and minors of the array in training."""

    @abstractmethod
    def as_trained(self, weights: Weights, problem: Problem, dtype: DTypeLike) -> np.ndarray:
        """Weights in the layout and precision of training; a view where they are in it already."""

    @abstractmethod
    def as_weights(self, trained: np.ndarray, problem: Problem, for_good: bool = False) -> Weights:
        """The inverse of `as_trained`, a view as far as can be.

        `for_good` says that `trained` will not be trained on.
        """

    @abstractmethod
    def turned(self, state: np.ndarray, problem: Problem) -> np.ndarray:
        """A solver's memory from the layout of training to one for all forms of rows, or back."""

    # Inside training

    @abstractmethod
    def rows_of_thread(self, problem: Problem, n_looked_at: int) -> Any:
        """Rows as kernels walk over them, with scratch memory of a thread's own.

        A row looks at `n_looked_at` classes at most.
        """

    @abstractmethod
    def sees_dense_rows(self, sizes: Sizes) -> bool:
        """Do classes meet dense vectors, rows or embeddings?"""

    @abstractmethod
    def majors_of_row(self, sizes: Sizes, n_classes: int) -> int:
        """The most majors that a row can touch when it looks at so many classes."""

    # L-BFGS: weights as one float64 matrix

    def as_matrix(self, weights: Weights, problem: Problem) -> np.ndarray:
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def of_matrix(self, matrix: np.ndarray, problem: Problem) -> Weights:
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def scores(self, matrix: np.ndarray, x: Any, problem: Problem) -> np.ndarray:
        """Of some rows for all classes, without intercepts."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def add_gradient(
        self,
        gradient: np.ndarray,
        matrix: np.ndarray,
        x: Any,
        grads: np.ndarray,
        problem: Problem,
    ) -> None:
        """Add to `gradient` that of ``sum(grads * scores)`` in the matrix."""
        raise TypeError(f"{type(self).__name__} has no matrix for L-BFGS")

    def check_solver(self, solver: Solver) -> None:
        """Raise for a solver whose steps are made for another kind."""
        if solver.needs_vectors and not self.has_vectors:
            raise ValueError(
                f"{solver!r} moves vectors of classes and features, which a full rank does not "
                "have; set rank, or take per='coordinate'"
            )
        if solver.needs_linear_scores and not (self.linear_scores and self.sees_problem_rows):
            what = "the rows as they are given"
            if not self.linear_scores:
                what = "scores that are linear in the weights"
            raise ValueError(
                f"rank={self.rank} does not go with solver={solver.name!r}, whose steps are solved "
                f"for {what}; take solver='adagrad' or rank=None"
            )


def draw_normals(array: np.ndarray, scale: float, random_state: np.random.RandomState) -> None:
    """Fill an array with normal numbers: those of one call, but a few rows of it at a time."""
    rows = max(1, BLOCK_NUMBERS // max(array.shape[1], 1))
    for start in range(0, len(array), rows):
        block = array[start : start + rows]
        block[...] = scale * random_state.standard_normal(block.shape)


def contiguous(array: np.ndarray, dtype: DTypeLike | None = None) -> np.ndarray:
    """A read-only C-ordered view, or copy where it must be: what kernels take."""
    return read_only(np.ascontiguousarray(array, dtype=dtype))


def class_scores(rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """``rows @ vectors.T`` in the precision of the rows, without a copy of all vectors in it."""
    if vectors.dtype == rows.dtype:
        return np.asarray(rows @ vectors.T)
    out = np.empty((len(rows), len(vectors)), rows.dtype)
    step = max(64, BLOCK_WEIGHTS // max(vectors.shape[1], 1))
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step].astype(rows.dtype)
        np.matmul(rows, block.T, out=out[:, start : start + step])
    return out


def sparse_products(matrix: np.ndarray, dtype: DTypeLike) -> Callable[[Any], np.ndarray]:
    """A function of some rows, which multiplies them by a matrix in that precision.

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
