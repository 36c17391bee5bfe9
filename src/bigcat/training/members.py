"""Several fits as one model: trained apart, added with factors that held-out rows give them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.caller import warn_caller
from bigcat.linear import FullRankWeights, LinearModel, weighted_sum
from bigcat.noise import Noise
from bigcat.training.blend import Blend, find_factors
from bigcat.training.fit import Outcome
from bigcat.training.history import History
from bigcat.training.record import Before
from bigcat.training.sample import Sample
from bigcat.training.task import Task

#: Several members that add less than this part of the gain to the best are left out: they cost
#: time and memory.
LEAST_SHARE = 0.01
#: A member with a factor below the first of these has learned rows by heart, and the next learns
#: more slowly, a little so below the second; one with a factor above the last learned too little.
TOO_SURE, RATHER_SURE, TIMID = 0.75, 0.95, 1.0


@dataclass
class Member:
    """A fit to the rows that were not held out, or several whose scores are averaged.

    Parameters
    ----------
    what : str
        What it is, for people; of members that are the same, the best alone is taken.
    learning_rate : float, "auto" or None
    noise : Noise
    fits : list of Outcome
    complete : callable
        Given one of the fits, and what went on before, gives the fit with all rows.
    again : callable
        Given a task with other rows, gives such a fit to these.
    seconds : float
    factor : float
        Its part in the sum.
    alone : Blend or None
        How far it is trusted where there is no other (`judge`).
    """

    what: str
    learning_rate: float | str | None
    noise: Noise
    fits: list[Outcome]
    complete: Callable[[Outcome, Before], Outcome]
    again: Callable[[Task], Outcome]
    seconds: float = 0.0
    factor: float = 0.0
    alone: Blend | None = None

    @property
    def outcome(self) -> Outcome:
        return averaged(self.fits)

    def model(self) -> LinearModel:
        outcome = self.outcome
        return LinearModel(outcome.weights, outcome.intercept, self.noise)

    def judge(self, base: np.ndarray, held_out: Sample) -> Blend:
        if self.alone is None:
            self.alone = find_factors([self.model()], base, held_out)
        return self.alone

    def is_too_sure(self, base: np.ndarray, held_out: Sample) -> bool:
        """Has it learned something, and believes it too much?"""
        return bool(0.0 < self.judge(base, held_out).factors[0] < TOO_SURE)

    def is_rather_sure(self, base: np.ndarray, held_out: Sample) -> bool:
        """The same, to a lesser degree."""
        return bool(0.0 < self.judge(base, held_out).factors[0] < RATHER_SURE)

    def is_timid(self, base: np.ndarray, held_out: Sample) -> bool:
        """Has it learned something, and should say it louder?"""
        alone = self.judge(base, held_out)
        return bool(alone.pays and alone.factors[0] > TIMID)

    def gains_on(self, others: list[Member], base: np.ndarray, held_out: Sample) -> bool:
        """Is it worth more than each of others?"""
        gains = [other.judge(base, held_out).gain for other in others]
        return self.judge(base, held_out).gain > max(gains, default=0.0)

    def beats_sum_of(self, others: list[Member], base: np.ndarray, held_out: Sample) -> bool:
        """Is it worth more than others together?"""
        together = find_factors([other.model() for other in others], base, held_out)
        return self.judge(base, held_out).gain > together.gain

    def adds_to(self, others: list[Member], base: np.ndarray, held_out: Sample) -> bool:
        """Is it worth while beside the best of others?"""
        best = best_of(others, base, held_out)
        gain = best.judge(base, held_out).gain
        together = find_factors([best.model(), self.model()], base, held_out).gain
        return together - gain > LEAST_SHARE * together

    def knows_all(self, base: np.ndarray, held_out: Sample) -> bool:
        """Is so little left to know that nobody could add anything worth while?"""
        alone = self.judge(base, held_out)
        return alone.left <= LEAST_SHARE * alone.gain

    def after(self, before: Before) -> Before:
        """What went on when it was done."""
        history = self.fits[-1].history
        return Before.after(history) if history else before.and_then(Before(seconds=self.seconds))

    def with_more(self, others: list[Member]) -> Member:
        """The average of its own fit and those of others."""
        seconds = self.seconds + sum(other.seconds for other in others)
        fits = [*self.fits, *(fit for other in others for fit in other.fits)]
        what = f"{len(fits)} x {self.what}"
        return replace(self, what=what, fits=fits, seconds=seconds, alone=None)

    def let_go(self) -> None:
        """Keep figures and history, but no weights, of a fit that will not be taken."""
        for fit in self.fits:
            fit.weights, fit.resume = FullRankWeights(np.empty((0, 0), np.float32)), None

    def on_all_rows(self, before: Before) -> Before:
        """Complete the fits; gives what went on until then."""
        for i, fit in enumerate(self.fits):
            self.fits[i] = self.complete(fit, before)
            history = self.fits[i].history
            before = Before.after(history) if history else before
        return before


def let_go_of_worse(members: list[Member], base: np.ndarray, held_out: Sample) -> None:
    """Of fits of the same kind only the best is ever taken (`choose`)."""
    best = best_of(members, base, held_out)
    for member in members:
        if member is not best:
            member.let_go()


def best_of(members: list[Member], base: np.ndarray, held_out: Sample) -> Member:
    """The one that is worth most by itself, if it pays at all; of equal ones the first."""

    def worth(member: Member) -> tuple[bool, float]:
        alone = member.judge(base, held_out)
        return alone.pays, alone.gain

    return max(members, key=worth)


def choose(
    members: list[Member], base: np.ndarray, held_out: Sample
) -> tuple[list[Member], dict[str, Any]]:
    """Members with their factors, without those that do not pay, and a report for people.

    No member is left where none of them predicts held-out rows better than class frequencies do.
    """
    started = time.perf_counter()
    alone = [member.judge(base, held_out) for member in members]
    best_of: dict[str, int] = {}
    for i in sorted(range(len(members)), key=lambda i: -alone[i].gain):
        if alone[i].pays:
            best_of.setdefault(members[i].what, i)
    paying = list(best_of.values())  # the best comes first
    chosen = paying[:1]
    blend = alone[chosen[0]] if chosen else Blend(np.empty(0), 0.0, 0.0, 0.0, 0)
    if len(paying) > 1:
        together = find_factors([members[i].model() for i in paying], base, held_out)
        if together.gain - blend.gain > LEAST_SHARE * together.gain:
            chosen, blend = paying, together
    for i, factor in zip(chosen, blend.factors):
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
        "gain": blend.gain,
        "gain_error": blend.gain_error,
        "held_out_rows": alone[0].n_rows,
        "seconds": time.perf_counter() - started,
    }
    return [members[i] for i in sorted(chosen) if members[i].factor > 0.0], report


def in_words(chosen: list[Member]) -> str:
    """What held-out rows made of the members, for people."""
    if not chosen:
        return "held-out rows gain nothing from it, so class frequencies are all there is"
    if len(chosen) == 1:
        return f"held-out rows ask for {chosen[0].factor:.2f} times the scores of {chosen[0].what}"
    *first, last = (f"{member.factor:.2f} times those of {member.what}" for member in chosen)
    return f"held-out rows ask for a sum of scores: {', '.join(first)} and {last}"


def averaged(outcomes: list[Outcome]) -> Outcome:
    """One outcome whose scores are the mean of those of some fits."""
    if len(outcomes) == 1:
        return outcomes[0]
    share = 1.0 / len(outcomes)
    first = outcomes[0]
    rows = [row for outcome in outcomes for row in outcome.history]
    return replace(
        first,
        weights=weighted_sum([share] * len(outcomes), [outcome.weights for outcome in outcomes]),
        intercept=np.mean([outcome.intercept for outcome in outcomes], axis=0),
        history=History(rows, first.history.choice, first.history.forecast_seconds),
        resume=None,  # of one fit
    )


def add_up(members: list[Member], base: np.ndarray) -> Outcome:
    """One outcome whose scores are ``base + sum of factor (scores - base)``."""
    fits = [fit for member in members for fit in member.fits]
    factors = [member.factor / len(member.fits) for member in members for _ in member.fits]
    first = fits[0]
    intercept = base + sum(f * (fit.intercept - base) for f, fit in zip(factors, fits))
    weights = weighted_sum(factors, [fit.weights for fit in fits])
    rows = sorted((row for fit in fits for row in fit.history), key=lambda r: r["epoch"])
    history = History(rows, None, first.history.forecast_seconds)
    return replace(
        first,
        weights=weights,
        intercept=np.asarray(intercept, np.float32),
        history=history,
        resume=first.resume if len(fits) == 1 and factors[0] == 1.0 else None,
    )


def followed(outcome: Outcome, factor: float, base: np.ndarray, n_rows: int) -> Outcome:
    """A fit whose departure from class frequencies counts for this part, if that is not all."""
    if factor == 1.0:
        return outcome
    if factor == 0.0:
        return as_frequencies(outcome, base, n_rows)
    intercept = (base + factor * (outcome.intercept - base)).astype(np.float32)
    weights = outcome.weights.multiplied(factor)
    return replace(outcome, weights=weights, intercept=intercept, resume=None)


def as_frequencies(outcome: Outcome, base: np.ndarray, n_rows: int) -> Outcome:
    """A model that predicts class frequencies, and says so."""
    warn_caller(
        f"on {n_rows:,} held-out rows nothing was gained over class frequencies, so the model "
        "predicts those whatever the row; look at the features, or give the fit more rows"
    )
    intercept = base.astype(np.float32)
    return replace(outcome, weights=outcome.weights.multiplied(0.0), intercept=intercept)
