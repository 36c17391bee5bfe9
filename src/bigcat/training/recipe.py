"""How a fit is run: the parts, the passes, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from bigcat import noise as noises
from bigcat.combinations import Parts, resolve
from bigcat.machine import available_cores
from bigcat.solvers import LBFGS, Damped
from bigcat.training.stopping import NoGain

#: What "auto" stands for where a method is named.
NAMED_DEFAULTS = {"n_negatives": 32, "max_epochs": 50, "early_stopping": False, "l2": 0.0}
# A parameter at its default leaves a method's own bound as it is.
_BOUND_DEFAULTS = {"expectation": "quadrature", "n_nodes": 8, "variational": "auto"}


class Sizes(NamedTuple):
    """What there is to fit."""

    n_rows: int
    n_features: int
    n_classes: int
    n_values: int  # non-zeros, or all entries of dense rows
    sparse: bool


@dataclass(frozen=True)
class Recipe:
    """Everything that decides how a fit runs, with nothing left to "auto" but the rate.

    Parameters
    ----------
    searches_rate : bool
        Find the learning rate by short trials first.
    refits : bool
        Fit once more on all rows, the held-out ones too, for as many epochs as were best.
    stop : callable
        Makes a rule that is told each epoch's value, and says when to stop.
    choice : dict
        What was chosen and why, for people.
    """

    parts: Parts
    batch_size: int
    max_epochs: int
    l2: float = 0.0
    early_stopping: bool = False
    searches_rate: bool = False
    refits: bool = False
    n_threads: int = 1
    rank: int | None = None
    stop: Callable[[], Any] = field(default=lambda: NoGain(None, 1))
    choice: dict[str, Any] | None = None


def from_parameters(estimator: Any) -> Recipe:
    """The recipe of a named method: the estimator's parameters as they are."""
    parts = named_parts(estimator, estimator.method)
    rank = None if estimator.rank == "auto" else estimator.rank
    check_rank(rank, parts.solver)
    return Recipe(
        parts,
        rank=rank,
        batch_size=parts.solver.batch_size(estimator.batch_size),
        max_epochs=int(setting(estimator, "max_epochs")),
        l2=ridge(estimator),
        early_stopping=bool(setting(estimator, "early_stopping")),
        n_threads=n_threads(estimator),
        stop=lambda: NoGain(estimator.tol, estimator.n_iter_no_change),
    )


def check_rank(rank: int | None, solver: Any) -> None:
    """Raise for a solver whose steps take scores to be linear in the weights, or need vectors."""
    if rank is None and solver.needs_vectors:
        raise ValueError(
            f"{solver!r} moves vectors of classes and features, which a full rank does not have; "
            "set rank, or take per='coordinate'"
        )
    linear_scores = solver.implicit or getattr(solver, "weight_bound", np.inf) < np.inf
    if rank is not None and linear_scores:
        raise ValueError(
            f"rank={rank} does not go with solver={solver.name!r}, whose steps are solved for "
            "scores that are linear in the weights; take solver='adagrad' or rank=None"
        )


def with_constant_rate(recipe: Recipe) -> Recipe:
    """The recipe of a pass of which it is not known how many more will come."""
    solver: Any = recipe.parts.solver
    if getattr(solver, "schedule", "constant") == "constant":
        return recipe
    return replace(recipe, parts=replace(recipe.parts, solver=replace(solver, schedule="constant")))


def named_parts(estimator: Any, method: Any, **instead: Any) -> Parts:
    """The parts of a method, with the estimator's parameters and some others instead."""
    options = {
        "solver": estimator.solver,
        "sampler": estimator.sampler,
        "n_negatives": setting(estimator, "n_negatives"),
        "learning_rate": estimator.learning_rate,
        **instead,
    }
    bound_options = {
        name: getattr(estimator, name)
        for name, default in _BOUND_DEFAULTS.items()
        if getattr(estimator, name) != default
    }
    noise = noises.resolve(estimator.noise)
    return resolve(method, noise, bound_options=bound_options, **options)


def setting(estimator: Any, name: str, auto: Any = None) -> Any:
    """A parameter, or what "auto" stands for."""
    value = getattr(estimator, name)
    if not (isinstance(value, str) and value == "auto"):
        return value
    return NAMED_DEFAULTS[name] if auto is None else auto


def ridge(estimator: Any, auto: float | None = None) -> float:
    """The ridge, where it is not to be chosen from a path; there for the time being 1."""
    value = setting(estimator, "l2", auto)
    return 1.0 if value == "path" else float(value)


def n_threads(estimator: Any) -> int:
    """Threads of a fit: as asked; else all cores, but one where a seed asks for the same bits."""
    if estimator.n_threads is not None:
        return int(estimator.n_threads)
    return 1 if estimator.random_state is not None else available_cores()


def without_held_out_rows(recipe: Recipe) -> Recipe:
    """The recipe where no row can be spared, since each is the only one of its class."""
    solver: Any = recipe.parts.solver
    if isinstance(solver, Damped):
        solver = replace(solver, schedule="linear", average=False)
    reason = f"{(recipe.choice or {})['reason'].partition(';')[0]}; no row can be held out, so the "
    recipe = replace(
        recipe,
        parts=replace(recipe.parts, solver=solver),
        max_epochs=min(recipe.max_epochs, 8),
        early_stopping=False,
        searches_rate=False,
        refits=False,
        stop=lambda: NoGain(None, 1),
    )
    return replace(recipe, choice=told(recipe, f"{reason}rate is not searched"))


def told(recipe: Recipe, reason: str) -> dict[str, Any]:
    """The choice, for people."""
    parts = recipe.parts
    choice = {
        "bound": parts.bound.name,
        "sampler": parts.sampler.name,
        "solver": parts.solver.name,
        "rank": recipe.rank,
        "batch_size": recipe.batch_size,
        "max_epochs": recipe.max_epochs,
        "l2": recipe.l2,
        "n_threads": recipe.n_threads,
        "reason": reason,
    }
    if hasattr(parts.sampler, "n_negatives"):
        choice["n_negatives"] = parts.sampler.n_negatives
    if not isinstance(parts.solver, LBFGS):
        choice["learning_rate"] = getattr(parts.solver, "learning_rate", math.nan)
    return choice
