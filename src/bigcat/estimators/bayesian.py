"""The Bayesian classifier: a posterior over the weights, not one estimate."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from bigcat import noise as noises
from bigcat.bayes import GaussianPrior
from bigcat.bayes._design import Design
from bigcat.bayes._forecast import forecast, forecast_weight_posterior
from bigcat.bayes.averaging import averaging_weight
from bigcat.bayes.independent_binary import IndependentBinary, Settings
from bigcat.bayes.posterior import GaussianPosterior, NoisePosterior, Posterior
from bigcat.bayes.priors import PriorState
from bigcat.bayes.stochastic import Stream
from bigcat.bayes.weight_posterior import WeightPosterior
from bigcat.combinations import Parts, resolve
from bigcat.estimators import _weight_posterior, inputs
from bigcat.estimators._bayesian_parameters import check_parameters, resolved_prior, tolerance
from bigcat.linear import FullRank
from bigcat.linear.labels import classes_of, encode
from bigcat.linear.top_k import check_k, top_k
from bigcat.machine import available_cores
from bigcat.noise import Noise
from bigcat.training import memory as _memory
from bigcat.training import progress as _progress
from bigcat.training.history import History

_POSTERIORS = ("plug-in", "averaged")
#: AdaGrad's rate for `learning_rate="auto"`: in 50 epochs it comes closest to the best ELBO.
_RATE = 0.3


def _takes_batches(estimator: BayesianClassifier) -> bool:
    """Is there a `partial_fit`?  Not with a prior whose scales are learnt from all rows."""
    if estimator.method == "augment-reduce":
        raise AttributeError(
            "partial_fit supports method='independent-binary' and not 'augment-reduce', whose "
            "rows keep local parameters from pass to pass; use fit"
        )
    try:
        prior = resolved_prior(estimator)
    except ValueError:
        return True  # the call itself says what is wrong
    if not isinstance(prior, GaussianPrior):
        raise AttributeError(
            f"partial_fit supports the GaussianPrior and not prior={estimator.prior!r}, whose "
            "scales are learnt from all rows; use fit"
        )
    return True


class BayesianClassifier(ClassifierMixin, BaseEstimator):
    """Bayesian linear classifier: a Gaussian posterior over the weights.

    By default it is fitted as independent binary regressions.  Each class has one, "is it this
    class?"; their posteriors are found by closed variational inference, all classes at once, and
    two likelihoods turn their answers into one probability a class (Wojnowicz et al., 2022, *Easy
    variational inference for categorical models via an independent binary approximation*).

    With ``method="augment-reduce"`` the model is ``y = argmax_k w_k . x + b_k + noise_k``, that of
    `LinearClassifier`, and its posterior is found by passes that look at a few classes a row (Ruiz
    et al., 2018, *Augment and Reduce*).  How to choose is in ``docs/bayesian.md``, conventions are
    in ``docs/conventions.md``.

    Parameters
    ----------
    link : {"probit", "logit"}, default="probit"
        Of the binary regressions.  With the probit and a prior that classes share all classes have
        one covariance, so it costs far less than the logit with ``covariance="full"``.
    likelihood : {"average", "conditioned", "marginalised"}, default="average"
        How K answers become one: exactly one regression says yes (CBC; with the logit link the
        softmax), the probability of each yes, normalised (CBM), or the average of the two with
        their posterior probabilities, `averaging_weight_`.
    covariance : {"full", "diagonal"}, default="full"
        Of the weights of a class; the diagonal one never forms an (n_features, n_features) array.
        Augment-reduce always has the diagonal one, whatever this says.
    prior : GaussianPrior, HierarchicalPrior, HorseshoePrior or {"gaussian", "hierarchical", \
            "horseshoe"}, default="gaussian"
        See `bigcat.bayes`; "gaussian" is N(0, 1) for every weight and the intercept.
        Augment-reduce takes a `GaussianPrior` with mean 0 and one scale.
    method : {"independent-binary", "augment-reduce"}, default="independent-binary"
        `link`, `likelihood`, `covariance`, `solver`, `max_iter`, `step_power`, `total_rows` and
        `n_threads` belong to the first; `noise`, `n_negatives`, `max_epochs`, `learning_rate`,
        `n_iter_no_change` and `validation_fraction` to the second.  What would contradict the
        method raises.
    fit_intercept : bool, default=True
    solver : {"newton", "cavi"}, default="newton"
        Two ways to one optimum: Newton steps for blocks of classes, or the paper's coordinate
        ascent, which needs many more iterations.
    tol : float or "auto", default="auto"
        Independent-binary: stop when an iteration adds less than this part of the ELBO; "auto" is
        1e-8.  Augment-reduce: stop when an epoch adds less than so many nats a row; "auto" is
        1e-4.  0 runs exactly `max_iter` iterations or `max_epochs` epochs.
    max_iter : int, default=200
    n_draws : int, default=100
        Most draws of each row's scores for `averaging_weight_`; large data take fewer.  With
        augment-reduce draws of scores for ``posterior="averaged"``.
    step_power : float, default=0.7
        `partial_fit` moves by t^-step_power in its t-th call; between 0.5 (exclusive) and 1.
    total_rows : int or None, default=None
        Rows that all batches of `partial_fit` have in total; None counts those seen so far.
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        Of augment-reduce: the softmax, the multinomial probit, the multinomial logistic model.
    n_negatives : int, default=32
        Classes beside its own that a row looks at in a step of augment-reduce.
    max_epochs : int, default=50
        Most passes over the data by augment-reduce.
    learning_rate : float or "auto", default="auto"
        Of AdaGrad, for the means of augment-reduce; "auto" is 0.3.
    n_iter_no_change : int, default=10
        Augment-reduce compares the mean ELBO of so many epochs, which evens out its noise, with
        that of as many before; epochs without an ELBO (see `history_`) do not count.
    validation_fraction : float or None, default=None
        Part of the rows that augment-reduce holds out: their log-likelihood at the posterior means
        then takes the place of the ELBO, and the best epoch's posterior is kept.
    n_threads : int or None, default=None
        Threads over blocks of classes; None is one a core.  Results do not depend on it.
    random_state : int, RandomState or None, default=None
        For the draws of `averaging_weight_`; for rows, classes and draws of augment-reduce.
    progress : {"auto", True, False}, default="auto"
        A progress bar with the current ELBO; "auto" shows one on a terminal.

    Attributes
    ----------
    posterior_ : Posterior or NoisePosterior
        ``mean`` (n_classes, n_features + 1, the intercept last), ``scale``, ``covariance``,
        ``sample``, ``predict_interval``, ``to_arviz``.
    coef_ : array of shape (n_classes, n_features)
    intercept_ : array of shape (n_classes,)
    classes_ : array of shape (n_classes,)
    elbo_ : float
        The evidence lower bound in nats, of all rows together: of the binary regressions, or of
        the classes with augment-reduce.  The two are not comparable.
    averaging_weight_ : float
        Posterior probability of the conditioned likelihood; augment-reduce has none.
    history_ : History
        One dict an iteration: ``iteration``, ``seconds``, ``elbo``.  With augment-reduce one an
        epoch: ``epoch``, ``seconds``, ``compile_seconds``, and a row of data ``elbo``,
        ``expected_bound``, ``kl``, ``validation_log_likelihood``; the ELBO and its KL are NaN in
        epochs without a pass over all weights, which are rare unless classes are very many.
    n_iter_ : int
    n_features_in_ : int

    Notes
    -----
    Probabilities are those at the posterior mean (``posterior="plug-in"``) by default: it is what
    the paper evaluates, it costs no variances, and both likelihoods are then proper models of the
    data.  ``posterior="averaged"`` puts the expectation of each binary margin under the posterior
    in its place: Phi(x.mu / sqrt(1 + x'Sigma x)) exactly for the probit, MacKay's approximation for
    the logit; it is more cautious far from the data.  With augment-reduce it is the mean of the
    probabilities over draws of the scores, the same random numbers for all rows and calls.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import BayesianClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.posterior_.mean.shape, model.posterior_.covariance.shape
    ((3, 5), (5, 5))
    >>> low, high = model.posterior_.predict_interval(X[:1], level=0.9)
    >>> bool((low <= model.predict_proba(X[:1])).all())
    True

    The softmax, with classes sampled:

    >>> model = BayesianClassifier(method="augment-reduce", random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.posterior_.scale.shape
    (True, (3, 5))
    """

    def __init__(
        self,
        link: str = "probit",
        likelihood: str = "average",
        covariance: str = "full",
        prior: Any = "gaussian",
        *,
        method: str = "independent-binary",
        fit_intercept: bool = True,
        solver: str = "newton",
        tol: float | str = "auto",
        max_iter: int = 200,
        n_draws: int = 100,
        step_power: float = 0.7,
        total_rows: int | None = None,
        noise: str | Noise = "gumbel",
        n_negatives: int = 32,
        max_epochs: int = 50,
        learning_rate: float | str = "auto",
        n_iter_no_change: int = 10,
        validation_fraction: float | None = None,
        n_threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool | str = "auto",
    ) -> None:
        self.link = link
        self.likelihood = likelihood
        self.covariance = covariance
        self.prior = prior
        self.method = method
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.n_draws = n_draws
        self.step_power = step_power
        self.total_rows = total_rows
        self.noise = noise
        self.n_negatives = n_negatives
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.n_threads = n_threads
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Fitting

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        classes: ArrayLike | None = None,
    ) -> BayesianClassifier:
        """Fit the posterior; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        y : array of shape (n,)
            Labels: integers or strings.
        sample_weight : array of shape (n,), optional
            How often each row counts; fractions are fine.  With augment-reduce a row of weight 2
            has the optimum of a row twice, but other steps on the way there.
        classes : array, optional
            All classes, where some have no row in `y`: all that is known of those is that they are
            rare.
        """
        check_parameters(self)
        given_X = X
        X, y = inputs.check_rows_and_labels(X, y, self)
        weights = inputs.check_weights(sample_weight, X, self)
        known, labels = self._encode(y, classes)
        if not weights.all():
            present = weights > 0.0
            X, labels, weights = X[present], labels[present], weights[present]
        self._check_memory(X, len(known))
        if self.method == "augment-reduce":
            self._fit_weight_posterior(X, labels, weights, known)
        else:
            self._fit_independent_binary(X, labels, weights, known)
        self._stream: Stream | None = None
        self._n_rows, self._n_steps = float(weights.sum()), 1
        validate_data(self, given_X, skip_check_array=True)
        return self

    def _fit_independent_binary(
        self, X: Any, labels: np.ndarray, weights: np.ndarray, known: np.ndarray
    ) -> None:
        design = Design(X, bool(self.fit_intercept), weights)
        prior = self._bind(len(known), design.n_columns)
        fit = IndependentBinary(design, labels, len(known), prior, self._settings())
        with _progress.reporter(self.progress, self.max_iter, self.link, "ELBO") as report:
            fitted = fit.run(report)
        del fit, design
        if tolerance(self) > 0.0 and not fitted.converged:
            warnings.warn(
                f"the ELBO still grows after max_iter={self.max_iter} iterations; raise max_iter "
                "or tol, or take solver='newton'",
                ConvergenceWarning,
                stacklevel=3,
            )
        posterior = self._posterior(fitted.mean, fitted.covariance, known)
        weight = self._weigh(posterior, X, labels, weights, weights.sum())
        self._adopt(posterior, weight, fitted.elbo, History(fitted.history))

    def _fit_weight_posterior(
        self, X: Any, labels: np.ndarray, weights: np.ndarray, known: np.ndarray
    ) -> None:
        parts = self._parts()
        found = _weight_posterior.fit(self, parts, X, labels, weights, len(known))
        posterior = self._noise_posterior(found.posterior, known, parts.noise, found.seed)
        self._adopt(posterior, None, found.elbo, found.history)

    @available_if(_takes_batches)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> BayesianClassifier:
        """One natural-gradient step on a batch of rows; for the Gaussian prior.

        After `fit` it goes on from there.  Most useful with many calls: step t moves t^-step_power
        of the way to the batch's own optimum.  `elbo_` is then an estimate from the last batch.

        Parameters
        ----------
        X, y : as in `fit`
        classes : array, optional
            All classes that will ever come; needed in the first call only.
        sample_weight : array of shape (n,), optional
        """
        check_parameters(self)
        first = not hasattr(self, "classes_")
        if not first and isinstance(self.posterior_, NoisePosterior):
            raise ValueError(
                "the last fit was by augment-reduce, which partial_fit cannot go on from; start "
                "with a new estimator, sklearn.base.clone(model)"
            )
        if first and classes is None:
            raise ValueError(
                "the first call of partial_fit needs all classes: pass classes=numpy.unique(y) "
                "of the whole data"
            )
        given_X = X
        X, y = inputs.check_rows_and_labels(X, y, self)
        if first:
            known, labels = self._encode(y, classes)
            self._check_memory(X, len(known))
        else:
            known = self.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError("classes differ from those of the first call of partial_fit")
            validate_data(self, given_X, skip_check_array=True, reset=False)
            labels = encode(y, known)
        weights = inputs.check_weights(sample_weight, X, self)
        design = Design(X, bool(self.fit_intercept), weights)
        stream = self._stream if not first else None
        if stream is None:
            prior = self._bind(len(known), design.n_columns)
            full = self.covariance == "full"
            stream = Stream(prior, len(known), self.link, full, float(self.step_power))
        if not first and self._stream is None:  # after `fit`, or from a file
            q = self.posterior_
            stream.resume(q.mean, q._covariance, self._n_rows, self._n_steps)
        began = time.perf_counter()
        elbo = stream.step(design, labels, self.total_rows)
        history = History([] if first else self.history_)
        seconds = (history[-1]["seconds"] if history else 0.0) + time.perf_counter() - began
        history.append({"iteration": len(history) + 1, "seconds": seconds, "elbo": elbo})
        posterior = self._posterior(stream.mean, stream.covariance, known)
        total = stream.rows_seen if self.total_rows is None else self.total_rows
        weight = self._weigh(posterior, X, labels, weights, total)
        self._adopt(posterior, weight, elbo, history)
        self._stream = stream
        if first:
            validate_data(self, given_X, skip_check_array=True)
        return self

    def memory_forecast(
        self,
        n_rows: int,
        n_features: int,
        n_classes: int,
        *,
        sparse: bool = True,
        row_nonzeros: float = 100.0,
        dtype: Any = np.float64,
    ) -> int:
        """Bytes that `fit` will need beside the data, `row_nonzeros` being the mean of a row.

        `dtype` is that of X; it matters to augment-reduce only.

        Examples
        --------
        >>> from bigcat import BayesianClassifier
        >>> model = BayesianClassifier(covariance="diagonal", n_threads=1)
        >>> model.memory_forecast(10**5, 5_000, 10_000, row_nonzeros=50) / 2**30 < 2  # GiB
        True
        """
        check_parameters(self)
        if self.method == "augment-reduce":
            return forecast_weight_posterior(
                n_rows,
                n_features,
                n_classes,
                stored=n_rows * (row_nonzeros if sparse else n_features),
                item=np.dtype(FullRank().working_dtype(dtype, n_features, n_classes)).itemsize,
                n_local=self._parts().bound.n_local,
                keeps_best=self.validation_fraction is not None,
            )
        n_columns = n_features + bool(self.fit_intercept)
        sharing = self._bind_sharing()
        stored = n_rows * (row_nonzeros + bool(self.fit_intercept)) if sparse else None
        return forecast(
            n_rows, n_columns, n_classes, stored=stored, settings=self._settings(), sharing=sharing
        )

    # Prediction

    def predict(self, X: Any, posterior: str = "plug-in") -> np.ndarray:
        """The most probable class of each row."""
        X = self._check_for_prediction(X, posterior)
        # All likelihoods order the classes as the margins do.
        best = [m.argmax(axis=1) for _, m in self.posterior_.margin_blocks(X, posterior)]
        return self.classes_[np.concatenate(best)]

    def predict_log_proba(self, X: Any, posterior: str = "plug-in") -> np.ndarray:
        """Log-probabilities of all classes, (n, n_classes)."""
        X = self._check_for_prediction(X, posterior)
        q = self.posterior_
        return np.concatenate(
            [q.of_margins(m, posterior) for _, m in q.margin_blocks(X, posterior)]
        )

    def predict_proba(self, X: Any, posterior: str = "plug-in") -> np.ndarray:
        """Probabilities of all classes, (n, n_classes); rows add up to one.

        Parameters
        ----------
        posterior : {"plug-in", "averaged"}, default="plug-in"
            At the posterior mean, or averaged over the posterior: each binary margin, or with
            augment-reduce the probabilities themselves, over `n_draws` draws of scores.
        """
        log_probabilities = self.predict_log_proba(X, posterior)
        return np.exp(log_probabilities, out=log_probabilities)

    def predict_top_k(
        self, X: Any, k: int = 5, posterior: str = "plug-in"
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `k` most probable classes of each row, best first, without an (n, K) array.

        Returns
        -------
        classes : array of shape (n, k)
        log_probabilities : array of shape (n, k)
        """
        X = self._check_for_prediction(X, posterior)
        q = self.posterior_
        check_k(k, len(self.classes_))
        blocks = q.margin_blocks(X, posterior)
        columns, log_probabilities = top_k(blocks, lambda m: q.of_margins(m, posterior), int(k))
        return self.classes_[columns], log_probabilities

    def log_proba_of(self, X: Any, y: ArrayLike, posterior: str = "plug-in") -> np.ndarray:
        """Log-probability of one class a row, (n,)."""
        X = self._check_for_prediction(X, posterior)
        labels = encode(y, self.classes_)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)}; they must agree")
        out = np.empty(len(labels))
        for rows, margins in self.posterior_.margin_blocks(X, posterior):
            own = labels[rows]
            log_probabilities = self.posterior_.of_margins(margins, posterior)
            out[rows] = log_probabilities[np.arange(len(own)), own]
        return out

    # Inside

    def _check_for_prediction(self, X: Any, posterior: str) -> Any:
        check_is_fitted(self)
        if posterior not in _POSTERIORS:
            raise ValueError(
                f"posterior={posterior!r} is not known; choose 'plug-in' or 'averaged'"
            )
        checked = inputs.check_rows(X, self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return checked

    def _parts(self) -> Parts:
        return resolve(
            "augment-reduce",
            noises.resolve(self.noise),
            n_negatives=int(self.n_negatives),
            learning_rate=_RATE if self.learning_rate == "auto" else float(self.learning_rate),
        )

    def _bind(self, n_classes: int, n_columns: int) -> PriorState:
        return resolved_prior(self).bind(n_classes, n_columns, bool(self.fit_intercept))

    def _bind_sharing(self) -> str:
        """Which precisions classes share, without the arrays of a large problem."""
        prior = resolved_prior(self)
        return "shared" if isinstance(prior, GaussianPrior) else prior.bind(2, 2, False).sharing

    def _settings(self) -> Settings:
        threads = self.n_threads or available_cores()
        return Settings(
            link=self.link,
            covariance=self.covariance,
            solver=self.solver,
            tol=tolerance(self),
            max_iter=int(self.max_iter),
            n_threads=int(threads),
        )

    def _encode(self, y: np.ndarray, classes: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        if classes is None:
            return classes_of(y)
        known = classes_of(np.asarray(classes))[0]
        return known, encode(y, known)

    def _check_memory(self, X: Any, n_classes: int) -> None:
        sparse = not isinstance(X, np.ndarray)
        nonzeros = X.nnz / max(X.shape[0], 1) if sparse else 0.0
        needed = self.memory_forecast(
            X.shape[0],
            X.shape[1],
            n_classes,
            sparse=sparse,
            row_nonzeros=nonzeros,
            dtype=X.dtype,
        )
        remedy = "set covariance='diagonal'"
        if self.method == "augment-reduce":
            remedy = "fit fewer classes or features, or give X in float32"
        elif self.covariance == "diagonal":
            remedy = "fit fewer classes or features, or lower n_threads"
        elif self._bind_sharing() == "coordinate" and self.link == "probit":
            remedy = "this prior needs a covariance matrix a class; " + remedy
        _memory.check(needed, n_classes, X.shape[1], remedy)

    def _posterior(self, mean: np.ndarray, covariance: Any, classes: np.ndarray) -> Posterior:
        return Posterior(
            mean,
            covariance,
            intercept=bool(self.fit_intercept),
            link=self.link,
            likelihood=self.likelihood,
            classes=classes,
        )

    def _noise_posterior(
        self, found: WeightPosterior, classes: np.ndarray, noise: Noise, seed: int
    ) -> NoisePosterior:
        mean, variances = found.mean, np.square(found.scale, out=found.scale)
        if self.fit_intercept:
            spread = np.square(found.intercept_scale).astype(mean.dtype)
            mean = np.column_stack([mean, found.intercept_mean])
            variances = np.column_stack([variances, spread])
        return NoisePosterior(
            mean,
            variances,
            intercept=bool(self.fit_intercept),
            noise=noise,
            classes=classes,
            n_draws=int(self.n_draws),
            seed=seed,
        )

    def _weigh(
        self, posterior: Posterior, X: Any, labels: np.ndarray, weights: np.ndarray, n_rows: float
    ) -> float:
        if self.likelihood != "average":
            return 1.0 if self.likelihood == "conditioned" else 0.0
        rng = check_random_state(self.random_state)
        return averaging_weight(posterior, X, labels, weights, rng, int(self.n_draws), n_rows)

    def _adopt(
        self, posterior: GaussianPosterior, weight: float | None, elbo: float, history: History
    ) -> None:
        """Take over a finished fit: the only place that changes fitted attributes."""
        self.posterior_: GaussianPosterior = posterior
        if isinstance(posterior, Posterior) and weight is not None:
            posterior.averaging_weight = weight
            self.averaging_weight_: float = weight
        else:
            self.__dict__.pop("averaging_weight_", None)  # of a fit before, by the other method
        self.classes_ = posterior.classes
        end = posterior.mean.shape[1] - posterior.intercept
        self.coef_ = posterior.mean[:, :end]
        n = len(posterior.mean)
        self.intercept_ = posterior.mean[:, -1] if posterior.intercept else np.zeros(n)
        self.elbo_: float = elbo
        self.history_: History = history
        self.n_iter_: int = len(history)
