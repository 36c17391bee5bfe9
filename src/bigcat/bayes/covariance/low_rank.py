"""A spectrum and a few directions per class, in one basis for all classes: for many columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance.base import Covariance

#: Numbers that a block of classes may hold while it is worked on.
BLOCK_NUMBERS = 1 << 24


class LowRank(Covariance):
    """Sigma_k = T A_k (I - R_k' C_k R_k) A_k T': a basis, and per class a diagonal and directions.

    In a basis T in which the curvatures of all classes together are diagonal, that of a single one
    nearly is; what a few rows add to it are directions.  The precision of class k is
    ``T^-T (1 / A_k) (I + R_k' S_k R_k) (1 / A_k) T^-1`` with ``C_k = S_k / (1 + S_k)``.

    Parameters
    ----------
    scales : array of shape (K, R)
        The diagonals A_k.
    directions : array of shape (K, m, R)
        R_k, whose rows are orthonormal.
    shrinkage : array of shape (K, m)
        The diagonals C_k, at least 0 and below 1.
    basis : array of shape (M, R), or (0, 0)
        T; without numbers it stands for the identity, and R = M.  Weights that are R vectors times
        an embedding of M columns have fewer columns than rows here: what they cannot be has the
        variance 0.
    """

    in_words = "a spectrum and a few directions per class"

    def __init__(
        self, scales: Floats, directions: Floats, shrinkage: Floats, basis: Floats
    ) -> None:
        n_classes, width = scales.shape
        fits = directions.shape[::2] == (n_classes, width)
        fits = fits and shrinkage.shape == directions.shape[:2]
        if not fits or (basis.size and basis.shape[1] != width):
            raise ValueError(
                f"scales {scales.shape}, directions {directions.shape}, shrinkage "
                f"{shrinkage.shape} and basis {basis.shape} do not belong together"
            )
        self.scales = scales
        self.directions = directions
        self.shrinkage = shrinkage
        self.basis = basis

    def variances(self, block: Block) -> Floats:
        scales = self.scales[block]
        squares = np.square(scales)
        if not self.basis.size:
            shrunk = np.einsum(
                "kj,kjm->km", self.shrinkage[block], np.square(self.directions[block])
            )
            variances: Floats = squares * (1.0 - shrunk)
            return variances
        out: Floats = squares @ np.square(self.basis).T
        for k, (own, directions, shrinkage) in enumerate(self._classes(block)):
            turned = (directions * own) @ self.basis.T
            out[k] -= shrinkage @ np.square(turned)
        return out

    def log_determinants(self, block: Block) -> Floats:
        if self.basis.size and self.basis.shape[0] != self.basis.shape[1]:
            return np.full(len(self.scales[block]), -np.inf)  # not all weights are free
        logs: Floats = 2.0 * np.log(self.scales[block]).sum(axis=1, dtype=np.float64)
        logs += np.log1p(-self.shrinkage[block]).sum(axis=1, dtype=np.float64)
        if self.basis.size:
            logs += 2.0 * np.linalg.slogdet(self.basis)[1]
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        scales = self.scales[block]
        n_classes, n_directions = len(scales), self.directions.shape[1]
        out = np.empty((design.n, n_classes))
        squares = np.ascontiguousarray(np.square(scales).T)
        at_a_time = max(1, BLOCK_NUMBERS // max(1, n_directions * scales.shape[1]))
        numbers = np.arange(len(self.scales))[block]
        for rows in design.chunks(max(scales.shape[1], n_directions * min(at_a_time, n_classes))):
            z = self._turned(design, rows)
            out[rows] = _squared(z) @ squares
            for start in range(0, n_classes, at_a_time):
                some = numbers[start : start + at_a_time]
                along = self.directions[some] * self.scales[some, None]
                flat = along.reshape(-1, along.shape[2])
                moved = np.asarray(z @ np.ascontiguousarray(flat.T)).reshape(
                    z.shape[0], len(some), -1
                )
                lost = np.einsum("nkj,kj->nk", np.square(moved), self.shrinkage[some])
                out[rows, start : start + len(some)] -= lost
        return np.maximum(out, 0.0, out=out)  # rounding

    def colour(self, noise: Floats, block: Block) -> Floats:
        """G u with the root G_k = T A_k (I - R_k' (1 - sqrt(1 - C_k)) R_k), G_k G_k' = Sigma_k."""
        free = noise[:, :, : self.scales.shape[1]]
        draws = self._root_times(free, block) * self.scales[block]
        return draws @ self.basis.T if self.basis.size else draws

    def _root_times(self, vectors: Floats, block: Block) -> Floats:
        """(I - R' (1 - sqrt(1 - C)) R) v."""
        out = np.empty(vectors.shape)
        for k, (_, directions, shrinkage) in enumerate(self._classes(block)):
            along = vectors[:, k] @ directions.T
            along *= 1.0 - np.sqrt(1.0 - shrinkage)
            out[:, k] = vectors[:, k] - along @ directions
        return out

    def array(self) -> Floats:
        return np.array([self.matrix_of(k) for k in range(len(self.scales))])

    def matrix_of(self, k: int) -> Floats:
        own = self.scales[k].astype(np.float64)
        along = self.directions[k] * own
        matrix: Floats = np.diag(own**2) - (along.T * self.shrinkage[k]) @ along
        return self.basis @ matrix @ self.basis.T if self.basis.size else matrix

    def _matrix_traces(self, matrix: Floats, block: Block) -> Floats:
        numbers = np.arange(len(self.scales))[block]
        return np.array([np.sum(self.matrix_of(k) * matrix) for k in numbers])

    def _classes(self, block: Block) -> Any:
        """Scales, directions and shrinkage of one class after the other, in double precision."""
        for k in np.arange(len(self.scales))[block]:
            yield (
                self.scales[k].astype(np.float64),
                self.directions[k].astype(np.float64),
                self.shrinkage[k].astype(np.float64),
            )

    def _turned(self, design: Design, rows: slice) -> Any:
        """Some rows in the basis; without one as they are, sparse ones too."""
        return np.asarray(design.rows[rows] @ self.basis) if self.basis.size else design.rows[rows]


def _squared(z: Any) -> Any:
    return np.square(z) if isinstance(z, np.ndarray) else z.multiply(z).tocsr()
