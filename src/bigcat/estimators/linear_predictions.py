"""Predictions, inference and weights of a fitted linear classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bigcat import noise as noises
from bigcat.bounds import Bound
from bigcat.estimators import inputs
from bigcat.estimators.consistency import consistent
from bigcat.estimators.names import class_numbers, feature_names
from bigcat.estimators.options import WithParts
from bigcat.inference import (
    LikelihoodFit,
    ResultsTable,
    effects_with_errors,
    maximise,
    wald_columns,
)
from bigcat.linear import KINDS_OF_WEIGHTS, LinearModel, Weights, weights_from
from bigcat.linear.labels import encode
from bigcat.noise import Noise
from bigcat.training.data import TrainingData
from bigcat.training.history import History
from bigcat.training.selection import Selection

#: Weights up to which a model of low rank computes `coef_` when it is looked up: 16 MB.
MAX_COEF_WEIGHTS = 1 << 22


class LinearPredictions(ClassifierMixin, WithParts):
    """Predictions of an estimator with linear weights, and its model."""

    noise: str | Noise
    l2: float | str
    fit_intercept: bool
    class_weight: dict[Any, float] | str | None
    coef_: np.ndarray
    classes_: np.ndarray
    class_count_: np.ndarray
    intercept_: np.ndarray
    exact_classes_: np.ndarray
    embedding_: np.ndarray
    class_embedding_: np.ndarray
    history_: History
    selection_: Selection
    n_iter_: int

    def __getattr__(self, name: str) -> Any:
        """Return `coef_` of a small model of low rank; raise AttributeError for anything else."""
        if name == "coef_" and "class_embedding_" in self.__dict__:
            (k, rank), d = self.class_embedding_.shape, len(self.embedding_)
            if k * d <= MAX_COEF_WEIGHTS:
                return self._weights().dense()
            pairs = ", beside the weights of single pairs" if "pair_coef_" in self.__dict__ else ""
            raise AttributeError(
                f"the model is of rank {rank}, so that there is no coef_, which would hold {k:,} x "
                f"{d:,} weights: those of class i are embedding_ @ class_embedding_[i]{pairs}; "
                "bigcat.inspection.strongest_features tells of one class, and rank=None fits "
                "coef_ itself"
            )
        return self.__getattribute__(name)  # raises once more, with its own reason

    @consistent
    def decision_function(self, X: Any) -> np.ndarray:
        """Return scores w_k . x + b_k, (n, n_classes); with two classes their difference, (n,)."""
        X = inputs.check_for_prediction(self, X)
        scores: np.ndarray = np.concatenate([s for _, s in self.linear_model().score_blocks(X)])
        if len(self.classes_) == 2:
            scores = scores[:, 1] - scores[:, 0]
        return scores

    @consistent
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        X = inputs.check_for_prediction(self, X)
        labels: np.ndarray = self.classes_[self.linear_model().best(X)]
        return labels

    @consistent
    def score(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the accuracy, as in scikit-learn; `bigcat.data.Shards` have labels."""
        if inputs.is_source(X):
            inputs.check_alone(X, y)
            best = self.linear_model().best(inputs.check_for_prediction(self, X))
            right = best == inputs.places(X.classes, self.classes_)[X.labels]
            return float(np.average(right, weights=inputs.check_weights(sample_weight, X, self)))
        return float(super().score(X, y, sample_weight))

    @consistent
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log-probabilities of all classes, (n, n_classes)."""
        X = inputs.check_for_prediction(self, X)
        return self.linear_model().log_proba(X)

    @consistent
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities of all classes, (n, n_classes); rows add up to one."""
        log_probabilities = self.predict_log_proba(X)
        np.exp(log_probabilities, out=log_probabilities)
        return log_probabilities

    @consistent
    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row, without an (n, K) array.

        Returns
        -------
        classes : array of shape (n, k)
        log_probabilities : array of shape (n, k)
        """
        X = inputs.check_for_prediction(self, X)
        columns, log_probabilities = self.linear_model().top_k(X, k)
        return self.classes_[columns], log_probabilities

    @consistent
    def log_proba_of(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return the log-probability of one class per row, (n,)."""
        X, labels = self._check_pairs(X, y)
        return self.linear_model().log_proba_of(X, labels)

    @consistent
    def lower_bound(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return the bound of the fit on `log_proba_of`, at the best local parameters, (n,).

        It is `bound_`, and `log_proba_of` itself where that was fitted.
        """
        X, labels = self._check_pairs(X, y)
        bound: Bound | None = getattr(self, "bound_", None)
        if bound is None:
            raise ValueError(
                "the model comes from a file that could not hold the bound of its fit, one of your "
                "own; set model.bound_ to it"
            )
        if not bound.is_bound:
            raise ValueError(
                f"the {bound.name} objective is an estimator, not a bound; log_proba_of "
                "gives the log-probabilities themselves"
            )
        head = encode(self.exact_classes_, self.classes_)
        return self.linear_model().lower_bound(bound, X, labels, head)

    # Classical inference

    @consistent
    def summary(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        base: Any = None,
        level: float = 0.95,
        robust: bool = False,
    ) -> ResultsTable:
        """Return the classical table of a softmax without a penalty, ``l2=0``.

        Coefficients are relative to the class `base`, as in a multinomial logit of statsmodels, R
        or Stata.  They are the maximum-likelihood estimates in double precision, found from the
        weights of the model by a few steps of Newton's method.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            The training rows, which the model does not keep.
        base : label, optional
            The reference class; the first of `classes_` by default.
        level : float, default=0.95
            Confidence level of the intervals.
        robust : bool, default=False
            Add standard errors by the sandwich formula (HC0), which hold if the model is not quite
            right; z, p-values and intervals follow from them.

        Returns
        -------
        ResultsTable
            Columns ``class``, ``feature``, ``estimate``, ``std_error``, ``z``, ``p_value``, the
            ends of the interval ("2.5%" and "97.5%") and ``odds_ratio``.  Its `figures` are the
            log-likelihood, AIC, BIC, the likelihood-ratio test against constants, and McFadden's
            R2.  ``to_frame()``, ``to_latex()`` and ``to_html()`` export it.

        Examples
        --------
        >>> import numpy as np
        >>> from bigcat import LinearClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((300, 1))
        >>> y = np.where(rng.logistic(size=300) < 1.5 * X[:, 0], "yes", "no")
        >>> LinearClassifier(l2=0).fit(X, y).summary(X, y)["estimate"].round(2)
        array([ 1.57, -0.07])
        """
        names = feature_names(self, bool(self.fit_intercept))
        fit, _ = self._likelihood_fit(X, y, sample_weight, base, robust)
        return fit.table(self.classes_, names, level)

    @consistent
    def marginal_effects(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        level: float = 0.95,
        robust: bool = False,
    ) -> ResultsTable:
        """Return average marginal effects with delta-method errors, for ``l2=0``.

        The effect of a feature on a class is the derivative of the class probability by the
        feature, averaged over the training rows.  The effects of a feature add up to 0 over the
        classes.  A column of zeros and ones is treated like any other.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            The training rows, which the model does not keep.
        level, robust :
            As in `summary`.
        """
        names = feature_names(self, intercept=False)
        fit, sample = self._likelihood_fit(X, y, sample_weight, None, robust)
        effects, errors = effects_with_errors(fit, sample.X, sample.row_weights)
        columns = {
            "class": np.repeat(self.classes_, len(names)),
            "feature": np.tile(np.asarray(names, dtype=object), len(self.classes_)),
            **wald_columns(effects.ravel(), errors.ravel(), level=level),
        }
        return ResultsTable(columns, title="Average marginal effects")

    def _likelihood_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, base: Any, robust: bool
    ) -> tuple[LikelihoodFit, TrainingData]:
        check_is_fitted(self)
        self._check_likelihood()
        X, labels = self._check_pairs(X, y)
        weights = inputs.check_weights(sample_weight, X, self)
        sample = inputs.sample_that_counts(X, labels, weights, self.class_weight, self.classes_)
        intercept = bool(self.fit_intercept)
        start = np.hstack([self.coef_, self.intercept_[:, None]]).astype(np.float64)
        fit = maximise(
            sample.X,
            sample.labels,
            sample.row_weights,
            start if intercept else start[:, :-1],
            intercept=intercept,
            base=0 if base is None else int(class_numbers("base", [base], self.classes_)[0]),
            names=feature_names(self, intercept),
            robust=robust,
        )
        return fit, sample

    def _check_likelihood(self) -> None:
        """Raise unless the model is a maximum-likelihood fit of a softmax of full rank."""
        if isinstance(self.l2, str) or self.l2 != 0:
            raise ValueError(
                f"l2={self.l2!r}: classical standard errors are for fits without a penalty; fit "
                "LinearClassifier(l2=0), or take BayesianClassifier"
            )
        if not noises.resolve(self.noise).softmax:
            raise ValueError(
                f"noise={self.noise!r}: classical standard errors are for the softmax, "
                "noise='gumbel'; take BayesianClassifier"
            )
        if "coef_" not in self.__dict__:
            raise ValueError(
                "the model is of low rank, and classical standard errors are for full rank; fit "
                "LinearClassifier(l2=0, rank=None)"
            )

    # The fitted model

    def linear_model(self) -> LinearModel:
        """Return the fitted model itself, which takes checked rows and numbered classes."""
        fitted: LinearModel | None = getattr(self, "_fitted_model", None)
        if fitted is None:
            check_is_fitted(self)
        noise, weights = noises.resolve(self.noise), self._weights()
        # Somebody may have set other weights; the one of the fit has a table of classes ready.
        if fitted is not None and fitted.has_arrays(weights, self.intercept_, noise):
            return fitted
        return LinearModel(weights, self.intercept_, noise)

    def _keep_model(self) -> None:
        noise = noises.resolve(self.noise)
        self._fitted_model = LinearModel(self._weights(), self.intercept_, noise)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitted_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "classes_"):
            self._keep_model()

    def _weights(self) -> Weights:
        """Return fitted weights, of whatever kind."""
        return weights_from(lambda name: self.__dict__.get(f"{name}_"))

    def _set_weights(self, weights: Weights) -> None:
        """Take over weights of one kind, and let go of those of another."""
        for kind in KINDS_OF_WEIGHTS:
            for name in kind.names():
                self.__dict__.pop(f"{name}_", None)
        for name, array in weights.arrays().items():
            setattr(self, f"{name}_", array)

    def restore(
        self, weights: Weights, intercept: np.ndarray, classes: np.ndarray, history: History
    ) -> None:
        """Become a fitted estimator again, with what a model file holds of one."""
        self._set_weights(weights)
        self.intercept_, self.classes_, self.history_ = intercept, classes, history
        self.selection_ = Selection(())
        self._keep_model()

    def _check_pairs(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
        X = inputs.check_for_prediction(self, X)
        labels = encode(y, self.classes_)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)}; they must agree")
        return X, labels
