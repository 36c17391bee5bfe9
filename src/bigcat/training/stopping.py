"""When a fit stops before its last epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from bigcat.part import Part
from bigcat.training.checks import check_fraction, check_whole, is_number


class StoppingRule(Protocol):
    """Told each epoch's value; true when the fit should stop."""

    def __call__(self, value: float) -> bool: ...

    @property
    def moving(self) -> bool:
        """By its own measure, was the fit still gaining after the last value?"""


class Never:
    """Stops no fit.

    For rates that fall to zero at the planned end: until then values are held down by the noise of
    the steps, so that no flat part says that a fit is done, nor a rise that it is not.
    """

    moving = False

    def __call__(self, value: float) -> bool:
        return False


class Plateau:
    """Stops a fit once the mean of the last values is hardly above that of as many before.

    Values that come from sampled rows and classes are noisy: a best value is then partly luck, and
    the means of two windows are not.

    Parameters
    ----------
    tol : float
        Gain per epoch that counts as none; 0 never stops.
    window : int
        Values in a mean.

    Examples
    --------
    >>> from bigcat.training.stopping import Plateau
    >>> stop = Plateau(tol=0.01, window=2)
    >>> [stop(value) for value in (-3.0, -2.0, -1.0, -1.0, -1.0, -1.0)]
    [False, False, False, False, False, True]
    """

    def __init__(self, tol: float, window: int) -> None:
        self.tol = tol
        self.window = window
        self.values: list[float] = []

    def __call__(self, value: float) -> bool:
        """Take in an epoch's value, NaN for none; true when the fit should stop."""
        if math.isnan(value):
            return False
        self.values.append(value)
        return self._can_say and not self.moving

    @property
    def _can_say(self) -> bool:
        return self.tol > 0.0 and len(self.values) >= 2 * self.window

    @property
    def moving(self) -> bool:
        if not self._can_say:
            return False
        recent = sum(self.values[-self.window :])
        before = sum(self.values[-2 * self.window : -self.window])
        return recent - before >= self.tol * self.window**2


class NoGain:
    """Stops a fit after `patience` epochs none of which beat the best value by `tol`.

    Examples
    --------
    >>> from bigcat.training.stopping import NoGain
    >>> stop = NoGain(tol=0.1, patience=2)
    >>> [stop(value) for value in (-3.0, -2.0, -2.0, -1.95)]
    [False, False, False, True]
    """

    def __init__(self, tol: float, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.best, self.stale = -math.inf, 0

    def __call__(self, value: float) -> bool:
        gained = value > self.best + self.tol
        self.best = max(self.best, value)
        self.stale = 0 if gained else self.stale + 1
        return self.stale >= self.patience

    @property
    def moving(self) -> bool:
        return self.stale == 0


@dataclass(frozen=True, repr=False)
class EarlyStopping(Part):
    """Stop when a watched value no longer grows.

    Parameters
    ----------
    validation_fraction : float or None, default=0.1
        Part of the rows to hold out: their log-likelihood is watched, and the best epoch's weights
        are kept.  None watches the objective of the training rows instead, as the mean of
        `patience` epochs.
    patience : int, default=5
        Epochs without a gain after which a fit stops.
    tol : float, default=1e-4
        Gain per row, in nats, below which an epoch counts as none.

    Examples
    --------
    >>> from bigcat import EarlyStopping
    >>> EarlyStopping(patience=10).validation_fraction
    0.1
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

    def rule(self) -> StoppingRule:
        """Return the rule of one fit."""
        if self.validation_fraction is None:
            return Plateau(self.tol, self.patience)
        return NoGain(self.tol, self.patience)
