"""Content of a model file of a `BayesianClassifier`: its posterior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat._io.checks import MAX_WEIGHT, check, check_floats, is_number, is_whole
from bigcat.bayes import METHODS
from bigcat.bayes import covariance as forms
from bigcat.bayes.binary.likelihoods import LIKELIHOODS
from bigcat.bayes.binary.links import LINKS
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.method import FittedPosterior, Seen
from bigcat.bayes.priors import WeightPrior
from bigcat.files.codec import Arrays, Read, from_json, to_json
from bigcat.noise import Noise, resolve

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, History

#: The arrays of each covariance in the order of its constructor, and their shapes for K classes
#: and M weights per class, J = K M weights in all.  The number of draws, S, is
#: as in the file.  "=K" is that number itself, which is not stored.
COVARIANCES: dict[str, tuple[type[forms.Covariance], dict[str, str]]] = {
    "shared full": (forms.SharedFull, {"matrix": "MM", "log_determinant": ""}),
    "class full": (forms.ClassFull, {"matrices": "KMM", "logs": "K"}),
    "shared diagonal": (forms.SharedDiagonal, {"values": "M"}),
    "class diagonal": (forms.ClassDiagonal, {"values": "KM"}),
    "joint full": (forms.JointFull, {"matrix": "JJ", "n_classes": "=K"}),
    "draws": (forms.Drawn, {"deviations": "SKM"}),
}
#: Most draws that predictions make: each takes memory.
_MAX_DRAWS = 1_000_000
#: Facts of each kind of posterior.
_FACTS: dict[str, dict[str, Any]] = {
    "binary": {
        "link": {*LINKS},
        "likelihood": {*LIKELIHOODS},
        "averaging_weight": lambda value: is_number(value, 0.0, 1.0),
    },
    "noise": {
        "n_draws": lambda value: is_whole(value, 1, _MAX_DRAWS),
        "seed": lambda value: is_whole(value, 0, 2**32 - 1),
    },
}
#: Bounds of arrays that have others than weights: logarithms of zero, variances.
_BOUNDS = {
    "covariance.log_determinant": (-math.inf, math.inf),
    "covariance.logs": (-math.inf, math.inf),
    "covariance.matrix": (-(MAX_WEIGHT**2), MAX_WEIGHT**2),
    "covariance.matrices": (-(MAX_WEIGHT**2), MAX_WEIGHT**2),
    "covariance.values": (0.0, MAX_WEIGHT**2),
    "weight_prior.precision": (0.0, math.inf),
    "columns.sizes": (0.0, MAX_WEIGHT**2),
    "columns.centres": (-(MAX_WEIGHT**2), MAX_WEIGHT**2),
}


def posterior_to_json(model: BayesianClassifier, arrays: Arrays) -> dict[str, Any]:
    """Return JSON of what a fit has found, and put its arrays into `arrays`."""
    fitted = model.fitted
    q, form = fitted.posterior, fitted.posterior.scaled_covariance
    kind = next(name for name, (cls, _) in COVARIANCES.items() if type(form) is cls)
    stored = {"mean": q.scaled_mean}
    for name, axes in COVARIANCES[kind][1].items():
        if not axes.startswith("="):
            stored[f"covariance.{name}"] = np.asarray(getattr(form, name))
    prior = {} if q.prior is None else q.prior._asdict()
    stored |= {f"weight_prior.{k}": np.asarray(a) for k, a in prior.items() if a is not None}
    columns = {} if q.columns is None else q.columns._asdict()
    stored |= {f"columns.{k}": np.asarray(a) for k, a in columns.items() if a is not None}
    for name, array in stored.items():
        _check_array(name, array)
    return {
        "kind": q.kind,
        "covariance": kind,
        "facts": q.facts(),
        "intercept": bool(q.intercept),
        "bounds_evidence": bool(fitted.bounds_evidence),
        "why_no_evidence": fitted.why_no_evidence,
        "evidence": to_json(float(fitted.evidence), arrays),
        "rows_seen": float(fitted.seen.rows),
        "steps_made": int(fitted.seen.steps),
        "arrays": to_json(stored, arrays),
    }


def _check_array(name: str, array: np.ndarray) -> None:
    check_floats(name, array, None, *_BOUNDS.get(name, (-MAX_WEIGHT, MAX_WEIGHT)))
    if name in ("covariance.matrix", "covariance.matrices"):
        variances = array.diagonal(axis1=-2, axis2=-1)
        check_floats(f"the diagonal of {name}", variances, None, *_BOUNDS["covariance.values"])


def restore_posterior(
    model: BayesianClassifier,
    stored: dict[str, Any],
    history: History,
    read: Read,
    noise: str | Noise | None = None,
) -> None:
    """Give the model what the file holds; ValueError where it does not fit together.

    `noise` is that of the fit, for a posterior that has one.
    """
    check("posterior.facts", stored["facts"], _FACTS[stored["kind"]])
    n_features, intercept = model.n_features_in_, stored["intercept"]
    K, M = len(model.classes_), n_features + intercept
    sizes = {"K": K, "M": M, "J": K * M}
    arrays = {name: from_json(array, read) for name, array in stored["arrays"].items()}

    def take(name: str, axes: str) -> Any:
        if axes.startswith("="):
            return sizes[axes[1:]]
        array = arrays.pop(name)
        for axis, size in zip(axes, array.shape):  # a size that is not known yet holds for all
            sizes.setdefault(axis, size)
        expected = tuple(sizes.get(axis) for axis in axes)
        if array.shape != expected:
            raise ValueError(
                f"{name} has shape {array.shape}, but {expected} belongs to {K} classes and "
                f"{n_features} features"
            )
        _check_array(name, array)
        return array

    columns = _columns(arrays, sizes, n_features, intercept, take)
    form, parts = COVARIANCES[stored["covariance"]]
    posteriors: dict[str, Any] = {m.posterior.kind: m.posterior for m in METHODS.values()}
    facts = stored["facts"]
    if stored["kind"] == "noise":
        if noise is None:
            raise ValueError("the posterior of a model with a noise needs that noise")
        facts = facts | {"noise": resolve(noise)}
    posterior = posteriors[stored["kind"]](
        take("mean", "KM"),
        form(*[take(f"covariance.{name}", axes) for name, axes in parts.items()]),
        intercept=intercept,
        classes=model.classes_,
        columns=columns,
        **facts,
    )
    if arrays:
        of_one = "PM" if len(arrays.get("weight_prior.precision", ())) == 1 else "KM"
        sizes |= {"P": 1}
        axes = {"mean": "M", "precision": of_one}
        names = [name.removeprefix("weight_prior.") for name in arrays]
        prior = {name: take(f"weight_prior.{name}", axes[name]) for name in names}
        posterior.prior = WeightPrior(**prior)
    seen = Seen(stored["rows_seen"], stored["steps_made"])
    model.restore(
        FittedPosterior(
            posterior,
            from_json(stored["evidence"], read),
            history,
            seen,
            bounds_evidence=stored["bounds_evidence"],
            why_no_evidence=stored["why_no_evidence"],
        )
    )


def _columns(
    arrays: dict[str, Any], sizes: dict[str, int], n_features: int, intercept: bool, take: Any
) -> PosteriorColumns | None:
    """Return the scaling of the columns, and set the number of weights of a class."""
    if "columns.sizes" not in arrays:
        return None
    sizes |= {"G": n_features, "D": n_features}
    embedding = None
    if "columns.embedding" in arrays:
        del sizes["D"]
        embedding = take("columns.embedding", "GD")
    found = PosteriorColumns(
        take("columns.sizes", "D"),
        take("columns.centres", "D") if "columns.centres" in arrays else None,
        float(take("columns.squared_length", "")),
        embedding,
    )
    sizes["M"] = sizes["D"] + intercept
    sizes["J"] = sizes["K"] * sizes["M"]
    return found
