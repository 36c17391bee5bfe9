"""Recipes of named methods: the parameters as they are."""

from __future__ import annotations

from typing import Any

from bigcat.auto.parameters import Parameters
from bigcat.combinations import Method, Parts, resolve
from bigcat.training.recipe import Recipe
from bigcat.training.stopping import NoGain

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


def named_recipe(
    parameters: Parameters, method: str | Method | None = None, **instead: Any
) -> Recipe:
    """The recipe of a named method; `instead` are parts to take instead of the user's."""
    method = method or parameters.method
    assert method is not None
    parts = parts_of(parameters, method, **instead)
    parameters.kind.check_solver(parts.solver)
    return Recipe(
        parts,
        kind=parameters.kind,
        batch_size=parts.solver.batch_size(parameters.batch_size),
        max_epochs=int(setting(parameters, "max_epochs")),
        l2=ridge(parameters),
        early_stopping=bool(setting(parameters, "early_stopping")),
        validation_fraction=parameters.validation_fraction,
        stop=lambda: NoGain(parameters.tol, parameters.n_iter_no_change),
        **common(parameters),
    )
