"""One basis for all classes, and a spectrum per class."""

from __future__ import annotations

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance.base import Covariance


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
