"""Covariances of the weights, in the smallest form that holds them.

Each kind answers the same few questions for a block of classes (a slice or class numbers); what all
classes share is one row in the answer (shape (1, ...)), never a copy per class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import ndtri

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes._quantiles import quantiles_of


class Covariance(ABC):
    """Covariance matrices of the weights of all classes."""

    shared: bool = False  # one for all classes
    diagonal: bool = False
    independent_classes: bool = True
    in_words: ClassVar[str]

    @abstractmethod
    def variances(self, block: Block) -> Floats:
        """Diagonals, (B, M), or (1, M) where they are shared."""

    @abstractmethod
    def log_determinants(self, block: Block) -> Floats:
        """(B,), or (1,) where they are shared."""

    @abstractmethod
    def row_variances(self, design: Design, block: Block) -> Floats:
        """x_i' Sigma_k x_i, (n, B), or (n, 1) where they are shared."""

    @abstractmethod
    def colour(self, noise: Floats, block: Block) -> Floats:
        """Turn standard normal draws (S, B, M) into draws with the covariances, in place or not."""

    @abstractmethod
    def array(self) -> Floats:
        """What the user sees: (M, M), (K, M, M), (M,) or (K, M)."""

    # Draws, and what intervals are made of

    @property
    def n_kept(self) -> int | None:
        """Draws that are kept; None where there is a formula."""
        return None

    def draws(self, n: int, shape: tuple[int, int], rng: np.random.RandomState) -> Floats:
        """Draws of the deviations of all weights from their mean, (n, K, M)."""
        return self.colour(rng.standard_normal((n, *shape)), slice(0, shape[0]))

    def difference_variances(self, block: Block, base: int | None) -> Floats:
        """Variances of w_k - w_base, or of w_k: (B, M), or (1, M) where they are shared."""
        own = self.variances(block)
        return own if base is None else own + self.variances(slice(base, base + 1))

    def row_difference_variances(self, design: Design, first: int, second: int) -> Floats:
        """Variances of x_i . (w_first - w_second), (n,)."""
        both = self.row_variances(design, np.array([first, second]))
        spread: Floats = np.broadcast_to(both, (design.n, 2)).sum(axis=1)
        return spread

    def quantiles(self, tails: Floats, block: Block, base: int | None = None) -> Floats:
        """Of the deviations of w_k - w_base from their mean, (T, B, M), or (T, 1, M)."""
        spread = np.sqrt(self.difference_variances(block, base))
        steps: Floats = ndtri(tails)[:, None, None] * spread
        return steps

    def row_quantiles(self, tails: Floats, design: Design, first: int, second: int) -> Floats:
        """Of the deviations of x_i . (w_first - w_second) from their mean, (T, n)."""
        spread = np.sqrt(self.row_difference_variances(design, first, second))
        steps: Floats = ndtri(tails)[:, None] * spread
        return steps

    def matrix_of(self, k: int) -> Floats:
        """The matrix of class number `k`, (M, M)."""
        array = self.array()
        own = array if self.shared else array[k]
        return np.diag(own) if self.diagonal else own

    def traces(self, matrix: Floats, block: Block) -> Floats:
        """tr(A Sigma_k) for a matrix A, or for a diagonal one given as a vector: (B,) or (1,)."""
        if matrix.ndim == 1:
            return self.variances(block) @ matrix
        return self._matrix_traces(matrix, block)

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        return self.variances(block) @ np.diag(matrix)


class SharedFull(Covariance):
    """One matrix for all classes: probit with a prior that all classes share (D.3.5b)."""

    shared = True
    in_words = "one matrix for all classes"

    def __init__(self, matrix: Floats, log_determinant: float) -> None:
        self.matrix = matrix
        self.log_determinant = log_determinant

    @classmethod
    def from_precision(cls, precision: Floats) -> SharedFull:
        return cls(*symmetric_inverse(precision))

    def variances(self, block: Block) -> Floats:
        return np.diag(self.matrix)[None]

    def log_determinants(self, block: Block) -> Floats:
        return np.array([self.log_determinant])

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.quadratic(self.matrix)[:, None]

    def colour(self, noise: Floats, block: Block) -> Floats:
        return noise @ np.linalg.cholesky(self.matrix).T

    def array(self) -> Floats:
        return self.matrix

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        return np.array([np.sum(self.matrix * matrix)])


