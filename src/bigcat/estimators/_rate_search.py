"""A learning rate from short trials on a part of the rows.

A trial is one pass over some rows, where the best rate of a pass tells that of a fit; or a whole
fit to some classes with all their rows, where what counts is when the rows of a class are learned
by heart (`bigcat.solvers._base.Rates`).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from bigcat import _random
from bigcat._factors import as_public, as_trained, trained_shape
from bigcat._weights import as_rows
from bigcat.estimators import _start
from bigcat.estimators._fit import mean_log_likelihood
from bigcat.estimators._recipe import Recipe
from bigcat.noise import Gumbel
from bigcat.solvers import DivergedError
from bigcat.solvers._loop import Settings, run_epochs
from bigcat.solvers._state import Average, Problem, State

#: Rows of a trial: a part of all, but not too few or too many; and held-out rows it is judged by.
TRIAL_PART, LEAST_ROWS, MOST_ROWS = 8, 200, 50_000
MOST_HELD_OUT = 1_000
#: The same for trials that are whole fits, and the part of their rows that is held out.
LEAST_ROWS_OF_FITS, MOST_ROWS_OF_FITS, HELD_OUT_PART = 5_000, 20_000, 8


def search_rate(
    recipe: Recipe,
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    held_out: tuple[Any, np.ndarray, np.ndarray] | None,
    problem: Problem,
    init: str,
    random_state: np.random.RandomState,
) -> tuple[Recipe, dict[str, Any]] | None:
    """The recipe with a rate, and what was tried: rates, their log-likelihoods, seconds.

    Also a forecast of the seconds of all epochs, the most that the fit can take.  Trials that are
    whole fits hold rows out themselves; None where there are none that could be.
    """
    started = time.perf_counter()
    solver: Any = recipe.parts.solver
    rates = solver.rates_to_try()
    if rates.whole_fits:
        chosen, kept_back = _rows_of_some_classes(labels, problem.n_classes, random_state)
        if len(kept_back) == 0:
            return None
        held_out = (X[kept_back], labels[kept_back], weights[kept_back])
        n_passes = recipe.max_epochs
    else:
        n = min(max(len(labels) // TRIAL_PART, LEAST_ROWS), MOST_ROWS, len(labels))
        chosen = np.sort(random_state.permutation(len(labels))[:n])
        n_passes = 1
    assert held_out is not None
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
                n_passes,
                trial,
                validation,
                init,
                seed,
                compile_seconds.append,
                pass_seconds.append,
            )
        return tried[rate]

    # Noises with light tails tolerate less, and a fit that diverges is slow to judge.
    softmax = isinstance(recipe.parts.noise, Gumbel)
    best, step = rates.first if softmax or rates.whole_fits else rates.first / 8.0, 2.0
    if not value(2.0 * best) > value(best):  # also where neither is finite
        step = 0.5
    while rates.lowest <= best * step <= rates.highest and (
        value(best * step) > value(best) or value(best) == -np.inf
    ):
        best *= step
    if rates.whole_fits:
        rate = min(_between(tried, best), rates.most)
    else:
        # Of rates that are nearly as good the lowest: the fit itself has more passes.
        worst = tried[best] - rates.as_good * abs(tried[best])
        rate = rates.share * min(rate for rate, found in tried.items() if found >= worst)
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    a_row = min(pass_seconds, default=np.nan) / len(chosen)
    report = {
        "trials": dict(sorted(tried.items())),
        "trial_rows": len(chosen),
        "seconds": time.perf_counter() - started,
        "compile_seconds": sum(compile_seconds),
        "forecast_seconds": a_row * problem.n_rows * recipe.max_epochs,
    }
    return replace(recipe, parts=parts), report


def _between(tried: dict[float, float], best: float) -> float:
    """Where the parabola through the best rate and its neighbours is highest, in their logarithms.

    The best itself where a neighbour is missing.
    """
    below, at, above = (tried.get(rate, -np.inf) for rate in (best / 2.0, best, 2.0 * best))
    if not np.isfinite(below + at + above) or max(below, above) >= at:
        return best
    return float(best * 2.0 ** (0.5 * (below - above) / (below - 2.0 * at + above)))


def _rows_of_some_classes(
    labels: np.ndarray, n_classes: int, random_state: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """All rows of as many random classes as are wanted: to fit to, and to judge by.

    Rows to judge by are of classes that have others.
    """
    wanted = min(max(len(labels) // TRIAL_PART, LEAST_ROWS_OF_FITS), MOST_ROWS_OF_FITS)
    classes = random_state.permutation(n_classes)
    n_rows = np.cumsum(np.bincount(labels, minlength=n_classes)[classes])
    taken = np.zeros(n_classes, bool)
    taken[classes[: max(2, int(np.searchsorted(n_rows, wanted)) + 1)]] = True
    rows = random_state.permutation(np.flatnonzero(taken[labels]))
    _, first_of_class = np.unique(labels[rows], return_index=True)
    spare = np.ones(len(rows), bool)
    spare[first_of_class] = False
    spare = np.flatnonzero(spare)[: min(len(rows) // HELD_OUT_PART, MOST_HELD_OUT)]
    judges = np.zeros(len(rows), bool)
    judges[spare] = True
    return np.sort(rows[~judges][:MOST_ROWS_OF_FITS]), np.sort(rows[judges])


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
        rank=problem.rank,
    )
    return small, validation


def _trial(
    recipe: Recipe,
    rate: float,
    n_passes: int,
    problem: Problem,
    validation,
    init: str,
    seed: int,
    on_compiled,
    on_passed,
) -> float:
    """Held-out log-likelihood after some passes with this rate."""
    random_state = np.random.RandomState(seed)
    solver: Any = recipe.parts.solver
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    weights, intercepts = _start.initial_weights(init, problem, parts, random_state)
    dtype = problem.rows.values.dtype
    shape = trained_shape(problem)
    has_state = solver.has_state
    state = State(
        weights=as_trained(weights, problem, dtype),
        intercepts=np.ascontiguousarray(intercepts, dtype=dtype),
        weights_state=np.zeros(shape if has_state else (shape[0], 0), dtype),
        intercepts_state=np.zeros(problem.n_classes if has_state else 0, dtype),
        local=parts.bound.initial_local(parts.noise, intercepts)[problem.labels],
        rng=_random.new_state(random_state),
    )
    if getattr(solver, "average", False):
        state.average = Average(np.zeros_like(state.weights), np.zeros_like(state.intercepts))
    settings = Settings(recipe.batch_size, max_epochs=n_passes, n_threads=recipe.n_threads)
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
        parts.noise, validation, as_public(fitted.weights, problem), fitted.intercepts
    )
    return value if np.isfinite(value) else -np.inf
