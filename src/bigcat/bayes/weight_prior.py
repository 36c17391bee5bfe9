"""The prior of a fit as a distribution of weights that can be drawn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats


class WeightPrior(NamedTuple):
    """Normal weights of each class, with the scales that a fit has learnt.

    Parameters
    ----------
    mean : array of shape (M,)
    precision : array of shape (1, M) or (n_classes, M)
    root : array of shape (M, M) or None
        The inverse Cholesky root of a precision that is a matrix, where `precision` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.bayes.weight_prior import WeightPrior
    >>> prior = WeightPrior(np.zeros(2), np.array([[4.0, 1.0]]))
    >>> prior.draw(10_000, np.random.RandomState(0)).std(axis=0).round(1).tolist()
    [0.5, 1.0]
    """

    mean: Floats
    precision: Floats
    root: Floats | None = None

    @classmethod
    def of_matrix(cls, mean: Floats, matrix: Floats) -> WeightPrior:
        """With a precision matrix that all classes share."""
        root: Floats = np.linalg.inv(np.linalg.cholesky(matrix))
        return cls(mean, np.ones((1, len(mean))), root=root)

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Floats:
        """The weights of all classes, (n_classes, M), of the columns that a fit saw."""
        away = rng.standard_normal((n_classes, len(self.mean))) / np.sqrt(self.precision)
        if self.root is not None:
            away = away @ self.root
        weights: Floats = self.mean + away
        return weights
