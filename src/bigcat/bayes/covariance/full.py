"""Matrices: one for all classes, one per class, one of all classes together."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance.base import Covariance
from bigcat.bayes.covariance.pairs import PAIRS_CHUNK, PAIRS_UP_TO, packed, pairs


class SharedFull(Covariance):
    """One matrix for all classes: probit with a prior that all classes share (D.3.5b)."""

    shared = True
    in_words = "one matrix for all classes"

    def __init__(self, matrix: Floats, log_determinant: float) -> None:
        self.matrix = matrix
        self.log_determinant = log_determinant

    @classmethod
    def from_precision(cls, precision: Floats) -> SharedFull:
        """Return the inverse of a precision."""
        return cls(*symmetric_inverse(precision))

    def variances(self, block: Block) -> Floats:
        return np.diag(self.matrix)[None]

    def log_determinants(self, block: Block) -> Floats:
        return np.array([self.log_determinant])

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.quadratic(self.matrix)[:, None]

    def colour(self, noise: Floats) -> Floats:
        return noise @ np.linalg.cholesky(self.matrix).T

    def array(self) -> Floats:
        return self.matrix


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

    def colour(self, noise: Floats) -> Floats:
        roots = np.linalg.cholesky(self.matrices)
        draws: Floats = np.einsum("bij,sbj->sbi", roots, noise)
        return draws

    def array(self) -> Floats:
        return self.matrices


class JointFull(Covariance):
    """One matrix for the weights of all classes together, (K M, K M): the Laplace approximation."""

    independent_classes = False
    in_words = "one matrix for the weights of all classes"

    def __init__(self, matrix: Floats, n_classes: int) -> None:
        self.matrix = matrix
        self.n_classes = int(n_classes)

    def _four(self) -> Floats:
        """Return classes and columns apart, (K, M, K, M)."""
        m = len(self.matrix) // self.n_classes
        return self.matrix.reshape(self.n_classes, m, self.n_classes, m)

    def _blocks(self) -> Floats:
        """Return the block of each class with itself, (K, M, M)."""
        blocks: Floats = np.einsum("kikj->kij", self._four())
        return blocks

    def variances(self, block: Block) -> Floats:
        values: Floats = np.diag(self.matrix).reshape(self.n_classes, -1)[block]
        return values

    def row_variances(self, design: Design, block: Block) -> Floats:
        return ClassFull(self._blocks()[block], np.empty(0)).row_variances(design, slice(None))

    def colour(self, noise: Floats) -> Floats:
        flat = noise.reshape(len(noise), -1) @ np.linalg.cholesky(self.matrix).T
        return flat.reshape(noise.shape)

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


def symmetric_inverse(matrix: Floats) -> tuple[Floats, float]:
    """Return the inverse of a positive definite matrix, and the logarithm of *its* determinant."""
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
    """Return the same for a stack of matrices, which is overwritten."""
    logs = np.empty(len(matrices))
    for k, matrix in enumerate(matrices):
        matrices[k], logs[k] = symmetric_inverse(matrix)
    return matrices, logs