class ClassFull(Covariance):
    """A matrix per class, (K, M, M): logit, or a prior with a scale for each class and feature."""

    in_words = "a matrix per class"
    pairs_dtype: type = np.float64  # of the products in `row_variances`

    def __init__(self, matrices: Floats, logs: Floats) -> None:
        self.matrices = matrices
        self.logs = logs  # of the determinants

    def variances(self, block: Block) -> Floats:
        return np.diagonal(self.matrices[block], axis1=1, axis2=2)

    def log_determinants(self, block: Block) -> Floats:
        return self.logs[block]

    def row_variances(self, design: Design, block: Block) -> Floats:
        matrices = self.matrices[block]
        out = np.empty((design.n, len(matrices)))
        if design.n_columns <= PAIRS_UP_TO:
            dtype = self.pairs_dtype
            coefficients: Floats = packed(matrices).astype(dtype, copy=False)
            for rows in design.chunks(coefficients.shape[0], PAIRS_CHUNK):
                out[rows] = pairs(design.dense(rows), dtype) @ coefficients
            return np.maximum(out, 0.0, out=out)  # rounding, where x is nearly in the null space
        for b, matrix in enumerate(matrices):
            out[:, b] = design.quadratic(matrix)
        return out

    def colour(self, noise: Floats, block: Block) -> Floats:
        roots = np.linalg.cholesky(self.matrices[block])
        draws: Floats = np.einsum("bij,sbj->sbi", roots, noise)
        return draws

    def array(self) -> Floats:
        return self.matrices

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        traces: Floats = np.einsum("bij,ij->b", self.matrices[block], matrix)
        return traces


class JointFull(Covariance):
    """One matrix for the weights of all classes together, (K M, K M): the Laplace approximation."""

    independent_classes = False
    in_words = "one matrix for the weights of all classes"

    def __init__(self, matrix: Floats, n_classes: int) -> None:
        self.matrix = matrix
        self.n_classes = int(n_classes)

    def _four(self) -> Floats:
        """Classes and columns apart, (K, M, K, M)."""
        m = len(self.matrix) // self.n_classes
        return self.matrix.reshape(self.n_classes, m, self.n_classes, m)

    def _blocks(self) -> Floats:
        """Of each class with itself, (K, M, M)."""
        blocks: Floats = np.einsum("kikj->kij", self._four())
        return blocks

    def variances(self, block: Block) -> Floats:
        values: Floats = np.diag(self.matrix).reshape(self.n_classes, -1)[block]
        return values

    def log_determinants(self, block: Block) -> Floats:
        logs: Floats = np.linalg.slogdet(self._blocks()[block])[1]
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        return ClassFull(self._blocks()[block], np.empty(0)).row_variances(design, slice(None))

    def colour(self, noise: Floats, block: Block) -> Floats:
        flat = noise.reshape(len(noise), -1) @ np.linalg.cholesky(self.matrix).T
        return flat.reshape(noise.shape)[:, block]

    def array(self) -> Floats:
        return self.matrix

    def matrix_of(self, k: int) -> Floats:
        matrix: Floats = self._four()[k, :, k]
        return matrix

    def difference_variances(self, block: Block, base: int | None) -> Floats:
        if base is None:
            return self.variances(block)
        k, m = np.arange(self.n_classes)[block][:, None], np.arange(self._four().shape[1])
        with_base = self._four()[k, m, base, m]
        spread: Floats = super().difference_variances(block, base) - 2.0 * with_base
        return np.maximum(spread, 0.0)  # rounding

    def row_difference_variances(self, design: Design, first: int, second: int) -> Floats:
        four = self._four()
        matrix = four[first, :, first] + four[second, :, second]
        matrix = matrix - four[first, :, second] - four[second, :, first]
        return np.maximum(design.quadratic(matrix), 0.0)  # rounding

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        traces: Floats = np.einsum("bij,ij->b", self._blocks()[block], matrix)
        return traces


