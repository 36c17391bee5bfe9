"""Recipes of named methods: the parameters as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bigcat.auto.parameters import Parameters
from bigcat.combinations import Method, Parts, resolve
from bigcat.solvers import Solver
from bigcat.training.recipe import Recipe
from bigcat.training.stopping import Never, NoGain, Plateau, StoppingRule

#: What "auto" stands for where a method is named.
NAMED_DEFAULTS: dict[str, Any] = {
    "n_negatives": 32,
    "max_epochs": 50,
    "early_stopping": False,
    "l2": 0.0,
}


def setting(parameters: Parameters, name: str, auto: Any = None) -> Any:
    """A parameter, or what "auto" stands for."""
    if parameters.given(name):
        return getattr(parameters, name)
    return NAMED_DEFAULTS[name] if auto is None else auto


def ridge(parameters: Parameters, auto: float | None = None) -> float:
    """The ridge, where it is not to be found along a path; there for the time being 1."""
    value = setting(parameters, "l2", auto)
    return 1.0 if value == "path" else float(value)


def parts_of(parameters: Parameters, method: str | Method, **instead: Any) -> Parts:
    """The parts of a method, with what the user has set and some others instead."""
    options = {
        "solver": parameters.solver,
        "sampler": parameters.sampler,
        "n_negatives": setting(parameters, "n_negatives"),
        "learning_rate": parameters.learning_rate,
        **instead,
    }
    return resolve(method, parameters.noise, **options)


def common(parameters: Parameters) -> dict[str, Any]:
    """What every recipe takes from the parameters as it is."""
    return {
        "tol": 0.0 if parameters.tol is None else float(parameters.tol),
        "fit_intercept": parameters.fit_intercept,
        "init": parameters.init,
        "shuffle": parameters.shuffle,
        "n_threads": parameters.n_threads,
        "searches_ridge": parameters.l2 == "path",
    }


def stopping_rule(
    parameters: Parameters, solver: Solver, early_stopping: bool
) -> Callable[[], StoppingRule]:
    """When a fit stops before its last epoch.

    By held-out rows, which say the same for the same weights, as soon as they have not gained for
    a while; by the objective, which is noisy, when its mean no longer grows; and not at all where
    the rate is planned to fall to zero.
    """
    if early_stopping:
        return lambda: NoGain(parameters.tol, parameters.n_iter_no_change)
    if solver.ends_at_zero:
        return Never
    return lambda: Plateau(parameters.tol or 0.0, parameters.n_iter_no_change)


def named_recipe(
    parameters: Parameters, method: str | Method | None = None, **instead: Any
) -> Recipe:
    """The recipe of a named method; `instead` are parts to take instead of the user's."""
    method = method or parameters.method
    assert method is not None
    parts = parts_of(parameters, method, **instead)
    parameters.kind.check_solver(parts.solver)
    early_stopping = bool(setting(parameters, "early_stopping"))
    return Recipe(
        parts,
        kind=parameters.kind,
        batch_size=parts.solver.batch_size(parameters.batch_size),
        max_epochs=int(setting(parameters, "max_epochs")),
        l2=ridge(parameters),
        early_stopping=early_stopping,
        validation_fraction=parameters.validation_fraction,
        stop=stopping_rule(parameters, parts.solver, early_stopping),
        **common(parameters),
    )
