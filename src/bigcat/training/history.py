"""What happened in each epoch of a fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

import numpy as np


class History(list[dict[str, Any]]):
    """A list of one dict per epoch; a column's name as index gives that column as an array.

    Columns: ``epoch`` (from 1), ``seconds`` (of training, cumulative), ``compile_seconds``
    (apart, not in ``seconds``), ``objective`` (what is maximised, mean per row as estimated during
    the epoch), ``bound`` (the same where it is a bound, NaN for an estimator), ``log_likelihood``
    (for an estimator, whose objective is on another scale: the true one of up to 4 million / K
    training rows after the epoch; NaN for a bound), ``validation_log_likelihood`` (mean per row;
    NaN where there is no validation set).  ``choice`` is what ``method="auto"`` chose, with its
    ``reason`` and the trials of the learning rate; None where a method was named.
    ``forecast_seconds`` is what the first four seconds of training, or a first epoch that was
    shorter, said of all epochs: the most that the fit could take; None for solvers that do not go
    by rows.

    Examples
    --------
    >>> from bigcat.estimators import History
    >>> h = History([{"epoch": 1, "bound": -2.0}, {"epoch": 2, "bound": -1.5}])
    >>> h["bound"].tolist(), h[-1]["epoch"]
    ([-2.0, -1.5], 2)
    """

    def __init__(
        self,
        rows: Iterable[dict[str, Any]] = (),
        choice: dict[str, Any] | None = None,
        forecast_seconds: float | None = None,
    ) -> None:
        super().__init__(rows)
        self.choice = choice
        self.forecast_seconds = forecast_seconds

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...

    def __getitem__(
        self, key: str | SupportsIndex | slice
    ) -> np.ndarray | dict[str, Any] | list[dict[str, Any]]:
        if isinstance(key, str):
            return np.array([row[key] for row in self])
        return super().__getitem__(key)
