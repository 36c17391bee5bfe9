"""Independent weights."""

from __future__ import annotations

import numpy as np

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._design import Design
from bigcat.bayes.covariance.base import Covariance


class SharedDiagonal(Covariance):
    """One vector of variances for all classes (section D.4)."""

    in_words = "variances, the same for all classes"
    shared = True
    diagonal = True

    def __init__(self, values: Floats) -> None:
        self.values = values

    def variances(self, block: Block) -> Floats:
        return self.values[None]

    def log_determinants(self, block: Block) -> Floats:
        return np.array([np.log(self.values).sum()])

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.squares_product(self.values[:, None])

    def colour(self, noise: Floats) -> Floats:
        return noise * np.sqrt(self.values)

    def array(self) -> Floats:
        return self.values


class ClassDiagonal(Covariance):
    """Variances of each class, (K, M) (section E.4)."""

    in_words = "variances per class"
    diagonal = True

    def __init__(self, values: Floats) -> None:
        self.values = values

    def variances(self, block: Block) -> Floats:
        return self.values[block]

    def log_determinants(self, block: Block) -> Floats:
        logs: Floats = np.log(self.values[block]).sum(axis=1)
        return logs

    def row_variances(self, design: Design, block: Block) -> Floats:
        return design.squares_product(np.ascontiguousarray(self.values[block].T))

    def colour(self, noise: Floats) -> Floats:
        return noise * np.sqrt(self.values)

    def array(self) -> Floats:
        return self.values
