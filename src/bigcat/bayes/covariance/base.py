"""What every form of a covariance answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design


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

    def kept_draws(
        self, classes: np.ndarray, columns: np.ndarray, base: int | None
    ) -> Floats | None:
        """Draws of some weights, less those of class `base`, (S, n); None where none are kept."""
        return None

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
