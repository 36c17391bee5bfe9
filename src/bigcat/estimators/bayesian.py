"""The Bayesian classifier: a posterior over the weights, not one estimate."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bigcat._system import available_cores
from bigcat._warnings import warn_caller
from bigcat.bayes import PosteriorMethod, Prior, resolve_method
from bigcat.bayes.method import FittedPosterior, Seen, Task
from bigcat.bayes.priors import resolve_prior
from bigcat.checks import check_whole
from bigcat.estimators import checkpoints, inputs
from bigcat.estimators.checking import PosteriorChecks
from bigcat.estimators.checkpoint_folder import Checkpoint
from bigcat.estimators.consistency import shallow_copy
from bigcat.estimators.options import WithParts, explains_unknown, only_if
from bigcat.estimators.predictions import PosteriorPredictions
from bigcat.linear.labels import classes_of, encode
from bigcat.noise import Noise
from bigcat.part import Part
from bigcat.rows import Sizes
from bigcat.training import memory
from bigcat.training.data import TrainingData


def _takes_batches(estimator: BayesianClassifier) -> bool:
    """Return True if the method has a `partial_fit`; raise AttributeError otherwise."""
    try:
        method, prior = estimator.method_and_prior()
    except ValueError:
        return True  # the call itself says what is wrong
    reason = method.why_no_batches(prior)
    if reason is not None:
        raise AttributeError(reason)
    return True


class BayesianClassifier(ClassifierMixin, PosteriorPredictions, PosteriorChecks, WithParts):
    """Bayesian linear classifier: a posterior over the weights, and intervals that follow from it.

    Take it where you want to know how sure a probability is, or which features matter.  A
    posterior is the distribution of the weights that are plausible after the data were seen.  How
    to choose is in ``docs/bayesian.md``, conventions are in ``docs/conventions.md``.

    Parameters
    ----------
    method : {"laplace", "independent-binary", "augment-reduce"} or PosteriorMethod, \
            default="laplace"
        "laplace" is the posterior of the softmax (or of another noise) around its mode, corrected
        by draws where that is affordable: its intervals hold what they say.  The others are the
        papers': binary regressions "is it this class?", and a few classes per row and step.
        Options are those of an object, `bigcat.bayes.Laplace`, `bigcat.bayes.IndependentBinary` or
        `bigcat.bayes.AugmentReducePosterior`: ``BayesianClassifier(Laplace(noise="gaussian"))``, or
        ``set_params(method__noise="gaussian")``.
    prior : {"auto", "learned", "gaussian", "horseshoe"} or Prior, default="auto"
        "learned" is normal with a scale that is learned from the data, in units of the columns;
        "gaussian" is N(0, 1) for every weight and the intercept.  "auto" is "learned" for
        "laplace" and the papers' "gaussian" for their methods.  Options are those of an object,
        such as `bigcat.bayes.GaussianPrior`.
    fit_intercept : bool, default=True
        Does each class have an intercept?
    n_threads : int or None, default=None
        Threads over rows of "laplace" and over classes of "independent-binary"; None is one per
        core.  Results depend on it by rounding at most.
    random_state : int, RandomState or None, default=None
        For the chains of "laplace", the draws of `averaging_weight_`, and the rows, classes and
        draws of "augment-reduce".
    progress : {"auto", True, False}, default="auto"
        A progress bar with the current state of the fit; "auto" shows one on a terminal.
    checkpoint : path, Checkpoint or None, default=None
        A folder where a fit by "augment-reduce" is written down as it goes, so that
        ``fit(..., resume=True)`` continues after a crash with the same bits.

    Attributes
    ----------
    posterior_ : GaussianPosterior
        ``mean`` (n_classes, n_features + 1, the intercept last), ``scale``, ``covariance``,
        ``sample``, ``predict_interval``, ``log_odds_interval``, ``weight_interval``.
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)
    classes_ : array of shape (n_classes,)
    class_count_ : array of shape (n_classes,)
        Training rows of each class.
    evidence_ : float
        Approximate log marginal likelihood, log p(y | X), in nats, of all rows together, for
        comparing models of one method.  Of "laplace" it is the Laplace approximation at the learned
        scale of the prior; of the others a lower bound: of the binary regressions, or of the
        classes with augment-reduce.  NaN with a warning where it cannot be computed.
    evidence_reason_ : str or None
        Why `evidence_` is NaN, and what to compare instead.
    elbo_ : float
        The same where it is a lower bound; "laplace" has none.
    averaging_weight_ : float
        Posterior probability of the conditioned likelihood; "independent-binary" alone has one.
    history_ : History
        One dict per iteration or epoch; the method says which columns there are.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import BayesianClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.posterior_
    <NoisePosterior: 3 classes, 5 weights each, noise gumbel, 400 draws>
    >>> low, high = model.predict_interval(X[:1], level=0.9)
    >>> bool((low <= model.predict_proba(X[:1])).all())
    True
    >>> model.summary(classes=[0], top=2).shape
    (2, 10)

    The softmax, with classes sampled:

    >>> model = BayesianClassifier("augment-reduce", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.posterior_.scale.shape
    (True, (3, 5))
    """

    class_count_: np.ndarray
    averaging_weight_: float
    evidence_reason_: str | None
    elbo_: float
    n_iter_: int
    _evidence: float
    _seen: Seen

    #: Names of parameters that other estimators have, with the place of each here.
    moved: ClassVar[dict[str, str]] = {
        "C": "prior=GaussianPrior(scale=sqrt(C))",
        "l2": "prior=GaussianPrior(scale=1 / sqrt(l2))",
        "max_iter": "it in the method: method=IndependentBinary(max_iter=200)",
        "max_epochs": "it in the method: method=AugmentReducePosterior(max_epochs=200)",
        "n_negatives": "it in the method: method=AugmentReducePosterior(n_negatives=50)",
        "n_jobs": "n_threads",
        "verbose": "progress",
        "checkpoint_every": "checkpoint=Checkpoint(folder, every_seconds=60)",
    }

    @explains_unknown
    def __init__(
        self,
        method: str | PosteriorMethod = "laplace",
        prior: str | Prior = "auto",
        *,
        fit_intercept: bool = True,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool | str = "auto",
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> None:
        self.method = method
        self.prior = prior
        self.fit_intercept = fit_intercept
        self.n_threads = n_threads
        self.random_state = random_state
        self.progress = progress
        self.checkpoint = checkpoint

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Fitting

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        resume: bool = False,
    ) -> BayesianClassifier:
        """Fit the posterior; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features), or `bigcat.data.Shards`
            Shards have labels, too.  Their rows stay on the disk; what a method makes of them is
            in memory.
        y : array of shape (n,)
            Labels: integers or strings.
        sample_weight : array of shape (n,), optional
            How often each row counts; fractions are fine.  With augment-reduce a row of weight 2
            has the optimum of a row twice, but other steps on the way there.
        classes : array, optional
            All classes, where some have no row in `y`: all that is known of those is that they are
            rare.
        groups : array of shape (n,), optional
            Which rows belong together, such as those of one user: where a method holds rows out,
            all rows of a group are.  The likelihood takes rows as independent all the same.
        resume : bool, default=False
            Go on with the fit whose `checkpoint` is in the folder; begin where there is none.
        """
        method, prior = self.method_and_prior()
        checkpoints.of(self, resume)
        if self.checkpoint is not None and not method.keepable:
            raise ValueError(
                f"checkpoint={self.checkpoint!r} is for stochastic fits, and method="
                f"{method.name!r} makes none; leave it out, or take method='augment-reduce'"
            )
        given_X = X
        X, y = inputs.check_rows_and_labels(*inputs.rows_and_labels_of(X, y), self)
        weights = inputs.check_weights(sample_weight, X, self)
        known, labels = _encode(y, classes)
        numbers = inputs.check_groups(groups, X, given_X)
        sample = TrainingData(X, labels, weights, numbers).that_counts()
        self._check_memory(method, prior, sample.X, len(known))
        task = self._task(prior, sample, known)
        given = {"X": X, "y": y, "sample_weight": weights, "classes": known, "groups": numbers}
        checkpointer = checkpoints.checkpointer_for(self, task.random_state, resume, given)
        fitted = method.fit(replace(task, checkpointer=checkpointer))
        self._adopt(fitted, np.bincount(sample.labels, minlength=len(known)), given_X)
        checkpointer.complete()
        return self

    @only_if(_takes_batches)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> BayesianClassifier:
        """Learn from a batch of rows, after `fit` or other batches.

        The method is "laplace": the posterior so far, as a Gaussian, is the prior of the new rows.
        A learned scale is that of the first batch, and `evidence_` is NaN from the second on.

        Parameters
        ----------
        X, y : as in `fit`
        classes : array, optional
            All classes that will ever come; needed in the first call only.
        sample_weight : array of shape (n,), optional
        """
        method, prior = self.method_and_prior()
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError(
                "the first call of partial_fit needs all classes: pass classes=numpy.unique(y) "
                "of the whole data"
            )
        given_X = X
        X, y = inputs.check_rows_and_labels(*inputs.rows_and_labels_of(X, y), self)
        if first:
            known, labels = _encode(y, classes)
            self._check_memory(method, prior, X, len(known))
        else:
            known = self.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError("classes differ from those of the first call of partial_fit")
            validate_data(self, given_X, skip_check_array=True, reset=False)
            labels = encode(y, known)
        weights = inputs.check_weights(sample_weight, X, self)
        sample = TrainingData(X, labels, weights).that_counts()
        task = self._task(prior, sample, known)
        counts = np.bincount(sample.labels, minlength=len(known))
        if not first:
            counts += getattr(self, "class_count_", 0)
        fitted = method.fit_more(task, None if first else self.fitted)
        self._adopt(fitted, counts, given_X if first else None)
        return self

    def memory_forecast(
        self,
        n_rows: int,
        n_features: int,
        n_classes: int,
        *,
        sparse: bool = True,
        row_nonzeros: float = 100.0,
        dtype: DTypeLike = np.float64,
    ) -> int:
        """Bytes that `fit` will need beside the data, `row_nonzeros` being the mean of a row.

        `dtype` is that of X; it matters to augment-reduce only.

        Examples
        --------
        >>> from bigcat import BayesianClassifier
        >>> from bigcat.bayes import IndependentBinary
        >>> model = BayesianClassifier(IndependentBinary(covariance="diagonal"), n_threads=1)
        >>> model.memory_forecast(10**5, 5_000, 10_000, row_nonzeros=50) / 2**30 < 2  # GiB
        True
        """
        n_values = round(n_rows * (row_nonzeros if sparse else n_features))
        sizes = Sizes(n_rows, n_features, n_classes, n_values, sparse)
        return self._memory(*self.method_and_prior(), sizes, dtype)

    @property
    def coef_(self) -> np.ndarray:
        """Posterior means of the weights, (n_classes, n_features), for the columns as given."""
        check_is_fitted(self)
        q = self.posterior_
        return q.mean[:, : q.mean.shape[1] - q.intercept]

    @property
    def intercept_(self) -> np.ndarray:
        """Posterior means of the intercepts, (n_classes,)."""
        check_is_fitted(self)
        q = self.posterior_
        return q.mean[:, -1] if q.intercept else np.zeros(q.n_classes)

    @property
    def evidence_(self) -> float:
        """Approximate log marginal likelihood, log p(y | X), in nats, of all rows together."""
        check_is_fitted(self)
        if np.isnan(self._evidence) and self.evidence_reason_ is not None:
            warn_caller(f"evidence_ is NaN: {self.evidence_reason_}")
        return self._evidence

    # Content of model files

    @property
    def fitted(self) -> FittedPosterior:
        """The posterior and how it came about, with the rows and steps that it was learned from."""
        check_is_fitted(self)
        return FittedPosterior(
            self.posterior_,
            self._evidence,
            self.history_,
            self._seen,
            bounds_evidence=hasattr(self, "elbo_"),
            why_no_evidence=self.evidence_reason_,
        )

    @property
    def fitted_noise(self) -> Noise | None:
        """The noise of the fit; None where its method has none."""
        return self.fitted.posterior.noise

    def restore(self, fitted: FittedPosterior) -> None:
        """Become a fitted estimator again; `n_features_in_` is left to the caller."""
        self._adopt(fitted)

    # Inside

    def _resolvers(self) -> dict[str, Callable[[Any], Part]]:
        return {"method": resolve_method, "prior": self._resolve_prior}

    def _resolve_prior(self, prior: str | Prior) -> Prior:
        if isinstance(prior, str) and prior == "auto":
            return resolve_method(self.method).usual_prior
        return resolve_prior(prior)

    def method_and_prior(self) -> tuple[PosteriorMethod, Prior]:
        """Both as objects, checked as far as they can be without data."""
        method, prior = resolve_method(self.method), self._resolve_prior(self.prior)
        method.check_prior(prior)
        if self.n_threads is not None:
            check_whole("n_threads", self.n_threads)
        return method, prior

    def _task(self, prior: Prior, sample: TrainingData, classes: np.ndarray) -> Task:
        return Task(
            sample,
            classes,
            prior,
            fit_intercept=bool(self.fit_intercept),
            random_state=check_random_state(self.random_state),
            n_threads=self._threads(),
            progress=self.progress,
        )

    def _threads(self) -> int:
        return int(self.n_threads or available_cores())

    def _memory(self, method: PosteriorMethod, prior: Prior, sizes: Sizes, dtype: DTypeLike) -> int:
        intercept, n_threads = bool(self.fit_intercept), self._threads()
        return method.memory_needed(
            sizes, dtype, prior, fit_intercept=intercept, n_threads=n_threads
        )

    def _check_memory(self, method: PosteriorMethod, prior: Prior, X: Any, n_classes: int) -> None:
        needed = self._memory(method, prior, Sizes.of(X, n_classes), X.dtype)
        memory.check(needed, n_classes, X.shape[1], method.memory_remedy(prior))

    def _adopt(
        self, fitted: FittedPosterior, counts: np.ndarray | None = None, X: Any = None
    ) -> None:
        """Take over a finished fit, in one assignment; only this changes fitted attributes."""
        q, new = fitted.posterior, shallow_copy(self)
        new.posterior_ = q
        for name in ("averaging_weight_", "elbo_"):  # of a fit before, by another method
            new.__dict__.pop(name, None)
        if q.averaging_weight is not None:
            new.averaging_weight_ = q.averaging_weight
        new.classes_ = q.classes
        new._evidence = fitted.evidence
        new.evidence_reason_ = fitted.why_no_evidence
        if fitted.bounds_evidence:
            new.elbo_ = fitted.evidence
        new.history_ = fitted.history
        new.n_iter_ = len(fitted.history)
        new._seen = fitted.seen
        if counts is not None:
            new.class_count_ = counts
        if X is not None:
            validate_data(new, X, skip_check_array=True)
        self.__dict__ = new.__dict__


def _encode(y: np.ndarray, classes: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """All classes, and the number of each label among them."""
    if classes is None:
        return classes_of(y)
    known = classes_of(np.asarray(classes))[0]
    return known, encode(y, known)
