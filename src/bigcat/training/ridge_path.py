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
from bigcat.training.fit import Outcome, Start
from bigcat.training.recipe import Recipe
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Sample, hold_out, kinds_of_rows

#: Times 1, the ridge of scikit-learn's C = 1: from here down by this factor, to this.
STRONGEST, FACTOR, WEAKEST = 100.0, 10.0**0.5, 1e-4
#: Of the rows, where none are given to choose by.
HELD_OUT = 0.2
#: Held-out rows of one fold that are enough to choose by; with fewer there are so many folds, or
#: with many weights, where each fit takes long, so many.
ENOUGH_HELD_OUT, FOLDS, MANY_WEIGHTS, FOLDS_OF_MANY = 250, 5, 1 << 14, 3
PATIENCE = 2
#: A quick choice begins with 1, goes by tens to the best on either side, and then looks beside it;
#: its fits begin where the last one ended, and end soon.
QUICK_TOL, QUICK_ITERATIONS = 1e-5, 60
#: A ridge that leaves class frequencies, for data that know no more.
QUICK_STRONGEST = 1e5


def check(recipe: Recipe) -> None:
    if recipe.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{recipe.parts.solver.name!r}; set solver='lbfgs' (the default for few rows), or "
            "give l2 a number"
        )


class Fold(NamedTuple):
    """Rows to fit to, rows to judge by, and which share of all rows the former are.

    A ridge on a sum is the stronger the shorter the sum is.
    """

    kept: Sample
    held_out: Sample
    share: float

    def turned(self, by: RowSpace) -> Fold:
        return self._replace(kept=self.kept.turned(by), held_out=self.held_out.turned(by))


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
    n_folds = FOLDS if data.X.shape[1] * n_classes <= MANY_WEIGHTS else FOLDS_OF_MANY
    fold_of = (random_state.permutation(n) % n_folds)[kind]
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
    recipe: Recipe, fit: Callable[[Recipe, Sample, Start | None], Outcome], folds: list[Fold]
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with the best ridge, and a report for people.

    Parameters
    ----------
    fit : callable
        Called with a recipe, the rows to fit, and where to start.
    folds : list of Fold
        To choose by.
    """
    started = time.perf_counter()
    best = l2 = STRONGEST
    tried: dict[float, float] = {}
    worse = 0
    while worse < PATIENCE and l2 >= 0.999 * WEAKEST:
        values = []
        for fold in folds:
            trial = replace(recipe, l2=fold.share * l2, early_stopping=False)
            values.append(_judged(_fitted(trial, fit, fold, None), recipe, fold))
        tried[l2] = _mean(values, folds)
        worse = worse + 1 if tried[l2] < tried[best] else 0
        best = best if worse else l2
        l2 /= FACTOR
    return replace(recipe, l2=best), _report(tried, started)


def choose_quickly(
    recipe: Recipe, fit: Callable[[Recipe, Sample, Start | None], Outcome], folds: list[Fold]
) -> tuple[Recipe, dict[str, Any]]:
    """As `choose`, but with fewer and rougher trials."""
    started = time.perf_counter()
    ends: list[Start | None] = [None for _ in folds]
    tried: dict[float, float] = {}

    def value(l2: float) -> float:
        values = []
        for i, fold in enumerate(folds):
            trial = replace(
                recipe,
                l2=fold.share * l2,
                early_stopping=False,
                tol=QUICK_TOL,
                max_epochs=min(QUICK_ITERATIONS, recipe.max_epochs),
            )
            outcome = _fitted(trial, fit, fold, ends[i])
            ends[i] = outcome.weights, outcome.intercept
            values.append(_judged(outcome, recipe, fold))
        tried[l2] = _mean(values, folds)
        return tried[l2]

    best = 1.0
    value(best)
    for step in (0.1, 10.0):
        while 0.999 * WEAKEST <= best * step <= QUICK_STRONGEST and best * step not in tried:
            if value(best * step) <= tried[best]:
                break
            best *= step
    for beside in (best / FACTOR, best * FACTOR):
        if beside not in tried and value(beside) > tried[best]:
            best = beside
            break
    return replace(recipe, l2=best), _report(tried, started)


def _fitted(
    trial: Recipe,
    fit: Callable[[Recipe, Sample, Start | None], Outcome],
    fold: Fold,
    start: Start | None,
) -> Outcome:
    with warnings.catch_warnings():  # the fit that counts may still give it
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(trial, fold.kept, start)


def _judged(outcome: Outcome, recipe: Recipe, fold: Fold) -> float:
    model = LinearModel(outcome.weights, outcome.intercept, recipe.parts.noise)
    return model.mean_log_likelihood(*fold.held_out)


def _mean(values: list[float], folds: list[Fold]) -> float:
    return float(np.average(values, weights=[f.held_out.row_weights.sum() for f in folds]))


def _report(tried: dict[float, float], started: float) -> dict[str, Any]:
    trials = [{"l2": l2, "log_likelihood": tried[l2]} for l2 in sorted(tried, reverse=True)]
    return {"tried": trials, "seconds": time.perf_counter() - started}
