"""Selection of a fit: its candidates and their stacking weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bigcat.printing import html_table, text_table


@dataclass(frozen=True)
class CandidateResult:
    """Candidate and its results on validation rows.

    Attributes
    ----------
    name : str
    log_likelihood : float
        Mean per validation row, in nats, of this candidate alone; NaN without validation rows.
    standard_error : float
    weight : float
        Stacking weight: what its scores are multiplied by.
    seconds : float
        Seconds of its fit without the validation rows, without compilation.
    settings : dict
        Bound, sampler, solver, rank and the like.
    calibration_error : float
        Expected calibration error of the most probable class on validation rows, of this candidate
        alone; NaN without validation rows, and for other noise than Gumbel.
    """

    name: str
    log_likelihood: float
    standard_error: float
    weight: float
    seconds: float
    settings: Mapping[str, Any] = field(repr=False)
    calibration_error: float = math.nan


@dataclass(frozen=True, repr=False)
class Selection:
    """Candidates of a fit, with their stacking weights.  Nothing in the library reads it back.

    Attributes
    ----------
    candidates : tuple of CandidateResult
    frequency_weight : float
        Stacking weight of the class frequencies.
    log_likelihood, standard_error : float
        Of the stacked model, mean per validation row, in nats.
    calibration_error : float
        Of the stacked model.
    frequency_log_likelihood : float
        Of the class frequencies on the same rows.
    n_validation_rows : int
        0 where the model is its one candidate as it stands.
    refitted : bool
        Whether candidates with a weight were fitted again, to all rows.
    reason : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> selection = LinearClassifier(random_state=0).fit(X, y).selection_
    >>> selection.n_validation_rows, [c.name for c in selection.candidates]
    (149, ['ridge path'])
    """

    candidates: tuple[CandidateResult, ...]
    frequency_weight: float = 1.0
    log_likelihood: float = math.nan
    standard_error: float = math.nan
    calibration_error: float = math.nan
    frequency_log_likelihood: float = math.nan
    n_validation_rows: int = 0
    refitted: bool = False
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and dicts, such as JSON has; None for NaN."""
        found: dict[str, Any] = _plain(asdict(self))
        return found

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Selection:
        """Return the selection that `to_dict` was called on."""
        candidates = tuple(
            CandidateResult(**{"seconds": math.nan, **_numbers(c)}) for c in values["candidates"]
        )
        return cls(**{**_numbers(values), "candidates": candidates})

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        names = ["candidate", "log-likelihood", "+-", "weight", "seconds"]
        rows = [
            (c.name, c.log_likelihood, c.standard_error, c.weight, c.seconds)
            for c in self.candidates
        ]
        if self.n_validation_rows:
            frequencies = self.frequency_log_likelihood
            rows.append(
                ("class frequencies", frequencies, math.nan, self.frequency_weight, math.nan)
            )
            rows.append(("stacked", self.log_likelihood, self.standard_error, math.nan, math.nan))
        digits = (4, 4, 2, 2)
        cells = [
            [name, *("" if math.isnan(v) else f"{v:.{d}f}" for v, d in zip(values, digits))]
            for name, *values in rows
        ]
        return names, cells

    def _title(self) -> str:
        if not self.n_validation_rows:
            return self.reason
        after = "then fitted to all rows" if self.refitted else "as fitted without them"
        return f"{self.reason}; {self.n_validation_rows:,} validation rows, {after}"

    def __repr__(self) -> str:
        names, cells = self._cells()
        return f"{self._title()}\n{text_table(names, cells, [False] + [True] * 4)}"

    def _repr_html_(self) -> str:
        return f"<p>{self._title()}</p>{html_table(*self._cells())}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in values.items()}
