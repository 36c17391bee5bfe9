"""Interface of all forms of a covariance."""

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
        """Return diagonals, (B, M), or (1, M) where they are shared."""

    @abstractmethod
    def row_variances(self, design: Design, block: Block) -> Floats:
        """Return x_i' Sigma_k x_i, (n, B), or (n, 1) where they are shared."""

    def log_determinants(self, block: Block) -> Floats:
        """Return (B,), or (1,) where they are shared: of binary regressions, for their ELBO."""
        raise TypeError(f"{type(self).__name__} has no determinants of single classes")

    def colour(self, noise: Floats) -> Floats:
        """Turn standard normal draws (S, K, M) into draws with the covariances."""
        raise TypeError(f"{type(self).__name__} has no root to make draws from")

    @abstractmethod
    def array(self) -> Floats:
        """Return what the user sees: (M, M), (K, M, M), (M,) or (K, M)."""

    # Draws and quantiles

    @property
    def n_kept(self) -> int | None:
        """Number of draws that are kept; None where there is a formula."""
        return None

    def draws(self, n: int, shape: tuple[int, int], rng: np.random.RandomState) -> Floats:
        """Return draws of the deviations of all weights from their mean, (n, K, M)."""
        return self.colour(rng.standard_normal((n, *shape)))

    def difference_variances(self, block: Block, base: int | None) -> Floats:
        """Return variances of w_k - w_base, or of w_k: (B, M), or (1, M) where shared."""
        own = self.variances(block)
        return own if base is None else own + self.variances(slice(base, base + 1))

    def row_difference_variances(self, design: Design, first: int, second: int) -> Floats:
        """Return variances of x_i . (w_first - w_second), (n,)."""
        both = self.row_variances(design, np.array([first, second]))
        spread: Floats = np.broadcast_to(both, (design.n, 2)).sum(axis=1)
        return spread

    def quantiles(self, tails: Floats, block: Block, base: int | None = None) -> Floats:
        """Return quantiles of w_k - w_base less their mean, (T, B, M) or (T, 1, M)."""
        spread = np.sqrt(self.difference_variances(block, base))
        steps: Floats = ndtri(tails)[:, None, None] * spread
        return steps

    def kept_draws(
        self, classes: np.ndarray, columns: np.ndarray, base: int | None
    ) -> Floats | None:
        """Return draws of some weights, less those of class `base`, (S, n); None without draws."""
        return None

    def row_quantiles(self, tails: Floats, design: Design, first: int, second: int) -> Floats:
        """Return quantiles of x_i . (w_first - w_second) less their mean, (T, n)."""
        spread = np.sqrt(self.row_difference_variances(design, first, second))
        steps: Floats = ndtri(tails)[:, None] * spread
        return steps

    def matrix_of(self, k: int) -> Floats:
        """Return the matrix of class number `k`, (M, M)."""
        array = self.array()
        own = array if self.shared else array[k]
        return np.diag(own) if self.diagonal else own
