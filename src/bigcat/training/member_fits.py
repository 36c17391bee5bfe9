"""Fits whose scores are added: made apart, judged by held-out rows; then they see all rows."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bigcat.linear import LinearModel
from bigcat.training import pairs, ridge_path
from bigcat.training.blend import SURE, gain_at, part_to_trust
from bigcat.training.fit import DivergedFit, InterruptedFit, Outcome
from bigcat.training.history import History
from bigcat.training.members import (
    Member,
    add_up,
    as_frequencies,
    averaged,
    best_of,
    followed,
    in_words,
    let_go_of_worse,
)
from bigcat.training.members import choose as members_chosen
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before
from bigcat.training.ridge_search import row_space_of, with_best_ridge
from bigcat.training.sample import Sample
from bigcat.training.task import Task

#: Up to so many rows, or rows times classes, a fit goes on with passes over all rows, and of low
#: rank up to so many; of more, the held-out ones alone are visited.  Weights of pairs are fitted
#: again, or do without them.
FEW_ROWS, FEW_SCORES, FEW_ROWS_OF_LOW_RANK = 5_000, 1 << 21, 50_000
#: Full rank is fitted again instead where classes have so few rows that one more counts.
FEW_PER_CLASS = 8
#: Those passes, as a part of all, and their rate, which falls to zero, of full and of low rank.
MORE_PASSES, MORE_PASSES_OF_LOW_RANK = 0.5, 0.25
MORE_RATE, MORE_RATE_OF_LOW_RANK = 0.5, 1.0
#: The rate of the other visit, relative to that of the first passes.
LATE_RATE, LATE_RATE_OF_LOW_RANK = 0.1, 1.0
#: How much slower a second part of low rank is where the first was too sure, and one of full rank
#: where the one before was rather sure.
SLOWER = 0.5
#: The same of full rank, or how much faster where it was timid, up to which rate, and how often.
MUCH_SLOWER, MUCH_FASTER, FASTEST, MOST_MORE = 0.25, 4.0, 16.0, 2
#: A fit that gains so many times as much as a slower one has not come far: the exact fit is next,
#: and another with this part of the ridge, or so many times it, where held-out rows ask for that.
MUCH_MORE, OTHER_RIDGE = 1.2, 0.1

#: Passes that gain less than this part of what they leave have failed, or there is little to know:
#: an exact fit is tried where that is quick.
LITTLE = 0.1


def run_members(task: Task, validation: Sample | None) -> Outcome:
    """Fits whose scores are added, trusted as far as held-out rows say; then all rows."""
    kept, given = task, validation is not None
    if validation is None:
        kept, validation = task.holding_out()
    if validation is None:
        return _unjudged(kept)
    fits = MemberFits(task, kept, validation, given)
    base = kept.base()
    members: list[Member] = []
    chosen: list[Member] = []
    try:
        before = fits.fill(members)
        chosen, report = members_chosen(members, base, validation)
        choice = {**(members[0].fits[0].history.choice or {}), "blend": report}
        left = min(member.judge(base, validation).left for member in members)
        if report["gain"] < LITTLE * left:
            exact = _exact_instead(task, validation if given else None, before, report["gain"])
            if exact is not None:
                exact.history.choice = {**(exact.history.choice or {}), "blend": report}
                return exact
        if not given:
            if chosen and report["gain"] < SURE * report["gain_error"]:
                chosen = _doubted(chosen, task, report)
            for member in chosen:
                before = member.on_all_rows(before)
    except KeyboardInterrupt:
        done = chosen or (members_chosen(members, base, validation)[0] if members else [])
        if not done:
            raise
        raise InterruptedFit(add_up(done, task.base())) from None
    except DivergedFit as divergence:
        done = chosen or (members_chosen(members, base, validation)[0] if members else [])
        if done:
            divergence.outcome = add_up(done, task.base())
        raise
    if chosen:
        outcome = add_up(chosen, task.base())
    else:
        best = best_of(members, base, validation)
        outcome = as_frequencies(best.outcome, task.base(), report["held_out_rows"])
    if not outcome.history:  # pairs alone, whose passes are not told: what was fitted beside
        outcome.history[:] = [row for m in members for fit in m.fits for row in fit.history]
    outcome.history.choice = {**choice, "reason": f"{choice['reason']}; {in_words(chosen)}"}
    return outcome


def _doubted(chosen: list[Member], task: Task, report: dict[str, Any]) -> list[Member]:
    """Members of a doubtful gain, followed as far as other held-out rows say the same.

    Factors and members were chosen by the first ones, which chance may have pleased; the second
    ones had no part in that.  So what knows nothing has little to gain from them, and what knows a
    little is the more certain.
    """
    kept, held_out = task.holding_out()
    if held_out is None:
        return chosen
    models = []
    for member in chosen:
        again = averaged([member.again(kept) for _ in member.fits])
        models.append(LinearModel(again.weights, again.intercept, member.noise))
    factors = [member.factor for member in chosen]
    second, error = gain_at(factors, models, kept.base(), held_out)
    both = 0.5 * (report["gain"] + second), 0.5 * math.hypot(report["gain_error"], error)
    part = part_to_trust(*both, report["held_out_rows"] + held_out.n_rows)
    report |= {"gain_of_other_rows": second, "part": part}
    for member in chosen:
        member.factor *= part
    return chosen if part > 0.0 else []


def _unjudged(task: Task) -> Outcome:
    """The mean of the fits, where no row can be held out."""
    trials = Before()
    if task.recipe.searches_rate:
        task, trials = task.at_best_rate(None)
    fits = [task.fit(None, None, trials)]
    for _ in range(task.recipe.n_apart - 1):
        fits.append(task.fit(None, None, Before.after(fits[-1].history)))
    outcome = averaged(fits)
    outcome.history.choice = task.recipe.choice
    return outcome


def _exact_instead(
    task: Task, validation: Sample | None, before: Before, gain: float
) -> Outcome | None:
    """The fit with the best ridge, if it gains more than passes did, by a standard error."""
    recipe = task.recipe.otherwise
    if recipe is None:
        return None
    space = row_space_of(recipe, task.data, task.n_classes, validation)
    task, start = with_best_ridge(replace(task, recipe=recipe, space=space), validation)
    path = (task.recipe.choice or {}).get("ridge_path")
    if path is None or path["gain"] <= gain + path["gain_error"]:
        return None
    outcome = task.fit(None, start, before)
    outcome = followed(outcome, path["factor"], task.base(), task.data.n_rows)
    outcome.history.choice = task.recipe.choice
    return outcome


@dataclass(frozen=True)
class MemberFits:
    """Makes the members of a task.

    Parameters
    ----------
    everything : Task
        With all rows.
    kept : Task
        Without those that are held out.
    held_out : Sample
    given : bool
        Whether the user gave these rows to judge by; fits then look at them.
    """

    everything: Task
    kept: Task
    held_out: Sample
    given: bool

    def fill(self, members: list[Member]) -> Before:
        """Fill the list, without the held-out rows, until nothing is left to know."""
        base, before = self.kept.base(), Before()
        recipe = self.everything.recipe

        def nothing_left() -> bool:
            return any(member.knows_all(base, self.held_out) for member in members)

        for part in (recipe, *recipe.beside):
            if nothing_left():
                break
            members += self.members(replace(self.kept, recipe=part), before, beside=members)
            before = members[-1].after(before)
        if recipe.with_pairs and not nothing_left():
            for rate in pairs.RATES:
                members.append(self.pairs_member(rate))
                before = members[-1].after(before)
                if not members[-1].is_too_sure(base, self.held_out):
                    break
        return before

    def members(self, task: Task, before: Before, beside: list[Member]) -> list[Member]:
        """What comes of a task: one fit or several, slower ones where they are too sure.

        One only, where that adds nothing to those that are there.
        """
        held_out = self.held_out
        if task.recipe.searches_rate:
            task, trials = task.at_best_rate(held_out)
            before = before.and_then(trials)
        recipe = task.recipe
        members = [self.member(task, before)]
        if beside and not members[0].adds_to(beside, task.base(), held_out):
            return members

        def go_on(part_of_rate: float) -> Member:
            slower = replace(task, recipe=recipe.at_part_of_rate(part_of_rate))
            return self.member(slower, members[-1].after(before))

        def go_on_instead(part_of_rate: float) -> Member:
            let_go_of_worse(members, task.base(), held_out)
            return go_on(part_of_rate)

        def too_sure() -> bool:
            return recipe.slows_down and members[-1].is_too_sure(task.base(), held_out)

        if recipe.n_apart > 1 and too_sure():
            members.append(go_on(SLOWER))
            members[-1].what += ", slower"
            if not members[-1].gains_on(members[:1], task.base(), held_out):
                alike = members[0].with_more([go_on(1.0)])
                if alike.beats_sum_of(members, task.base(), held_out):
                    members = [alike]
        elif recipe.n_apart > 1:
            for _ in range(recipe.n_apart - 1):
                members.append(go_on(1.0))
            members = [members[0].with_more(members[1:])]
        elif recipe.slows_down:
            base, times, rate = task.base(), range(1, MOST_MORE + 1), recipe.parts.solver.rate
            if recipe.kind.rank is None and members[0].is_timid(base, held_out):
                assert isinstance(rate, float)  # found by trials
                for part in (MUCH_FASTER**i for i in times):
                    too_fast = rate * part > FASTEST
                    if too_fast or not members[-1].gains_on(members[:-1], base, held_out):
                        break
                    exactly = self.everything.recipe.exactly
                    if len(members) > 1 and exactly and self.gains_much(members):
                        let_go_of_worse(members, base, held_out)
                        best = best_of(members, base, held_out)
                        members += self.exact_members(exactly, best, members[-1].after(before))
                        break
                    members.append(go_on_instead(part))
            else:
                part = 1.0
                for _ in times:
                    step = self.slower_by(members)
                    if step == 1.0:
                        break
                    part *= step
                    members.append(go_on_instead(part))
        return members

    def member(self, task: Task, before: Before) -> Member:
        """A fit of a task without the held-out rows; they are looked at where that is wanted."""
        started = time.perf_counter()
        recipe = task.recipe
        watched = self.given or recipe.early_stopping
        outcome = task.fit(self.held_out if watched else None, None, before)
        outcome.history.choice = recipe.choice
        everything = replace(self.everything, recipe=recipe)
        return Member(
            "full rank" if recipe.kind.rank is None else f"rank {recipe.kind.rank}",
            recipe.parts.solver.rate,
            recipe.parts.noise,
            [outcome],
            lambda fit, before: _on_all_rows(everything, fit, self.held_out, before),
            lambda other: replace(other, recipe=recipe).fit(None, None),
            time.perf_counter() - started,
        )

    def slower_by(self, members: list[Member]) -> float:
        """How much slower the next one should be, from the last one: 1 where it is well as it is.

        Trials of few rows tell the rate to a factor of two or four, by chance of the rows' order.
        """
        base = self.kept.base()
        if members[-1].is_too_sure(base, self.held_out):
            return MUCH_SLOWER
        return SLOWER if members[-1].is_rather_sure(base, self.held_out) else 1.0

    def gains_much(self, members: list[Member]) -> bool:
        """Has the last gained on the one before, and is timid, so that a faster one would too?"""
        base = self.kept.base()
        last, before = (m.judge(base, self.held_out) for m in members[:-3:-1])
        is_timid = members[-1].is_timid(base, self.held_out)
        return is_timid and last.gain > MUCH_MORE * before.gain

    def exact_members(self, recipe: Recipe, first: Member, before: Before) -> list[Member]:
        """Exact fits from where passes ended: of the usual ridge, and another if one is asked."""
        base, unit = self.kept.base(), ridge_path.unit_of(self.kept.data)
        usual = self.exact_member(replace(recipe, l2=unit), first, before)
        if usual.is_too_sure(base, self.held_out):
            other = unit / OTHER_RIDGE
        elif usual.is_timid(base, self.held_out):
            other = unit * OTHER_RIDGE
        else:
            return [usual]
        then = usual.after(before)
        return [usual, self.exact_member(replace(recipe, l2=other), usual, then)]

    def exact_member(self, recipe: Recipe, first: Member, before: Before) -> Member:
        """A fit by so many iterations of L-BFGS, which need not be its end."""

        def fit(task: Task, start: Outcome, n: int, before: Before) -> Outcome:
            task = replace(task, recipe=replace(recipe, max_epochs=n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                outcome = task.fit(None, (start.weights.copy(), start.intercept.copy()), before)
            outcome.history.choice = recipe.choice
            return outcome

        def complete(done: Outcome, before: Before) -> Outcome:
            outcome = fit(self.everything, done, max(1, round(MORE_PASSES * n)), before)
            outcome.history[:0] = done.history
            return outcome

        started = time.perf_counter()
        n = recipe.max_epochs
        outcome = fit(self.kept, first.fits[0], n, before)

        def again(other: Task) -> Outcome:
            nothing = outcome.weights.copy().multiplied(0.0)
            return fit(other, replace(outcome, weights=nothing), n, Before())

        return Member(
            first.what,
            None,
            recipe.parts.noise,
            [outcome],
            complete,
            again,
            time.perf_counter() - started,
        )

    def pairs_member(self, rate: float) -> Member:
        """Weights of single pairs."""

        def fit(task: Task) -> Outcome:
            threads = task.recipe.n_threads
            weights = pairs.fit_pairs(task.data, task.n_classes, rate, threads, task.random_state)
            return Outcome(weights, task.base(), History(), np.empty(0, np.int64))

        started = time.perf_counter()
        outcome = fit(self.kept)
        seconds = time.perf_counter() - started
        noise = self.kept.recipe.parts.noise

        def complete(first: Outcome, before: Before) -> Outcome:
            return fit(self.everything) if _is_soon_visited(self.everything) else first

        return Member("pairs", rate, noise, [outcome], complete, fit, seconds)


def _is_soon_visited(task: Task) -> bool:
    n = task.data.n_rows
    return n <= FEW_ROWS or n * task.n_classes <= FEW_SCORES


def _on_all_rows(task: Task, first: Outcome, held_out: Sample, before: Before) -> Outcome:
    """A fit that goes on with the rows that were held out, and where it is quick with all."""
    recipe, rows = task.recipe, task.data
    is_low = recipe.kind.rank is not None
    few_per_class = rows.n_rows < FEW_PER_CLASS * task.n_classes
    if recipe.early_stopping or (_is_soon_visited(task) and few_per_class and not is_low):
        return task.refit(None, first, before)
    if _is_soon_visited(task) or (is_low and rows.n_rows <= FEW_ROWS_OF_LOW_RANK):
        more = MORE_PASSES_OF_LOW_RANK if is_low else MORE_PASSES
        passes = max(1, round(more * recipe.max_epochs))
        part = MORE_RATE_OF_LOW_RANK if is_low else MORE_RATE
    else:
        rows, passes = held_out, 1
        part = LATE_RATE_OF_LOW_RANK if is_low else LATE_RATE
        recipe = recipe.with_solver(recipe.parts.solver.at_constant_rate())
    recipe = replace(recipe.at_part_of_rate(part), max_epochs=passes)
    resume = first.resume and replace(first.resume, iteration=0, epoch=0)
    goes_on = replace(task, recipe=recipe, data=rows)
    outcome = goes_on.fit(None, (first.weights, first.intercept), before, resume)
    outcome.history[:0] = first.history
    outcome.head = first.head  # of all rows, which may be more than those
    return outcome
