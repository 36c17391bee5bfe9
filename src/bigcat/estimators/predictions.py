"""Predictions, intervals and tables of a fitted posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from bigcat.bayes.posterior import HOW, GaussianPosterior
from bigcat.checks import check_whole
from bigcat.estimators import inputs
from bigcat.estimators.consistency import consistent
from bigcat.estimators.names import class_numbers, column_numbers, feature_names
from bigcat.inference import (
    ResultsTable,
    average_effects,
    inference_data,
    log_likelihood_of_draws,
    numerical_derivatives,
    quantile_names,
    softmax_derivatives,
)
from bigcat.inference.summary import summarise
from bigcat.inference.table import tails_of
from bigcat.linear.labels import encode
from bigcat.training.history import History


class PosteriorPredictions:
    """Predictions, intervals and summary of an estimator with a `posterior_`."""

    posterior_: GaussianPosterior
    classes_: np.ndarray
    history_: History

    @consistent
    def predict(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """Return the most probable class of each row."""
        X = self._check_for_prediction(X, posterior)
        labels: np.ndarray = self.classes_[self.posterior_.best(X, posterior)]
        return labels

    @consistent
    def predict_log_proba(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """Return log-probabilities of all classes, (n, n_classes)."""
        X = self._check_for_prediction(X, posterior)
        return self.posterior_.log_proba(X, posterior)

    @consistent
    def predict_proba(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """Return probabilities of all classes, (n, n_classes); rows add up to one.

        Parameters
        ----------
        posterior : {"averaged", "plug-in"}, default="averaged"
            Averaged over the posterior, which is what the model says of a new row, and more
            cautious far from the data; the method says how.  Or at the posterior mean, which costs
            no variances and no draws.
        """
        log_probabilities = self.predict_log_proba(X, posterior)
        np.exp(log_probabilities, out=log_probabilities)
        return log_probabilities

    @consistent
    def predict_top_k(
        self, X: Any, k: int = 5, posterior: str = "averaged"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row, without an (n, K) array.

        Returns
        -------
        classes : array of shape (n, k)
        log_probabilities : array of shape (n, k)
        """
        X = self._check_for_prediction(X, posterior)
        columns, log_probabilities = self.posterior_.top_k(X, k, posterior)
        return self.classes_[columns], log_probabilities

    @consistent
    def log_proba_of(self, X: Any, y: ArrayLike, posterior: str = "averaged") -> np.ndarray:
        """Return the log-probability of one class per row, (n,)."""
        X = self._check_for_prediction(X, posterior)
        labels = encode(y, self.classes_)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)}; they must agree")
        return self.posterior_.log_proba_of(X, labels, posterior)

    # Intervals

    @consistent
    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return credible intervals of the class probabilities: two arrays (n, n_classes).

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        level : float, default=0.9
            Posterior probability inside each interval, with as much above as below.
        n_draws : int or None, default=None
            Draws that quantiles are taken of; None is all that the posterior keeps, or as many as
            the method's ``n_draws``, 200 at the least.
        random_state : int, RandomState or None, default=0

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier("independent-binary", random_state=0).fit(X, y)
        >>> low, high = model.predict_interval(X[:2], level=0.9)
        >>> low.shape, bool((low < high).all())
        ((2, 3), True)
        """
        X = self._check_for_prediction(X)
        return self.posterior_.predict_interval(X, level, n_draws, random_state)

    @consistent
    def log_odds_interval(
        self,
        X: Any,
        first: Any,
        second: Any,
        level: float = 0.9,
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return credible intervals of log p(first | x) - log p(second | x), each (n,).

        Of a softmax they are exact: its log-odds are a difference of two scores.  Where classes
        are independent in the posterior, variances of the two scores add up.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        first, second : labels
            Two classes: above 0 the first is more probable.
        level : float, default=0.9
        n_draws, random_state :
            As in `predict_interval`, for models that are no softmax.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> iris = load_iris()
        >>> y = iris.target_names[iris.target]
        >>> model = BayesianClassifier("independent-binary", random_state=0).fit(iris.data, y)
        >>> low, high = model.log_odds_interval(iris.data[:1], "setosa", "virginica")
        >>> bool(low[0] > 0)
        True
        """
        X = self._check_for_prediction(X)
        a, b = self._class_numbers("first", [first])[0], self._class_numbers("second", [second])[0]
        q = self.posterior_
        return q.log_odds_interval(X, int(a), int(b), level, n_draws, random_state)

    # The weights as a table

    @consistent
    def summary(
        self,
        classes: ArrayLike | None = None,
        features: ArrayLike | None = None,
        top: int | None = None,
        level: float = 0.9,
        base: Any = None,
    ) -> ResultsTable:
        """Return the weights as a table, class by class.

        Parameters
        ----------
        classes : labels, optional
            Only these classes.
        features : names or numbers of columns, optional
            Only these; names are ``feature_names_in_`` where X had names, else "x0", "x1", ...; and
            "intercept".
        top : int, optional
            Rows per class: the weights with the largest mean relative to their deviation.
        level : float, default=0.9
            Posterior probability inside each interval.
        base : label, optional
            Weights relative to this class, as a multinomial logit with that base category has
            them.  Their spread is exact where the posterior knows how classes go together
            (covariances "full" and "draws" of the Laplace method); else variances add up.

        Returns
        -------
        ResultsTable
            Columns ``class``, ``feature``, ``mean``, ``sd``, the ends of the interval ("5%" and
            "95%") and ``sign_probability``, the posterior probability that the weight has the sign
            of its mean.  With `base`, a softmax has the ``odds_ratio`` exp(mean), too.  Draws have
            ``mcse``, the Monte-Carlo standard error of the mean, ``ess_bulk`` and ``r_hat``, by
            ArviZ's definitions; `figures` of the table tell how the chains mixed.  ``to_frame()``
            makes a pandas.DataFrame.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier("independent-binary", random_state=0).fit(X, y)
        >>> table = model.summary(classes=[0, 2], top=1)
        >>> table["class"].tolist(), table["feature"].tolist()
        ([0, 2], ['x2', 'x2'])
        >>> list(table.columns)
        ['class', 'feature', 'mean', 'sd', '5%', '95%', 'sign_probability']
        """
        check_is_fitted(self)
        names = feature_names(self, self.posterior_.intercept)
        if top is not None:
            check_whole("top", top)
        return summarise(
            self.posterior_,
            names,
            classes=None if classes is None else self._class_numbers("classes", classes),
            columns=None if features is None else column_numbers(features, names),
            top=top,
            level=level,
            base=None if base is None else int(self._class_numbers("base", [base])[0]),
            selection=self.history_.selection,
        )

    @consistent
    def marginal_effects(
        self,
        X: Any,
        level: float = 0.9,
        n_draws: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> ResultsTable:
        """Return the posterior of the average marginal effects.

        The effect of a feature on a class is the derivative of the class probability by the
        feature, averaged over the rows of X.  The effects of a feature add up to 0 over the
        classes.  A column of zeros and ones is treated like any other.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
            Rows to average over; a sample of a large data set will do.
        level : float, default=0.9
            Posterior probability inside each interval.
        n_draws : int, default=200
            Draws of the weights, at most those that are kept.
        random_state : int, RandomState or None, default=0

        Returns
        -------
        ResultsTable
            One row per class and feature, columns as in `summary`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier(random_state=0).fit(X, y)
        >>> effects = model.marginal_effects(X)
        >>> effects.shape
        (12, 7)
        """
        X, ends = self._check_for_prediction(X), quantile_names(level)
        check_whole("n_draws", n_draws)
        q = self.posterior_
        weights = q.sample(min(n_draws, q.covariance_form.n_kept or n_draws), random_state)
        derivatives = (
            softmax_derivatives if q.odds_are_scores else numerical_derivatives(q.log_probabilities)
        )
        effects = average_effects(weights, X, q.intercept, derivatives)
        low, high = np.quantile(effects, tails_of(level), axis=0)
        mean, names = effects.mean(axis=0), feature_names(self, intercept=False)
        return ResultsTable(
            {
                "class": np.repeat(self.classes_, len(names)),
                "feature": np.tile(np.asarray(names, dtype=object), len(self.classes_)),
                "mean": mean.ravel(),
                "sd": effects.std(axis=0, ddof=1).ravel(),
                ends[0]: low.ravel(),
                ends[1]: high.ravel(),
                "sign_probability": (effects * np.sign(mean) > 0.0).mean(axis=0).ravel(),
            },
            title="Average marginal effects",
        )

    @consistent
    def to_arviz(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        n_draws: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Any:
        """Return draws of the weights as ArviZ's InferenceData; needs the extra ``bayes``.

        Kept draws are there once each, in their chains.  Dimensions ``class`` and ``feature`` have
        the names that `summary` uses.

        Parameters
        ----------
        X, y : rows and their labels, optional
            Adds their ``log_likelihood`` for ``arviz.loo`` and ``arviz.compare``, an array of
            draws times rows, and ``observed_data``.
        n_draws : int, default=1000
            Independent draws of a Gaussian posterior; kept draws are given as they are.
        random_state : int, RandomState or None, default=0
            For a Gaussian posterior.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier(random_state=0).fit(X, y)
        >>> data = model.to_arviz(X, y)
        >>> data.groups()
        ['posterior', 'log_likelihood', 'sample_stats', 'observed_data']
        """
        check_is_fitted(self)
        q, selection = self.posterior_, self.history_.selection or {}
        kept = q.covariance_form.n_kept
        n_chains = 1 if kept is None else selection.get("chains", 1)
        weights = q.sample(kept or n_draws, random_state)
        log_likelihood = labels = None
        if X is not None and y is not None:
            X, labels = self._check_for_prediction(X), np.asarray(y)
            check_consistent_length(X, labels)
            numbers = encode(labels, self.classes_)
            found = log_likelihood_of_draws(weights, X, numbers, q.intercept, q.log_probabilities)
            log_likelihood = _in_chains(found, n_chains)
        elif X is not None or y is not None:
            raise ValueError("X and y go together; one of them is missing")
        return inference_data(
            _in_chains(weights, n_chains),
            self.classes_,
            feature_names(self, q.intercept),
            log_likelihood=log_likelihood,
            labels=labels,
            acceptance=None if kept is None else selection.get("acceptance"),
        )

    def _class_numbers(self, parameter: str, labels: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return class_numbers(parameter, labels, self.classes_)

    def _check_for_prediction(self, X: Any, posterior: str = HOW[0]) -> Any:
        if posterior not in HOW:
            raise ValueError(
                f"posterior={posterior!r} is not known; choose 'averaged' or 'plug-in'"
            )
        return inputs.check_for_prediction(self, X)


def _in_chains(draws: np.ndarray, n_chains: int) -> np.ndarray:
    """Return draws (S, ...), those of an iteration side by side, as (chains, S / chains, ...)."""
    return draws.reshape(-1, n_chains, *draws.shape[1:]).swapaxes(0, 1)
