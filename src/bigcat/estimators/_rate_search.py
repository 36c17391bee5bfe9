"""A learning rate from short trials on a part of the rows."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from bigcat import _random
from bigcat._weights import as_rows, class_major, is_sparse, weights_shape
from bigcat.estimators import _start
from bigcat.estimators._fit import mean_log_likelihood
from bigcat.estimators._recipe import Recipe
from bigcat.solvers import DivergedError
from bigcat.solvers._loop import Settings, run_epochs
from bigcat.solvers._state import Average, Problem, State

#: Rows of a trial: a part of all, but not too few or too many; and held-out rows it is judged by.
TRIAL_PART, LEAST_ROWS, MOST_ROWS = 8, 200, 50_000
MOST_HELD_OUT = 1_000
#: Rates are tried from here on, by factors of two, down to the lowest and up to the highest, which
#: is higher where the rate then falls to zero.
FIRST_RATE, LOWEST_RATE, HIGHEST_RATE = 4.0, 1.0 / 64.0, {"constant": 16.0, "linear": 32.0}
#: Part of the log-likelihood by which a trial may be worse and still count as as good.
AS_GOOD = 0.005
#: A whole fit takes a smaller rate than the best of one short pass.
SHARE_OF_BEST = {"constant": 1.0 / 3.0, "linear": 0.25}


def search_rate(
    recipe: Recipe,
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    held_out: tuple[Any, np.ndarray, np.ndarray],
    problem: Problem,
    init: str,
    random_state: np.random.RandomState,
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with a rate, and what was tried: rates, their log-likelihoods, seconds.

    Also a forecast of the seconds of all epochs, the most that the fit can take.
    """
    started = time.perf_counter()
    n = min(max(len(labels) // TRIAL_PART, LEAST_ROWS), MOST_ROWS, len(labels))
    chosen = np.sort(random_state.permutation(len(labels))[:n])
    trial, validation = _small_problem(
        X[chosen], labels[chosen], weights[chosen], held_out, problem
    )
    seed = random_state.randint(2**31)
    tried: dict[float, float] = {}
    compile_seconds: list[float] = []
    pass_seconds: list[float] = []

    def value(rate: float) -> float:
        if rate not in tried:
            tried[rate] = _trial(
                recipe,
                rate,
                trial,
                validation,
                init,
                seed,
                compile_seconds.append,
                pass_seconds.append,
            )
        return tried[rate]

    solver: Any = recipe.parts.solver
    highest = HIGHEST_RATE[solver.schedule]
    best, step = FIRST_RATE, 2.0
    if not value(2.0 * best) > value(best):  # also where neither is finite
        step = 0.5
    while LOWEST_RATE <= best * step <= highest and (
        value(best * step) > value(best) or value(best) == -np.inf
    ):
        best *= step
    # Of rates that are nearly as good the lowest: a whole fit has more passes than a trial.
    worst = tried[best] - AS_GOOD * abs(tried[best])
    best = min(rate for rate, found in tried.items() if found >= worst)
    rate = best * SHARE_OF_BEST[solver.schedule]
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    a_row = min(pass_seconds, default=np.nan) / n
    report = {
        "trials": dict(sorted(tried.items())),
        "trial_rows": int(n),
        "seconds": time.perf_counter() - started,
        "compile_seconds": sum(compile_seconds),
        "forecast_seconds": a_row * problem.n_rows * recipe.max_epochs,
    }
    return replace(recipe, parts=parts), report


def _small_problem(X, labels, weights, held_out, problem: Problem):
    """The trial's rows, with only the classes and features that are in them."""
    classes = np.unique(labels)
    number = np.full(problem.n_classes, -1, np.int64)
    number[classes] = np.arange(len(classes))
    X_val, val_labels, val_weights = held_out
    known = np.flatnonzero(number[val_labels] >= 0)[:MOST_HELD_OUT]
    X_val = X_val[known]
    if scipy.sparse.issparse(X):
        features = np.unique(X.indices)
        X, X_val = X[:, features].tocsr(), X_val[:, features].tocsr()
    validation = (X_val, number[val_labels[known]], val_weights[known])
    small = Problem(
        as_rows(X, problem.rows.values.dtype),
        number[labels],
        weights,
        X.shape[1],
        len(classes),
        l2=problem.l2 * len(labels) / problem.n_rows,
        fit_intercept=problem.fit_intercept,
    )
    return small, validation


def _trial(
    recipe: Recipe,
    rate: float,
    problem: Problem,
    validation,
    init: str,
    seed: int,
    on_compiled,
    on_passed,
) -> float:
    """Held-out log-likelihood after one pass with this rate."""
    random_state = np.random.RandomState(seed)
    solver: Any = recipe.parts.solver
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    weights, intercepts = _start.initial_weights(init, problem, parts, random_state)
    dtype = problem.rows.values.dtype
    weights = weights.T if is_sparse(problem.rows) else weights
    shape = weights_shape(problem.rows, problem.n_features, problem.n_classes)
    state = State(
        weights=np.ascontiguousarray(weights, dtype=dtype),
        intercepts=np.ascontiguousarray(intercepts, dtype=dtype),
        weights_state=np.zeros((shape[0], 0), dtype),
        intercepts_state=np.zeros(0, dtype),
        local=parts.bound.initial_local(parts.noise, intercepts)[problem.labels],
        rng=_random.new_state(random_state),
    )
    if solver.average:
        state.average = Average(np.zeros_like(state.weights), np.zeros_like(state.intercepts))
    settings = Settings(recipe.batch_size, max_epochs=1, n_threads=recipe.n_threads)
    try:
        run_epochs(
            problem,
            parts,
            state,
            settings,
            random_state,
            on_compiled=on_compiled,
            on_epoch=lambda value, seconds: on_passed(seconds),
            on_chunk=lambda done, value: None,
        )
    except DivergedError:
        return -np.inf
    fitted = state.average or state
    value = mean_log_likelihood(
        parts.noise, validation, class_major(fitted.weights, problem.rows), fitted.intercepts
    )
    return value if np.isfinite(value) else -np.inf
