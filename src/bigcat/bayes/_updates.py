"""The closed-form pieces of an iteration: precisions, Gram matrices, preconditioners."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bigcat.bayes import _newton
from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import (
    PAIRS_UP_TO,
    ClassDiagonal,
    ClassFull,
    Covariance,
    SharedDiagonal,
    SharedFull,
    Spectral,
    spectral_basis,
    sums_of_pairs,
    symmetric_inverses,
)
from bigcat.bayes.priors import PriorState


class Precisions:
    """X'X, or its diagonal, beside the prior's precision: covariances and preconditioners.

    An (M, M) matrix is formed only for a full covariance.
    """

    def __init__(self, design: Design, prior: PriorState, full: bool) -> None:
        self.design = design
        self.prior = prior
        self.full = full
        self.gram = design.gram() if full else np.empty((0, 0))
        self.gram_diagonal = np.diag(self.gram).copy() if full else design.squared_sums()
        self.refresh()

    def refresh(self) -> None:
        """After the prior's shared precision has changed."""
        prior = self.prior
        self.basis: Floats | None = None
        if not self.full or prior.sharing == "coordinate":
            return
        if prior.sharing == "class":
            if not hasattr(self, "_class_basis"):  # it does not depend on the scales
                self._class_basis = spectral_basis(self.gram, prior.intercept_precision)
            self.basis, self.eigenvalues = self._class_basis
            return
        # P = R R', R^-1 G R^-T = U diag(l) U', T = R^-T U: c G + P = T^-T diag(c l + 1) T^-1.
        precision = prior.precision(slice(0, 1))
        if prior.is_matrix:
            inverse_root = np.linalg.inv(np.linalg.cholesky(precision))
        else:
            inverse_root = np.diag(1.0 / np.sqrt(precision[:, 0]))
        values, vectors = np.linalg.eigh(inverse_root @ self.gram @ inverse_root.T)
        self.basis, self.eigenvalues = inverse_root.T @ vectors, np.maximum(values, 0.0)

    def diagonal(self, classes: Block) -> Floats:
        """Diagonals of the prior's precision, (M, 1) or (M, B)."""
        precision = self.prior.precision(classes)
        return np.diag(precision)[:, None] if self.prior.is_matrix else precision

    def probit_covariance(self, n_classes: int) -> Covariance:
        """(P_k + X'X)^-1, or the inverse of its diagonal (D.3.5b, D.4)."""
        prior, everyone = self.prior, slice(0, n_classes)
        if not self.full:
            total = self.diagonal(everyone) + self.gram_diagonal[:, None]
            if prior.sharing == "shared":
                return SharedDiagonal(1.0 / total[:, 0])
            return ClassDiagonal(np.ascontiguousarray(1.0 / total.T))
        if prior.sharing == "shared":
            precision = prior.precision(everyone)
            matrix = precision if prior.is_matrix else np.diag(precision[:, 0])
            return SharedFull.from_precision(matrix + self.gram)
        if prior.sharing == "class":
            assert self.basis is not None
            total = self.eigenvalues + prior.scales()[:, None]
            if prior.intercept_precision is not None:
                total[:, -1] = self.eigenvalues[-1]
            return Spectral(self.basis, 1.0 / total)
        grams = np.broadcast_to(self.gram, (n_classes, *self.gram.shape))
        return ClassFull(*class_covariances(grams, prior, everyone))

    def preconditioner(self, classes: np.ndarray, curvature: Floats) -> _newton.Preconditioner:
        """About (X' diag(h_k) X + P_k)^-1: with the mean of h, or with the diagonal."""
        if self.basis is None:
            sums = self._curved_diagonal(curvature)
            return _newton.diagonal_preconditioner(sums + self.diagonal(classes))
        level = self._level(curvature)
        scaled = self.eigenvalues[:, None] * level
        if self.prior.sharing == "shared":
            return _newton.spectral_preconditioner(self.basis, scaled + 1.0)
        scaled = scaled + self.prior.precision(classes)
        if self.prior.intercept_precision is not None:
            free = self.prior.intercept_precision
            n = self.eigenvalues[-1] - free
            scaled[-1] = n * level + free
        return _newton.spectral_preconditioner(self.basis, scaled)

    def _curved_diagonal(self, curvature: Floats) -> Floats:
        """sum_i h_ik x_im^2, exactly for sparse rows, by the mean of h for dense ones."""
        if self.design.sparse:
            return self.design.squares_transposed(curvature)
        return self.gram_diagonal[:, None] * self._level(curvature)

    def _level(self, curvature: Floats) -> Floats:
        """Mean of h, of which `curvature` is the multiple by the rows' weights, (B,)."""
        level: Floats = curvature.sum(axis=0, dtype=np.float64) / self.design.total_weight
        return level


