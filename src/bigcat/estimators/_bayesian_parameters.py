"""Checks of the Bayesian classifier's parameters, and the prior that they name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bigcat import noise as noises
from bigcat.auto.parameters import is_count, is_number
from bigcat.bayes import GaussianPrior, HierarchicalPrior, HorseshoePrior

#: Priors that go by a name, at their defaults.
PRIORS = {
    "gaussian": GaussianPrior,
    "hierarchical": HierarchicalPrior,
    "horseshoe": HorseshoePrior,
}
_CHOICES = {
    "method": ("independent-binary", "augment-reduce"),
    "link": ("probit", "logit"),
    "likelihood": ("average", "conditioned", "marginalised"),
    "covariance": ("full", "diagonal"),
    "solver": ("newton", "cavi"),
}
_WHOLE = (
    "max_iter",
    "n_draws",
    "n_threads",
    "total_rows",
    "n_negatives",
    "max_epochs",
    "n_iter_no_change",
)
#: `tol="auto"`: a part of the ELBO, and nats a row and epoch.
_TOLERANCES = {"independent-binary": 1e-8, "augment-reduce": 1e-4}
#: What one method alone can mean, and what says the same in the other.
_ONLY_BINARY = {
    "link": ("probit", "choose the noise instead, noise='gaussian' or 'gumbel'"),
    "likelihood": ("average", "augment-reduce has one likelihood, that of its noise"),
    "solver": ("newton", "augment-reduce makes stochastic passes; leave it at 'newton'"),
}


def check_parameters(estimator: Any) -> None:
    """Raise for a parameter that cannot be used, with its value and what would do."""
    for name, allowed in _CHOICES.items():
        value = getattr(estimator, name)
        if value not in allowed:
            raise ValueError(
                f"{name}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}"
            )
    for name in _WHOLE:
        value = getattr(estimator, name)
        if value is None and name in ("n_threads", "total_rows"):
            continue
        if not is_count(value) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    tol = estimator.tol
    if tol != "auto" and not (is_number(tol) and 0.0 <= tol < math.inf):
        raise ValueError(f"tol={tol!r} must be a finite number of at least 0, or 'auto'")
    fraction = estimator.validation_fraction
    if fraction is not None and not (is_number(fraction) and 0.0 < fraction < 1.0):
        raise ValueError(f"validation_fraction={fraction!r} must lie between 0 and 1, or be None")
    power = estimator.step_power
    if not is_number(power) or not 0.5 < power <= 1.0:
        raise ValueError(f"step_power={power!r} must be above 0.5 and at most 1")
    rate = estimator.learning_rate
    if rate != "auto" and not (is_number(rate) and 0.0 < rate < math.inf):
        raise ValueError(f"learning_rate={rate!r} must be a finite number above 0, or 'auto'")
    resolved_prior(estimator)
    _check_method(estimator)


def _check_method(estimator: Any) -> None:
    """Refuse what contradicts the method; what merely does not matter to it is ignored."""
    noise = noises.resolve(estimator.noise)
    if estimator.method == "augment-reduce":
        for name, (default, instead) in _ONLY_BINARY.items():
            if getattr(estimator, name) != default:
                raise ValueError(
                    f"{name}={getattr(estimator, name)!r} belongs to method='independent-binary'; "
                    f"{instead}"
                )
        prior_scales(estimator)
    elif noise != noises.resolve("gumbel"):
        raise ValueError(
            f"noise={estimator.noise!r} belongs to method='augment-reduce'; choose the link "
            "instead, link='probit' or 'logit', or set method='augment-reduce'"
        )
    elif estimator.validation_fraction is not None:
        raise ValueError(
            f"validation_fraction={estimator.validation_fraction!r} belongs to "
            "method='augment-reduce'; independent-binary stops at its optimum, leave it at None"
        )


def tolerance(estimator: Any) -> float:
    """`tol`, or what "auto" means for the method."""
    auto = isinstance(estimator.tol, str)
    return _TOLERANCES[estimator.method] if auto else float(estimator.tol)


def prior_scales(estimator: Any) -> tuple[float, float]:
    """Standard deviations of weights and intercepts, for augment-reduce."""
    prior = resolved_prior(estimator)
    if not isinstance(prior, GaussianPrior):
        raise ValueError(
            f"prior={estimator.prior!r} learns its scales, which method='augment-reduce' does "
            "not; take a GaussianPrior, or method='independent-binary'"
        )
    if np.any(np.asarray(prior.mean) != 0.0) or np.asarray(prior.precision).ndim > 0:
        raise ValueError(
            "method='augment-reduce' takes a GaussianPrior with mean 0 and one scale for all "
            "weights; scale the columns of X, or take method='independent-binary'"
        )
    prior.bind(2, 1, False)  # checks the numbers
    scale = prior.scale if prior.precision is None else float(prior.precision) ** -0.5  # type: ignore[arg-type]
    own = prior.intercept_scale
    return float(scale), float(scale if own is None else own)


def resolved_prior(estimator: Any) -> Any:
    """The prior itself, where a name was given."""
    if isinstance(estimator.prior, str) and estimator.prior in PRIORS:
        return PRIORS[estimator.prior]()
    if not hasattr(estimator.prior, "bind"):
        raise ValueError(
            f"prior={estimator.prior!r} is not known; choose one of "
            f"{', '.join(map(repr, PRIORS))}, or give a prior of bigcat.bayes"
        )
    return estimator.prior
