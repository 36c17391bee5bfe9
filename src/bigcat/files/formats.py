"""Headers of older model files, turned into those of today.

Files of every format that was ever written load for good: a step here takes a header from one
version to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMAT = "bigcat-model"
FORMAT_VERSION = 4
#: Files of later versions have digests of all that is in them.
LAST_WITHOUT_DIGESTS = 3

Header = dict[str, Any]


def current(header: Header) -> Header:
    """The header as today's format has it; KeyError for a version that is not known."""
    while header["format_version"] != FORMAT_VERSION:
        header = _STEPS[header["format_version"]](header)
    return header


def is_known(version: object) -> bool:
    return type(version) is int and (version == FORMAT_VERSION or version in _STEPS)


def _part(name: str, **fields: Any) -> Header:
    """A part as headers have it: JSON of its name and of the options that are not its defaults."""
    return {"part": name, "options": {"dict": [[key, value] for key, value in fields.items()]}}


def _from_1(header: Header) -> Header:
    """Version 1: options of parts were parameters of the estimators."""
    header = {**header, "format_version": 2}
    parameters = dict(header["parameters"])
    if header["estimator"] == "LinearClassifier":
        header["parameters"] = _linear_parameters_from_1(parameters, header)
        header.setdefault("rank", None)
        low = header["rank"] is not None
        header["weights"] = ["embedding", "class_embedding"] if low else ["coef"]
        feature_major = header.pop("coef_layout", "class-major") == "feature-major"
        header["transposed"] = ["coef"] if feature_major else []
        header.setdefault("weights_dtype", "float32")
    else:
        header["parameters"] = _bayesian_parameters_from_1(parameters, header)
    return header


def _linear_parameters_from_1(parameters: Header, header: Header) -> Header:
    bound = {
        name: value
        for name, default in _BOUND_1.items()
        if (value := parameters.pop(name, default)) != default
    }
    method = parameters.get("method", "auto")
    if bound and method == "augment-reduce":
        parameters["method"] = _part("augment-reduce", **bound)
    exact_classes = parameters.pop("exact_classes", 0)
    for name in ("solver", "sampler"):
        given = parameters.get(name)
        if isinstance(given, dict):  # in JSON a dict of "name" and "fields"
            found = dict(given["dict"])
            fields = dict(found["fields"]["dict"])
            parameters[name] = _part(found["name"], **fields)
    if isinstance(parameters.get("sampler"), dict):
        parameters["n_negatives"] = "auto"  # the object had its own, and this was not read
    if exact_classes != 0:
        sampler = parameters.get("sampler", "auto")
        if sampler == "auto":
            sampler = "everything" if parameters.get("method") in _ALL_CLASSES_1 else "uniform"
        if isinstance(sampler, str):
            draws = parameters.get("n_negatives", 32)
            fields = {} if sampler == "everything" else {"n_negatives": draws}
            sampler = _part(sampler, **{k: 32 if v == "auto" else v for k, v in fields.items()})
            parameters["n_negatives"] = "auto"
        sampler["options"]["dict"].append(["exact_classes", exact_classes])
        parameters["sampler"] = sampler
    probabilities = parameters.pop("probabilities", "quadrature")
    header["noise"] = {**header["noise"], "probabilities": probabilities}
    return parameters


def _bayesian_parameters_from_1(parameters: Header, header: Header) -> Header:
    """What the two methods shared stays with the estimator, the rest goes to the method."""
    header["noise"] = {**header["noise"], "probabilities": "quadrature"}
    name = parameters.pop("method", "independent-binary")
    own: Header = {}
    for option in _METHOD_OPTIONS_1[name]:
        if option in parameters:
            own[option] = parameters[option]
    for option in {o for options in _METHOD_OPTIONS_1.values() for o in options}:
        parameters.pop(option, None)
    for option in ("tol", "learning_rate"):
        if own.get(option) == "auto":
            del own[option]
    parameters["method"] = _part(name, **own)
    prior = parameters.get("prior")
    if isinstance(prior, dict):
        found = dict(prior["dict"])
        tensors = {array: {"tensor": f"prior.{array}"} for array in found["arrays"]}
        parameters["prior"] = _part(found["name"], **dict(found["fields"]["dict"]), **tensors)
    return parameters


def _from_2(header: Header) -> Header:
    """Version 2: there was no Laplace method, and defaults of a `BayesianClassifier` were others.

    A parameter that is not in the file comes back as its default: that of the version that wrote
    it.  The evidence was always a lower bound, and had that name.
    """
    header = {**header, "format_version": 3}
    if header["estimator"] == "BayesianClassifier":
        defaults = {"method": "independent-binary", "prior": "gaussian"}
        header["parameters"] = {**defaults, **header["parameters"]}
        posterior = dict(header["posterior"])
        posterior["evidence"] = posterior.pop("elbo")
        posterior["bounds_evidence"] = True
        header["posterior"] = posterior
    return header


def _from_3(header: Header) -> Header:
    """Version 3: there were no digests, so that damage to an array may go unnoticed."""
    return {**header, "format_version": 4, "digests": None}


_BOUND_1: Header = {"expectation": "quadrature", "n_nodes": 8, "variational": "auto"}
_ALL_CLASSES_1 = ("exact", "bouchard")
_METHOD_OPTIONS_1 = {
    "independent-binary": (
        "link",
        "likelihood",
        "covariance",
        "solver",
        "tol",
        "max_iter",
        "n_draws",
        "step_power",
        "total_rows",
    ),
    "augment-reduce": (
        "n_negatives",
        "max_epochs",
        "learning_rate",
        "tol",
        "n_iter_no_change",
        "validation_fraction",
        "n_draws",
    ),
}
_STEPS: dict[object, Callable[[Header], Header]] = {1: _from_1, 2: _from_2, 3: _from_3}
