"""Draws in place of a formula."""

from __future__ import annotations

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes._quantiles import quantiles_of
from bigcat.bayes.covariance.base import Covariance


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
        """Return all that are kept, in their order, or as many others at random, evenly."""
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

    def kept_draws(
        self, classes: np.ndarray, columns: np.ndarray, base: int | None
    ) -> Floats | None:
        own: Floats = self.deviations[:, classes, columns]
        return own if base is None else own - self.deviations[:, base, columns]

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

    def row_variances(self, design: Design, block: Block) -> Floats:
        some = self.deviations[:, block]
        out = np.empty((design.n, some.shape[1]))
        for k in range(some.shape[1]):
            for rows in design.chunks(len(some)):
                scores = np.asarray(design.rows[rows] @ some[:, k].T.astype(np.float64))
                out[rows, k] = scores.var(axis=1, ddof=1)
        return out

    def array(self) -> Floats:
        return np.array([self.matrix_of(k) for k in range(self.deviations.shape[1])])

    def matrix_of(self, k: int) -> Floats:
        return np.atleast_2d(np.cov(self.deviations[:, k].astype(np.float64), rowvar=False))
