"""Fits of `BayesianClassifier` whose answers are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.against import spell
from benchmarks.against.answers import of_bayesian
from benchmarks.against.cases import Answer, case, labels_of, made, part, some_weights
from benchmarks.against.problems import custom_noise, problem

AUGMENT_REDUCE: dict[str, Any] = {
    "method": "augment-reduce",
    "n_negatives": 6,
    "max_epochs": 4,
    "tol": 0.0,
}
MEANS = np.linspace(-0.2, 0.2, 10)


def posterior(
    name: str, data: str, *, weighted: bool = False, absent: bool = False, **options: Any
) -> None:
    """Return a fit to all rows, with row weights or with classes that have no rows on request."""

    @case(f"bayesian, {name}")
    def run() -> Answer:
        X, y = problem(data)
        given: dict[str, Any] = {}
        if weighted:
            given["sample_weight"] = some_weights(len(y))
        if absent:
            given["classes"] = np.concatenate([np.unique(y), [-5, 1_000_000]])
        model = spell.bayesian(**made(options)).fit(X, y, **given)
        return of_bayesian(model, X, labels_of(model, len(y)))


# Independent binary regressions

for _link in ("probit", "logit"):
    for _covariance in ("full", "diagonal"):
        _both: dict[str, Any] = {"link": _link, "covariance": _covariance}
        posterior(f"{_link}, {_covariance}", "few64", **_both)
        posterior(f"{_link}, {_covariance}, csr", "few", **_both)
    posterior(f"{_link}, cavi", "few64", link=_link, solver="cavi", max_iter=15)
posterior("conditioned", "few32", likelihood="conditioned")
posterior("marginalised", "few32", link="logit", likelihood="marginalised")
posterior("no intercept", "few64", fit_intercept=False)
posterior("two classes", "two", link="logit")
posterior("rows with weights", "few64", weighted=True)
posterior("rows with weights, logit", "few", weighted=True, link="logit", covariance="diagonal")
posterior("classes without rows", "few32", absent=True, n_draws=20)

_PRIORS: dict[str, dict[str, Any]] = {
    "GaussianPrior": {"mean": MEANS, "scale": 0.7, "intercept_scale": 3.0},
    "LearnedScale": {"per": "feature"},
}
for _prior, _fields in _PRIORS.items():
    for _link in ("probit", "logit"):
        _made = part("bayes", _prior, **_fields)
        posterior(f"{_prior}, {_link}", "few64", prior=_made, link=_link)
    posterior(f"{_prior}, diagonal", "few32", prior=_made, covariance="diagonal")
# Augment and reduce

posterior("augment-reduce", "few", **AUGMENT_REDUCE)
posterior("augment-reduce, dense32", "few32", learning_rate=0.1, **AUGMENT_REDUCE)
posterior("augment-reduce, probit", "few64", noise="gaussian", **AUGMENT_REDUCE)
posterior("augment-reduce, logistic", "few32", noise="logistic", **AUGMENT_REDUCE)
posterior("augment-reduce, logistic, csr", "few", noise="logistic", n_draws=7, **AUGMENT_REDUCE)
posterior("augment-reduce, custom", "few", noise=custom_noise, **AUGMENT_REDUCE)
posterior("augment-reduce, held-out rows", "few", validation_fraction=0.2, **AUGMENT_REDUCE)
posterior("augment-reduce, no intercept", "few64", fit_intercept=False, **AUGMENT_REDUCE)
posterior("augment-reduce, rows with weights", "few", weighted=True, **AUGMENT_REDUCE)
_narrow = part("bayes", "GaussianPrior", scale=0.3, intercept_scale=2.0)
posterior("augment-reduce, narrow prior", "few", prior=_narrow, **AUGMENT_REDUCE)
posterior("augment-reduce, stops itself", "few32", method="augment-reduce", n_iter_no_change=3)
