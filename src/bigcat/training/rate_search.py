"""A learning rate from short trials: one pass over a part of the rows each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.linear import LinearModel
from bigcat.rows import Problem, as_rows
from bigcat.solvers import DivergedError
from bigcat.training.loop import KEEPS_NOTHING, Forgetful, Keeper, run_epochs
from bigcat.training.passes import Passes
from bigcat.training.recipe import Recipe
from bigcat.training.sample import Sample
from bigcat.training.start import initial_weights
from bigcat.training.state import State

#: Rows of a trial: a part of all, but not too few or too many; and held-out rows it is judged by.
TRIAL_PART, LEAST_ROWS, MOST_ROWS = 8, 200, 50_000
MOST_HELD_OUT = 1_000
#: Fewer held-out rows whose classes are in a trial say nothing of it: its own rows do then.
LEAST_HELD_OUT = 20
#: Noises that are no softmax tolerate less, and a fit that diverges is slow to judge: the first
#: rate to try, relative to the softmax's.
FIRST_RATE_OF_OTHER_NOISES = 1.0 / 8.0


def search_rate(
    recipe: Recipe,
    data: Sample,
    held_out: Sample,
    problem: Problem,
    random_state: np.random.RandomState,
    keeper: Keeper = KEEPS_NOTHING,
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with a rate, and what was tried: rates, their log-likelihoods, seconds."""
    started = time.perf_counter()
    solver = recipe.parts.solver
    rates = solver.rates_to_try()
    n = n_trial_rows(data.n_rows)
    if recipe.window is None:
        chosen = np.sort(random_state.permutation(data.n_rows)[:n])
    else:  # in random order as they are
        chosen = np.arange(min(n, recipe.window))
    trial, judges, own_rows = _small_problem(data.take(chosen), held_out, problem)
    seed = random_state.randint(2**31)
    tried: dict[float, float] = {}
    compile_seconds: list[float] = []

    def value(rate: float) -> float:
        if rate not in tried:
            at_rate = recipe.with_solver(solver.at_rate(rate))
            tried[rate] = keeper.value(
                lambda: _trial(at_rate, trial, judges, seed, compile_seconds.append)
            )
        return tried[rate]

    best, step = rates.first, 2.0
    if not recipe.parts.noise.softmax:
        best *= FIRST_RATE_OF_OTHER_NOISES
    if not value(2.0 * best) > value(best):  # also where neither is finite
        step = 0.5
    while rates.lowest <= best * step <= rates.highest and (
        value(best * step) > value(best) or value(best) == -np.inf
    ):
        best *= step
    # Of rates that are nearly as good the lowest: the fit itself has more passes.
    worst = tried[best] - rates.as_good * abs(tried[best])
    rate = rates.share * min(rate for rate, found in tried.items() if found >= worst)
    report = {
        "trials": dict(sorted(tried.items())),
        "trial_rows": len(chosen),
        "judged_by": "rows of the trial" if own_rows else "held-out rows",
        "seconds": time.perf_counter() - started,
        "compile_seconds": sum(compile_seconds),
    }
    return recipe.with_solver(solver.at_rate(rate)), report


def n_trial_rows(n_rows: int) -> int:
    """How many of all rows a trial has."""
    return min(max(n_rows // TRIAL_PART, LEAST_ROWS), MOST_ROWS, n_rows)


def _small_problem(
    data: Sample, held_out: Sample, problem: Problem
) -> tuple[Problem, Sample, bool]:
    """The trial's rows with only the classes and features that are in them, and rows to judge by.

    Those are held-out rows of these classes.  Where nearly every row is the only one of its class
    there are hardly any, and rows of the trial judge, as the last value says: a fit to such data
    learns too little in its few passes rather than too much.
    """
    X, labels = data.X, data.labels
    classes = np.unique(labels)
    number = np.full(problem.n_classes, -1, np.int64)
    number[classes] = np.arange(len(classes))
    known = np.flatnonzero(number[held_out.labels] >= 0)[:MOST_HELD_OUT]
    own_rows = len(known) < LEAST_HELD_OUT
    if own_rows:
        spread = np.linspace(0, data.n_rows - 1, min(data.n_rows, MOST_HELD_OUT)).astype(np.int64)
        judges = data.take(spread)
    else:
        judges = held_out.take(known)
    judges = judges.renumbered(number)
    if scipy.sparse.issparse(X):
        features = np.unique(X.indices)
        X = X[:, features].tocsr()
        judges = judges._replace(X=judges.X[:, features].tocsr())
    small = Problem(
        as_rows(X, problem.rows.values.dtype),
        number[labels],
        data.row_weights,
        X.shape[1],
        len(classes),
        l2=problem.l2 * len(labels) / problem.n_rows,
        fit_intercept=problem.fit_intercept,
        unit_rows=problem.unit_rows,
    )
    return small, judges, own_rows


class _Silent(Forgetful):
    """Wants to know how long compilation took, and nothing else."""

    def __init__(self, compiled: Callable[[float], None]) -> None:
        self.compiled = compiled

    def chunk_done(self, part: float, value: float) -> None:
        pass

    def epoch_done(self, value: float, seconds: float) -> bool:
        return False


def _trial(
    recipe: Recipe,
    problem: Problem,
    judges: Sample,
    seed: int,
    on_compiled: Callable[[float], None],
) -> float:
    """Log-likelihood of the rows to judge by, after a pass."""
    random_state = np.random.RandomState(seed)
    parts, kind = recipe.parts, recipe.kind
    start = initial_weights(recipe.init, problem, parts, kind, random_state)
    state = State.new(problem, parts, kind, start, random_state)
    passes = Passes(
        problem,
        parts,
        kind,
        state,
        batch_size=recipe.batch_size,
        max_epochs=1,
        random_state=random_state,
        n_threads=recipe.n_threads,
    )
    try:
        run_epochs(passes, 1, _Silent(on_compiled))
    except DivergedError:
        return -np.inf
    weights = kind.as_weights(state.fitted.weights, problem)
    model = LinearModel(weights, state.fitted.intercepts, parts.noise)
    value = model.mean_log_likelihood(*judges[:3])
    return value if np.isfinite(value) else -np.inf
