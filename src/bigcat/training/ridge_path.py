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
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from bigcat.linear import LinearModel
from bigcat.training.fit import Outcome
from bigcat.training.recipe import Recipe
from bigcat.training.sample import Sample

#: Times 1, the ridge of scikit-learn's C = 1: from here down by this factor, to this.
STRONGEST, FACTOR, WEAKEST = 100.0, 10.0**0.5, 1e-4
#: Of the rows, where none are given to choose by.
HELD_OUT = 0.2
PATIENCE = 2


def check(recipe: Recipe) -> None:
    if recipe.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{recipe.parts.solver.name!r}; set solver='lbfgs' (the default up to 2,000 rows), or "
            "give l2 a number"
        )


def choose(
    recipe: Recipe,
    fit: Callable[[Recipe], Outcome],
    validation: Sample,
    share: float,
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with the best ridge, and a report for people.

    Parameters
    ----------
    fit : callable
        Called with a recipe; rows are those not held out.
    validation : Sample
        To choose by.
    share : float
        Of all rows in those of the trials: a ridge on a sum is the stronger the shorter that is.
    """
    started, l2 = time.perf_counter(), STRONGEST
    tried: list[dict[str, float]] = []
    best = -1
    while l2 >= 0.999 * WEAKEST and len(tried) - best <= PATIENCE:
        with warnings.catch_warnings():  # the fit that counts may still give it
            warnings.simplefilter("ignore", ConvergenceWarning)
            outcome = fit(replace(recipe, l2=share * l2, early_stopping=False))
        model = LinearModel(outcome.weights, outcome.intercept, recipe.parts.noise)
        value = model.mean_log_likelihood(*validation)
        tried.append({"l2": l2, "log_likelihood": value})
        if best < 0 or value > tried[best]["log_likelihood"]:
            best = len(tried) - 1
        l2 /= FACTOR
    report = {"tried": tried, "seconds": time.perf_counter() - started}
    return replace(recipe, l2=tried[best]["l2"]), report
