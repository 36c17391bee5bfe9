"""Early stopping: rules that end a fit before its last epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bigcat.checks import check_fraction, check_whole, is_number
from bigcat.part import Part


@dataclass(frozen=True, repr=False)
class EarlyStopping(Part):
    """Stop when a watched value no longer grows.

    Parameters
    ----------
    validation_fraction : float or None, default=0.1
        Part of the rows to hold out: their log-likelihood is watched, and the best epoch's weights
        are kept.  None watches the objective of the training rows instead, as the mean of
        `patience` epochs, since values of sampled rows and classes are noisy.
    patience : int, default=5
        Epochs without a gain after which a fit stops.
    tol : float, default=1e-4
        Gain per row, in nats, below which an epoch counts as none.  For the objective, 0 never
        stops.

    Examples
    --------
    >>> from bigcat import EarlyStopping
    >>> EarlyStopping(patience=2, tol=0.1).is_over([-3.0, -2.0, -2.0, -1.95])
    True
    """

    validation_fraction: float | None = 0.1
    patience: int = 5
    tol: float = 1e-4

    def __post_init__(self) -> None:
        if self.validation_fraction is not None:
            check_fraction(self.validation_fraction)
        check_whole("patience", self.patience)
        if not (is_number(self.tol) and 0.0 <= self.tol < math.inf):
            raise ValueError(f"tol={self.tol!r} must be a finite number of at least 0")

    def is_over(self, values: Sequence[float]) -> bool:
        """Return True if a fit with these values, one per epoch, should stop."""
        if self.validation_fraction is None:
            gain = self._mean_gain(values)
            return gain is not None and gain < self.tol
        return self._stale_epochs(values) >= self.patience

    def is_moving(self, values: Sequence[float]) -> bool:
        """Return True if the last epochs still gained."""
        if self.validation_fraction is None:
            gain = self._mean_gain(values)
            return gain is not None and gain >= self.tol
        return self._stale_epochs(values) == 0

    def _mean_gain(self, values: Sequence[float]) -> float | None:
        """Return the gain per epoch between the means of the last epochs and of as many before."""
        known, n = [value for value in values if not math.isnan(value)], self.patience
        if self.tol == 0.0 or len(known) < 2 * n:
            return None
        return (sum(known[-n:]) - sum(known[-2 * n : -n])) / n**2

    def _stale_epochs(self, values: Sequence[float]) -> int:
        """Return the epochs since one that beat all before it by `tol`."""
        best, stale = -math.inf, 0
        for value in values:
            stale = 0 if value > best + self.tol else stale + 1
            best = max(best, value)
        return stale
