"""The register of cases, and how most of them are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.against import spell
from benchmarks.against.answers import of_linear
from benchmarks.against.problems import problem

Answer = dict[str, Any]

#: Cases by name; each gives an answer of `benchmarks.against.answers`.
CASES: dict[str, Callable[[], Answer]] = {}

#: A few passes that end by number: what is summed over an epoch may differ in its last bit, and no
#: stop may hang on that.
FEW_PASSES: dict[str, Any] = {"max_epochs": 3, "tol": None}
SAMPLED: dict[str, Any] = {"method": "augment-reduce", "n_negatives": 6, **FEW_PASSES}
WHOLE = {"method": "exact", "max_epochs": 12, "tol": None}


def case(name: str) -> Callable:
    """Register a function that gives an answer."""

    def register(function: Callable[[], Answer]) -> Callable:
        if name in CASES:
            raise ValueError(f"there is a case {name!r} already")
        CASES[name] = function
        return function

    return register


def plain(name: str, data: str, **options: Any) -> None:
    """A fit of a `LinearClassifier` to all rows."""

    @case(name)
    def run() -> Answer:
        rows = problem(data)
        return of_linear(spell.linear(**made(options)).fit(rows.X, rows.y), rows.X, rows.y)


def made(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the objects that `part` and others defer; imports happen here."""
    return {key: value() if callable(value) else value for key, value in options.items()}


def part(module: str, name: str, **fields: Any) -> Callable[[], Any]:
    """A solver, sampler, bound or prior, made when the case runs."""

    def make() -> Any:
        import bigcat

        return getattr(getattr(bigcat, module), name)(**fields)

    return make


def labels_of(model: Any, n: int) -> np.ndarray:
    """Return labels of the model, for a number of rows."""
    return model.classes_[np.arange(n) % len(model.classes_)]


def some_weights(n: int) -> np.ndarray:
    """Row weights: zeros, ones, fractions and values above one."""
    return np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=n)


def all_cases() -> dict[str, Callable[[], Answer]]:
    """The register, filled."""
    from benchmarks.against import bayesian_cases, call_cases, linear_cases  # noqa: F401

    return CASES
