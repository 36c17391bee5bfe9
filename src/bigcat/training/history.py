"""History of a fit: a row of figures per epoch."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex, overload

import numpy as np

from bigcat.printing import html_table, text_table

#: Number of printed rows of a history, and how many of them are its first ones.
PRINTED, FIRST_PRINTED = 12, 3


def _cell(value: Any) -> str:
    if not isinstance(value, float | np.floating):
        return str(value)
    return "" if math.isnan(value) else f"{value:.4g}"


class History(list[dict[str, Any]]):
    """List of one dict per epoch; a column's name as index gives that column as an array.

    Attributes
    ----------
    selection : dict or None
        For a posterior: its form, the reason, and diagnostics of its draws.
    forecast_seconds : float or None
        Forecast for all epochs of the first fit, from its first four seconds, or from its first
        epoch if that was shorter; None for solvers without stochastic passes.

    Notes
    -----
    The columns are

    - ``stage``: "fit"; with several candidates "validation" for a fit without the validation rows,
      and "refit" for a fit to all rows;
    - ``candidate`` and ``epoch``: name of the candidate, and the epoch from 1 in each of its fits;
    - ``seconds`` and ``compile_seconds``: seconds of training so far, and apart from these seconds
      of compilation;
    - ``objective``: the maximised value, mean per row as estimated in the epoch;
    - ``bound``: the same where it is a bound; NaN for an estimator;
    - ``log_likelihood``: for an estimator, whose objective is on another scale, the true mean of up
      to 4 million / K training rows after the epoch; NaN for a bound;
    - ``validation_log_likelihood``: mean per row; NaN without a validation set.

    Examples
    --------
    >>> from bigcat.estimators import History
    >>> h = History([{"epoch": 1, "bound": -2.0}, {"epoch": 2, "bound": -1.5}])
    >>> h["bound"].tolist(), h[-1]["epoch"]
    ([-2.0, -1.5], 2)
    >>> h
    2 epochs
    epoch  bound
        1     -2
        2   -1.5
    """

    def __init__(
        self,
        rows: Iterable[dict[str, Any]] = (),
        selection: dict[str, Any] | None = None,
        forecast_seconds: float | None = None,
    ) -> None:
        super().__init__(rows)
        self.selection = selection
        self.forecast_seconds = forecast_seconds

    def __repr__(self) -> str:
        title = self._title()
        names, cells = self._cells()
        return f"{title}\n{text_table(names, cells, [True] * len(names))}" if self else title

    def _repr_html_(self) -> str:
        title = f"<p>{html.escape(self._title())}</p>"
        return title + (html_table(*self._cells()) if self else "")

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame, which needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_frame makes a pandas DataFrame; install pandas, or take list(history_)"
            ) from None
        return pandas.DataFrame(list(self))

    def _title(self) -> str:
        n = len(self)
        words = [f"{n:,} epoch{'' if n == 1 else 's'}"]
        if isinstance(self.selection, Mapping) and "reason" in self.selection:
            words.append(f"selected: {self.selection['reason']}")
        return "; ".join(words)

    def _names(self) -> list[str]:
        """Return the columns that are not empty."""
        names = list(dict.fromkeys(name for row in self for name in row))
        return [name for name in names if any(_cell(row.get(name, "")) for row in self)]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        names, rows = self._names(), list(self)
        cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
        if len(cells) > PRINTED:
            dots = ["..." for _ in names]
            cells = [*cells[:FIRST_PRINTED], dots, *cells[FIRST_PRINTED - PRINTED :]]
        return names, cells

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
