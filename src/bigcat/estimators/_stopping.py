"""When a noisy objective no longer grows."""

from __future__ import annotations

import math


class Plateau:
    """Stops a fit once the mean of the last values is hardly above that of as many before.

    Values that come from sampled rows and classes are noisy: a best value is then partly luck, and
    the means of two windows are not.

    Parameters
    ----------
    tol : float
        Gain an epoch that counts as none; 0 never stops.
    window : int
        Values in a mean.

    Examples
    --------
    >>> from bigcat.estimators._stopping import Plateau
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
        if self.tol == 0.0 or len(self.values) < 2 * self.window:
            return False
        recent = sum(self.values[-self.window :])
        before = sum(self.values[-2 * self.window : -self.window])
        return recent - before < self.tol * self.window**2
