"""A categorical distribution without covariates, fitted like the classifier's intercepts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from bigcat.bounds import Bound
from bigcat.combinations import resolve_method
from bigcat.estimators import inputs
from bigcat.estimators.linear import LinearClassifier
from bigcat.linear.labels import classes_of
from bigcat.samplers import Sampler
from bigcat.solvers import Solver
from bigcat.training.stopping import EarlyStopping


class CategoricalDistribution(BaseEstimator):
    """Probabilities of very many classes, estimated from labels alone.

    It is there to study methods, not to count: class frequencies are ``numpy.unique(y,
    return_counts=True)``, and a classifier without features is a `LinearClassifier` that found none
    of use.  Take it to see how far a bound or an estimator is from the truth, which is known here,
    as the papers do, and how quickly a solver gets there.

    The maximum of the exact likelihood is the class frequencies, and so is that of the
    one-vs-each bound (its Proposition 2) and of augment-and-reduce, which is tight; so this is
    the case in which a method's own error can be seen.  Bouchard's bound has another maximum
    (Proposition 3: probabilities proportional to the squared counts at two classes).

    Parameters
    ----------
    method : str or Bound, default="augment-reduce"
        A name of `bigcat.methods()`, or a bound with options.
    max_epochs, early_stopping, solver, sampler, random_state, progress
        As in `LinearClassifier`.  The deterministic solver works on distinct labels with their
        counts, so its cost does not grow with the number of observations.

    Attributes
    ----------
    probabilities_ : array of shape (n_classes,)
        Estimated probabilities, in the order of `classes_`; they add up to one.
    classes_ : array of shape (n_classes,)
    scores_ : array of shape (n_classes,)
        Log-probabilities up to a constant.
    lower_bound_ : float
        The method's bound on the log-likelihood of all labels (their sum), at the best local
        parameters; NaN for a method that is no bound.
    history_ : History
    n_iter_ : int

    Examples
    --------
    >>> from benchmarks.categorical_distribution import CategoricalDistribution
    >>> model = CategoricalDistribution(method="exact").fit(["a", "b", "b", "c"])
    >>> model.probabilities_.round(3).tolist()
    [0.25, 0.5, 0.25]
    """

    def __init__(
        self,
        method: str | Bound = "augment-reduce",
        *,
        max_epochs: int = 50,
        early_stopping: bool | str | EarlyStopping = "auto",
        solver: str | Solver = "auto",
        sampler: str | Sampler = "auto",
        random_state: int | np.random.RandomState | None = None,
        progress: bool | str = "auto",
    ) -> None:
        self.method = method
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.solver = solver
        self.sampler = sampler
        self.random_state = random_state
        self.progress = progress

    def fit(self, y: ArrayLike, sample_weight: ArrayLike | None = None) -> CategoricalDistribution:
        """Estimate the probabilities of the labels in `y`."""
        y = np.asarray(y)
        if y.ndim != 1 or not len(y):
            raise ValueError(f"y has shape {y.shape}; give a non-empty list of labels")
        weights = inputs.check_weights(sample_weight, y, self)
        y, weights = y[weights > 0.0], weights[weights > 0.0]
        classes, labels = classes_of(y)
        counts = np.bincount(labels, weights)
        model = LinearClassifier(**self.get_params())
        parts = model._parameters().config(resolve_method(self.method)).parts
        if parts.solver.stochastic:
            rows, row_weights = labels, weights
        else:
            rows, row_weights = np.arange(len(classes)), counts
        # A column of zeros: its weights stay at zero and the intercepts are the model.
        model.fit(np.zeros((len(rows), 1), np.float32), rows, sample_weight=row_weights)
        bounds = np.full(len(classes), np.nan)
        if parts.bound.is_bound:
            bounds = model.lower_bound(np.zeros((len(classes), 1)), np.arange(len(classes)))
        scores = model.intercept_.astype(np.float64)
        p = np.exp(scores - scores.max())
        self.classes_ = classes
        self.scores_ = scores - scores.mean()
        self.probabilities_ = p / p.sum()
        self.lower_bound_ = float(counts @ bounds)
        self.history_ = model.history_
        self.n_iter_ = model.n_iter_
        return self
