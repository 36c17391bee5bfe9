"""`LinearClassifier` for rows that a cluster holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from dask import is_dask_collection
from distributed import Client, Future
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bigcat import estimators
from bigcat.auto import recipe_for_rounds
from bigcat.dask.blocks import Known, held_rows
from bigcat.dask.cluster import Cluster, client_or_current
from bigcat.dask.fit import ClusterFit, know_classes, order_of
from bigcat.dask.predictions import ask, is_right, lazily
from bigcat.dask.source import source_of
from bigcat.dask.survey import Survey
from bigcat.estimators import checkpoints
from bigcat.estimators.linear import bound_of
from bigcat.linear.labels import classes_of
from bigcat.training import memory
from bigcat.training.checks import check_whole
from bigcat.training.fit import InterruptedFit, Outcome
from bigcat.training.run import numbering
from bigcat.training.sample import Sample

_OWN = ("client", "n_lanes", "rows_per_round")


def _and_those_of_the_local_one(init: Callable[..., None]) -> Callable[..., None]:
    """Let ``help``, `get_params` and `repr` see the local estimator's parameters, too."""
    local = inspect.signature(estimators.LinearClassifier.__init__).parameters
    own = inspect.signature(init).parameters
    together = [*local.values(), *(own[name] for name in _OWN)]
    init.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
    return init