class Drawn(Covariance):
    """Deviations of draws from their mean, (S, K, M): a posterior of any form."""

    independent_classes = False

    in_words = "draws"

    def __init__(self, deviations: Floats) -> None:
        self.deviations = deviations

    @property
    def n_kept(self) -> int | None:
        return len(self.deviations)

    def draws(self, n: int, shape: tuple[int, int], rng: np.random.RandomState) -> Floats:
        """All that are kept, in their order; others are chosen at random, as evenly as can be."""
        kept = len(self.deviations)
        if n == kept:
            return self.deviations
        order = rng.permutation(n)
        places = order * kept // n + rng.randint(kept) if n < kept else order
        chosen: Floats = self.deviations[places % kept]
        return chosen

    def difference_variances(self, block: Block, base: int | None) -> Floats:
        spread: Floats = self._differences(block, base).var(axis=0, ddof=1, dtype=np.float64)
        return spread

    def row_difference_variances(self, design: Design, first: int, second: int) -> Floats:
        spread: Floats = self._row_differences(design, first, second).var(axis=1, ddof=1)
        return spread

    def quantiles(self, tails: Floats, block: Block, base: int | None = None) -> Floats:
        differences = self._differences(block, base).astype(np.float64)
        return quantiles_of(differences, tails)

    def row_quantiles(self, tails: Floats, design: Design, first: int, second: int) -> Floats:
        out = np.empty((len(tails), design.n))
        for rows in design.chunks(len(self.deviations)):
            some = self._row_differences(design, first, second, rows)
            out[:, rows] = quantiles_of(some, tails, axis=1)
        return out

    def _differences(self, block: Block, base: int | None) -> Floats:
        own = self.deviations[:, block]
        return own if base is None else own - self.deviations[:, base : base + 1]

    def _row_differences(
        self, design: Design, first: int, second: int, rows: slice = slice(None)
    ) -> Floats:
        """(n, S)."""
        weights = self.deviations[:, first].astype(np.float64) - self.deviations[:, second]
        return np.asarray(design.rows[rows] @ np.ascontiguousarray(weights.T))

    def variances(self, block: Block) -> Floats:
        spread: Floats = self.deviations[:, block].var(axis=0, ddof=1, dtype=np.float64)
        return spread

    def log_determinants(self, block: Block) -> Floats:
        numbers = np.arange(self.deviations.shape[1])[block]
        logs: Floats = np.linalg.slogdet([self.matrix_of(k) for k in numbers])[1]
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        some = self.deviations[:, block]
        out = np.empty((design.n, some.shape[1]))
        for k in range(some.shape[1]):
            for rows in design.chunks(len(some)):
                scores = np.asarray(design.rows[rows] @ some[:, k].T.astype(np.float64))
                out[rows, k] = scores.var(axis=1, ddof=1)
        return out

    def colour(self, noise: Floats, block: Block) -> Floats:
        raise TypeError("draws are kept and not made from noise; see `draws`")

    def array(self) -> Floats:
        return np.array([self.matrix_of(k) for k in range(self.deviations.shape[1])])

    def matrix_of(self, k: int) -> Floats:
        return np.atleast_2d(np.cov(self.deviations[:, k].astype(np.float64), rowvar=False))


class SharedDiagonal(Covariance):
    """One vector of variances for all classes (section D.4)."""

    in_words = "variances, the same for all classes"
    shared = True
    diagonal = True

    def __init__(self, values: Floats) -> None:
        self.values = values

    def variances(self, block: Block) -> Floats:
        return self.values[None]

    def log_determinants(self, block: Block) -> Floats:
        return np.array([np.log(self.values).sum()])

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.squares_product(self.values[:, None])

    def colour(self, noise: Floats, block: Block) -> Floats:
        return noise * np.sqrt(self.values)

    def array(self) -> Floats:
        return self.values


class ClassDiagonal(Covariance):
    """Variances of each class, (K, M) (section E.4)."""

    in_words = "variances per class"
    diagonal = True

    def __init__(self, values: Floats) -> None:
        self.values = values

    def variances(self, block: Block) -> Floats:
        return self.values[block]

    def log_determinants(self, block: Block) -> Floats:
        logs: Floats = np.log(self.values[block]).sum(axis=1)
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.squares_product(np.ascontiguousarray(self.values[block].T))

    def colour(self, noise: Floats, block: Block) -> Floats:
        return noise * np.sqrt(self.values[block])

    def array(self) -> Floats:
        return self.values


class Spectral(Covariance):
    """Sigma_k = T diag(s_k) T': one basis for all classes, a spectrum per class.

    A scale per class, tau_k I + X'X, changes the eigenvalues of X'X and not its eigenvectors: K + M
    vectors hold K matrices.  An intercept with a precision of its own is eliminated first, which
    leaves tau_k I + X'X - g g'/(n + p), g = X'1; see `spectral_basis`.
    """

    in_words = "one basis and a spectrum per class"

    def __init__(self, basis: Floats, spectra: Floats) -> None:
        self.basis = basis
        self.spectra = spectra

    def variances(self, block: Block) -> Floats:
        return self.spectra[block] @ np.square(self.basis).T

    def log_determinants(self, block: Block) -> Floats:
        log_basis = 2.0 * np.linalg.slogdet(self.basis)[1]
        logs: Floats = log_basis + np.log(self.spectra[block]).sum(axis=1)
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        out = np.empty((design.n, len(self.spectra[block])))
        for rows in design.chunks(design.n_columns):
            turned = np.square(design.dense(rows) @ self.basis)
            np.matmul(turned, self.spectra[block].T, out=out[rows])
        return out

    def colour(self, noise: Floats, block: Block) -> Floats:
        return (noise * np.sqrt(self.spectra[block])) @ self.basis.T

    def array(self) -> Floats:
        matrices: Floats = np.einsum("im,km,jm->kij", self.basis, self.spectra, self.basis)
        return matrices

    def matrix_of(self, k: int) -> Floats:
        matrix: Floats = (self.basis * self.spectra[k]) @ self.basis.T
        return matrix

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        turned: Floats = np.einsum("im,ij,jm->m", self.basis, matrix, self.basis)
        return self.spectra[block] @ turned


