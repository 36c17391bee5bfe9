"""`LinearClassifier` for rows that a cluster holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed, is_dask_collection
from distributed import Client, Future
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bigcat import estimators
from bigcat.auto import plan_for_rounds
from bigcat.auto.parameters import Parameters
from bigcat.checks import check_whole
from bigcat.dask.cluster import Cluster, client_or_current
from bigcat.dask.fit import ClusterFit
from bigcat.dask.local_sgd import check_config, check_solver
from bigcat.dask.rows import ClassNumbers, chunks_like, chunks_of_rows, held_rows, source_of
from bigcat.dask.survey import Survey
from bigcat.estimators import checkpoints
from bigcat.estimators.linear import bound_of
from bigcat.linear.labels import classes_of
from bigcat.rows import Sizes
from bigcat.training import memory
from bigcat.training.config import FitPlan
from bigcat.training.data import TrainingData
from bigcat.training.fit import FitResult, InterruptedFit

#: Parameters that the ordinary estimator does not have.
OWN_PARAMETERS = ("client", "n_workers", "rows_per_round")


class LinearClassifier(estimators.LinearClassifier):
    """`bigcat.LinearClassifier` on a Dask cluster, by local SGD.

    Parameters and attributes are those of `bigcat.LinearClassifier`; rows are Dask arrays (of dense
    or SciPy CSR chunks), Dask data frames, or folders of `bigcat.data.convert` that every worker
    reads by itself.  A fit goes in rounds: each worker makes steps over its own rows from the same
    weights, and the steps are combined.  ``docs/distributed.md`` says what that costs.

    One `random_state` and one number of workers give the same bits, whichever machines do the work
    and however many of them are lost on the way.

    Parameters
    ----------
    **parameters : those of `bigcat.LinearClassifier`, as in its constructor
        The solver is "auto" or "adagrad".  `n_threads` is ignored.
    client : distributed.Client or None, default=None
        None for the current one.
    n_workers : int or None, default=None
        Workers that train at the same time, each on rows of its own; None for as many as the
        cluster has threads.
    rows_per_round : int or None, default=None
        Rows that each worker visits between two times that steps are combined.  None makes 256
        rounds of a fit, and 128 with up to two workers; fewer rounds cost quality, more cost time.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from dask.distributed import Client
    >>> from bigcat.dask import LinearClassifier
    >>> X = np.eye(4).repeat(50, axis=0)
    >>> order = np.random.default_rng(0).permutation(200)
    >>> X, y = X[order], order // 50
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"):
    ...     rows, labels = da.from_array(X, chunks=(100, 4)), da.from_array(y, chunks=100)
    ...     model = LinearClassifier(random_state=0).fit(rows, labels)
    ...     accuracy = float(model.score(rows, labels))
    >>> accuracy
    1.0
    """

    def __init__(
        self,
        *positional: Any,
        client: Client | None = None,
        n_workers: int | None = None,
        rows_per_round: int | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__(*positional, **parameters)
        self.client = client
        self.n_workers = n_workers
        self.rows_per_round = rows_per_round

    @property
    def client_(self) -> Client:
        """The client that is used now."""
        return client_or_current(self.client)

    def __sklearn_clone__(self) -> LinearClassifier:
        """Return a clone with the same client: a connection cannot be copied."""
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return type(self)(**copies, client=client)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection, which belongs to this process."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_sent"} | {"client": None}

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        warm_start: bool = False,
        resume: bool = False,
    ) -> LinearClassifier:
        """Fit the model; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : Dask array or data frame; or `bigcat.data.Shards`, names of folders, or a list of these
            Every worker finds them under the same name.  Rows should be in random order, at least
            from chunk to chunk; shards are.
        y, sample_weight : Dask array or series
            With one value per row; not for shards, which have labels.
        X_val, y_val : optional
            A validation set, of any of these kinds.
        groups : None
            Rows in one process may have groups; here give `X_val` of other groups.
        warm_start : bool, default=False
            Start from the weights of the last fit, if there is one.
        resume : bool, default=False
            Go on with the fit whose `checkpoint` is in the folder, such as after the scheduler was
            lost; begin where there is none.
        """
        if groups is not None:
            raise ValueError(
                "groups are for rows in one process; on a cluster give X_val and y_val of other "
                "groups than X has"
            )
        checkpoint = checkpoints.of(self, resume)
        parameters = self._parameters()
        for name in ("n_workers", "rows_per_round"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        cluster = Cluster(self.client_, self.n_workers)
        source = source_of(cluster, X, y, sample_weight)
        survey = source.survey(with_digest=checkpoint is not None)
        found: Survey = cluster.fetch(survey)
        if len(found.classes) < 2:
            classes_of(found.classes)  # raises
        if not found.weights.any():
            raise ValueError("sample_weight is zero for every row; give some a positive weight")
        start = None
        if warm_start:
            start = self._previous_weights(found.classes, found.sizes.n_features)
        parameters = parameters.keeping(start and start[0].kind)
        plan = self._plan(parameters, found.sizes)
        n_rows = max(1, min(plan.first.batch_size, found.n_rows))
        part = found.sizes._replace(n_rows=n_rows, n_values=0)
        cluster.check_memory(memory.needed(plan, part, found.dtype), "the fit")
        numbers = cluster.submit("numbers", ClassNumbers.of, survey, self.class_weight)
        validation = _validation_on(cluster, X_val, y_val, numbers)
        random_state = check_random_state(self.random_state)
        identity = {"rows": found.digest, "validation": None, "workers": cluster.n_workers}
        checkpointer = checkpoints.checkpointer_for(self, random_state, resume, identity)
        fit = ClusterFit(
            cluster,
            plan,
            source.blocks(numbers),
            survey,
            numbers,
            found,
            int(random_state.randint(1 << 31)),
            self.rows_per_round,
            validation,
            self._callbacks(checkpointer),
        )
        bound = bound_of(plan.first.parts.bound, parameters.method is None)
        try:
            result = fit.run(start)
        except InterruptedFit as interruption:
            self._take_over(interruption.result, found, bound, X)
            raise KeyboardInterrupt(self._how_to_go_on()) from None
        self._take_over(result, found, bound, X)
        checkpointer.complete()
        return self

    def _plan(self, parameters: Parameters, sizes: Sizes) -> FitPlan:
        """Return the plan; raise for what a cluster cannot do."""
        if parameters.solver is not None:
            check_solver(parameters.solver)
        plan = plan_for_rounds(parameters, sizes)
        for candidate in plan.candidates:
            check_config(candidate.config)
        return plan

    def _take_over(self, result: FitResult, found: Survey, bound: Any, X: Any) -> None:
        self._adopt(result, found.classes, bound, found.counts)
        self.n_features_in_ = found.sizes.n_features
        for name in ("feature_names_in_", "_sent"):
            self.__dict__.pop(name, None)
        names = list(X.columns) if is_dask_collection(X) and hasattr(X, "columns") else []
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, object)

    @property
    def partial_fit(self) -> Any:
        """Raise: `to_local` returns an estimator that has it."""
        raise AttributeError(
            "partial_fit is for rows in one process; to_local().partial_fit(X, y) continues from "
            "the fitted weights"
        )

    def to_local(self) -> estimators.LinearClassifier:
        """Return the ordinary estimator, with the same parameters and the same weights."""
        parameters = self.get_params(deep=False)
        given = {name: value for name, value in parameters.items() if name not in OWN_PARAMETERS}
        local = estimators.LinearClassifier(**given)
        fitted = {name: value for name, value in vars(self).items() if name not in parameters}
        for name in ("_sent", "_fitted_model"):
            fitted.pop(name, None)
        local.__dict__.update(fitted)
        if hasattr(local, "classes_"):
            local._keep_model()
        return local

    # Predictions: those of the local estimator, which is sent to the workers once

    def decision_function(self, X: Any) -> Any:
        """Return scores as in `bigcat.LinearClassifier`, as a Dask array."""
        shape = () if len(self._classes) == 2 else (len(self._classes),)
        return self._lazily("decision_function", X, shape=shape)[0]

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row, as a Dask array."""
        return self._lazily("predict", X, dtypes=(self._classes.dtype,))[0]

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of all classes, a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_proba", X, shape=(len(self._classes),))[0]

    def predict_log_proba(self, X: Any) -> Any:
        """Return log-probabilities of all classes, a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_log_proba", X, shape=(len(self._classes),))[0]

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[Any, Any]:
        """Return the `k` most probable classes of each row and their log-probabilities."""
        dtypes = (self._classes.dtype, np.float32)
        classes, logs = self._lazily("predict_top_k", X, shape=(k,), dtypes=dtypes, k=k)
        return classes, logs

    def log_proba_of(self, X: Any, y: Any) -> Any:
        """Return the log-probability of one class per row, as a Dask array."""
        return self._lazily("log_proba_of", X, y, dtypes=(np.float32,))[0]

    def lower_bound(self, X: Any, y: Any) -> Any:
        """Return the bound of the fit on `log_proba_of`, as a Dask array."""
        return self._lazily("lower_bound", X, y, dtypes=(np.float64,))[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the accuracy, as a Dask array without axes: ``float(...)`` computes it."""
        right = self._lazily(_is_right, X, y, dtypes=(np.float64,))[0]
        if sample_weight is None:
            return right.mean()
        return (right * sample_weight).sum() / sample_weight.sum()

    @property
    def _classes(self) -> np.ndarray:
        check_is_fitted(self)
        found: np.ndarray = self.classes_
        return found

    def _model(self) -> Future[Any]:
        """Return the local model, which a worker has and others get from it."""
        client, classes = self.client_, self._classes
        sent: tuple[Any, Any, Future[Any]] | None = getattr(self, "_sent", None)
        if sent is None or sent[0] is not client or sent[1] is not classes:
            self._sent = sent = (client, classes, Cluster(client).put(self.to_local()))
        return sent[2]

    def _lazily(
        self,
        function: str | Callable[..., Any],
        X: Any,
        y: Any = None,
        *,
        shape: tuple[int, ...] = (),
        dtypes: tuple[Any, ...] = (np.float32,),
        **options: Any,
    ) -> list[Any]:
        """Return Dask arrays with the chunks of X, one for each of the `dtypes`.

        `function` is a method of the local model, or takes (model, X, y); `shape` is that of the
        answer for a row.
        """
        if not is_dask_collection(X):
            raise ValueError(
                f"X is a {type(X).__name__}; give a Dask array or data frame, or take "
                "to_local() for rows in this process's memory"
            )
        model, chunks = self._model(), chunks_of_rows(X)
        labels = [None] * len(chunks) if y is None else chunks_like("y", y, X, len(chunks))
        sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(chunks)
        predict = delayed(_predict_chunk, pure=False)
        arrays: list[list[Any]] = [[] for _ in dtypes]
        for chunk, label, n in zip(chunks, labels, sizes):
            answer = predict(function, model, chunk, label, options)
            for i, dtype in enumerate(dtypes):
                part = answer[i] if len(dtypes) > 1 else answer
                arrays[i].append(da.from_delayed(part, (n, *shape), dtype))
        return [da.concatenate(parts, allow_unknown_chunksizes=True) for parts in arrays]


