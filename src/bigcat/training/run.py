"""From checked data and a recipe to fitted weights: holding out, searching, fitting, refitting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from bigcat.linear.labels import encode
from bigcat.linear.weights import Factors, Weights
from bigcat.machine import available_cores
from bigcat.rows import Problem, as_rows, gather_majors, gather_minors
from bigcat.training import ridge_path as _ridge_path
from bigcat.training.fit import Before, Fit, Outcome
from bigcat.training.history import History
from bigcat.training.holding_out import hold_out
from bigcat.training.memory import working_dtype
from bigcat.training.rate_search import search_rate
from bigcat.training.recipe import Recipe, told, without_held_out_rows
from bigcat.training.stopping import NoGain

#: From here on classes are numbered by frequency inside, so that the frequent ones, which most
#: steps visit, share cache lines and can be visited as one run.
MANY_CLASSES = 2_048
#: Rows held out for a choice that we make ourselves.
HELD_OUT_PART, LEAST_HELD_OUT, MOST_HELD_OUT = 20, 100, 2_000

Rows = tuple[Any, np.ndarray, np.ndarray]  # X, labels, row weights


def train(
    estimator: Any,
    recipe: Recipe,
    data: Rows,
    classes: np.ndarray,
    validation: Rows | None,
    random_state: np.random.RandomState,
    start: tuple[Weights, np.ndarray] | None,
) -> Outcome:
    """Run a recipe: one fit, or with what it asks for before and after."""
    order = _by_frequency(data, len(classes))
    if order is not None:
        rank = np.argsort(order)
        data = (data[0], rank[data[1]], data[2])
        validation = validation and (validation[0], rank[validation[1]], validation[2])
        start = start and (start[0][order], start[1][order])
        classes = classes[order]
    outcome = _train(estimator, recipe, data, classes, validation, random_state, start)
    if order is not None:
        if outcome.resume is not None:  # what the solver remembers is in the other order
            outcome.resume.weights_state = outcome.resume.intercepts_state = np.empty(0)
        outcome.coef = _reordered(outcome.coef, rank)
        outcome.intercept = outcome.intercept[rank]
        outcome.head = np.sort(order[outcome.head])
    return outcome


def _train(estimator, recipe: Recipe, data: Rows, classes, validation, random_state, start):
    if estimator.l2 == "path":
        recipe = _with_best_ridge(estimator, recipe, data, classes, validation, random_state)
    everything = data
    chosen_by_us = validation is None and recipe.choice is not None
    if validation is None and (recipe.early_stopping or recipe.searches_rate):
        try:
            data, validation = _hold_out(estimator, recipe, data, len(classes), random_state)
        except ValueError:
            if recipe.choice is None or estimator.early_stopping is True:
                raise  # the user has asked for it
            recipe = without_held_out_rows(recipe)
    before = Before()
    if recipe.searches_rate and start is None:
        problem = make_problem(estimator, recipe, data, classes)
        assert validation is not None
        recipe, report = search_rate(
            recipe, *data, validation, problem, estimator.init, random_state
        )
        before = Before(
            seconds=report["seconds"] - report["compile_seconds"],
            compile_seconds=report["compile_seconds"],
        )
        rate = getattr(recipe.parts.solver, "learning_rate", None)
        told = {**(recipe.choice or {}), "learning_rate": rate, "rate_search": report}
        recipe = replace(recipe, choice=told)
    if chosen_by_us and not recipe.early_stopping:  # what was held out was for the search only
        data, validation = everything, None
    problem = make_problem(estimator, recipe, data, classes)
    fit = Fit(estimator, recipe, problem, classes, validation, random_state, before)
    outcome = fit.run(start)
    best_epoch = fit.best[1]
    if recipe.refits and chosen_by_us and best_epoch:
        history = outcome.history
        outcome = _refit(
            estimator, recipe, everything, classes, random_state, start, history, best_epoch
        )
        outcome.history = History([*history, *outcome.history], None, history.forecast_seconds)
    outcome.history.choice = recipe.choice
    return outcome


def _with_best_ridge(
    estimator, recipe: Recipe, data: Rows, classes, validation, random_state
) -> Recipe:
    _ridge_path.check(recipe)
    n_rows = data[2].sum()
    if validation is None:
        remedy = "give X_val and y_val, or l2 a number"
        *kept, validation = hold_out(
            *data, len(classes), _ridge_path.HELD_OUT, random_state, remedy
        )
        data = (kept[0], kept[1], kept[2])

    def fit(trial: Recipe) -> Outcome:
        problem = make_problem(estimator, trial, data, classes)
        return Fit(estimator, trial, problem, classes, None, random_state).run(None)

    share = data[2].sum() / n_rows
    recipe, report = _ridge_path.choose(recipe, fit, validation, share)
    choice = recipe.choice or told(recipe, "as given")
    return replace(recipe, choice={**choice, "l2": recipe.l2, "ridge_path": report})


def _refit(estimator, recipe, data, classes, random_state, start, history, n_epochs: int):
    """All rows, for as many epochs as were best on those that were held out."""
    recipe = replace(
        recipe, max_epochs=n_epochs, early_stopping=False, stop=lambda: NoGain(None, 1)
    )
    last = history[-1]
    before = Before(last["epoch"], last["seconds"], last["compile_seconds"])
    problem = make_problem(estimator, recipe, data, classes)
    return Fit(estimator, recipe, problem, classes, None, random_state, before).run(start)


def make_problem(estimator: Any, recipe: Recipe, data: Rows, classes: np.ndarray) -> Problem:
    X, labels, weights = data
    frequencies = np.bincount(labels, weights, len(classes))
    return Problem(
        as_rows(X, working_dtype(X.dtype, X.shape[1], len(classes), recipe.rank)),
        labels,
        weights,
        X.shape[1],
        len(classes),
        l2=recipe.l2,
        fit_intercept=bool(estimator.fit_intercept),
        rank=recipe.rank,
        head=_head(estimator.exact_classes, frequencies, classes),
    )


def _head(chosen: Any, frequencies: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Numbers of the classes that are kept exact."""
    if isinstance(chosen, (int, np.integer)):
        if chosen == 0:
            return np.empty(0, np.int64)
        return np.sort(np.argsort(-frequencies, kind="stable")[:chosen]).astype(np.int64)
    order = np.argsort(classes, kind="stable")
    try:
        return np.unique(order[encode(chosen, classes[order])])
    except ValueError as error:
        raise ValueError(
            f"exact_classes={chosen!r} holds labels that y does not; give labels of y, or a "
            "number of classes"
        ) from error


