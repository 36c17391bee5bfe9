"""Rows as the method of Laplace sees them: a likelihood, and what priors know of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._column_sizes import ColumnSizes, column_means
from bigcat.bayes._design import Design
from bigcat.bayes._frames import make_frame
from bigcat.bayes._laplace_plan import Plan
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes.method import Task
from bigcat.noise import Noise


class Posed(NamedTuple):
    """The rows, wherever they are.

    Parameters
    ----------
    likelihood : Likelihood
        Of centred columns, where `means` were taken off.
    columns : ColumnSizes
    means : array of shape (n_features,) or None
    make_frame : callable
        As `bigcat.bayes._frames.make_frame`.
    """

    likelihood: Likelihood
    columns: ColumnSizes
    means: Floats | None
    make_frame: Callable[..., Any] = make_frame


def centres(task: Task, plan: Plan) -> bool:
    """Are the columns of dense rows centred?

    Independent weights of centred columns would not be independent of the intercept.
    """
    return task.prior.in_units_of_columns and task.fit_intercept and plan.turns_columns


def pose(task: Task, plan: Plan, noise: Noise) -> Posed:
    """The rows of a task, which are in this process."""
    X, labels, row_weights = task.sample[:3]
    means = column_means(X, row_weights) if centres(task, plan) else None
    design = Design(centred(X, means), task.fit_intercept, row_weights)
    likelihood = Likelihood(design, labels, noise, task.n_classes, task.n_threads)
    return Posed(likelihood, ColumnSizes.of(design), means)


def centred(X: Any, means: Floats | None) -> Any:
    return X if means is None else np.asarray(X, np.float64) - means
