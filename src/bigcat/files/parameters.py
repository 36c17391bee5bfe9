"""Parameters of estimators in a model file: values as JSON, parts by name and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bigcat.files.tensors import Tensors
from bigcat.files.values import from_json, to_json
from bigcat.part import Part


def pack_parameter(
    estimator: str, parameter: str, value: Any, tensors: dict[str, np.ndarray]
) -> Any:
    """JSON of a parameter; TypeError for one that has none, such as a part of your own."""
    if not isinstance(value, Part):
        return to_json(_method_name(value))
    name = next(
        (n for n, kind in _registry(estimator, parameter).items() if kind is type(value)), None
    )
    if name is None:
        raise TypeError(f"a {type(value).__name__} is not one of bigcat's")
    options = {}
    for option, content in value.options().items():
        if isinstance(content, np.ndarray):  # of a prior
            tensors[f"{parameter}.{option}"] = np.asarray(content, np.float64)
            options[option] = {"tensor": f"{parameter}.{option}"}
        elif isinstance(content, Part):  # the header has a noise apart
            if option != "noise" and content != type(value)().options()[option]:
                raise TypeError(f"{option}={content!r} of a {type(value).__name__} is not stored")
        else:
            options[option] = to_json(content)
    return {"part": name, "options": {"dict": list(map(list, options.items()))}}


def unpack_parameter(estimator: str, parameter: str, stored: Any, read: Tensors) -> Any:
    """The inverse of `pack_parameter`."""
    if not (isinstance(stored, dict) and "part" in stored):
        return from_json(stored)
    kind = _registry(estimator, parameter)[stored["part"]]
    options = {
        option: read(content["tensor"]) if _is_tensor(content) else from_json(content)
        for option, content in stored["options"]["dict"]
    }
    return kind(**options)


def _is_tensor(content: object) -> bool:
    return isinstance(content, dict) and set(content) == {"tensor"}


def _method_name(value: Any) -> Any:
    """A registered method by its name."""
    from bigcat.combinations import Method, resolve_method

    if not isinstance(value, Method):
        return value
    try:
        return value.name if resolve_method(value.name) == value else value
    except ValueError:
        return value


def _registry(estimator: str, parameter: str) -> Mapping[str, type]:
    """Parts that a parameter of an estimator may be, by name."""
    from bigcat import bayes, bounds, samplers, solvers

    registries: dict[tuple[str, str], Mapping[str, type]] = {
        ("LinearClassifier", "method"): bounds.REGISTRY,
        ("LinearClassifier", "solver"): solvers.REGISTRY,
        ("LinearClassifier", "sampler"): samplers.REGISTRY,
        ("BayesianClassifier", "method"): bayes.METHODS,
        ("BayesianClassifier", "prior"): bayes.PRIORS,
    }
    return registries.get((estimator, parameter), {})
