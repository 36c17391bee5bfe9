"""What a model file holds of a `BayesianClassifier`: its posterior and its prior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.bayes import METHODS
from bigcat.bayes.covariance import (
    ClassDiagonal,
    ClassFull,
    Covariance,
    Drawn,
    JointFull,
    LowRank,
    SharedDiagonal,
    SharedFull,
    Spectral,
)
from bigcat.bayes.likelihoods import LIKELIHOODS
from bigcat.bayes.links import LINKS
from bigcat.bayes.method import FittedPosterior, Seen
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.files.checks import (
    Check,
    check_floats,
    check_keys,
    is_names,
    is_number,
    is_text,
    is_whole,
    or_none,
)
from bigcat.files.tensors import Tensors
from bigcat.files.values import from_json, to_json
from bigcat.noise import Noise, resolve

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, History

#: The arrays of each covariance in the order of its constructor, and their shapes for K classes
#: and M weights per class, J = K M weights in all;
#: S, the number of draws, L, of directions, R, of their numbers, and B are what the file has.
#: What is "=K" is that number itself, and not stored.
COVARIANCES: dict[str, tuple[type[Covariance], dict[str, str]]] = {
    "shared full": (SharedFull, {"matrix": "MM", "log_determinant": ""}),
    "class full": (ClassFull, {"matrices": "KMM", "logs": "K"}),
    "shared diagonal": (SharedDiagonal, {"values": "M"}),
    "class diagonal": (ClassDiagonal, {"values": "KM"}),
    "spectral": (Spectral, {"basis": "MM", "spectra": "KM"}),
    "joint full": (JointFull, {"matrix": "JJ", "n_classes": "=K"}),
    "draws": (Drawn, {"deviations": "SKM"}),
    "low-rank": (
        LowRank,
        {"scales": "KR", "directions": "KLR", "shrinkage": "KL", "basis": "BR"},
    ),
}
#: More draws than anybody makes: predictions take memory for each of them.
_MOST_DRAWS = 1_000_000
#: The evidence of a posterior around another fit than its own mode.
_UNKNOWN = to_json(math.nan)
#: What each key of the header's `posterior` has to be; facts are those of one kind of posterior.
_KEYS: dict[str, Check] = {
    "kind": is_text,
    "covariance": is_text,
    "transposed": is_names,
    "intercept": lambda value: isinstance(value, bool),
    "bounds_evidence": lambda value: isinstance(value, bool),
    "evidence": lambda value: is_number(from_json(value)) or value == _UNKNOWN,
    "rows_seen": lambda value: is_number(value, 0),
    "steps_made": is_whole,
}
_FACTS: dict[str, Check] = {
    "link": lambda value: is_text(value) and value in LINKS,
    "likelihood": lambda value: is_text(value) and value in LIKELIHOODS,
    "averaging_weight": lambda value: is_number(value, 0.0, 1.0),
    "n_draws": lambda value: is_whole(value, 1) and value <= _MOST_DRAWS,
    "seed": lambda value: is_whole(value) and value < 2**32,
    "weight_prior": or_none(is_names),
}
#: Logarithms, of which those of zero are infinite.
_LOGARITHMS = ("covariance.log_determinant", "covariance.logs")


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
        check_floats(name, array, finite=name not in _LOGARITHMS)
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
    check_keys("posterior.", stored, _KEYS)
    check_keys("posterior.", stored, _FACTS, optional=True)
    intercept = stored["intercept"]
    K, M = len(classes), n_features + intercept
    sizes = {"K": K, "M": M, "J": K * M}

    def array(name: str, axes: str) -> Any:
        if axes.startswith("="):
            return sizes[axes[1:]]
        found = read(name)
        if name in stored["transposed"]:
            found = found.T
        for axis, size in zip(axes, found.shape):  # one that is not known yet holds for all arrays
            sizes.setdefault(axis, size)
        expected = tuple(sizes.get(axis) for axis in axes)
        if found.shape != expected:
            raise ValueError(
                f"{name} has shape {found.shape}, but {expected} belongs to {len(classes)} classes "
                f"and {n_features} features"
            )
        check_floats(name, found, finite=name not in _LOGARITHMS)
        return found

    mean = array("mean", "KM")
    form, parts = COVARIANCES[stored["covariance"]]
    posteriors = {method.posterior.kind: method.posterior for method in METHODS.values()}
    posterior = posteriors[stored["kind"]].of_facts(
        mean,
        form(*[array(f"covariance.{name}", axes) for name, axes in parts.items()]),
        intercept=intercept,
        classes=classes,
        noise=None if noise is None else resolve(noise),
        facts=stored,
    )
    stored_prior = stored.get("weight_prior")  # missing in older files
    if stored_prior is not None:
        of_prior = {name: read(f"weight_prior.{name}") for name in stored_prior}
        shapes: dict[str, list[tuple[int, ...]]] = {
            "mean": [(M,)],
            "precision": [(1, M), (K, M)],
            "means": [(n_features,)],
        }
        for name, found in of_prior.items():
            check_floats(f"weight_prior.{name}", found, finite=False)
            if found.shape not in shapes.get(name, [(M, M)]):
                raise ValueError(f"weight_prior.{name} has shape {found.shape}")
        posterior.prior = WeightPrior(**of_prior)
    seen = Seen(stored["rows_seen"], stored["steps_made"])
    evidence, is_bound = from_json(stored["evidence"]), stored["bounds_evidence"]
    model.restore(FittedPosterior(posterior, evidence, history, seen, bounds_evidence=is_bound))
