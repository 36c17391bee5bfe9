"""From checked data and a recipe to fitted weights: holding out, searching, fitting, refitting."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.linear.labels import encode
from bigcat.machine import available_cores
from bigcat.rows import Columns, Problem, Sizes, as_rows
from bigcat.training import leave_one_out, pairs, ridge_path, row_space
from bigcat.training.blend import most_rows_scored
from bigcat.training.fit import (
    Audience,
    DivergedFit,
    Fit,
    InterruptedFit,
    Outcome,
    Start,
    Tell,
    nobody,
)
from bigcat.training.history import History
from bigcat.training.leave_one_out import LeaveOneOut
from bigcat.training.loop import KEEPS_NOTHING, Keeper
from bigcat.training.members import (
    Member,
    add_up,
    as_frequencies,
    averaged,
    best_of,
    let_go_of_worse,
)
from bigcat.training.members import choose as members_chosen
from bigcat.training.rate_search import search_rate
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Sample, hold_out
from bigcat.training.scaling import columns_of, turn_back, warn_of_unscaled
from bigcat.training.sparse_columns import SparseColumns
from bigcat.training.start import scores_of_frequencies, smoothed
from bigcat.training.state import State
from bigcat.training.stopping import Never
from bigcat.training.usefulness import warn_if_useless

#: From here on classes are numbered by frequency inside, so that the frequent ones, which most
#: steps visit, share cache lines and can be visited as one run.
MANY_CLASSES = 2_048
#: Rows held out for a choice that we make ourselves: a tenth, but at least so many of all, and at
#: most so many, or as many as have the least number of classes other than the most frequent one,
#: which alone say little; with many classes no more than can be scored.
HELD_OUT_PART, LEAST_HELD_OUT, MOST_HELD_OUT = 10, 100, 1_000
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
#: How much slower a second part of low rank is where the first was too sure.
SLOWER = 0.5
#: The same of full rank, or how much faster where it was timid, up to which rate, and how often.
MUCH_SLOWER, MUCH_FASTER, FASTEST, MOST_MORE = 0.25, 4.0, 16.0, 2

#: Passes that gain less than this part of what they leave have failed, or there is little to know:
#: an exact fit is tried where that is quick.
LITTLE = 0.1


def train(
    recipe: Recipe,
    data: Sample,
    classes: np.ndarray,
    random_state: np.random.RandomState,
    *,
    validation: Sample | None = None,
    start: Start | None = None,
    tell: Tell = nobody,
    progress: bool | str = False,
    keeper: Keeper = KEEPS_NOTHING,
) -> Outcome:
    """Run a recipe: one fit, or with what it asks for before and after.

    Parameters
    ----------
    classes : array
        The labels that the numbers in `data` stand for, sorted.
    validation : Sample, optional
        Rows to judge by; where there are none, the recipe may hold some out.
    start : optional
        Weights and intercepts, in the order of `classes`; they stay as they are.
    tell, progress, keeper
        Who looks on (`bigcat.training.fit.Audience`).
    """
    order = _by_frequency(data, len(classes))
    start = start and (start[0].copy(), start[1].copy())
    if order is not None:
        number = np.argsort(order)
        data = data.renumbered(number)
        validation = validation and validation.renumbered(number)
        start = start and (start[0].reordered(order, available_cores()), start[1][order])
        classes = classes[order]
    columns: Columns | SparseColumns | None = None
    if recipe.scales_columns and start is None:
        columns = columns_of(data, recipe.fit_intercept)
        if columns is not None:
            data = data.turned(columns)
            validation = validation and validation.turned(columns)
    else:
        warn_of_unscaled(data, recipe.parts.solver)
    audience = Audience(tell, progress, _numbering(classes), columns, keeper=keeper)
    space = None if start else _row_space(recipe, data, len(classes), validation)
    task = Task(recipe, data, len(classes), audience, random_state, space)

    def in_terms_of_the_user(outcome: Outcome) -> Outcome:
        if columns is not None:
            turn_back(outcome, columns)
        if order is not None:
            if outcome.resume is not None:  # what the solver remembers is in the other order
                outcome.resume.weights_state = outcome.resume.intercepts_state = np.empty(0)
            outcome.weights = outcome.weights.reordered(number, available_cores())
            outcome.intercept = outcome.intercept[number]
            outcome.head = np.sort(order[outcome.head])
        return outcome

    try:
        outcome = task.run(validation, start)
    except InterruptedFit as interruption:
        raise InterruptedFit(in_terms_of_the_user(interruption.outcome)) from None
    except DivergedFit as divergence:
        divergence.outcome = divergence.outcome and in_terms_of_the_user(divergence.outcome)
        raise
    solver, noise = recipe.parts.solver, recipe.parts.noise
    warn_if_useless(outcome, data, len(classes), noise, solver.if_diverged)
    return in_terms_of_the_user(outcome)


def train_on_more(
    recipe: Recipe,
    data: Sample,
    classes: np.ndarray,
    random_state: np.random.RandomState,
    *,
    start: Start | None,
    resume: State | None,
    tell: Tell,
    progress: bool | str,
) -> Outcome:
    """One pass over rows that were never seen, from given weights, which may move in place."""
    if recipe.searches_ridge:
        ridge_path.check(recipe)
    audience = Audience(tell, progress, _numbering(classes))
    problem = Task(recipe, data, len(classes), audience, random_state).problem()
    fit = Fit(recipe, problem, None, random_state, audience)
    outcome = fit.run(start, resume=resume, one_pass=True)
    outcome.history.choice = recipe.choice
    return outcome


@dataclass(frozen=True)
class Task:
    """A recipe with its data, classes numbered as they are trained."""

    recipe: Recipe
    data: Sample
    n_classes: int
    audience: Audience
    random_state: np.random.RandomState
    #: Where the fits are made, if not in the columns of the data; rows are held out as they are.
    space: RowSpace | None = None

    def problem(self) -> Problem:
        recipe, (X, labels, weights) = self.recipe, self.data
        frequencies = np.bincount(labels, weights, self.n_classes)
        return Problem(
            as_rows(X, recipe.kind.working_dtype(X.dtype, X.shape[1], self.n_classes)),
            labels,
            weights,
            X.shape[1],
            self.n_classes,
            l2=recipe.l2,
            fit_intercept=recipe.fit_intercept,
            unit_rows=recipe.kind.scales_rows,
            head=recipe.parts.sampler.head_of(frequencies, self.audience.number_of),
        )

    def run(self, validation: Sample | None, start: Start | None) -> Outcome:
        task = self
        if self.recipe.searches_ridge:
            task, end_of_trial = self.with_best_ridge(validation)
            start = start or end_of_trial
        if task.recipe.blends and start is None:
            return task.run_members(validation)
        chosen_by_us = validation is None and task.recipe.choice is not None
        everything = task.data
        if validation is None and (task.recipe.early_stopping or task.recipe.searches_rate):
            task, validation = task.holding_out()
        before = None
        if task.recipe.searches_rate and start is None:
            task, before = task.at_best_rate(validation)
        if chosen_by_us and not task.recipe.early_stopping:  # held out for the search only
            task, validation = replace(task, data=everything), None
        outcome = task.fit(validation, start, before)
        if task.recipe.refits and chosen_by_us and outcome.best_epoch:
            before = Before.after(outcome.history)
            outcome = replace(task, data=everything).refit(start, outcome, before)
        path = (task.recipe.choice or {}).get("ridge_path", {})
        if not path.get("gains", True):
            outcome = as_frequencies(outcome, task.base(), task.data.n_rows)
        outcome.history.choice = task.recipe.choice
        return outcome

    def run_members(self, validation: Sample | None) -> Outcome:
        """Fits whose scores are added, trusted as far as held-out rows say; then all rows."""
        task, given = self, validation is not None
        if validation is None:
            task, validation = self.holding_out()
        if validation is None:
            trials = Before()
            if task.recipe.searches_rate:
                task, trials = task.at_best_rate(None)
            fits = [task.fit(None, None, trials)]
            for _ in range(task.recipe.n_apart - 1):
                fits.append(task.fit(None, None, Before.after(fits[-1].history)))
            outcome = averaged(fits)
            outcome.history.choice = task.recipe.choice
            return outcome
        base = task.base()
        members: list[Member] = []
        kept: list[Member] = []
        try:
            before = self.fit_members(members, task, validation, given)
            kept, report = members_chosen(members, base, validation)
            choice = {**(members[0].fits[0].history.choice or {}), "blend": report}
            left = min(member.judge(base, validation).left for member in members)
            if report["gain"] < LITTLE * left:
                rows = validation if given else None
                exact = self.exact_instead(rows, before, report["gain"])
                if exact is not None:
                    exact.history.choice = {**(exact.history.choice or {}), "blend": report}
                    return exact
            if not given:
                for member in kept:
                    before = member.on_all_rows(before)
        except KeyboardInterrupt:
            done = kept or (members_chosen(members, base, validation)[0] if members else [])
            if not done:
                raise
            raise InterruptedFit(add_up(done, self.base())) from None
        except DivergedFit as divergence:
            done = kept or (members_chosen(members, base, validation)[0] if members else [])
            if done:
                divergence.outcome = add_up(done, self.base())
            raise
        if kept:
            outcome = add_up(kept, self.base())
        else:
            best = best_of(members, base, validation)
            outcome = as_frequencies(best.outcome, self.base(), report["held_out_rows"])
        if not outcome.history:  # pairs alone, whose passes are not told: what was fitted beside
            outcome.history[:] = [row for m in members for fit in m.fits for row in fit.history]
        outcome.history.choice = choice
        return outcome

    def exact_instead(
        self, validation: Sample | None, before: Before, gain: float
    ) -> Outcome | None:
        """The fit with the best ridge, if it gains more than passes did, by a standard error."""
        recipe = self.recipe.otherwise
        if recipe is None:
            return None
        space = _row_space(recipe, self.data, self.n_classes, validation)
        task, start = replace(self, recipe=recipe, space=space).with_best_ridge(validation)
        path = (task.recipe.choice or {}).get("ridge_path")
        if path is None or path["gain"] <= gain + path["gain_error"]:
            return None
        outcome = task.fit(None, start, before)
        outcome.history.choice = task.recipe.choice
        return outcome

    def fit_members(
        self, members: list[Member], task: Task, validation: Sample, given: bool
    ) -> Before:
        """Fill the list, without the held-out rows, until nothing is left to know."""
        base, before = task.base(), Before()

        def nothing_left() -> bool:
            return any(member.knows_all(base, validation) for member in members)

        for recipe in (self.recipe, *self.recipe.beside):
            if nothing_left():
                break
            of_recipe = replace(task, recipe=recipe)
            members += self.members(of_recipe, validation, before, given, beside=members)
            before = members[-1].after(before)
        if self.recipe.with_pairs and not nothing_left():
            for rate in pairs.RATES:
                members.append(self.pairs_member(task, rate))
                before = members[-1].after(before)
                if not members[-1].is_too_sure(base, validation):
                    break
        return before

    def base(self) -> np.ndarray:
        """Scores of a model that knows nothing but how frequent classes are."""
        if not self.recipe.fit_intercept:
            return np.zeros(self.n_classes)
        counts = np.bincount(self.data.labels, self.data.row_weights, self.n_classes)
        return scores_of_frequencies(smoothed(counts), self.recipe.parts.noise)

    def members(
        self, task: Task, held_out: Sample, before: Before, watched: bool, beside: list[Member]
    ) -> list[Member]:
        """What comes of a task: one fit or several, slower ones where they are too sure.

        One only, where that adds nothing to those that are there.
        """
        if task.recipe.searches_rate:
            task, trials = task.at_best_rate(held_out)
            before = before.and_then(trials)
        recipe = task.recipe
        members = [self.member(task, held_out, before, watched)]
        if beside and not members[0].adds_to(beside, task.base(), held_out):
            return members

        def go_on(part_of_rate: float) -> Member:
            slower = replace(task, recipe=recipe.at_part_of_rate(part_of_rate))
            return self.member(slower, held_out, members[-1].after(before), watched)

        def go_on_instead(part_of_rate: float) -> Member:
            let_go_of_worse(members, task.base(), held_out)
            return go_on(part_of_rate)

        def too_sure() -> bool:
            return recipe.slows_down and members[-1].is_too_sure(task.base(), held_out)

        if recipe.n_apart > 1 and too_sure():
            members.append(go_on(SLOWER))
            members[-1].what += ", slower"
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
                    members.append(go_on_instead(part))
            else:
                for part in (MUCH_SLOWER**i for i in times):
                    if not members[-1].is_too_sure(base, held_out):
                        break
                    members.append(go_on_instead(part))
        return members

    def member(self, task: Task, held_out: Sample, before: Before, watched: bool) -> Member:
        """A fit of a task without the held-out rows; they are looked at where that is wanted."""
        started = time.perf_counter()
        recipe = task.recipe
        watched = watched or recipe.early_stopping
        outcome = task.fit(held_out if watched else None, None, before)
        outcome.history.choice = recipe.choice
        of_all = replace(self, recipe=recipe)
        return Member(
            "full rank" if recipe.kind.rank is None else f"rank {recipe.kind.rank}",
            recipe.parts.solver.rate,
            recipe.parts.noise,
            [outcome],
            lambda fit, before: of_all.on_all_rows(fit, held_out, before),
            time.perf_counter() - started,
        )

    def pairs_member(self, task: Task, rate: float) -> Member:
        """Weights of single pairs."""

        def fit(task: Task) -> Outcome:
            threads = task.recipe.n_threads
            weights = pairs.fit_pairs(task.data, task.n_classes, rate, threads, task.random_state)
            return Outcome(weights, task.base(), History(), np.empty(0, np.int64))

        started = time.perf_counter()
        outcome = fit(task)
        seconds = time.perf_counter() - started
        noise = task.recipe.parts.noise

        def complete(first: Outcome, before: Before) -> Outcome:
            return fit(self) if self.is_soon_visited else first

        return Member("pairs", rate, noise, [outcome], complete, seconds)

    @property
    def is_soon_visited(self) -> bool:
        n = self.data.n_rows
        return n <= FEW_ROWS or n * self.n_classes <= FEW_SCORES

    def on_all_rows(self, first: Outcome, held_out: Sample, before: Before) -> Outcome:
        """A fit that goes on with the rows that were held out, and where it is quick with all."""
        recipe, rows = self.recipe, self.data
        is_low = recipe.kind.rank is not None
        few_per_class = rows.n_rows < FEW_PER_CLASS * self.n_classes
        if recipe.early_stopping or (self.is_soon_visited and few_per_class and not is_low):
            return self.refit(None, first, before)
        if self.is_soon_visited or (is_low and rows.n_rows <= FEW_ROWS_OF_LOW_RANK):
            more = MORE_PASSES_OF_LOW_RANK if is_low else MORE_PASSES
            passes = max(1, round(more * recipe.max_epochs))
            part = MORE_RATE_OF_LOW_RANK if is_low else MORE_RATE
        else:
            rows, passes = held_out, 1
            part = LATE_RATE_OF_LOW_RANK if is_low else LATE_RATE
            recipe = recipe.with_solver(recipe.parts.solver.at_constant_rate())
        recipe = replace(recipe.at_part_of_rate(part), max_epochs=passes)
        problem = replace(self, recipe=recipe, data=rows).problem()
        fit = Fit(recipe, problem, None, self.random_state, self.audience, before)
        resume = first.resume and replace(first.resume, iteration=0, epoch=0)
        outcome = fit.run((first.weights, first.intercept), resume=resume)
        outcome.history[:0] = first.history
        outcome.head = first.head  # of all rows, which may be more than those
        return outcome

    def fit(
        self, validation: Sample | None, start: Start | None, before: Before | None = None
    ) -> Outcome:
        task = self
        if self.space is not None:
            audience = replace(self.audience, space=self.space)
            task = replace(self, data=self.data.turned(self.space), audience=audience)
            validation = validation and validation.turned(self.space)
        fit = Fit(task.recipe, task.problem(), validation, task.random_state, task.audience, before)
        outcome = fit.run(start)
        if self.space is not None:
            outcome.weights = self.space.turned_back(outcome.weights)
        return outcome

    def refit(self, start: Start | None, first: Outcome, before: Before) -> Outcome:
        """All rows, for as many epochs as were best on those that were held out."""
        recipe = replace(self.recipe, early_stopping=False, stop=Never)
        if self.recipe.early_stopping:
            recipe = replace(recipe, max_epochs=max(first.best_epoch, 1))
        outcome = replace(self, recipe=recipe).fit(None, start, before)
        rows = [*first.history, *outcome.history]
        outcome.history = History(rows, None, first.history.forecast_seconds)
        return outcome

    def holding_out(self) -> tuple[Task, Sample | None]:
        """The task without some rows, and those; or one that does without them."""
        recipe = self.recipe
        fraction = recipe.validation_fraction
        if fraction is None:
            n = self.data.n_rows
            counts = np.bincount(self.data.labels)
            rare = max(n - counts.max(), 1) / n  # rows that are not of the most frequent class
            most = max(MOST_HELD_OUT, int(LEAST_HELD_OUT / rare))
            most = min(most, most_rows_scored(self.n_classes))
            wanted = min(max(n // HELD_OUT_PART, min(n // 5, LEAST_HELD_OUT)), most)
            fraction = max(wanted, 1) / n
        remedy = "give X_val and y_val or set early_stopping=False"
        try:
            kept, held = hold_out(self.data, self.n_classes, fraction, self.random_state, remedy)
        except ValueError:
            if recipe.must_hold_out:
                raise
            return replace(self, recipe=recipe.without_held_out_rows()), None
        return replace(self, data=kept), held

    def at_best_rate(self, validation: Sample | None) -> tuple[Task, Before]:
        """The task with the rate that short trials found, and what they took."""
        held_out = validation or self.data.take(np.arange(0))
        recipe, report = search_rate(
            self.recipe,
            self.data,
            held_out,
            self.problem(),
            self.random_state,
            self.audience.keeper,
        )
        compiled = report["compile_seconds"]
        before = Before(seconds=report["seconds"] - compiled, compile_seconds=compiled)
        noted = recipe.noting(learning_rate=recipe.parts.solver.rate, rate_search=report)
        return replace(self, recipe=noted), before

    def with_best_ridge(self, validation: Sample | None) -> tuple[Task, Start | None]:
        """The task with the ridge that predicts rows best that its fits have not seen.

        And where a trial with that ridge ended, as the start of the fit.
        """
        recipe, data = self.recipe, self.data
        ridge_path.check(recipe)
        asked = recipe.must_hold_out and not recipe.early_stopping
        unit = ridge_path.unit_of(data)
        if validation is None and not asked:
            one_out = self.leave_one_out()
            if one_out is not None:
                caution = leave_one_out.CAUTION
                found = ridge_path.choose_quickly(recipe, one_out, unit, caution)
                return self.noting_ridge(*found), None
        if validation is not None:
            folds = [ridge_path.Fold(data, validation, 1.0)]
        else:
            remedy = "give X_val and y_val, or l2 a number"
            try:
                folds = ridge_path.folds_of(
                    data, self.n_classes, self.random_state, remedy, quickly=not asked
                )
            except ValueError:
                if asked:
                    raise
                return self, None

        if self.space is not None:  # for all trials at once; one may start where another ended
            folds = [fold.turned(self.space) for fold in folds]
        silent = replace(self.audience, tell=nobody, progress=False)
        task = replace(self, audience=silent, space=None)

        def fit(trial: Recipe, rows: Sample, start: Start | None) -> Outcome:
            return replace(task, recipe=trial, data=rows).fit(None, start)

        if asked:
            return self.noting_ridge(*ridge_path.choose(recipe, fit, folds)), None
        judge = ridge_path.Folds(recipe, fit, folds)
        found = ridge_path.choose_quickly(recipe, judge, unit)
        # Not of a trial with the same rows: a fit without a step has no history.
        begins = self.space is None and validation is None and not recipe.early_stopping
        return self.noting_ridge(*found), judge.end(found[0].l2) if begins else None

    def leave_one_out(self) -> LeaveOneOut | None:
        """Every row as a judge of ridges, where that is quick and a row can be spared."""
        if self.space is not None:  # a way to the same fit: it must not change how it is judged
            return None
        return leave_one_out.judge(self.recipe, self.data, self.n_classes)

    def noting_ridge(self, recipe: Recipe, report: dict[str, Any]) -> Task:
        """The task with a recipe whose ridge was chosen."""
        if recipe.choice is None:
            recipe = recipe.told("as given")
        return replace(self, recipe=recipe.noting(l2=recipe.l2, ridge_path=report))


def _by_frequency(data: Sample, n_classes: int) -> np.ndarray | None:
    """Classes from the most frequent one down; None where the order makes no difference."""
    if n_classes < MANY_CLASSES:
        return None
    return np.argsort(-np.bincount(data.labels, data.row_weights, n_classes), kind="stable")


def _row_space(
    recipe: Recipe, data: Sample, n_classes: int, validation: Sample | None
) -> RowSpace | None:
    """Where a fit of few rows from zeros is cheaper; None where it is not.

    Copies of a row count once, so that a row twice is a row of weight 2 here, too.
    """
    if recipe.parts.solver.stochastic:
        return None
    distinct = data.distinct().X
    if not row_space.pays(recipe, Sizes.of(distinct, n_classes)):
        return None
    if validation is not None and validation.n_rows * data.n_rows > row_space.MOST_NUMBERS:
        return None
    return RowSpace.of(distinct)


def _numbering(classes: np.ndarray) -> Callable[[Any], np.ndarray]:
    """A function that turns labels into their places in `classes`, in whatever order those are."""
    order = np.argsort(classes, kind="stable")
    known = classes[order]
    return lambda y: order[encode(y, known)]
