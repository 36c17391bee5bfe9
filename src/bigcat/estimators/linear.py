"""The linear classifier: scores w_k . x + b_k, any noise, any method."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from bigcat import noise as noises
from bigcat.auto.parameters import check_parameters
from bigcat.auto.policy import choose, choose_for_stream, continued
from bigcat.bounds import AugmentReduce
from bigcat.bounds._base import full_rows
from bigcat.combinations import Method
from bigcat.estimators import inputs as _inputs
from bigcat.linear import sampled_normaliser as _sampled
from bigcat.linear.labels import classes_of, encode
from bigcat.linear.prediction import Scorer
from bigcat.linear.scores import score_blocks
from bigcat.linear.weights import Factors, Weights
from bigcat.noise import Noise
from bigcat.numerics import random as _random
from bigcat.samplers import Sampler
from bigcat.solvers import Solver
from bigcat.training import memory as _memory
from bigcat.training import ridge_path as _ridge_path
from bigcat.training.fit import Fit, Outcome
from bigcat.training.history import History
from bigcat.training.recipe import Recipe, Sizes, from_parameters, with_constant_rate
from bigcat.training.run import make_problem, train

#: Weights and intercepts that a fit starts from.
Start = tuple[Weights, np.ndarray] | None


def _makes_passes(estimator: LinearClassifier) -> bool:
    """Is there a `partial_fit`?  Not with a solver that needs all rows in every step."""
    try:
        solver = estimator._stream_recipe(Sizes(1, 1, 2, 1, False)).parts.solver
    except ValueError:
        return True  # the call itself says what is wrong
    if not solver.stochastic:
        raise AttributeError(
            f"partial_fit makes stochastic passes and solver={solver.name!r} does not; take "
            "solver='adagrad', 'adaptive' or 'sgd'"
        )
    return True


def _sizes(X: Any, n_classes: int) -> Sizes:
    sparse = scipy.sparse.issparse(X)
    n_values = X.nnz if sparse else X.size
    return Sizes(X.shape[0], X.shape[1], n_classes, n_values, sparse)


class LinearClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier over very many classes.

    The model is ``y = argmax_k w_k . x + b_k + noise_k``: the softmax with Gumbel noise, the
    multinomial probit with Gaussian, the multinomial logistic with logistic noise.  It is fitted
    by maximising the log-likelihood or a bound below it; conventions are in
    ``docs/conventions.md``, the choice of a method in ``docs/choosing.md``.

    Parameters
    ----------
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        Which random utility; `bigcat.noise.CustomNoise` for your own.
    method : str or Method, default="auto"
        "auto" chooses method, sampler, solver, rate, epochs and regularisation from the data;
        what it chose and why is in ``history_.choice``.  Or a name of `bigcat.methods()`.
    rank : int, None or "auto", default="auto"
        Of the scores.  None gives every class a weight for every feature; a number gives classes
        and features vectors of that length, whose inner products are the weights: fewer of them,
        and rare classes learn from what others have taught the features.  "auto" goes by the sizes
        of the data where ``method="auto"`` and is None where a method is named.
    n_negatives : int or "auto", default="auto"
        Classes beside its own that a row looks at in a step; 32 where a method is named.
    batch_size : int or "auto", default="auto"
        Rows a step; "auto" is the solver's own: 1 for "vanilla", "umax" and "implicit", else 64.
    max_epochs : int or "auto", default="auto"
        Most passes over the data (iterations with ``solver="lbfgs"``); 50 where a method is named.
    learning_rate : float or "auto", default="auto"
        Step size; "auto" is the solver's own.
    l2 : float, "auto" or "path", default="auto"
        Ridge on the *sum*: log-likelihood - l2/2 |W|^2, so 1/C of scikit-learn.  Intercepts are
        not penalised.  "auto" is 1 for up to 2,000 rows with ``method="auto"``, as there, and
        otherwise 0: many rows are regularised by when the fit stops.  "path" takes the one that
        predicts held-out rows best (`X_val`, or a fifth of the rows), for ``solver="lbfgs"``.
    fit_intercept : bool, default=True
    class_weight : dict, "balanced" or None, default=None
    validation_fraction : float, default=0.1
        Part of the rows held out with `early_stopping`.
    early_stopping : bool or "auto", default="auto"
        Stop when the held-out log-likelihood has not grown by `tol` for `n_iter_no_change`
        epochs, and keep the best epoch's weights.  "auto" is False where a method is named.
    n_iter_no_change : int, default=5
    tol : float or None, default=1e-4
        Gain a row below which an epoch counts as none (in the bound where there is no
        validation set); None never stops early.  With ``solver="lbfgs"`` the largest gradient
        of the mean value a row that counts as converged.
    warm_start : bool, default=False
        Start `fit` from the weights of the last one.
    random_state : int, RandomState or None, default=None
        One thread and one seed give the same bits.
    n_threads : int or None, default=None
        Threads of a fit.  Several share the weights without locks, so they give other bits each
        time.  None: one where `random_state` is given, else all cores.
    callbacks : sequence of callables or None, default=None
        Each is called after each epoch with a dict, that epoch's row of `history_` plus
        ``"estimator"`` and ``"log_likelihood_of"``, a function of (X, y) that gives their mean
        log-likelihood by the weights of now; a true answer stops the fit.
    progress : {"auto", True, False}, default="auto"
        A progress bar with the current bound; "auto" shows one on a terminal.
    solver : {"auto", "adaptive", "adagrad", "sgd", "damped", "vanilla", "umax", "implicit", \
            "lbfgs"} or Solver, default="auto"
    sampler : {"auto", "uniform", "frequency", "stratified", "co-occurrence", "shared", \
            "everything"} or Sampler, default="auto"
    exact_classes : int or array of labels, default=0
        Classes that every row looks at, beside those drawn; a number takes that many of the most
        frequent ones.  Sampling noise falls; one-vs-each also gets tighter, since it keeps their
        softmax exact (its equation 6).
    expectation : {"quadrature", "sample"}, default="quadrature"
        How augment-and-reduce takes expectations for noise other than Gumbel: by Gauss-Hermite
        nodes, or by one Monte-Carlo sample as in the paper.
    n_nodes : int, default=8
        Gauss-Hermite nodes.
    variational : {"auto", "gaussian", "logistic", "gumbel"}, default="auto"
        Family of augment-and-reduce's q for noise other than Gumbel; "auto" is the paper's.
    init : {"frequencies", "zero", "random"}, default="frequencies"
        Start from the class frequencies, from equal probabilities, or from the papers' small
        random weights.
    shuffle : bool, default=True
        Visit the rows in a new random order each epoch.
    probabilities : {"quadrature", "importance"}, default="quadrature"
        How class probabilities are computed for noise other than Gumbel: exact to rounding, or
        by the papers' importance sampler.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features), float32
        Of full rank only; else ``class_embedding_ @ embedding_.T`` would be it.
    embedding_ : array of shape (n_features, rank), float32
        Of low rank only: a row is embedded as ``x @ embedding_``.
    class_embedding_ : array of shape (n_classes, rank), float32
        Of low rank only: scores are inner products with it, plus `intercept_`.
    intercept_ : array of shape (n_classes,), float32
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    exact_classes_ : array
        Labels of the classes that were kept exact.
    n_iter_ : int
        Epochs run.
    history_ : History
        One dict an epoch: ``epoch``, ``seconds``, ``compile_seconds``, ``objective``, ``bound``,
        ``log_likelihood``, ``validation_log_likelihood``; see `History`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> classes, log_probabilities = model.predict_top_k(X[:1], k=2)
    >>> int(classes[0, 0])
    0
    """

    def __init__(
        self,
        noise: str | Noise = "gumbel",
        method: str | Method = "auto",
        *,
        rank: int | str | None = "auto",
        n_negatives: int | str = "auto",
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        learning_rate: float | str = "auto",
        l2: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: dict | str | None = None,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 5,
        tol: float | None = 1e-4,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        callbacks: Sequence[Callable[[dict], Any]] | None = None,
        n_threads: int | None = None,
        progress: bool | str = "auto",
        solver: str | Solver = "auto",
        sampler: str | Sampler = "auto",
        exact_classes: int | ArrayLike = 0,
        expectation: str = "quadrature",
        n_nodes: int = 8,
        variational: str = "auto",
        init: str = "frequencies",
        shuffle: bool = True,
        probabilities: str = "quadrature",
    ) -> None:
        self.noise = noise
        self.method = method
        self.rank = rank
        self.n_negatives = n_negatives
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.callbacks = callbacks
        self.n_threads = n_threads
        self.progress = progress
        self.solver = solver
        self.sampler = sampler
        self.exact_classes = exact_classes
        self.expectation = expectation
        self.n_nodes = n_nodes
        self.variational = variational
        self.init = init
        self.shuffle = shuffle
        self.probabilities = probabilities

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
        X_val: Any = None,
        y_val: ArrayLike | None = None,
    ) -> LinearClassifier:
        """Fit the model; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        y : array of shape (n,)
            Labels: integers or strings.
        sample_weight : array of shape (n,), optional
        X_val, y_val : optional
            A validation set; its log-likelihood is in `history_` after each epoch.
        """
        self._check_parameters()
        given_X = X
        X, y = _inputs.check_rows_and_labels(X, y, self)
        weights = _inputs.check_weights(sample_weight, X, self)
        classes, labels = classes_of(y)
        weights = _inputs.weigh_classes(weights, self.class_weight, y)
        random_state = check_random_state(self.random_state)
        validation = self._validation(X_val, y_val, classes, X.shape[1])
        start = self._previous_weights(classes, X.shape[1]) if self.warm_start else None
        recipe = self._recipe(_sizes(X, len(classes)), start)
        data = (X, labels, weights)
        outcome = train(self, recipe, data, classes, validation, random_state, start)
        self._adopt(outcome, classes)
        validate_data(self, given_X, skip_check_array=True)
        return self

    @available_if(_makes_passes)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> LinearClassifier:
        """One pass over more rows; weights move in place, so no copy of them is made.

        Parameters
        ----------
        X, y : as in `fit`
        classes : array, optional
            All classes that will ever come; needed in the first call only.
        sample_weight : array of shape (n,), optional
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError(
                "the first call of partial_fit needs all classes: pass classes=numpy.unique(y) "
                "of the whole data"
            )
        self._check_parameters()
        given_X = X
        X, y = _inputs.check_rows_and_labels(X, y, self)
        if first:
            known = classes_of(np.asarray(classes))[0]
        else:
            known = self.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError("classes differ from those of the first call of partial_fit")
            validate_data(self, given_X, skip_check_array=True, reset=False)
        labels = encode(y, known)
        weights = _inputs.check_weights(sample_weight, X, self)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once; pass a dict or "
                "sample_weight to partial_fit"
            )
        weights = _inputs.weigh_classes(weights, self.class_weight, y)
        start = None if first else (self._weights(), self.intercept_)
        if start and not start[1].flags.writeable:
            raise ValueError(
                "the weights are read-only, mapped to a file, and partial_fit changes them in "
                "place; load the model with load_model without mmap=True"
            )
        recipe = self._stream_recipe(_sizes(X, len(known)), start)
        if self.l2 == "path":
            _ridge_path.check(recipe)
        problem = make_problem(self, recipe, (X, labels, weights), known)
        fit = Fit(self, recipe, problem, known, None, check_random_state(self.random_state))
        outcome = fit.run(start, resume=getattr(self, "_resume", None), one_pass=True)
        outcome.history.choice = recipe.choice
        self._adopt(outcome, known, append=not first)
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
        max_row_nonzeros: int = 100,
        nnz: int | None = None,
        dtype: Any = np.float32,
    ) -> int:
        """Bytes that `fit` will need beside the data.

        Without `nnz`, the non-zeros of all rows, each row is taken to have `max_row_nonzeros`.

        Examples
        --------
        >>> from bigcat import LinearClassifier
        >>> low, full = LinearClassifier(n_threads=1), LinearClassifier(rank=None, n_threads=1)
        >>> low.memory_forecast(10**5, 20_000, 10_000) / 2**30  # GiB
        0.03...
        >>> full.memory_forecast(10**5, 20_000, 10_000) / 2**30
        0.9...
        """
        self._check_parameters()
        if nnz is None:
            nnz = n_rows * (max_row_nonzeros if sparse else n_features)
        sizes = Sizes(n_rows, n_features, n_classes, nnz, sparse)
        return _memory.needed(self._recipe(sizes), sizes, max_row_nonzeros, dtype)

    # Prediction

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores w_k . x + b_k, (n, n_classes); with two classes their difference, (n,)."""
        X = self._check_for_prediction(X)
        scores = np.concatenate([s for _, s in self._blocks(X)])
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        X = self._check_for_prediction(X)
        return self.classes_[self._scorer().best(X)]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of all classes, (n, n_classes)."""
        X = self._check_for_prediction(X)
        return self._scorer().log_proba(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of all classes, (n, n_classes); rows add up to one."""
        log_probabilities = self.predict_log_proba(X)
        return np.exp(log_probabilities, out=log_probabilities)

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The `k` most probable classes of each row, best first, without an (n, K) array.

        Returns
        -------
        classes : array of shape (n, k)
        log_probabilities : array of shape (n, k)
        """
        X = self._check_for_prediction(X)
        columns, log_probabilities = self._scorer().top_k(X, k)
        return self.classes_[columns], log_probabilities

    def log_proba_of(
        self,
        X: Any,
        y: ArrayLike,
        *,
        normaliser: str = "exact",
        n_samples: int = 1024,
        return_std: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> Any:
        """Log-probability of one class a row, (n,).

        Parameters
        ----------
        X, y : rows, and the class of each
        normaliser : {"exact", "sampled"}, default="exact"
            "sampled", for the softmax, estimates it without bias from `n_samples` classes a row,
            whose number sets the cost, not that of all classes.  (But for the first call, which
            makes a table of all of them.)  The logarithm turns what scatter is left into
            log-probabilities that are too high by about half the square of their standard error.
            Classes are drawn by the softmax of the intercepts, mixed with uniform: where a row has
            probable classes that this rarely draws, estimates and their errors are too optimistic
            until `n_samples` finds them.
        n_samples : int, default=1024
        return_std : bool, default=False
            Return standard errors too, (n,): by the delta method, 0 for "exact".
        random_state : int, RandomState or None, default=None
            Of the draws.

        Examples
        --------
        >>> import numpy as np, bigcat
        >>> X = np.eye(30, dtype=np.float32).repeat(5, axis=0)
        >>> y = X.argmax(axis=1)
        >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
        >>> log_p, std = model.log_proba_of(
        ...     X, y, normaliser="sampled", return_std=True, random_state=0
        ... )
        >>> bool((np.abs(log_p - model.log_proba_of(X, y)) < 5 * std).all())
        True
        """
        X, labels = self._check_pairs(X, y)
        if normaliser == "exact":
            log_probs, std = self._scorer().log_proba_of(X, labels), np.zeros(len(labels))
        elif normaliser == "sampled":
            self._check_sampling(n_samples)
            columns = labels[:, None]
            log_probs, std = self._sampled_log_probs(X, columns, n_samples, random_state)
            log_probs = log_probs[:, 0]
        else:
            raise ValueError(f"normaliser={normaliser!r} is neither 'exact' nor 'sampled'")
        return (log_probs, std) if return_std else log_probs

    def lower_bound(self, X: Any, y: ArrayLike) -> np.ndarray:
        """The method's bound on `log_proba_of`, at the best local parameters, (n,).

        With ``method="auto"`` that of "augment-reduce", where what was fitted is no bound.
        """
        X, labels = self._check_pairs(X, y)
        parts = self._recipe(_sizes(X, len(self.classes_))).parts
        bound = parts.bound
        if self._chooses() and not bound.is_bound:
            bound = AugmentReduce()
        if not bound.is_bound:
            raise ValueError(
                f"the {bound.name} objective is an estimator, not a bound; log_proba_of "
                "gives the log-probabilities themselves"
            )
        head = encode(self.exact_classes_, self.classes_)
        rest = np.setdiff1d(np.arange(len(self.classes_)), head)
        order = np.concatenate([head, rest]).astype(np.int64)
        if isinstance(bound, AugmentReduce):  # an expectation to rounding, not a cheap one
            nodes = max(20, bound.n_nodes)
            bound = dataclasses.replace(bound, expectation="quadrature", n_nodes=nodes)
        tag = bound.lower(parts.noise)
        rng = _random.new_state(np.random.RandomState(0))
        out = np.empty(len(labels))
        for rows, scores in self._blocks(X):
            scores = scores.astype(np.float64, copy=False)
            local = np.zeros((len(scores), max(bound.n_local, 1)))
            values = np.empty(len(scores))
            full_rows(
                tag, rng, scores, labels[rows], len(head), order, local, values, scores, False
            )
            out[rows] = values
        return out

    # Inside

    def _blocks(self, X: Any):
        return score_blocks(X, self._weights(), self.intercept_)

    def _scorer(self) -> Scorer:
        noise = noises.resolve(self.noise)
        return Scorer(self._weights(), self.intercept_, noise, self.probabilities)

    def _weights(self) -> Weights:
        """Fitted weights, of either kind."""
        if hasattr(self, "embedding_"):
            return Factors(self.class_embedding_, self.embedding_)
        return self.coef_

    def _sampled_log_probs(
        self, X: Any, columns: np.ndarray, n_samples: int, random_state: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of some classes of each row, (n, k), and a row's standard error, (n,)."""
        if not hasattr(self, "_proposal"):
            self._proposal = _sampled.proposal(self.intercept_)
        random_state = check_random_state(random_state)
        model = (self._weights(), self.intercept_, self._proposal)
        return _sampled.sampled_log_probs(*model, X, columns, int(n_samples), random_state)

    def _check_sampling(self, n_samples: Any) -> None:
        if not self._scorer().in_closed_form:
            raise ValueError(
                "a sampled normaliser is for the softmax, noise='gumbel' with "
                f"probabilities='quadrature', not for noise={self.noise!r} with "
                f"probabilities={self.probabilities!r}; take normaliser='exact'"
            )
        if not isinstance(n_samples, numbers.Integral) or n_samples < 2:
            raise ValueError(f"n_samples={n_samples!r} must be a whole number of at least 2")

    def _check_for_prediction(self, X: Any) -> Any:
        check_is_fitted(self)
        checked = _inputs.check_rows(X, self)
        validate_data(self, X, skip_check_array=True, reset=False)
        return checked

    def _check_pairs(self, X: Any, y: ArrayLike) -> tuple[Any, np.ndarray]:
        X = self._check_for_prediction(X)
        labels = encode(y, self.classes_)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)}; they must agree")
        return X, labels

    def _check_parameters(self) -> None:
        """Raise for parameters that cannot be right, whatever the data are."""
        check_parameters(self)
        if not self._chooses():
            from_parameters(self)

    def _chooses(self) -> bool:
        return isinstance(self.method, str) and self.method == "auto"

    def _recipe(self, sizes: Sizes, start: Start = None) -> Recipe:
        source = continued(self, start)
        return choose(source, sizes) if self._chooses() else from_parameters(source)

    def _stream_recipe(self, sizes: Sizes, start: Start = None) -> Recipe:
        source = continued(self, start)
        recipe = choose_for_stream(source, sizes) if self._chooses() else from_parameters(source)
        return with_constant_rate(recipe)

    def _validation(self, X_val: Any, y_val: Any, classes: np.ndarray, n_features: int):
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val go together; one of them is missing")
        if X_val is None:
            return None
        X_val, y_val = _inputs.check_rows_and_labels(X_val, y_val, self)
        if X_val.shape[1] != n_features:
            raise ValueError(f"X_val has {X_val.shape[1]} features and X {n_features}")
        return X_val, encode(y_val, classes), np.ones(len(y_val))

    def _previous_weights(self, classes: np.ndarray, n_features: int):
        if not hasattr(self, "classes_"):
            return None
        weights = self._weights()
        if weights.shape != (len(classes), n_features) or not np.array_equal(
            self.classes_, classes
        ):
            raise ValueError(
                f"warm_start=True, but the last fit had {weights.shape[0]} classes and "
                f"{weights.shape[1]} features and this one has {len(classes)} and "
                f"{n_features}, or other labels; set warm_start=False"
            )
        return weights.copy(), self.intercept_.copy()

    def _adopt(self, outcome: Outcome, classes: np.ndarray, append: bool = False) -> None:
        """Take over a finished fit: the only place that changes fitted attributes."""
        if append:
            for row in outcome.history:
                row["epoch"] += self.n_iter_
                row["seconds"] += self.history_[-1]["seconds"]
        self.classes_ = classes
        # What the last fit left: the other kind of weights, a table of classes.
        for name in ("coef_", "embedding_", "class_embedding_", "_proposal"):
            self.__dict__.pop(name, None)
        if isinstance(outcome.coef, Factors):
            self.embedding_, self.class_embedding_ = outcome.coef.features, outcome.coef.classes
        else:
            self.coef_ = outcome.coef
        self.intercept_ = outcome.intercept
        before = self.history_ if append else []
        choice = outcome.history.choice
        rows, forecast = [*before, *outcome.history], outcome.history.forecast_seconds
        self.history_: History = History(rows, choice, forecast)
        self.n_iter_: int = len(self.history_)
        self._resume = outcome.resume
        self.exact_classes_ = classes[outcome.head]