def spectral_basis(gram: Floats, intercept_precision: float | None) -> tuple[Floats, Floats]:
    """T and eigenvalues l with (tau I + X'X)^-1 = T diag(1 / (tau + l)) T'.

    With an intercept (last) of precision p, h = g / (n + p) and A = [[I, 0], [-h', 1]], block
    elimination gives Sigma = A diag((tau I + G - g g'/(n + p))^-1, 1/(n + p)) A', and the middle is
    diagonal in the eigenvectors of G - g g'/(n + p); the last eigenvalue returned is n + p.
    """
    if intercept_precision is None:
        values, vectors = np.linalg.eigh(gram)
        return vectors, np.maximum(values, 0.0)
    total = gram[-1, -1] + intercept_precision
    ratio = gram[:-1, -1] / total
    values, vectors = np.linalg.eigh(gram[:-1, :-1] - np.outer(ratio, gram[:-1, -1]))
    basis = np.zeros_like(gram)
    basis[:-1, :-1] = vectors
    basis[-1, :-1] = -ratio @ vectors
    basis[-1, -1] = 1.0
    return basis, np.append(np.maximum(values, 0.0), total)


def symmetric_inverse(matrix: Floats) -> tuple[Floats, float]:
    """Inverse of a symmetric positive definite matrix, and the logarithm of *its* determinant."""
    root, failed = dpotrf(matrix, lower=1, clean=0)
    if not failed:
        inverse, failed = dpotri(root, lower=1)
    if failed:
        raise ValueError(
            "the posterior precision is not positive definite to rounding; scale the columns of X "
            "to similar size or take a prior with a smaller scale"
        )
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    return inverse, -2.0 * float(np.log(np.diag(root)).sum())


def symmetric_inverses(matrices: Floats) -> tuple[Floats, Floats]:
    """The same for a stack of matrices, which is overwritten."""
    logs = np.empty(len(matrices))
    for k, matrix in enumerate(matrices):
        matrices[k], logs[k] = symmetric_inverse(matrix)
    return matrices, logs


#: Up to this many columns the Gram matrices of many classes are one product of pairs x_m x_l.
PAIRS_UP_TO = 256
#: Pairs held at a time.
PAIRS_CHUNK = 1 << 22


def pairs(rows: Floats, dtype: type = np.float64) -> Floats:
    """Products x_m x_l, m <= l, of each row: (n, M (M + 1) / 2).

    X' diag(w_k) X for many k is then one matrix product pairs' W, and x' Sigma_k x another: half
    the operations of a product per class, and BLAS at full speed.
    """
    n, m = rows.shape
    rows = rows.astype(dtype, copy=False)
    out = np.empty((n, m * (m + 1) // 2), dtype)
    start = 0
    for i in range(m):
        stop = start + m - i
        np.multiply(rows[:, i : i + 1], rows[:, i:], out=out[:, start:stop])
        start = stop
    return out


def packed(matrices: Floats) -> Floats:
    """Coefficients of `pairs` for x' S_k x: (M (M + 1) / 2, B); off-diagonal ones count twice."""
    m = matrices.shape[-1]
    first, second = np.triu_indices(m)
    coefficients = matrices[:, first, second].T
    return np.ascontiguousarray(coefficients * np.where(first == second, 1.0, 2.0)[:, None])


def sums_of_pairs(design: Design, weights: Floats, dtype: type) -> Floats:
    """X' diag(w_k) X of every column of `weights`, (B, M, M)."""
    m = design.n_columns
    sums = np.zeros((weights.shape[1], m * (m + 1) // 2))
    for rows in design.chunks(sums.shape[1], PAIRS_CHUNK):
        sums += weights[rows].T.astype(dtype, copy=False) @ pairs(design.dense(rows), dtype)
    out = np.empty((len(sums), m, m))
    start = 0
    for i in range(m):
        stop = start + m - i
        out[:, i, i:] = sums[:, start:stop]
        out[:, i:, i] = sums[:, start:stop]
        start = stop
    return out
