"""Interface of all priors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes.priors.binary import BinaryPrior
from bigcat.bayes.priors.chains import PriorChain
from bigcat.part import Part


class WeightPrior(NamedTuple):
    """Normal weights of each class, with the scales that a fit has learned.

    Parameters
    ----------
    mean : array of shape (M,)
    precision : array of shape (1, M) or (n_classes, M)

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.bayes.priors import WeightPrior
    >>> prior = WeightPrior(np.zeros(2), np.array([[4.0, 1.0]]))
    >>> prior.draw(10_000, np.random.RandomState(0)).std(axis=0).round(1).tolist()
    [0.5, 1.0]
    """

    mean: Floats
    precision: Floats

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Floats:
        """Return weights of all classes, (n_classes, M), for the columns that a fit has seen."""
        away = rng.standard_normal((n_classes, len(self.mean))) / np.sqrt(self.precision)
        weights: Floats = self.mean + away
        return weights


@dataclass(frozen=True, repr=False)
class Prior(Part, ABC):
    """Interface of all priors: small frozen objects that are bound to a problem by a fit."""

    name: ClassVar[str]
    #: True if its scales are learned from all rows.
    learned: ClassVar[bool] = False
    #: True if it belongs to columns in units of their own, centred.
    in_units_of_columns: ClassVar[bool] = False

    @abstractmethod
    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> BinaryPrior:
        """Return the prior of binary regressions; ValueError if there is none."""

    def one_scale(self) -> tuple[float, float] | None:
        """Return standard deviations of weights and intercepts; None unless these are all."""
        return None

    @abstractmethod
    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        """Return the prior as chains see it.

        `squared_length` is the mean squared length of rows of scaled columns.
        """


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless a number is finite and above 0."""
    if not (np.isscalar(value) and np.isreal(value) and 0.0 < float(value) < np.inf):  # type: ignore[arg-type]
        raise ValueError(f"{name}={value!r} of the prior must be a finite number above 0")
