"""Several fits as one model: trained apart, added with factors that held-out rows give them."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.linear import LinearModel, weighted_sum
from bigcat.training.blend import find_factors
from bigcat.training.fit import Outcome
from bigcat.training.history import History
from bigcat.training.recipe import Recipe
from bigcat.training.sample import Sample

#: Several members that add less than this part of the gain to the best are left out: they cost
#: time and memory.
LEAST_SHARE = 0.01


@dataclass
class Member:
    """A recipe that was fitted to the rows that were not held out."""

    recipe: Recipe
    outcome: Outcome
    seconds: float = 0.0
    factor: float = 1.0

    def model(self) -> LinearModel:
        return LinearModel(self.outcome.weights, self.outcome.intercept, self.recipe.parts.noise)


def choose(
    members: list[Member], base: np.ndarray, held_out: Sample
) -> tuple[list[Member], dict[str, Any]]:
    """Members with their factors, without those that do not pay, and a report for people.

    No member is left where none of them predicts held-out rows better than class frequencies do.
    """
    started = time.perf_counter()
    alone = [find_factors([member.model()], base, held_out) for member in members]
    gains = [blend.gain if blend.pays else 0.0 for blend in alone]
    best = int(np.argmax(gains))
    chosen, gain = {best: float(alone[best].factors[0])} if gains[best] else {}, gains[best]
    paying = [i for i, blend in enumerate(alone) if blend.pays]
    if len(paying) > 1:
        together = find_factors([members[i].model() for i in paying], base, held_out)
        if together.gain - gain > LEAST_SHARE * together.gain:
            chosen = {i: float(f) for i, f in zip(paying, together.factors) if f > 0.0}
            gain = together.gain
    report = {
        "members": [
            {
                "rank": member.recipe.kind.rank,
                "bound": member.recipe.parts.bound.name,
                "gain_alone": blend.gain,
                "factor_alone": float(blend.factors[0]),
                "factor": chosen.get(i, 0.0),
                "seconds": member.seconds,
            }
            for i, (member, blend) in enumerate(zip(members, alone))
        ],
        "gain": gain,
        "held_out_rows": alone[0].n_rows,
        "seconds": time.perf_counter() - started,
    }
    for i, factor in chosen.items():
        members[i].factor = factor
    return [members[i] for i in chosen], report


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