#: Products of pairs above which they are taken in float32, and the largest |x| for which they are.
ROUGH_ABOVE = 1 << 31
ROUGH_BELOW = 1e6


def pairs_dtype(design: Design, n_classes: int) -> type:
    """Precision of the products that make the logit's covariances.

    Above a few seconds' work float32 halves it.  The relative error of a covariance is then about
    1e-7, and of the ELBO, which is flat at its optimum, about 1e-9; `evaluate` uses float64.
    """
    m = design.n_columns
    large = design.n * n_classes * m * (m + 1) // 2 > ROUGH_ABOVE
    if not large or m > PAIRS_UP_TO:
        return np.float64
    values = design.rows.data if design.sparse else design.rows
    moderate = max(values.max(initial=0.0), -values.min(initial=0.0)) < ROUGH_BELOW
    return np.float32 if moderate else np.float64


def weighted_grams(design: Design, weights: Floats, dtype: type) -> Floats:
    """X' diag(w_k) X of every class, (B, M, M); `weights` hold the rows' own."""
    m = design.n_columns
    if m > PAIRS_UP_TO:
        return np.stack([design.gram(w) for w in np.ascontiguousarray(weights.T)])
    return sums_of_pairs(design, weights, dtype)


def class_covariances(grams: Floats, prior: PriorState, classes: Block) -> tuple[Floats, Floats]:
    """(P_k + G_k)^-1, (B, M, M), and the logarithms of their determinants."""
    precision = prior.precision(classes)
    if prior.is_matrix:
        return symmetric_inverses(grams + precision)
    total = np.array(grams)
    diagonal = np.arange(total.shape[1])
    total[:, diagonal, diagonal] += precision.T
    return symmetric_inverses(total)


def apply_covariance(covariance: Covariance, right: Floats, classes: Block) -> Floats:
    """Sigma_k r_k for the columns of `right`, (M, B)."""
    if isinstance(covariance, SharedFull):
        return covariance.matrix @ right
    if isinstance(covariance, Spectral):
        inner = covariance.spectra[classes].T * (covariance.basis.T @ right)
        return covariance.basis @ inner
    assert isinstance(covariance, ClassFull)
    product: Floats = np.einsum("bij,jb->ib", covariance.matrices[classes], right)
    return product


def signed_sums(eta: Floats, labels: np.ndarray, weights: Floats, classes: np.ndarray) -> Floats:
    """sum_i s_i (y_ik - 1/2) eta_ik, (B,)."""
    own = np.flatnonzero((labels >= classes[0]) & (labels <= classes[-1]))
    columns = np.searchsorted(classes, labels[own])
    found = classes[np.minimum(columns, len(classes) - 1)] == labels[own]
    own, columns = own[found], columns[found]
    return np.bincount(columns, weights[own] * eta[own, columns], len(classes)) - 0.5 * (
        weights @ eta
    )


def constant_scores(design: Design, mean: Floats) -> Floats | None:
    """The scores of sparse rows where only intercepts differ from zero, else None."""
    weights = mean[:-1] if design.intercept else mean
    if not design.sparse or weights.any():
        return None
    level = mean[-1] if design.intercept else np.zeros(mean.shape[1])
    return np.ascontiguousarray(np.broadcast_to(level, (design.n, mean.shape[1])))


def two_valued_transposed(
    design: Design, values: Floats, labels: np.ndarray, classes: np.ndarray
) -> Floats:
    """X' R where column k of R has one value for rows of class k and one for all others.

    Section D.5, which has it for scores of zero: X'R = (X'1) r_rest + (X'Y) (r_own - r_rest), sums
    of rows instead of a product with n x B numbers.  With an intercept scores are not zero but
    equal, which is as good.
    """
    own = np.flatnonzero(np.isin(labels, classes))
    columns = np.searchsorted(classes, labels[own])
    other = labels[0] == classes  # a row of another class, for each class
    rest_row = np.zeros(len(classes), np.int64)
    if other.any():
        rest_row[other] = int(np.argmax(labels != labels[0]))
    rest = values[rest_row, np.arange(len(classes))]
    difference = values[own, columns] - rest[columns]
    shape = (len(classes), design.n)
    indicator = scipy.sparse.csr_array((difference, (columns, own)), shape=shape)
    product: Floats = np.outer(design.sums(), rest) + (indicator @ design.rows).toarray().T
    return product