# `help`, `get_params` and `repr` show the parameters of the ordinary estimator, too.
LinearClassifier.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *inspect.signature(estimators.LinearClassifier.__init__).parameters.values(),
        *(inspect.signature(LinearClassifier.__init__).parameters[n] for n in OWN_PARAMETERS),
    ]
)


def _predict_chunk(
    function: str | Callable[..., Any], model: Any, X: Any, y: Any, options: dict[str, Any]
) -> Any:
    if X.shape[0] == 0:  # as a data frame may have after a filter
        raise ValueError("a chunk of X has no rows; drop empty partitions first")
    given = (X,) if y is None else (X, np.asarray(y))  # data frames keep the names of columns
    if isinstance(function, str):
        return getattr(model, function)(*given, **options)
    return function(model, *given)


def _is_right(model: Any, X: Any, y: Any) -> np.ndarray:
    return np.asarray(model.predict(X) == y, np.float64)


def _validation_on(
    cluster: Cluster, X_val: Any, y_val: Any, numbers: Future[ClassNumbers]
) -> list[Future[TrainingData]] | None:
    """Return the blocks of the user's validation set."""
    if X_val is None:
        if y_val is not None:
            raise ValueError("X_val and y_val go together; one of them is missing")
        return None
    source = source_of(cluster, X_val, y_val)
    cluster.result(source.survey(with_digest=False))
    return [
        cluster.submit("held", held_rows, block.rows, numbers, 0, block.n_rows, worker=worker)
        for worker, blocks in enumerate(source.blocks(numbers))
        for block in blocks
    ]
