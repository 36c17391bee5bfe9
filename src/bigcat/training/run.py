"""From checked data and a recipe to fitted weights: holding out, searching, fitting, refitting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bigcat.linear.labels import encode
from bigcat.machine import available_cores
from bigcat.rows import Columns
from bigcat.training import ridge_path
from bigcat.training.column_sizes import factors_of_sizes
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
from bigcat.training.loop import KEEPS_NOTHING, Keeper
from bigcat.training.member_fits import run_members
from bigcat.training.members import followed
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before
from bigcat.training.ridge_search import row_space_of, with_best_ridge
from bigcat.training.sample import Sample
from bigcat.training.scaling import columns_of, turn_back, warn_of_unscaled
from bigcat.training.sparse_columns import SparseColumns
from bigcat.training.state import State
from bigcat.training.task import Task
from bigcat.training.together import rows_that_stay_together
from bigcat.training.usefulness import warn_if_useless

#: From here on classes are numbered by frequency inside, so that the frequent ones, which most
#: steps visit, share cache lines and can be visited as one run.
MANY_CLASSES = 2_048


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
    start = start and (start[0].copy(recipe.kind.storage), start[1].copy())
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
        warn_of_unscaled(data, recipe.parts.solver, streams=recipe.window is not None)
    searches = recipe.splits_rows and validation is None and recipe.window is None
    kinds = rows_that_stay_together(data) if searches else None
    if kinds is not None and kinds.depend:
        data = data._replace(groups=kinds.of_row)
    elif isinstance(columns, Columns):
        factors = factors_of_sizes(columns, data)
        if factors is not None:
            columns = columns._replace(factors=columns.factors * factors)
            data = data.multiplied(factors)
            validation = validation and validation.multiplied(factors)
            recipe = recipe.noting(column_sizes="the roots of what they were")
    audience = Audience(tell, progress, numbering(classes), classes, columns, keeper=keeper)
    space = None if start else row_space_of(recipe, data, len(classes), validation)
    task = Task(recipe, data, len(classes), audience, random_state, space, kinds)

    def in_terms_of_the_user(outcome: Outcome) -> Outcome:
        if kinds is not None and outcome.history.choice is not None:
            outcome.history.choice = {**outcome.history.choice, **kinds.told}
        if columns is not None:
            turn_back(outcome, columns, recipe.kind.storage)
        if order is not None:
            if outcome.resume is not None:  # what the solver remembers is in the other order
                outcome.resume.weights_state = outcome.resume.intercepts_state = np.empty(0)
            outcome.weights = outcome.weights.reordered(number, available_cores())
            outcome.intercept = outcome.intercept[number]
            outcome.head = np.sort(order[outcome.head])
        return outcome

    try:
        outcome = _run(task, validation, start)
    except InterruptedFit as interruption:
        raise InterruptedFit(in_terms_of_the_user(interruption.outcome)) from None
    except DivergedFit as divergence:
        divergence.outcome = divergence.outcome and in_terms_of_the_user(divergence.outcome)
        raise
    solver, noise = recipe.parts.solver, recipe.parts.noise
    warn_if_useless(outcome, data, len(classes), noise, solver.if_diverged, recipe.l2)
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
    """One pass over rows that were never seen; `start` and `resume` stay as they are."""
    if recipe.searches_ridge:
        ridge_path.check(recipe)
    audience = Audience(tell, progress, numbering(classes), classes)
    problem = Task(recipe, data, len(classes), audience, random_state).problem()
    fit = Fit(recipe, problem, None, random_state, audience)
    outcome = fit.run(start, resume=resume, one_pass=True)
    outcome.history.choice = recipe.choice
    return outcome


def _run(task: Task, validation: Sample | None, start: Start | None) -> Outcome:
    """What the recipe asks for: searches before the fit, the fit, and all rows after it."""
    if task.recipe.searches_ridge:
        task, end_of_trial = with_best_ridge(task, validation)
        start = start or end_of_trial
    if task.recipe.blends and start is None:
        return run_members(task, validation)
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
    outcome = followed(outcome, path.get("factor", 1.0), task.base(), task.data.n_rows)
    outcome.history.choice = task.recipe.choice
    return outcome


def _by_frequency(data: Sample, n_classes: int) -> np.ndarray | None:
    """Classes from the most frequent one down; None where the order makes no difference."""
    if n_classes < MANY_CLASSES:
        return None
    return by_frequency(np.bincount(data.labels, data.row_weights, n_classes))


def by_frequency(class_weights: np.ndarray) -> np.ndarray:
    """Classes from the most frequent one down."""
    return np.argsort(-class_weights, kind="stable")


def numbering(classes: np.ndarray) -> Callable[[Any], np.ndarray]:
    """A function that turns labels into their places in `classes`, in whatever order those are."""
    order = np.argsort(classes, kind="stable")
    known = classes[order]
    return lambda y: order[encode(y, known)]
