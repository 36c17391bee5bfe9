"""Several fits as one model: trained apart, added with factors that held-out rows give them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.linear import LinearModel, weighted_sum
from bigcat.noise import Noise
from bigcat.training.blend import find_factors
from bigcat.training.fit import Outcome
from bigcat.training.history import History
from bigcat.training.record import Before
from bigcat.training.sample import Sample

#: Several members that add less than this part of the gain to the best are left out: they cost
#: time and memory.
LEAST_SHARE = 0.01


@dataclass
class Member:
    """A fit to the rows that were not held out.

    Parameters
    ----------
    what : str
        What it is, for people; of members that are the same, the best alone is taken.
    learning_rate : float, "auto" or None
    noise : Noise
    outcome : Outcome
    again : callable
        Told what went on before, gives the outcome with all rows.
    seconds : float
    factor : float
    """

    what: str
    learning_rate: float | str | None
    noise: Noise
    outcome: Outcome
    again: Callable[[Before], Outcome]
    seconds: float = 0.0
    factor: float = 0.0

    def model(self) -> LinearModel:
        return LinearModel(self.outcome.weights, self.outcome.intercept, self.noise)


def choose(
    members: list[Member], base: np.ndarray, held_out: Sample
) -> tuple[list[Member], dict[str, Any]]:
    """Members with their factors, without those that do not pay, and a report for people.

    No member is left where none of them predicts held-out rows better than class frequencies do.
    """
    started = time.perf_counter()
    alone = [find_factors([member.model()], base, held_out) for member in members]
    best_of: dict[str, int] = {}
    for i in sorted(range(len(members)), key=lambda i: -alone[i].gain):
        if alone[i].pays:
            best_of.setdefault(members[i].what, i)
    paying = list(best_of.values())  # the best comes first
    chosen = paying[:1]
    factors = alone[chosen[0]].factors if chosen else np.empty(0)
    gain = alone[chosen[0]].gain if chosen else 0.0
    if len(paying) > 1:
        together = find_factors([members[i].model() for i in paying], base, held_out)
        if together.gain - gain > LEAST_SHARE * together.gain:
            chosen, factors, gain = paying, together.factors, together.gain
    for i, factor in zip(chosen, factors):
        members[i].factor = float(factor)
    report = {
        "members": [
            {
                "what": member.what,
                "learning_rate": member.learning_rate,
                "gain_alone": blend.gain,
                "factor_alone": float(blend.factors[0]),
                "factor": member.factor,
                "seconds": member.seconds,
            }
            for member, blend in zip(members, alone)
        ],
        "gain": gain,
        "held_out_rows": alone[0].n_rows,
        "seconds": time.perf_counter() - started,
    }
    return [members[i] for i in sorted(chosen) if members[i].factor > 0.0], report


def add_up(members: list[Member], base: np.ndarray) -> Outcome:
    """One outcome whose scores are ``base + sum of factor (scores - base)``."""
    first = members[0].outcome
    factors = [member.factor for member in members]
    intercept = base + sum(f * (m.outcome.intercept - base) for f, m in zip(factors, members))
    weights = weighted_sum(factors, [member.outcome.weights for member in members])
    rows = sorted((row for m in members for row in m.outcome.history), key=lambda r: r["epoch"])
    history = History(rows, None, first.history.forecast_seconds)
    return replace(
        first,
        weights=weights,
        intercept=np.asarray(intercept, np.float32),
        history=history,
        resume=first.resume if len(members) == 1 and factors[0] == 1.0 else None,
    )


def as_frequencies(outcome: Outcome, base: np.ndarray, n_rows: int) -> Outcome:
    """A model that predicts class frequencies, and says so."""
    warnings.warn(
        f"on {n_rows:,} held-out rows nothing was gained over class frequencies, so the model "
        "predicts those whatever the row; look at the features, or give the fit more rows",
        UserWarning,
        stacklevel=6,
    )
    intercept = base.astype(np.float32)
    return replace(outcome, weights=outcome.weights.multiplied(0.0), intercept=intercept)
