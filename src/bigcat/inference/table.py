"""Tables of estimates: plain text, HTML, LaTeX, and pandas where it is installed."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bigcat.printing import html_table, text_table

#: Rows that `repr` prints; `to_frame` and `to_latex` have all of them.
MAX_PRINTED_ROWS = 60
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


class ResultsTable:
    """Estimates of a model, one per row, with the figures of the whole model above them.

    Parameters
    ----------
    columns : mapping of str to array of shape (n,)
        Labels first, such as "class" and "feature", then numbers.
    title : str, default=""
    figures : mapping of str to value, optional
        Facts about the whole model, such as ``{"log-likelihood": -102.3, "rows": 944}``.
    notes : sequence of str, default=()
        Sentences below the table.

    Examples
    --------
    >>> from bigcat.inference import ResultsTable
    >>> table = ResultsTable(
    ...     {"feature": ["age", "income"], "estimate": [0.25, -1.5]},
    ...     title="Votes",
    ...     figures={"rows": 944},
    ... )
    >>> table
    Votes
    <BLANKLINE>
    rows  944
    <BLANKLINE>
    feature  estimate
    age        0.2500
    income    -1.5000
    >>> table["estimate"]
    array([ 0.25, -1.5 ])
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        title: str = "",
        figures: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.columns = {name: np.asarray(values) for name, values in columns.items()}
        self.title = title
        self.figures = dict(figures or {})
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), len(self.columns)

    def to_frame(self) -> Any:
        """Return a pandas.DataFrame; `figures` are in its ``attrs``."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install 'bigcat[tables]'") from error
        frame = pandas.DataFrame(self.columns)
        frame.attrs.update(self.figures)
        return frame

    def to_latex(self) -> str:
        """Return a LaTeX ``tabular`` with the rules of the package booktabs."""
        names = [_latex(name) for name in self.columns]
        body = [" & ".join(map(_latex, row)) + r" \\" for row in self._cells(len(self))]
        figures = [rf"{_latex(name)} & {_latex(_figure(v))} \\" for name, v in self.figures.items()]
        alignment = "".join("r" if right else "l" for right in self._numeric())
        lines = [
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            " & ".join(names) + r" \\",
            r"\midrule",
            *body,
            *([r"\midrule", *figures] if figures else []),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return an HTML table, with title, figures and notes around it."""
        return self._html(len(self))

    def _repr_html_(self) -> str:
        return self._html(MAX_PRINTED_ROWS)

    def _html(self, n_rows: int) -> str:
        parts = [f"<p>{html.escape(self.title)}</p>"] if self.title else []
        if self.figures:
            parts.append(
                html_table(list(self.figures), [list(map(_figure, self.figures.values()))])
            )
        parts.append(html_table(list(self.columns), self._cells(n_rows)))
        below = [*self._more(n_rows), *self.notes]
        return "".join([*parts, *(f"<p>{html.escape(text)}</p>" for text in below)])

    def __repr__(self) -> str:
        parts = [self.title] if self.title else []
        if self.figures:
            shown = [(name, _figure(value)) for name, value in self.figures.items()]
            width = max(map(len, self.figures))
            parts.append("\n".join(f"{name.ljust(width)}  {cell}" for name, cell in shown))
        if len(self):
            cells = self._cells(MAX_PRINTED_ROWS)
            parts.append(text_table(list(self.columns), cells, self._numeric()))
        below = [*self._more(MAX_PRINTED_ROWS), *self.notes]
        return "\n\n".join([*parts, *below]) or "an empty table"

    def _more(self, n_rows: int) -> list[str]:
        more = len(self) - n_rows
        return [f"... and {more:,} more rows"] if more > 0 else []

    def _numeric(self) -> list[bool]:
        return [values.dtype.kind in "iuf" for values in self.columns.values()]

    def _cells(self, n_rows: int) -> list[list[str]]:
        shown = [values[:n_rows].tolist() for values in self.columns.values()]
        return [list(map(_cell, row)) for row in zip(*shown)]


def wald_columns(
    estimates: ArrayLike,
    std_errors: ArrayLike,
    *,
    robust_std_errors: ArrayLike | None = None,
    level: float = 0.95,
) -> dict[str, np.ndarray]:
    """Return the columns of a classical table: estimate, standard errors, z, p and interval.

    Parameters
    ----------
    estimates, std_errors : arrays of shape (n,)
    robust_std_errors : array of shape (n,), optional
        z, p and the interval follow from them where they are given.
    level : float, default=0.95
        Probability of covering of the intervals; it is in the names of their columns.

    Examples
    --------
    >>> from bigcat.inference import wald_columns
    >>> list(wald_columns([1.0], [0.5], level=0.9))
    ['estimate', 'std_error', 'z', 'p_value', '5%', '95%']
    """
    estimate, error = np.asarray(estimates, float), np.asarray(std_errors, float)
    columns = {"estimate": estimate, "std_error": error}
    if robust_std_errors is not None:
        columns["robust_std_error"] = error = np.asarray(robust_std_errors, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = estimate / error
    columns |= {"z": z, "p_value": 2.0 * ndtr(-np.abs(z))}
    low, high = quantile_names(level)
    half = ndtri(0.5 + 0.5 * level) * error
    return columns | {low: estimate - half, high: estimate + half}


def tails_of(level: float) -> np.ndarray:
    """Return the two tail probabilities of an equal-tailed interval."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r} must lie between 0 and 1")
    return np.array([0.5 * (1.0 - level), 0.5 * (1.0 + level)])


def quantile_names(level: float) -> tuple[str, str]:
    """Return the names of the two ends of an equal-tailed interval: 0.9 gives "5%" and "95%"."""
    tail = 100.0 * float(tails_of(level)[0])
    return f"{tail:.6g}%", f"{100.0 - tail:.6g}%"


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else _cell(value)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return ""
    plain = value == 0.0 or 1e-3 <= abs(value) < 1e6
    return f"{value:.4f}" if plain else f"{value:.3g}"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)
