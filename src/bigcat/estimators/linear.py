"""The linear classifier: scores w_k . x + b_k, any noise, any method."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from bigcat import noise as noises
from bigcat.auto import Parameters, config_for_stream, config_for_update, plan_for
from bigcat.bounds import AugmentReduce, Bound
from bigcat.checks import check_whole
from bigcat.combinations import Method, resolve_method
from bigcat.estimators import checkpoints, inputs
from bigcat.estimators.checkpoint_folder import Checkpoint
from bigcat.estimators.consistency import shallow_copy
from bigcat.estimators.linear_predictions import LinearPredictions
from bigcat.estimators.options import explains_unknown, named_part, only_if
from bigcat.inference import warn_of_separation
from bigcat.linear.labels import check_several, encode, joined
from bigcat.noise import Noise
from bigcat.part import Part
from bigcat.rows import Sizes
from bigcat.samplers import REGISTRY as SAMPLERS
from bigcat.samplers import Sampler
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import Solver
from bigcat.training import memory, progress
from bigcat.training.config import Candidate, FitPlan
from bigcat.training.data import TrainingData, without_duplicates
from bigcat.training.ensemble import train, train_on_more
from bigcat.training.fit import Callbacks, DivergedFit, FitResult, InterruptedFit, Start
from bigcat.training.history import History
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer
from bigcat.training.model_view import ModelView
from bigcat.training.past import Past
from bigcat.training.progress import Progress
from bigcat.training.selection import Selection
from bigcat.training.stopping import EarlyStopping


def _makes_passes(estimator: LinearClassifier) -> bool:
    """Return True if the solver makes passes; raise AttributeError if it needs all rows."""
    try:
        parameters = Parameters.of(estimator.get_params(deep=False))
        config = config_for_stream(parameters, Sizes(1, 1, 2, 1, False))
    except ValueError:
        return True  # the call itself says what is wrong
    solver = config.parts.solver
    if not solver.stochastic:
        raise AttributeError(
            f"partial_fit makes stochastic passes and solver={solver.name!r} does not; take "
            "solver='adagrad', 'adaptive' or 'sgd'"
        )
    return True


def _check_number(classes: np.ndarray, before: np.ndarray | None, max_classes: int | None) -> None:
    """Raise ValueError for more classes than `max_classes`, with some of the new ones."""
    if max_classes is None:
        return
    check_whole("max_classes", max_classes)
    if len(classes) > max_classes:
        new = classes if before is None else np.setdiff1d(classes, before)
        shown = ", ".join(map(repr, new[:5].tolist())) or "none"
        raise ValueError(
            f"the model would have {len(classes):,} classes, more than max_classes={max_classes}; "
            f"new are {shown}{' and others' if len(new) > 5 else ''}; look at the labels, or raise "
            "max_classes"
        )


def bound_of(fitted: Bound, was_chosen: bool) -> Bound:
    """Return the bound to show for a fit by `fitted`, which "auto" may have chosen."""
    return AugmentReduce() if was_chosen and not fitted.is_bound else fitted


class LinearClassifier(LinearPredictions):
    """Linear classifier over very many classes, with honest probabilities.

    Each class has a score for a row, a weighted sum of its features.  The observed class is the one
    with the highest score plus noise: ``y = argmax_k w_k . x + b_k + noise_k``.  With Gumbel noise
    this is the softmax, with Gaussian noise the multinomial probit, with logistic noise the
    multinomial logistic model.  By default `fit` trains a few candidates of low and of full rank,
    finds a stacking weight for each by the log-likelihood of validation rows, and fits those with a
    weight to all rows; `selection_` shows the result.  A named method maximises the log-likelihood,
    or a bound below it, as it stands.  Conventions are in ``docs/conventions.md``, the choice of a
    method in ``docs/methods.md``.

    Parameters
    ----------
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        The distribution of the noise; `bigcat.noise.CustomNoise` makes one of your own.  An object
        also says how class probabilities are computed.  Gaussian noise has variance 1 per class: a
        textbook's binary probit has the coefficients ``(coef_[1] - coef_[0]) / sqrt(2)``.
    method : str, Bound or Method, default="auto"
        "auto" stacks candidates.  A name of `bigcat.methods()`, or a bound with options such as
        ``AugmentReduce(expectation="sample")`` of `bigcat.bounds`, makes one fit of that method,
        without stacking.
    effort : {"quick", "balanced", "best"}, default="balanced"
        Number and length of the candidates of ``method="auto"``.  "quick" fits one for half as
        long, and does not fit it again to all rows.  "best" adds two of low rank and takes half as
        much again for each.
    rank : int, None or "auto", default="auto"
        None gives every class a weight for every feature (full rank).  A number gives classes and
        features vectors of that length, whose inner products are the weights (low rank): there are
        fewer of them, and rare classes learn from what others have taught the features.  "auto"
        has candidates of both kinds where ``method="auto"`` and is None where a method is named.
    max_epochs : int or "auto", default="auto"
        Most passes over the data (iterations with ``solver="lbfgs"``); 50 where a method is named.
    l2 : float, "auto" or "path", default="auto"
        Ridge on the *sum*: log-likelihood - l2/2 |W|^2, so 1/C of scikit-learn.  Intercepts are
        not penalised.  With a number the objective is maximised as it stands, without stacking.
        "auto" is 0, except for the ridge path of small problems, where validation rows choose it
        in units of scaled columns.  "path" takes the ridge that predicts validation rows best
        (`X_val`, or some of the rows) in the units of X, for ``solver="lbfgs"``.
    fit_intercept : bool, default=True
        Does each class have an intercept?
    class_weight : dict, "balanced" or None, default=None
        How much rows of each class count, as in scikit-learn; "balanced" makes all classes count
        the same.
    early_stopping : bool, EarlyStopping or "auto", default="auto"
        True, or an `EarlyStopping` with options, holds rows out, stops when their log-likelihood no
        longer grows, and keeps the best epoch's weights: one fit, without stacking.  False makes
        all `max_epochs`.  "auto" stops a named method once its objective no longer grows, unless
        the learning rate decays to zero over `max_epochs`.  A fit that `max_epochs` ended before
        that warns (``ConvergenceWarning``).
    random_state : int, RandomState or None, default=None
        One thread and one seed give the same bits.
    n_threads : int or None, default=None
        Threads of a fit.  Several share the weights without locks, so they give other bits each
        time.  None: one where `random_state` is given, else all cores.
    progress : {"auto", True, False}, callable or list of these, default="auto"
        True shows a progress bar with the current bound, "auto" does on a terminal.  A function
        takes the place of the bar; ``[True, function]`` has both.  It is called after each epoch
        with a dict, that epoch's row of `history_` plus ``"model"``, which predicts with the
        current weights (`predict`, `predict_proba`, `predict_top_k`, `log_proba_of`;
        `bigcat.metrics.evaluate` takes it), ``"estimator"``, and ``"log_likelihood_of"``, a
        function of (X, y).  The fit stops if it returns a true value.
    solver : {"auto", "adaptive", "adagrad", "sgd", "damped", "vanilla", "umax", "implicit", \
            "lbfgs"} or Solver, default="auto"
        How weights move.  An object of `bigcat.solvers` has options, such as
        ``AdaGrad(learning_rate=0.1, batch_size=32)`` or ``LBFGS(tol=1e-6)``.  With
        ``method="auto"`` it trains every candidate that it can, and the others are left out:
        "lbfgs" leaves the ridge path.
    sampler : {"auto", "uniform", "frequency", "stratified", "co-occurrence", "shared", \
            "everything"} or Sampler, default="auto"
        Which classes a step looks at beside a row's own.  An object of `bigcat.samplers` has
        options, such as ``Uniform(n_negatives=8, exact_classes=50)``.  With ``method="auto"`` a
        sampler whose draws the rows of a batch do not share leaves the full-rank candidate.
    checkpoint : path, Checkpoint or None, default=None
        A folder where stochastic fits are written down as they go, so that
        ``fit(..., resume=True)`` continues after a crash; on one thread with the same bits as if
        nothing had happened.  ``Checkpoint(folder, every_seconds=60)`` sets the interval.  It holds
        the weights and the solver state twice, and is yours to delete after the fit.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features), float32
        Weights of full rank, or computed from those of low rank where they are up to 4 million.
    embedding_ : array of shape (n_features, rank), float32
        Low rank only: a row is embedded as ``x @ embedding_``.  The rank of a sum of candidates is
        the sum of theirs.
    class_embedding_ : array of shape (n_classes, rank), float32
        Low rank only: scores are inner products with it, plus `intercept_`.
    pair_coef_, pair_class_, pair_offset_ : arrays
        Where weights of single pairs are added to low rank: those of feature j are
        ``pair_coef_[pair_offset_[j] : pair_offset_[j + 1]]``, of the classes ``pair_class_`` there.
    intercept_ : array of shape (n_classes,), float32
    classes_ : array of shape (n_classes,)
    class_count_ : array of shape (n_classes,)
        Training rows of each class.
    n_features_in_ : int
    bound_ : Bound
        What was maximised; where ``method="auto"`` maximises an estimator that is not a bound, the
        one of "augment-reduce", which holds for every noise.
    exact_classes_ : array
        Labels of the classes that were kept exact.
    n_iter_ : int
        Epochs run, of all candidates together.
    history_ : History
        One dict per epoch of each fit: ``stage``, ``candidate``, ``epoch``, ``seconds``,
        ``compile_seconds``, ``objective``, ``bound``, ``log_likelihood``,
        ``validation_log_likelihood``; see `History`.
    selection_ : Selection or None
        Candidates with their log-likelihoods on validation rows, stacking weights, seconds and
        settings; prints as a table.  None for a model that was loaded from a file.

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

    #: Names of parameters that other estimators have, with the place of each here.
    moved: ClassVar[dict[str, str]] = {
        "C": "l2, which is 1/C",
        "max_iter": "max_epochs",
        "n_jobs": "n_threads",
        "verbose": "progress",
        "learning_rate": "the solver: solver=AdaGrad(learning_rate=0.1)",
        "batch_size": "the solver: solver=AdaGrad(batch_size=128)",
        "init": "the solver: solver=AdaGrad(init='zero')",
        "tol": "its part: solver=LBFGS(tol=1e-6) or early_stopping=EarlyStopping(tol=1e-3)",
        "n_negatives": "the sampler: sampler=Uniform(n_negatives=32)",
        "validation_fraction": "early_stopping=EarlyStopping(validation_fraction=0.1)",
        "n_iter_no_change": "early_stopping=EarlyStopping(patience=5)",
        "checkpoint_every": "checkpoint=Checkpoint(folder, every_seconds=60)",
        "callbacks": "progress, which takes functions: progress=[function]",
        "warm_start": "it in fit: fit(X, y, warm_start=True)",
    }

    @explains_unknown
    def __init__(
        self,
        noise: str | Noise = "gumbel",
        method: str | Bound | Method = "auto",
        *,
        effort: str = "balanced",
        rank: int | str | None = "auto",
        max_epochs: int | str = "auto",
        l2: float | str = "auto",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        early_stopping: bool | str | EarlyStopping = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_threads: int | None = None,
        progress: Progress | Sequence[Progress] = "auto",
        solver: str | Solver = "auto",
        sampler: str | Sampler = "auto",
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> None:
        self.noise = noise
        self.method = method
        self.effort = effort
        self.rank = rank
        self.max_epochs = max_epochs
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.n_threads = n_threads
        self.progress = progress
        self.solver = solver
        self.sampler = sampler
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
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        warm_start: bool = False,
        resume: bool = False,
    ) -> LinearClassifier:
        """Fit the model; on bad input or failure the estimator stays as it was.

        After Ctrl-C it has the weights of that moment, if an epoch was made by then.  Where numbers
        become infinite, ``last_model`` of the error (`bigcat.solvers.DivergedError`) is the model
        of the last finite epoch, None where there is none or its weights take more than 16 MB.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features), or `bigcat.data.Shards`
            Shards have labels, too, and need not fit into memory.
        y : array of shape (n,)
            Labels: integers or strings.
        sample_weight : array of shape (n,), optional
            How much each row counts.  A row of weight 0 is as if it was not there, but that its
            class is one of `classes_`.
        X_val, y_val : optional
            The validation set, or Shards as `X_val`.  Stacking weights are found on these rows,
            which no candidate is fitted to; all rows of `X` are, and nothing is fitted again.
            Their log-likelihood is in `history_` after each epoch.
        groups : array of shape (n,), optional
            Which rows belong together, such as those of one user: a group is in the validation set
            as a whole or not at all.  Give them where new rows come from other users.
        warm_start : bool, default=False
            Start from the weights of the last fit, if there is one; makes one fit, without
            stacking.
        resume : bool, default=False
            Go on with the fit whose `checkpoint` is in the folder; begin where there is none.  The
            parameters and the data must be those that it was begun with.
        """
        parameters = self._parameters()
        checkpoints.of(self, resume)
        given_X = X
        X, classes, labels = inputs.labelled_rows(X, y, self)
        weights = inputs.check_weights(sample_weight, X, self)
        numbers = inputs.check_groups(groups, X, given_X)
        sample = inputs.sample_that_counts(X, labels, weights, self.class_weight, classes, numbers)
        random_state = check_random_state(self.random_state)
        validation = self._validation(X_val, y_val, classes, X.shape[1])
        start = self._previous_weights(classes, X.shape[1]) if warm_start else None
        parameters = parameters.keeping(start and start[0].kind)
        counts = np.bincount(sample.labels, minlength=len(classes))
        window = inputs.window_of(given_X)
        if parameters.method is None and window is None:
            sample = without_duplicates(sample)
        sizes = Sizes.of(sample.X, len(classes))
        plan = plan_for(parameters, sizes, window)
        memory.check_fit(plan, sizes, X.dtype)
        bound = bound_of(plan.first.parts.bound, parameters.method is None)
        given = {"X": X if y is not None else given_X, "y": y, "sample_weight": weights}
        given |= {"X_val": X_val, "y_val": y_val, "groups": numbers}
        given["the weights to start from"] = start and start[1]
        checkpointer = checkpoints.checkpointer_for(self, random_state, resume, given)
        try:
            result = train(
                plan,
                sample,
                classes,
                random_state,
                validation=validation,
                start=start,
                callbacks=self._callbacks(checkpointer),
            )
        except InterruptedFit as interruption:
            self._adopt(interruption.result, classes, bound, counts, given_X)
            raise KeyboardInterrupt(self._how_to_go_on()) from None
        except DivergedFit as divergence:
            if divergence.result is not None:
                divergence.last_model = self._like_this(
                    divergence.result, classes, bound, counts, given_X
                )
            raise
        if parameters.method is None:
            result.solver_state = None  # `partial_fit` updates the model that was selected
        self._adopt(result, classes, bound, counts, given_X)
        if self.l2 == 0 and not plan.first.parts.solver.stochastic:
            warn_of_separation(self.linear_model(), sample.X, sample.labels)
        checkpointer.complete()
        return self

    def _like_this(
        self, result: FitResult, classes: np.ndarray, bound: Bound, counts: np.ndarray, X: Any
    ) -> LinearClassifier:
        """Return another fitted estimator with these parameters, for an error."""
        other: LinearClassifier = clone(self)
        other._adopt(result, classes, bound, counts, X)
        return other

    def _how_to_go_on(self) -> str:
        """Return the message of an interruption."""
        now = "the fit was interrupted, and the model has the weights of that moment"
        checkpoint = checkpoints.of(self, resume=False)
        if checkpoint is None:
            return f"{now}; set checkpoint=FOLDER to make fits resumable"
        return f"{now}; fit(X, y, resume=True) continues from the checkpoint in {checkpoint.folder}"

    @only_if(_makes_passes)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        max_classes: int | None = None,
    ) -> LinearClassifier:
        """Train on more rows, which may bring new classes.

        A model of ``fit``, or from a file, is updated by ten passes or more over the new rows (or
        `max_epochs`), which hardly move classes with many rows so far (`class_count_`).  A named
        method or solver, and a model that only ``partial_fit`` has trained, makes one pass.  A new
        class starts with the intercept of its share of the rows and without weights.  The work is
        done on a copy: an error or Ctrl-C leaves the model as it was.

        Parameters
        ----------
        X, y : as in `fit`
        classes : array, optional
            Classes to know beside those of `y`, such as all that are expected.
        sample_weight : array of shape (n,), optional
        max_classes : int, optional
            Refuse rows with which the model would have more classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import LinearClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> old = y < 2
        >>> model = LinearClassifier(random_state=0).fit(X[old], y[old])
        >>> model.partial_fit(X, y, max_classes=10).classes_
        array([0, 1, 2])
        """
        first = not hasattr(self, "classes_")
        parameters = self._parameters()
        given_X = X
        X, all_classes, labels = inputs.labelled_rows(X, y, self, fewest=1)
        known = all_classes if first else joined(self.classes_, all_classes)
        if classes is not None:
            known = joined(known, classes)
        check_several(known)
        _check_number(known, None if first else self.classes_, max_classes)
        labels = encode(all_classes, known)[labels]
        if not first:
            validate_data(self, given_X, skip_check_array=True, reset=False)
        weights = inputs.check_weights(sample_weight, X, self)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at once; pass a dict or "
                "sample_weight to partial_fit"
            )
        sample = inputs.sample_that_counts(X, labels, weights, self.class_weight, known)
        start, past, solver_state = None, None, None
        counts = np.bincount(sample.labels, minlength=len(known))
        if not first:
            self._weights().check_resumable()
            past = Past.of(self.class_count_, encode(self.classes_, known), len(known))
            start = past.start(self._weights(), self.intercept_, counts, parameters.noise)
            solver_state = past.grown(getattr(self, "_solver_state", None))
        parameters = parameters.keeping(start and start[0].kind)
        as_asked = parameters.method is None and parameters.solver is None
        updates = start is not None and solver_state is None and as_asked
        sizes, window = Sizes.of(sample.X, len(known)), inputs.window_of(given_X)
        if updates:
            config = config_for_update(parameters, sizes, window)
            candidate, reason = Candidate("update", config), "new rows for a fitted model"
        else:
            config = config_for_stream(parameters, sizes, window)
            candidate, reason = Candidate("one pass", config), "rows come in parts"
        plan = FitPlan((candidate,), reason=reason)
        memory.check_fit(plan, sizes, X.dtype)
        result = train_on_more(
            plan.first,
            sample,
            known,
            check_random_state(self.random_state),
            start=start,
            solver_state=solver_state,
            callbacks=self._callbacks(),
            rows_before=past.counts if past is not None and updates else None,
        )
        result.selection = Selection((), reason=plan.reason)
        bound = bound_of(config.parts.bound, parameters.method is None)
        if past is not None:
            counts = counts + past.counts
        columns = given_X if first else None
        self._adopt(result, known, bound, counts, columns, append=not first)
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
        dtype: DTypeLike = np.float32,
        window: int | None = None,
    ) -> int:
        """Return the bytes of memory that `fit` needs beside the data.

        Without `nnz`, the non-zeros of all rows, each row is taken to have `max_row_nonzeros`.
        `window` is the ``window_rows`` of Shards, whose rows need no memory.

        Examples
        --------
        >>> from bigcat import LinearClassifier
        >>> several, one = LinearClassifier(n_threads=1), LinearClassifier(rank=256, n_threads=1)
        >>> round(several.memory_forecast(10**5, 20_000, 10_000) / 2**30, 1)  # GiB
        0.7
        >>> one.memory_forecast(10**5, 20_000, 10_000) / 2**30
        0.3...
        """
        if nnz is None:
            nnz = n_rows * (max_row_nonzeros if sparse else n_features)
        most = max_row_nonzeros if sparse else n_features
        sizes = Sizes(n_rows, n_features, n_classes, nnz, sparse, most)
        plan = plan_for(self._parameters(), sizes, window)
        return memory.needed(plan, sizes, dtype)

    # Inside

    def _parameters(self) -> Parameters:
        """Return the parameters, checked as far as possible without data."""
        parameters = Parameters.of(self.get_params(deep=False))
        if parameters.method is not None:
            parameters.config(parameters.method)
        return parameters

    def _callbacks(self, checkpointer: Checkpointer = NO_CHECKPOINTS) -> Callbacks:
        """Return the observers of a fit."""
        shown = progress.split(self.progress)[0]
        return Callbacks(self._on_epoch_end, shown, checkpointer=checkpointer)

    def _resolvers(self) -> dict[str, Callable[[Any], Part]]:
        return {
            "noise": noises.resolve,
            "method": lambda name: resolve_method(name).bound,
            "solver": lambda name: named_part("solver", name, SOLVERS)(),
            "sampler": lambda name: named_part("sampler", name, SAMPLERS)(),
        }

    def _on_epoch_end(self, row: dict[str, Any], view: ModelView) -> bool:
        likelihood = {"log_likelihood_of": view.log_likelihood_of}
        info = {**row, "estimator": self, "model": view, **likelihood}
        return any([bool(call(info)) for call in progress.split(self.progress)[1]])

    def _validation(
        self, X_val: Any, y_val: Any, classes: np.ndarray, n_features: int
    ) -> TrainingData | None:
        if (X_val is None) != (y_val is None) and not inputs.is_source(X_val):
            raise ValueError("X_val and y_val go together; one of them is missing")
        if X_val is None:
            return None
        X_val, labels = inputs.numbered_rows(X_val, y_val, classes, self)
        if X_val.shape[1] != n_features:
            raise ValueError(f"X_val has {X_val.shape[1]} features and X {n_features}")
        return TrainingData(X_val, labels, np.ones(len(labels)))

    def _previous_weights(self, classes: np.ndarray, n_features: int) -> Start | None:
        if not hasattr(self, "classes_"):
            return None
        weights = self._weights()
        weights.check_resumable()
        if weights.shape != (len(classes), n_features) or not np.array_equal(
            self.classes_, classes
        ):
            raise ValueError(
                f"warm_start=True, but the last fit had {weights.shape[0]} classes and "
                f"{weights.shape[1]} features and this one has {len(classes)} and "
                f"{n_features}, or other labels; set warm_start=False"
            )
        return weights, self.intercept_

    def _adopt(
        self,
        result: FitResult,
        classes: np.ndarray,
        bound: Bound,
        counts: np.ndarray,
        X: Any = None,
        append: bool = False,
    ) -> None:
        """Take over a finished fit, in one assignment; only this changes fitted attributes."""
        if append:
            for row in result.history:
                row["epoch"] += self.n_iter_
                row["seconds"] += self.history_[-1]["seconds"]
        new = shallow_copy(self)
        new.class_count_ = counts
        new.classes_ = classes
        new._set_weights(result.weights)
        new.intercept_ = result.intercept
        before = self.history_ if append else []
        rows, forecast = [*before, *result.history], result.history.forecast_seconds
        new.history_ = History(rows, forecast_seconds=forecast)
        new.selection_ = result.selection or Selection(())
        new.n_iter_ = len(new.history_)
        new._solver_state = result.solver_state
        new.bound_ = bound
        new.exact_classes_ = classes[result.exact_classes]
        new._keep_model()
        if X is not None:
            validate_data(new, X, skip_check_array=True)
        self.__dict__ = new.__dict__
