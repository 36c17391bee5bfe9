"""Prior of independent binary regressions: one precision per column, for all classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bigcat.bayes._arrays import Floats

#: Bounds of a learned precision, for rows that say that all weights are 0, or bound none.
MIN_PRECISION, MAX_PRECISION = 1e-8, 1e8


def best_precision(count: float, squares: float) -> float:
    """Return the precision of `count` weights with a sum of expected squares.

    The ELBO depends on the precision t of N weights by N/2 log t - t/2 sum E[w^2], so the best one
    is t = N / sum E[w^2], where E[w^2] is mean^2 + variance.
    """
    return float(np.clip(count / max(squares, 1e-300), MIN_PRECISION, MAX_PRECISION))


class BinaryPrior:
    """Independent weights N(mean, 1 / precision), the same for all classes.

    Parameters
    ----------
    n_classes : int
    mean, precision : arrays of shape (M,)
    groups : sequence of slices
        Columns that have one learned precision each; none for known precisions.
    """

    def __init__(
        self, n_classes: int, mean: Floats, precision: Floats, groups: Sequence[slice] = ()
    ) -> None:
        self.n_classes, self.mean, self.precision = n_classes, mean, precision
        self.groups = groups

    @property
    def learned(self) -> bool:
        """True if precisions are learned."""
        return bool(self.groups)

    def energy(self, squares: Floats) -> float:
        """Learn precisions, and return E[log p(B)] without its factors of 2 pi.

        `squares` are E[(b - mean)^2] summed over classes, (M,).
        """
        for group in self.groups:
            count = self.n_classes * squares[group].size
            self.precision[group] = best_precision(count, squares[group].sum())
        logs = self.n_classes * np.log(self.precision)
        return 0.5 * float((logs - self.precision * squares).sum())
