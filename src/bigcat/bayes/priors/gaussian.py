"""Gaussian prior with known scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bigcat.bayes._arrays import Floats
from bigcat.bayes.priors.base import Prior, check_positive
from bigcat.bayes.priors.binary import BinaryPrior
from bigcat.bayes.priors.chains import PriorChain


@dataclass(frozen=True, repr=False)
class GaussianPrior(Prior):
    """Independent weights, N(mean, 1 / precision), the same for all classes.

    Parameters
    ----------
    mean : float or array of shape (n_features,) or (n_features + 1,), default=0.0
    scale : float, default=1.0
        Standard deviation of every weight, used where `precision` is None.
    precision : float, array of shape (n_features,) or (n_features + 1,), or None, default=None
        The intercept's is last.
    intercept_scale : float or None, default=None
        Standard deviation of the intercept; None is that of the other weights, as in the paper.

    Examples
    --------
    >>> from bigcat.bayes import GaussianPrior
    >>> prior = GaussianPrior(scale=2.0, intercept_scale=10.0).bind(5, 3, True)
    >>> prior.precision.tolist()
    [0.25, 0.25, 0.01]
    """

    name: ClassVar[str] = "gaussian"

    mean: float | ArrayLike = 0.0
    scale: float = 1.0
    precision: float | ArrayLike | None = None
    intercept_scale: float | None = None

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        if self.intercept_scale is not None:
            check_positive("intercept_scale", self.intercept_scale)
        if np.ndim(self.mean) == 0:  # arrays have to fit the data: `bind` checks them
            _full("mean", self.mean, 1, False, 0.0)
        if self.precision is not None and np.ndim(self.precision) == 0:
            _check_precision(_full("precision", self.precision, 1, False, 1.0))

    def one_scale(self) -> tuple[float, float] | None:
        """Return standard deviations of weights and intercepts; None unless these are all."""
        if np.any(np.asarray(self.mean) != 0.0):
            return None
        scale = self.scale
        if self.precision is not None:
            precision = np.asarray(self.precision)
            if precision.ndim > 0:
                return None
            scale = float(precision) ** -0.5
        own = self.intercept_scale
        return float(scale), float(scale if own is None else own)

    def _arrays(self, n_columns: int, intercept: bool) -> tuple[Floats, Floats]:
        """Return mean and precision, (M,)."""
        given = 1.0 / self.scale**2 if self.precision is None else self.precision
        mean = _full("mean", self.mean, n_columns, intercept, 0.0)
        precision = _full("precision", given, n_columns, intercept, 1.0)
        if intercept and np.ndim(self.mean) == 0:
            mean[-1] = 0.0
        if intercept and self.intercept_scale is not None:
            precision[-1] = 1.0 / float(self.intercept_scale) ** 2
        _check_precision(precision)
        return mean, precision

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> BinaryPrior:
        """Return the prior of binary regressions."""
        return BinaryPrior(n_classes, *self._arrays(n_columns, intercept))

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        """Return the prior as chains see it."""
        arrays = self._arrays(n_features + intercept, intercept)
        return PriorChain(*arrays, n_chains, has_intercept=intercept)


def _full(name: str, given: ArrayLike, n_columns: int, intercept: bool, last: float) -> Floats:
    """Return numbers of all columns; `last` is the intercept's if an array leaves it out."""
    values = np.asarray(given, np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"the {name} of the prior holds NaN or inf; give finite numbers")
    if values.ndim == 0:
        return np.full(n_columns, float(values))
    if intercept and values.shape == (n_columns - 1,):
        return np.append(values, last)
    if values.shape != (n_columns,):
        also = f" or {n_columns - 1} without the intercept" if intercept else ""
        raise ValueError(
            f"{name} of the prior has shape {values.shape}; give a number or an array for "
            f"{n_columns} columns{also}"
        )
    return values.copy()


def _check_precision(precision: Floats) -> None:
    if not (precision > 0.0).all():
        raise ValueError("the precision of the prior must be above 0 for every column")
