"""When a noisy objective no longer grows."""

from __future__ import annotations

import math
from typing import Protocol


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

    Parameters
    ----------
    tol : float or None
        None never stops.
    patience : int

    Examples
    --------
    >>> from bigcat.training.stopping import NoGain
    >>> stop = NoGain(tol=0.1, patience=2)
    >>> [stop(value) for value in (-3.0, -2.0, -2.0, -1.95)]
    [False, False, False, True]
    """

    def __init__(self, tol: float | None, patience: int) -> None:
        self.tol, self.patience = tol, patience
        self.best, self.stale = -math.inf, 0

    def __call__(self, value: float) -> bool:
        gained = value > self.best + (self.tol or 0.0)
        self.best = max(self.best, value)
        self.stale = 0 if gained else self.stale + 1
        return self.tol is not None and self.stale >= self.patience

    @property
    def moving(self) -> bool:
        return self.tol is not None and self.stale == 0
