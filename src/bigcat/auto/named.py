"""Settings of named methods: the parameters as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bigcat.auto.parameters import Parameters
from bigcat.combinations import Method, Parts, resolve
from bigcat.solvers import Solver
from bigcat.training.config import FitConfig
from bigcat.training.stopping import Never, NoGain, Plateau, StoppingRule

#: Values of "auto" where a method is named.
NAMED_DEFAULTS: dict[str, Any] = {
    "n_negatives": 32,
    "max_epochs": 50,
    "early_stopping": False,
    "l2": 0.0,
}


def setting(parameters: Parameters, name: str, auto: Any = None) -> Any:
    """Return a parameter, or the value that "auto" stands for."""
    if parameters.given(name):
        return getattr(parameters, name)
    return NAMED_DEFAULTS[name] if auto is None else auto


def parts_of(parameters: Parameters, method: str | Method, **instead: Any) -> Parts:
    """Return the parts of a method, with the user's own and with some others `instead`."""
    options = {
        "solver": parameters.solver,
        "sampler": parameters.sampler,
        "n_negatives": setting(parameters, "n_negatives"),
        "learning_rate": parameters.learning_rate,
        **instead,
    }
    return resolve(method, parameters.noise, **options)


def stopping_rule(
    parameters: Parameters, solver: Solver, early_stopping: bool
) -> Callable[[], StoppingRule]:
    """Return when a fit stops before its last epoch.

    By validation rows, once they have not gained for a while; by the objective, which is noisy,
    once its mean no longer grows; not at all where the rate is planned to fall to zero.
    """
    if early_stopping:
        return lambda: NoGain(parameters.tol, parameters.n_iter_no_change)
    if solver.ends_at_zero:
        return Never
    return lambda: Plateau(parameters.tol or 0.0, parameters.n_iter_no_change)


def named_config(
    parameters: Parameters, method: str | Method | None = None, **instead: Any
) -> FitConfig:
    """Return the settings of a named method; `instead` are parts to take for the user's."""
    method = method or parameters.method
    assert method is not None
    parts = parts_of(parameters, method, **instead)
    parameters.kind.check_solver(parts.solver)
    early_stopping = bool(setting(parameters, "early_stopping"))
    l2 = setting(parameters, "l2")
    return FitConfig(
        parts,
        kind=parameters.kind,
        batch_size=parts.solver.batch_size(parameters.batch_size),
        max_epochs=int(setting(parameters, "max_epochs")),
        l2=1.0 if l2 == "path" else float(l2),  # until the path is known
        tol=0.0 if parameters.tol is None else float(parameters.tol),
        fit_intercept=parameters.fit_intercept,
        init=parameters.init,
        shuffle=parameters.shuffle,
        n_threads=parameters.n_threads,
        early_stopping=early_stopping,
        validation_fraction=parameters.validation_fraction,
        stop=stopping_rule(parameters, parts.solver, early_stopping),
    )
