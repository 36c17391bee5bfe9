"""``l2="path"``: the ridge that predicts held-out rows best, from strong to weak.

Each fit is the one that the ridge as a number would give: to start where the last one ended would
be quicker, but ends elsewhere, since a fit also stops for want of progress.  The path ends when two
ridges in a row were no better.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bigcat.linear import LinearModel
from bigcat.training.fit import Outcome
from bigcat.training.recipe import Recipe
from bigcat.training.sample import Sample, hold_out, kinds_of_rows

#: Times 1, the ridge of scikit-learn's C = 1: from here down by this factor, to this.
STRONGEST, FACTOR, WEAKEST = 100.0, 10.0**0.5, 1e-4
#: Of the rows, where none are given to choose by.
HELD_OUT = 0.2
#: Held-out rows of one fold that are enough to choose by.
ENOUGH_HELD_OUT = 400
PATIENCE = 2


def check(recipe: Recipe) -> None:
    if recipe.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{recipe.parts.solver.name!r}; set solver='lbfgs' (the default up to 2,000 rows), or "
            "give l2 a number"
        )


class Fold(NamedTuple):
    """Rows to fit to, rows to judge by, and which share of all rows the former are.

    A ridge on a sum is the stronger the shorter the sum is.
    """

    kept: Sample
    held_out: Sample
    share: float


def folds_of(
    data: Sample, n_classes: int, random_state: np.random.RandomState, remedy: str
) -> list[Fold]:
    """One fold, or several that share all rows where there are so few that one says little."""
    kind = kinds_of_rows(data)
    n = int(kind.max()) + 1
    if n * HELD_OUT >= ENOUGH_HELD_OUT:
        kept, held_out = hold_out(data, n_classes, HELD_OUT, random_state, remedy)
        return [Fold(kept, held_out, kept.row_weights.sum() / data.row_weights.sum())]
    folds = []
    fold_of = (random_state.permutation(n) % round(1.0 / HELD_OUT))[kind]
    for fold in np.unique(fold_of):
        kept = data.take(np.flatnonzero(fold_of != fold))
        held = np.flatnonzero(fold_of == fold)
        held = held[np.isin(data.labels[held], kept.labels)]
        if len(held) and len(np.unique(kept.labels)) > 1:
            share = kept.row_weights.sum() / data.row_weights.sum()
            folds.append(Fold(kept, data.take(held), share))
    if not folds:
        raise ValueError(f"no row can be held out to choose the ridge by; {remedy}")
    return folds


def choose(
    recipe: Recipe, fit: Callable[[Recipe, Sample], Outcome], folds: list[Fold]
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with the best ridge, and a report for people.

    Parameters
    ----------
    fit : callable
        Called with a recipe and the rows to fit.
    folds : list of Fold
        To choose by.
    """
    started, l2 = time.perf_counter(), STRONGEST
    tried: list[dict[str, float]] = []
    best = -1
    while l2 >= 0.999 * WEAKEST and len(tried) - best <= PATIENCE:
        total = 0.0
        for fold in folds:
            with warnings.catch_warnings():  # the fit that counts may still give it
                warnings.simplefilter("ignore", ConvergenceWarning)
                trial = replace(recipe, l2=fold.share * l2, early_stopping=False)
                outcome = fit(trial, fold.kept)
            model = LinearModel(outcome.weights, outcome.intercept, recipe.parts.noise)
            total += model.mean_log_likelihood(*fold.held_out) * fold.held_out.row_weights.sum()
        value = total / sum(fold.held_out.row_weights.sum() for fold in folds)
        tried.append({"l2": l2, "log_likelihood": value})
        if best < 0 or value > tried[best]["log_likelihood"]:
            best = len(tried) - 1
        l2 /= FACTOR
    report = {"tried": tried, "seconds": time.perf_counter() - started}
    return replace(recipe, l2=tried[best]["l2"]), report
