"""The ridge of a task: by every row without itself, by folds, or by rows that were given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bigcat.rows import Sizes
from bigcat.training import leave_one_out, ridge_path, row_space
from bigcat.training.fit import Outcome, Start, nobody
from bigcat.training.leave_one_out import LeaveOneOut
from bigcat.training.recipe import Recipe
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Sample
from bigcat.training.task import Task


def with_best_ridge(task: Task, validation: Sample | None) -> tuple[Task, Start | None]:
    """The task with the ridge that predicts rows best that its fits have not seen.

    And where a trial with that ridge ended, as the start of the fit.
    """
    recipe, data = task.recipe, task.data
    ridge_path.check(recipe)
    asked = recipe.must_hold_out and not recipe.early_stopping
    unit = ridge_path.unit_of(data)
    if validation is None and not asked:
        one_out = _leave_one_out(task)
        if one_out is not None:
            caution = leave_one_out.CAUTION
            found = ridge_path.choose_quickly(recipe, one_out, unit, caution)
            return _noting_ridge(task, *found), None
    if validation is not None:
        folds = [ridge_path.Fold(data, validation, 1.0)]
    else:
        remedy = "give X_val and y_val, or l2 a number"
        try:
            folds = ridge_path.folds_of(
                data,
                task.n_classes,
                task.random_state,
                remedy,
                quickly=not asked,
                kinds=task.kinds,
            )
        except ValueError:
            if asked:
                raise
            return task, None

    if task.space is not None:  # for all trials at once; one may start where another ended
        folds = [fold.turned(task.space) for fold in folds]
    silent = replace(task.audience, tell=nobody, progress=False)
    trials = replace(task, audience=silent, space=None)

    def fit(trial: Recipe, rows: Sample, start: Start | None) -> Outcome:
        return replace(trials, recipe=trial, data=rows).fit(None, start)

    if asked:
        return _noting_ridge(task, *ridge_path.choose(recipe, fit, folds)), None
    judge = ridge_path.Folds(recipe, fit, folds)
    found = ridge_path.choose_quickly(recipe, judge, unit)
    # Not of a trial with the same rows: a fit without a step has no history.
    begins = task.space is None and validation is None and not recipe.early_stopping
    return _noting_ridge(task, *found), judge.end(found[0].l2) if begins else None


def row_space_of(
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


def _leave_one_out(task: Task) -> LeaveOneOut | None:
    """Every row as a judge of ridges, where that is quick and a row can be spared.

    Not in the row space: a way to the same fit must not change how it is judged.  And not where
    other rows know its label, such as those of the same person.
    """
    if task.space is not None or task.data.groups is not None:
        return None
    return leave_one_out.judge(task.recipe, task.data, task.n_classes)


def _noting_ridge(task: Task, recipe: Recipe, report: dict[str, Any]) -> Task:
    """The task with a recipe whose ridge was chosen."""
    if recipe.choice is None:
        recipe = recipe.told("as given")
    return replace(task, recipe=recipe.noting(l2=recipe.l2, ridge_path=report))
