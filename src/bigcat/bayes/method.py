"""Interface of all methods.

A method is a part: a small frozen object with a name and options.  All that differs from method to
method is asked of it, so a new one is a file with such a class, and a line in
`bigcat.bayes.METHODS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.priors import GaussianPrior, Prior
from bigcat.part import Part
from bigcat.rows import Sizes
from bigcat.training.data import TrainingData
from bigcat.training.history import History
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer


@dataclass(frozen=True)
class Task:
    """Checked inputs of a fit.

    Parameters
    ----------
    sample : TrainingData
    classes : array
        Labels of all classes, in the order of their numbers.
    prior : Prior
    fit_intercept : bool
    random_state : RandomState
    n_threads : int
    progress : {"auto", True, False}
    checkpointer : Checkpointer
        Writes down how far a fit has come, of methods that are `keepable`.
    """

    sample: TrainingData
    classes: np.ndarray
    prior: Prior
    fit_intercept: bool
    random_state: np.random.RandomState
    n_threads: int = 1
    progress: bool | str = False
    checkpointer: Checkpointer = NO_CHECKPOINTS

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


class Seen(NamedTuple):
    """Rows, by weight, and steps that a posterior was learned from."""

    rows: float
    steps: int


@dataclass(frozen=True)
class FittedPosterior:
    """A posterior, and how the fit came to it.

    Parameters
    ----------
    posterior : GaussianPosterior
    evidence : float
        The approximation of log p(y | X), in nats, of all rows together.
    history : History
    seen : Seen
    bounds_evidence : bool
        Is the evidence a lower bound?
    why_no_evidence : str or None
        Where it is NaN, and what to compare instead.
    """

    posterior: GaussianPosterior
    evidence: float
    history: History
    seen: Seen
    bounds_evidence: bool = True
    why_no_evidence: str | None = None


@dataclass(frozen=True, repr=False)
class PosteriorMethod(Part, ABC):
    """A way to a posterior over the weights."""

    name: ClassVar[str]
    #: Class of the posterior.
    posterior: ClassVar[type[GaussianPosterior]]
    #: The prior that ``prior="auto"`` stands for.
    usual_prior: ClassVar[Prior] = GaussianPrior()
    #: True if a fit can be written to checkpoints.
    keepable: ClassVar[bool] = False

    @abstractmethod
    def fit(self, task: Task) -> FittedPosterior:
        """Fit a posterior, from nothing."""

    @abstractmethod
    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        """Bytes that a fit needs beside the data, which are of that type."""

    @abstractmethod
    def memory_remedy(self, prior: Prior) -> str:
        """Return the remedy for too little memory."""

    def check_prior(self, prior: Prior) -> None:
        """Raise for a prior that it does not take; it takes all unless it says so."""

    def why_no_batches(self, prior: Prior) -> str | None:
        """Return the reason why there is no `fit_more` with that prior; None if there is one."""
        return (
            f"partial_fit has no meaning for method={self.name!r}, which needs all rows; use fit, "
            "or set method='laplace'"
        )

    def fit_more(self, task: Task, last: FittedPosterior | None) -> FittedPosterior:
        """One step on a batch of rows, from the last fit if there was one; its whole history."""
        raise TypeError(self.why_no_batches(task.prior))
