"""The covariance of weights that are linear maps of others, w = T v: those of unscaled columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance.base import Covariance


class Turned(Covariance):
    """T Sigma_k T' for one sparse matrix T.

    The variance of weight m is that of the score of a row T_m, which every form can compute.
    """

    def __init__(self, inner: Covariance, turn: Any) -> None:
        self.inner, self.turn = inner, turn
        self.shared, self.independent_classes = inner.shared, inner.independent_classes
        self.in_words = inner.in_words  # type: ignore[misc]

    def variances(self, block: Block) -> Floats:
        return self.inner.row_variances(self._rows(), block).T

    def difference_variances(self, block: Block, base: int | None) -> Floats:
        if base is None:
            return self.variances(block)
        rows, size = self._rows(), self.turn.shape[0]
        numbers = np.arange(block.stop)[block] if isinstance(block, slice) else block
        out = np.empty((len(numbers), size))
        for place, k in enumerate(numbers):
            out[place] = self.inner.row_difference_variances(rows, k, base)
        return out

    def row_variances(self, design: Design, block: Block) -> Floats:
        return self.inner.row_variances(Design(design.rows @ self.turn, False), block)

    def array(self) -> Floats:
        inner = self.inner.array()
        size = self.turn.shape[0]
        if inner.ndim == 2 and len(inner) > size:  # of all weights together
            many = np.kron(np.eye(len(inner) // size), self.turn.toarray())
            joint: Floats = many @ inner @ many.T
            return joint
        if self.inner.diagonal:
            inner = np.array([np.diag(values) for values in np.atleast_2d(inner)])
        dense = self.turn.toarray()
        matrices: Floats = dense @ inner @ dense.T
        return matrices

    def matrix_of(self, k: int) -> Floats:
        matrix: Floats = self.turn @ self.inner.matrix_of(k) @ self.turn.T
        return matrix

    def _rows(self) -> Design:
        return Design(self.turn, False)
