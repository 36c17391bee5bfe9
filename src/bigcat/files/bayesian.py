"""What a model file holds of a `BayesianClassifier`: its posterior and its prior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.bayes import METHODS
from bigcat.bayes.covariance import (
    ClassDiagonal,
    ClassFull,
    Covariance,
    Drawn,
    JointFull,
    SharedDiagonal,
    SharedFull,
    Spectral,
)
from bigcat.bayes.method import FittedPosterior, Seen
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.files.values import Tensors, from_json, to_json
from bigcat.noise import Noise, resolve

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, History

#: The arrays of each covariance in the order of its constructor, and their shapes for K classes
#: and M weights per class, J = K M weights in all; S, the number of draws, is what the file has.
#: What is "=K" is that number itself, and not stored.
COVARIANCES: dict[str, tuple[type[Covariance], dict[str, str]]] = {
    "shared full": (SharedFull, {"matrix": "MM", "log_determinant": ""}),
    "class full": (ClassFull, {"matrices": "KMM", "logs": "K"}),
    "shared diagonal": (SharedDiagonal, {"values": "M"}),
    "class diagonal": (ClassDiagonal, {"values": "KM"}),
    "spectral": (Spectral, {"basis": "MM", "spectra": "KM"}),
    "joint full": (JointFull, {"matrix": "JJ", "n_classes": "=K"}),
    "draws": (Drawn, {"deviations": "SKM"}),
}


def pack_posterior(tensors: dict[str, np.ndarray], model: BayesianClassifier) -> dict[str, Any]:
    """Put the arrays of a fitted model into `tensors`; what else there is, as JSON."""
    fitted = model.fitted
    q, form = fitted.posterior, fitted.posterior.covariance_form
    kind = next(name for name, (cls, _) in COVARIANCES.items() if type(form) is cls)
    arrays = {"mean": q.mean}
    arrays |= {
        f"covariance.{name}": getattr(form, name)
        for name, axes in COVARIANCES[kind][1].items()
        if not axes.startswith("=")
    }
    transposed = []
    for name, array in arrays.items():
        array = np.asarray(array)
        # The order of the axes in memory decides the last bits of a product.
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            transposed.append(name)
            array = array.T
        tensors[name] = array
    return {
        "kind": q.kind,
        "covariance": kind,
        "transposed": transposed,
        "intercept": bool(q.intercept),
        "weight_prior": _pack_prior(tensors, q.prior),
        "evidence": to_json(float(fitted.evidence)),
        "bounds_evidence": bool(fitted.bounds_evidence),
        "rows_seen": float(fitted.seen.rows),
        "steps_made": int(fitted.seen.steps),
        **q.facts(),
    }


def _pack_prior(tensors: dict[str, np.ndarray], prior: WeightPrior | None) -> list[str] | None:
    """Put the arrays of a prior with learnt scales into `tensors`; their names."""
    if prior is None:
        return None
    arrays = {name: array for name, array in prior._asdict().items() if array is not None}
    tensors.update({f"weight_prior.{name}": np.asarray(a) for name, a in arrays.items()})
    return list(arrays)


def unpack_posterior(
    read: Tensors,
    stored: dict[str, Any],
    model: BayesianClassifier,
    classes: np.ndarray,
    n_features: int,
    history: History,
    noise: str | Noise | None = None,
) -> None:
    """Make a model that has its parameters a fitted one; ValueError where parts do not fit.

    `noise` is that of the fit, for a posterior that has one.
    """
    intercept = stored["intercept"]
    K, M = len(classes), n_features + intercept
    sizes = {"K": K, "M": M, "J": K * M}

    def array(name: str, axes: str) -> Any:
        if axes.startswith("="):
            return sizes[axes[1:]]
        found = read(name)
        if name in stored["transposed"]:
            found = found.T
        free = dict(zip(axes, found.shape))
        expected = tuple(sizes.get(axis, free.get(axis)) for axis in axes)
        if found.shape != expected:
            raise ValueError(
                f"{name} has shape {found.shape}, but {expected} belongs to {len(classes)} classes "
                f"and {n_features} features"
            )
        return found

    mean = array("mean", "KM")
    form, shapes = COVARIANCES[stored["covariance"]]
    posteriors = {method.posterior.kind: method.posterior for method in METHODS.values()}
    posterior = posteriors[stored["kind"]].of_facts(
        mean,
        form(*[array(f"covariance.{name}", axes) for name, axes in shapes.items()]),
        intercept=intercept,
        classes=classes,
        noise=None if noise is None else resolve(noise),
        facts=stored,
    )
    stored_prior = stored.get("weight_prior")  # missing in older files
    if stored_prior is not None:
        posterior.prior = WeightPrior(
            **{name: read(f"weight_prior.{name}") for name in stored_prior}
        )
    seen = Seen(stored["rows_seen"], stored["steps_made"])
    evidence, is_bound = from_json(stored["evidence"]), stored["bounds_evidence"]
    model.restore(FittedPosterior(posterior, evidence, history, seen, bounds_evidence=is_bound))
