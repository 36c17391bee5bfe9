"""Rows as the method of Laplace sees them: scaled columns and their likelihood."""

from __future__ import annotations

from typing import NamedTuple

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.method import Task
from bigcat.noise import Noise


class LaplaceProblem(NamedTuple):
    """A likelihood and the columns that it belongs to.

    Parameters
    ----------
    likelihood : Likelihood
        Of scaled columns.
    columns : PosteriorColumns or None
        None where the prior belongs to columns as given.
    """

    likelihood: Likelihood
    columns: PosteriorColumns | None

    @classmethod
    def of(cls, task: Task, noise: Noise, embedding: Floats | None = None) -> LaplaceProblem:
        """Return the problem of a task, or of an embedding of its rows."""
        X, labels, row_weights = task.sample[:3]
        columns = None
        if task.prior.in_units_of_columns or embedding is not None:
            columns = PosteriorColumns.of(X, row_weights, task.fit_intercept, embedding)
            X = columns.apply(X)
        design = Design(X, task.fit_intercept, row_weights)
        return cls(Likelihood(design, labels, noise, task.n_classes, task.n_threads), columns)
