"""One fit of the Bayesian classifier by augment-and-reduce: held-out rows, stopping, divergence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bigcat.bayes.weight_posterior import WeightPosterior, fit_weight_posterior
from bigcat.combinations import Parts
from bigcat.estimators._bayesian_parameters import prior_scales, tolerance
from bigcat.linear import FullRank, FullRankWeights, LinearModel
from bigcat.rows import Problem, as_rows
from bigcat.solvers import DivergedError
from bigcat.training import progress as _progress
from bigcat.training.history import History
from bigcat.training.sample import Sample, hold_out
from bigcat.training.stopping import Plateau


class Outcome(NamedTuple):
    posterior: WeightPosterior
    elbo: float  # of all rows
    history: History
    seed: int  # for draws of scores


def fit(
    estimator: Any,
    parts: Parts,
    X: Any,
    labels: np.ndarray,
    row_weights: np.ndarray,
    n_classes: int,
) -> Outcome:
    """Fit for an estimator, which is read and not changed."""
    e = estimator
    scale, intercept_scale = prior_scales(e)
    random_state = check_random_state(e.random_state)
    judge, watched = None, "elbo"
    if e.validation_fraction is not None:
        (X, labels, row_weights), held_out = hold_out(
            Sample(X, labels, row_weights),
            n_classes,
            e.validation_fraction,
            random_state,
            "set validation_fraction=None",
        )

        def judge(mean: np.ndarray, intercept: np.ndarray) -> float:
            model = LinearModel(FullRankWeights(mean), intercept, parts.noise)
            return model.mean_log_likelihood(*held_out)

        watched = "validation_log_likelihood"
    problem = Problem(
        as_rows(X, FullRank().working_dtype(X.dtype, X.shape[1], n_classes)),
        labels,
        row_weights,
        X.shape[1],
        n_classes,
        l2=0.0,
        fit_intercept=bool(e.fit_intercept),
    )
    plateau = Plateau(tolerance(e), int(e.n_iter_no_change))
    with _progress.reporter(e.progress, e.max_epochs, e.method, "ELBO") as report:

        def on_epoch(row: dict[str, float]) -> bool:
            report(row["epoch"], row["elbo"])
            return plateau(row[watched])

        found = fit_weight_posterior(
            problem,
            parts,
            prior_scale=scale,
            intercept_scale=intercept_scale,
            max_epochs=int(e.max_epochs),
            random_state=random_state,
            on_epoch=on_epoch,
            judge=judge,
        )
    history = History(found.history)
    elbos = history["elbo"]
    if judge is not None:  # that of the best epoch
        elbos = elbos[: 1 + int(np.argmax(history[watched]))]
    finite = elbos[np.isfinite(elbos)]
    if not len(finite) or not np.isfinite(found.mean.sum() + found.intercept_mean.sum()):
        raise DivergedError(
            "the posterior is not finite; lower learning_rate or the prior's scale, or scale "
            "the columns of X to similar size"
        )
    seed = random_state.randint(np.iinfo(np.int32).max)
    return Outcome(found, float(finite[-1] * row_weights.sum()), history, seed)