def _hold_out(estimator, recipe: Recipe, data: Rows, n_classes: int, random_state):
    fraction = estimator.validation_fraction
    if recipe.choice is not None:
        n = len(data[1])
        wanted = min(max(n // HELD_OUT_PART, min(n // 5, LEAST_HELD_OUT)), MOST_HELD_OUT)
        fraction = max(wanted, 1) / n
    remedy = "give X_val and y_val or set early_stopping=False"
    *kept, held = hold_out(*data, n_classes, fraction, random_state, remedy)
    return tuple(kept), held


def _by_frequency(data: Rows, n_classes: int) -> np.ndarray | None:
    """Classes from the most frequent one down; None where the order makes no difference."""
    if n_classes < MANY_CLASSES:
        return None
    return np.argsort(-np.bincount(data[1], data[2], n_classes), kind="stable")


def _reordered(coef: Weights, places: np.ndarray) -> Weights:
    """``coef[places]``; in place but for dense full rank, as a copy may not fit."""
    if isinstance(coef, Factors):
        gather_majors(coef.classes, places)
        return coef
    if coef.flags.c_contiguous:
        return coef[places]
    weights = coef.T
    n = available_cores()
    edges = np.linspace(0, len(weights), n + 1).astype(int)
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(lambda a, b: gather_minors(weights[a:b], places), edges[:-1], edges[1:]))
    return coef
