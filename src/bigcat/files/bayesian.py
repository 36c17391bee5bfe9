"""What a model file holds of a `BayesianClassifier`: its posterior and its prior."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.bayes import GaussianPrior, HierarchicalPrior, HorseshoePrior
from bigcat.bayes.covariance import (
    ClassDiagonal,
    ClassFull,
    Covariance,
    SharedDiagonal,
    SharedFull,
    Spectral,
)
from bigcat.bayes.posterior import GaussianPosterior, NoisePosterior, Posterior
from bigcat.files.values import Tensors
from bigcat.noise import resolve

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, History

PRIORS: dict[str, Any] = {
    kind.__name__: kind for kind in (GaussianPrior, HierarchicalPrior, HorseshoePrior)
}
#: The arrays of each covariance in the order of its constructor, and their shapes for K classes
#: and M weights a class.
COVARIANCES: dict[str, tuple[type[Covariance], dict[str, str]]] = {
    "shared full": (SharedFull, {"matrix": "MM", "log_determinant": ""}),
    "class full": (ClassFull, {"matrices": "KMM", "logs": "K"}),
    "shared diagonal": (SharedDiagonal, {"values": "M"}),
    "class diagonal": (ClassDiagonal, {"values": "KM"}),
    "spectral": (Spectral, {"basis": "MM", "spectra": "KM"}),
}


def pack_posterior(tensors: dict[str, np.ndarray], model: BayesianClassifier) -> dict[str, Any]:
    """Put the arrays of a fitted model into `tensors`; what else there is, as JSON."""
    q = model.posterior_
    covariance = q._covariance
    kind = next(name for name, (cls, _) in COVARIANCES.items() if type(covariance) is cls)
    arrays = {"mean": q.mean}
    arrays |= {f"covariance.{name}": getattr(covariance, name) for name in COVARIANCES[kind][1]}
    transposed = []
    for name, array in arrays.items():
        array = np.asarray(array)
        # The order of the axes in memory decides the last bits of a product.
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            transposed.append(name)
            array = array.T
        tensors[name] = array
    stream = model._stream
    description = {
        "covariance": kind,
        "transposed": transposed,
        "intercept": bool(q.intercept),
        "elbo": float(model.elbo_),
        "rows_seen": float(model._n_rows if stream is None else stream.rows_seen),
        "steps_made": int(model._n_steps if stream is None else stream.n_steps),
    }
    if isinstance(q, NoisePosterior):
        return description | {"kind": "noise", "n_draws": int(q.n_draws), "seed": int(q._seed)}
    assert isinstance(q, Posterior)
    return description | {
        "kind": "binary",
        "link": q.link,
        "likelihood": q.likelihood,
        "averaging_weight": float(q.averaging_weight),
    }


def unpack_posterior(
    read: Tensors,
    stored: dict[str, Any],
    model: BayesianClassifier,
    classes: np.ndarray,
    n_features: int,
    history: History,
) -> None:
    """Make a model that has its parameters a fitted one; ValueError where parts do not fit."""
    intercept = stored["intercept"]
    sizes = {"K": len(classes), "M": n_features + intercept}

    def array(name: str, axes: str) -> np.ndarray:
        found = read(name)
        if name in stored["transposed"]:
            found = found.T
        expected = tuple(sizes[axis] for axis in axes)
        if found.shape != expected:
            raise ValueError(
                f"{name} has shape {found.shape}, but {expected} belongs to {len(classes)} classes "
                f"and {n_features} features"
            )
        return found

    mean = array("mean", "KM")
    cls, shapes = COVARIANCES[stored["covariance"]]
    parts = [array(f"covariance.{name}", axes) for name, axes in shapes.items()]
    common: dict[str, Any] = {"intercept": intercept, "classes": classes}
    posterior: GaussianPosterior
    weight = None
    if stored["kind"] == "noise":
        posterior = NoisePosterior(
            mean,
            *parts,
            noise=resolve(model.noise),
            n_draws=stored["n_draws"],
            seed=stored["seed"],
            **common,
        )
    else:
        weight = stored["averaging_weight"]
        posterior = Posterior(
            mean, cls(*parts), link=stored["link"], likelihood=stored["likelihood"], **common
        )
    model._adopt(posterior, weight, stored["elbo"], history)
    model._stream = None
    model._n_rows, model._n_steps = stored["rows_seen"], stored["steps_made"]


def pack_prior(tensors: dict[str, np.ndarray], prior: Any) -> Any:
    """A prior of bigcat by its name and fields, whose arrays go into `tensors`; others as is."""
    name = type(prior).__name__
    if PRIORS.get(name) is not type(prior):
        return prior
    values = {field.name: getattr(prior, field.name) for field in fields(prior)}
    arrays = [name for name, value in values.items() if isinstance(value, np.ndarray)]
    for field in arrays:
        tensors[f"prior.{field}"] = np.asarray(values.pop(field), np.float64)
    return {"name": name, "fields": values, "arrays": arrays}


def unpack_prior(read: Tensors, stored: dict[str, Any]) -> Any:
    arrays = {name: read(f"prior.{name}") for name in stored["arrays"]}
    return PRIORS[stored["name"]](**stored["fields"], **arrays)
