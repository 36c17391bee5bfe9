"""From checked data and a recipe to fitted weights: holding out, searching, fitting, refitting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.linear.labels import encode
from bigcat.machine import available_cores
from bigcat.rows import Problem, as_rows
from bigcat.training import ridge_path
from bigcat.training.fit import Audience, Fit, Outcome, Start, Tell, nobody
from bigcat.training.history import History
from bigcat.training.rate_search import search_rate
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before
from bigcat.training.sample import Sample, hold_out
from bigcat.training.state import State
from bigcat.training.stopping import Never

#: From here on classes are numbered by frequency inside, so that the frequent ones, which most
#: steps visit, share cache lines and can be visited as one run.
MANY_CLASSES = 2_048
#: Rows held out for a choice that we make ourselves.
HELD_OUT_PART, LEAST_HELD_OUT, MOST_HELD_OUT = 20, 100, 2_000


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
) -> Outcome:
    """Run a recipe: one fit, or with what it asks for before and after.

    Parameters
    ----------
    classes : array
        The labels that the numbers in `data` stand for, sorted.
    validation : Sample, optional
        Rows to judge by; where there are none, the recipe may hold some out.
    start : optional
        Weights and intercepts, in the order of `classes`.
    tell, progress
        Who looks on (`bigcat.training.fit.Audience`).
    """
    order = _by_frequency(data, len(classes))
    if order is not None:
        number = np.argsort(order)
        data = data.renumbered(number)
        validation = validation and validation.renumbered(number)
        start = start and (start[0].take(order), start[1][order])
        classes = classes[order]
    audience = Audience(tell, progress, _numbering(classes))
    task = Task(recipe, data, len(classes), audience, random_state)
    outcome = task.run(validation, start)
    if order is not None:
        if outcome.resume is not None:  # what the solver remembers is in the other order
            outcome.resume.weights_state = outcome.resume.intercepts_state = np.empty(0)
        outcome.weights = outcome.weights.reordered(number, available_cores())
        outcome.intercept = outcome.intercept[number]
        outcome.head = np.sort(order[outcome.head])
    return outcome


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
    """One pass over rows that were never seen, from given weights, which move in place."""
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
        task = self.with_best_ridge(validation) if self.recipe.searches_ridge else self
        chosen_by_us = validation is None and task.recipe.choice is not None
        everything = task.data
        if validation is None and (task.recipe.early_stopping or task.recipe.searches_rate):
            task, validation = task.holding_out()
        before = None
        if task.recipe.searches_rate and start is None:
            assert validation is not None
            task, before = task.at_best_rate(validation)
        if chosen_by_us and not task.recipe.early_stopping:  # held out for the search only
            task, validation = replace(task, data=everything), None
        outcome = task.fit(validation, start, before)
        if task.recipe.refits and chosen_by_us and outcome.best_epoch:
            outcome = replace(task, data=everything).refit(start, outcome)
        outcome.history.choice = task.recipe.choice
        return outcome

    def fit(
        self, validation: Sample | None, start: Start | None, before: Before | None = None
    ) -> Outcome:
        fit = Fit(self.recipe, self.problem(), validation, self.random_state, self.audience, before)
        return fit.run(start)

    def refit(self, start: Start | None, first: Outcome) -> Outcome:
        """All rows, for as many epochs as were best on those that were held out."""
        recipe = replace(self.recipe, max_epochs=first.best_epoch, early_stopping=False, stop=Never)
        last = first.history[-1]
        before = Before(last["epoch"], last["seconds"], last["compile_seconds"])
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
            wanted = min(max(n // HELD_OUT_PART, min(n // 5, LEAST_HELD_OUT)), MOST_HELD_OUT)
            fraction = max(wanted, 1) / n
        remedy = "give X_val and y_val or set early_stopping=False"
        try:
            kept, held = hold_out(self.data, self.n_classes, fraction, self.random_state, remedy)
        except ValueError:
            if recipe.must_hold_out:
                raise
            return replace(self, recipe=recipe.without_held_out_rows()), None
        return replace(self, data=kept), held

    def at_best_rate(self, validation: Sample) -> tuple[Task, Before]:
        """The task with the rate that short trials found, and what they took."""
        recipe, report = search_rate(
            self.recipe, self.data, validation, self.problem(), self.random_state
        )
        compiled = report["compile_seconds"]
        before = Before(seconds=report["seconds"] - compiled, compile_seconds=compiled)
        noted = recipe.noting(learning_rate=recipe.parts.solver.rate, rate_search=report)
        return replace(self, recipe=noted), before

    def with_best_ridge(self, validation: Sample | None) -> Task:
        """The task with the ridge that predicts held-out rows best."""
        recipe, data = self.recipe, self.data
        ridge_path.check(recipe)
        if validation is None:
            remedy = "give X_val and y_val, or l2 a number"
            data, validation = hold_out(
                data, self.n_classes, ridge_path.HELD_OUT, self.random_state, remedy
            )

        def fit(trial: Recipe) -> Outcome:
            return replace(self, recipe=trial, data=data).fit(None, None)

        share = data.row_weights.sum() / self.data.row_weights.sum()
        recipe, report = ridge_path.choose(recipe, fit, validation, share)
        if recipe.choice is None:
            recipe = recipe.told("as given")
        return replace(self, recipe=recipe.noting(l2=recipe.l2, ridge_path=report))


def _by_frequency(data: Sample, n_classes: int) -> np.ndarray | None:
    """Classes from the most frequent one down; None where the order makes no difference."""
    if n_classes < MANY_CLASSES:
        return None
    return np.argsort(-np.bincount(data.labels, data.row_weights, n_classes), kind="stable")


def _numbering(classes: np.ndarray) -> Callable[[Any], np.ndarray]:
    """A function that turns labels into their places in `classes`, in whatever order those are."""
    order = np.argsort(classes, kind="stable")
    known = classes[order]
    return lambda y: order[encode(y, known)]
