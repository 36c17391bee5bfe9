"""A learning rate from short trials: one pass over a part of the rows each."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.linear.weights import as_public, as_trained, trained_shape
from bigcat.noise import Gumbel
from bigcat.numerics import random as _random
from bigcat.rows import Problem, as_rows
from bigcat.solvers import DivergedError
from bigcat.training import start as _start
from bigcat.training.fit import mean_log_likelihood
from bigcat.training.loop import Settings, run_epochs
from bigcat.training.recipe import Recipe
from bigcat.training.state import Average, State

#: Rows of a trial: a part of all, but not too few or too many; and held-out rows it is judged by.
TRIAL_PART, LEAST_ROWS, MOST_ROWS = 8, 200, 50_000
MOST_HELD_OUT = 1_000


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
    """The recipe with a rate, and what was tried: rates, their log-likelihoods, seconds."""
    started = time.perf_counter()
    solver: Any = recipe.parts.solver
    rates = solver.rates_to_try()
    n = min(max(len(labels) // TRIAL_PART, LEAST_ROWS), MOST_ROWS, len(labels))
    chosen = np.sort(random_state.permutation(len(labels))[:n])
    trial, validation = _small_problem(
        X[chosen], labels[chosen], weights[chosen], held_out, problem
    )
    seed = random_state.randint(2**31)
    tried: dict[float, float] = {}
    compile_seconds: list[float] = []

    def value(rate: float) -> float:
        if rate not in tried:
            tried[rate] = _trial(
                recipe, rate, trial, validation, init, seed, compile_seconds.append
            )
        return tried[rate]

    # Noises with light tails tolerate less, and a fit that diverges is slow to judge.
    softmax = isinstance(recipe.parts.noise, Gumbel)
    best, step = rates.first if softmax else rates.first / 8.0, 2.0
    if not value(2.0 * best) > value(best):  # also where neither is finite
        step = 0.5
    while rates.lowest <= best * step <= rates.highest and (
        value(best * step) > value(best) or value(best) == -np.inf
    ):
        best *= step
    # Of rates that are nearly as good the lowest: the fit itself has more passes.
    worst = tried[best] - rates.as_good * abs(tried[best])
    rate = rates.share * min(rate for rate, found in tried.items() if found >= worst)
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    report = {
        "trials": dict(sorted(tried.items())),
        "trial_rows": len(chosen),
        "seconds": time.perf_counter() - started,
        "compile_seconds": sum(compile_seconds),
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
        rank=problem.rank,
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
) -> float:
    """Held-out log-likelihood after a pass with this rate."""
    random_state = np.random.RandomState(seed)
    solver: Any = recipe.parts.solver
    parts = replace(recipe.parts, solver=replace(solver, learning_rate=rate))
    weights, intercepts = _start.initial_weights(init, problem, parts, random_state)
    dtype = problem.rows.values.dtype
    shape = trained_shape(problem)
    state = State(
        weights=as_trained(weights, problem, dtype),
        intercepts=np.ascontiguousarray(intercepts, dtype=dtype),
        weights_state=np.zeros((shape[0], solver.state_width(shape[1])), dtype),
        intercepts_state=np.zeros(problem.n_classes if solver.has_state else 0, dtype),
        local=parts.bound.initial_local(parts.noise, intercepts)[problem.labels],
        rng=_random.new_state(random_state),
    )
    if getattr(solver, "average", False):
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
            on_epoch=lambda value, seconds: False,
            on_chunk=lambda done, value: None,
        )
    except DivergedError:
        return -np.inf
    fitted = state.average or state
    value = mean_log_likelihood(
        parts.noise, validation, as_public(fitted.weights, problem), fitted.intercepts
    )
    return value if np.isfinite(value) else -np.inf