class LinearClassifier(estimators.LinearClassifier):
    """`bigcat.LinearClassifier` on a Dask cluster.

    Parameters, attributes and answers are those of `bigcat.LinearClassifier`; rows are Dask arrays
    (of dense or SciPy CSR chunks), Dask data frames, or folders of `bigcat.data.convert` that every
    worker reads by itself.  A fit goes in rounds: in each of them every worker makes steps over its
    own rows from the same weights, and what they changed is combined.  ``docs/distributed.md`` says
    what that costs.

    With one `random_state` and one number of lanes the bits are the same, whichever workers do the
    work and however many of them are lost on the way.

    Parameters
    ----------
    noise, method, rank, ... : as in `bigcat.LinearClassifier`
        Steps are AdaGrad's, so `solver` is "auto" or "adagrad".  `n_threads` is of no matter: the
        workers have theirs.
    client : distributed.Client or None, default=None
        None for the current one.
    n_lanes : int or None, default=None
        Parts of the rows that are trained on at the same time; None for as many as the workers
        have threads when the fit begins.
    rows_per_round : int or None, default=None
        Rows of each lane between two times that changes are combined.  None makes 256 rounds of a
        fit; longer ones cost quality, shorter ones time.

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

    @_and_those_of_the_local_one
    def __init__(
        self,
        *positional: Any,
        client: Client | None = None,
        n_lanes: int | None = None,
        rows_per_round: int | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__(*positional, **parameters)
        self.client = client
        self.n_lanes = n_lanes
        self.rows_per_round = rows_per_round

    @property
    def client_(self) -> Client:
        """The client that is used now."""
        return client_or_current(self.client)

    def __sklearn_clone__(self) -> LinearClassifier:
        """With the same client: a connection cannot be copied."""
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        return type(self)(**copies, client=client)

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection, which belongs to this process."""
        state = super().__getstate__()
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
        resume: bool = False,
    ) -> LinearClassifier:
        """Fit the model; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : Dask array or data frame, `bigcat.data.Shards`, or a list of these
            Rows should be in random order, at least from chunk to chunk; shards are.
        y, sample_weight : Dask array or series
            Of as many rows; not for shards, which have labels.
        X_val, y_val : optional
            A validation set, of any of these kinds.
        groups : None
            Rows in one process may have some; here give `X_val` of other groups.
        resume : bool, default=False
            Go on with the fit whose `checkpoint` is in the folder, such as after the scheduler was
            lost; begin where there is none.
        """
        if groups is not None:
            raise ValueError(
                "groups are of rows in one process; on a cluster give X_val and y_val of other "
                "groups than X has"
            )
        parameters = self._parameters()
        for name in ("n_lanes", "rows_per_round"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        checkpoints.check(self.checkpoint, self.checkpoint_every, resume)
        cluster = Cluster(self.client_, self.n_lanes)
        source = source_of(cluster, X, y, sample_weight)
        survey = source.survey(with_digest=self.checkpoint is not None)
        found: Survey = cluster.fetch(survey)
        classes = found.classes
        if len(classes) < 2:
            classes_of(classes)  # for its error
        if not found.weights.any():
            raise ValueError(
                "sample_weight is zero for every row; give some rows a positive weight"
            )
        start = None
        if self.warm_start:
            start = self._previous_weights(classes, found.sizes.n_features)
        parameters = parameters.keeping(start and start[0].kind)
        recipe = recipe_for_rounds(parameters, found.sizes)
        lane = found.sizes._replace(n_rows=min(recipe.batch_size, found.n_rows), n_values=0)
        cluster.check_memory(memory.needed(recipe, lane, found.dtype), "the fit")
        known = cluster.submit("known", know_classes, survey, self.class_weight)
        order = order_of(found)
        number_of = numbering(classes[order])
        head = recipe.parts.sampler.head_of(found.weights[order], number_of)
        validation = self._validation_on(cluster, X_val, y_val, known)
        random_state = check_random_state(self.random_state)
        identity = {"rows": found.digest, "validation": None, "lanes": cluster.n_lanes}
        keeper = checkpoints.keeper_for(self, random_state, resume, identity)
        fit = ClusterFit(
            cluster,
            recipe,
            source.lanes(known),
            survey,
            known,
            found,
            int(random_state.randint(1 << 31)),
            self.rows_per_round,
            head,
            validation,
            self._tell,
            self.progress,
            keeper,
        )
        if start is not None:
            start = start[0].take(order), start[1][order]
        bound = bound_of(recipe.parts.bound, parameters.method is None)
        try:
            outcome = fit.run(start)
        except InterruptedFit as interruption:
            self._take_over(interruption.outcome, found, bound, X)
            raise KeyboardInterrupt(self._how_to_go_on()) from None
        self._take_over(outcome, found, bound, X)
        keeper.complete()
        return self

    def _validation_on(
        self, cluster: Cluster, X_val: Any, y_val: Any, known: Future[Known]
    ) -> list[Future[Sample]] | None:
        if X_val is None:
            if y_val is not None:
                raise ValueError("X_val and y_val go together; one of them is missing")
            return None
        source = source_of(cluster, X_val, y_val)
        cluster.result(source.survey(with_digest=False))
        return [
            cluster.submit("held", held_rows, rows, known, 0, n, lane=lane)
            for lane, blocks in enumerate(source.lanes(known))
            for rows, n in blocks
        ]

    def _take_over(self, outcome: Outcome, found: Survey, bound: Any, X: Any) -> None:
        nothing = Sample(None, np.empty(0, np.int64), np.empty(0))
        self._adopt(outcome, found.classes, bound, nothing)
        self.class_count_ = found.counts
        self.n_features_in_ = found.sizes.n_features
        self.__dict__.pop("feature_names_in_", None)
        names = list(X.columns) if is_dask_collection(X) and hasattr(X, "columns") else []
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, object)
        self.__dict__.pop("_sent", None)

    @property
    def partial_fit(self) -> Any:
        """Not on a cluster: `to_local` gives an estimator that has it."""
        raise AttributeError(
            "partial_fit is for rows in one process; to_local().partial_fit(X, y) goes on from the "
            "fitted weights"
        )

    # Predictions

    def to_local(self) -> estimators.LinearClassifier:
        """The ordinary estimator, with the same parameters and the same weights."""
        own = {name: value for name, value in self.get_params(deep=False).items()}
        local = estimators.LinearClassifier(
            **{name: value for name, value in own.items() if name not in _OWN}
        )
        fitted = {
            name: value
            for name, value in vars(self).items()
            if name not in own and name not in ("_sent", "_fitted_model")
        }
        local.__dict__.update(fitted)
        if "classes_" in fitted:
            local._keep_model()
        return local

    def predict(self, X: Any) -> Any:
        """The most probable class of each row, as a Dask array."""
        return self._lazily("predict", X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of all classes, as a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_proba", X, shape=(len(self.classes_),), dtype=np.float32)

    def predict_log_proba(self, X: Any) -> Any:
        """Log-probabilities of all classes, as a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_log_proba", X, shape=(len(self.classes_),), dtype=np.float32)

    def decision_function(self, X: Any) -> Any:
        """Scores as in `bigcat.LinearClassifier`, as a Dask array."""
        shape = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._lazily("decision_function", X, shape=shape, dtype=np.float32)

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[Any, Any]:
        """The `k` most probable classes of each row and their log-probabilities: Dask arrays."""
        dtypes = (self.classes_.dtype, np.float32)
        top_k = ask("predict_top_k")
        classes, logs = lazily(top_k, self._model(), X, shape=(k,), dtypes=dtypes, k=k)
        return classes, logs

    def log_proba_of(self, X: Any, y: Any, **options: Any) -> Any:
        """Log-probability of one class per row, as a Dask array; options as of the local one."""
        several = bool(options.get("return_std"))
        dtypes = (np.float32,) * (1 + several)
        found = lazily(ask("log_proba_of"), self._model(), X, y, dtypes=dtypes, **options)
        return tuple(found) if several else found[0]

    def lower_bound(self, X: Any, y: Any) -> Any:
        """The bound of the fit on `log_proba_of`, as a Dask array."""
        return lazily(ask("lower_bound"), self._model(), X, y, dtypes=(np.float64,))[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Accuracy, as a Dask array of no axes: ``float(...)`` works it out."""
        right = lazily(is_right, self._model(), X, y, dtypes=(np.float64,))[0]
        if sample_weight is None:
            return right.mean()
        return (right * sample_weight).sum() / sample_weight.sum()

    def _lazily(self, name: str, X: Any, shape: tuple[int, ...] = (), dtype: Any = None) -> Any:
        check_is_fitted(self)
        dtypes = (self.classes_.dtype if dtype is None else dtype,)
        return lazily(ask(name), self._model(), X, shape=shape, dtypes=dtypes)[0]

    def _model(self) -> Future[estimators.LinearClassifier]:
        """The local model on all workers, sent once."""
        check_is_fitted(self)
        client = self.client_
        sent: tuple[Any, Any, Future[Any]] | None = getattr(self, "_sent", None)
        if sent is None or sent[0] is not client or sent[1] is not self.intercept_:
            future = Cluster(client).put(self.to_local())
            self._sent = sent = (client, self.intercept_, future)
        return sent[2]
