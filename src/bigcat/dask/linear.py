"""`LinearClassifier` for rows that a cluster holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from distributed import Client, Future
from sklearn.utils import check_random_state

from bigcat import estimators
from bigcat.auto import plan_for, plan_for_rounds
from bigcat.dask import by_class
from bigcat.dask.blocks import Known, held_rows
from bigcat.dask.cluster import Cluster
from bigcat.dask.ensemble import ClusterFit
from bigcat.dask.estimator import OnCluster, check_labels, with_parameters_of
from bigcat.dask.fit import know_classes, order_of
from bigcat.dask.lanes import check_config
from bigcat.dask.predictions import ask, lazily
from bigcat.dask.source import Source, source_of
from bigcat.dask.survey import Survey
from bigcat.estimators import checkpoints
from bigcat.estimators.linear import bound_of
from bigcat.training import memory
from bigcat.training.checks import check_whole
from bigcat.training.data import TrainingData
from bigcat.training.fit import Callbacks, FitResult, InterruptedFit

_OWN = ("client", "n_lanes", "rows_per_round")


class LinearClassifier(OnCluster, estimators.LinearClassifier):
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
    **parameters : those of `bigcat.LinearClassifier`, as in its constructor
        Steps are AdaGrad's, so `solver` is "auto" or "adagrad"; or it is "lbfgs" with
        ``method="exact"`` and ``rank=None``, where each lane owns some classes and all rows are
        looked at in each iteration.  `n_threads` is of no matter: the workers have theirs.
    client : distributed.Client or None, default=None
        None for the current one.
    n_lanes : int or None, default=None
        Parts of the rows that are trained on at the same time; None for as many as the workers
        have threads when the fit begins.
    rows_per_round : int or None, default=None
        Rows of each lane between two times that changes are combined.  None makes 256 rounds of a
        fit, and 128 with up to two lanes; longer ones cost quality, shorter ones time.

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

    _local, _own, _dtype = estimators.LinearClassifier, _OWN, np.float32

    @with_parameters_of(estimators.LinearClassifier, _OWN)
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
        X : Dask array or data frame; or `bigcat.data.Shards`, names of folders, or a list of these
            Names may be paths, patterns such as ``"rows-*"``, and addresses of `fsspec`, such as
            ``"s3://bucket/rows"``, which each worker copies to its own disk.
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
        if self.weights_folder is not None:
            raise ValueError(
                f"weights_folder={self.weights_folder!r} is for fits in one process, and workers "
                "have weights in memory; leave it out, or set a rank"
            )
        parameters = self._parameters()
        for name in ("n_lanes", "rows_per_round"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        checkpoints.of(self, resume)
        cluster = Cluster(self.client_, self.n_lanes)
        source = source_of(cluster, X, y, sample_weight)
        survey = source.survey(with_digest=self.checkpoint is not None)
        found: Survey = cluster.fetch(survey)
        check_labels(found)
        if by_class.wanted(parameters.solver):
            others = {"X_val": X_val, "checkpoint": self.checkpoint}
            return self._fit_by_class(cluster, source, survey, found, X, others)
        classes = found.classes
        start = None
        if self.warm_start:
            start = self._previous_weights(classes, found.sizes.n_features)
        parameters = parameters.keeping(start and start[0].kind)
        plan = plan_for_rounds(parameters, found.sizes)
        for candidate in plan.candidates:
            check_config(candidate.config)
        lane = found.sizes._replace(n_rows=min(plan.first.batch_size, found.n_rows), n_values=0)
        cluster.check_memory(memory.needed(plan, lane, found.dtype).memory, "the fit")
        known = cluster.submit("known", know_classes, survey, self.class_weight)
        order = order_of(found)
        validation = self._validation_on(cluster, X_val, y_val, known)
        random_state = check_random_state(self.random_state)
        identity = {"rows": found.digest, "validation": None, "lanes": cluster.n_lanes}
        keeper = checkpoints.keeper_for(self, random_state, resume, identity)
        fit = ClusterFit(
            cluster,
            plan,
            source.lanes(known),
            survey,
            known,
            found,
            int(random_state.randint(1 << 31)),
            self.rows_per_round,
            validation,
            Callbacks(self._on_epoch_end, self.progress, keeper=keeper),
        )
        if start is not None:
            start = start[0].take(order), start[1][order]
        bound = bound_of(plan.first.parts.bound, parameters.method is None)
        try:
            outcome = fit.run(start)
        except InterruptedFit as interruption:
            self._take_over(interruption.result, found, bound, X)
            raise KeyboardInterrupt(self._how_to_go_on()) from None
        self._take_over(outcome, found, bound, X)
        keeper.complete()
        return self

    def _fit_by_class(
        self,
        cluster: Cluster,
        source: Source,
        survey: Future[Survey],
        found: Survey,
        X: Any,
        others: dict[str, Any],
    ) -> LinearClassifier:
        """An exact fit of full rank, each lane of which owns some classes."""
        refused = [name for name, value in others.items() if value is not None]
        if refused or self.warm_start:
            raise ValueError(
                f"solver='lbfgs' on a cluster takes no {(refused or ['warm_start'])[0]}; leave it "
                "out, or take solver='adagrad'"
            )
        plan = plan_for(self._parameters(), found.sizes)
        candidate = plan.candidates[0]
        if candidate.searches_ridge:
            raise ValueError(
                "solver='lbfgs' on a cluster holds no rows out to choose the ridge by; set l2 to a "
                "number"
            )
        config = candidate.config
        by_class.check_config(config)
        known = cluster.submit("known", know_classes, survey, self.class_weight)
        factors = know_classes(found, self.class_weight).factors
        weights = found.weights[order_of(found)] * (1.0 if factors is None else factors)
        fit = by_class.ByClass(cluster, config, source.lanes(known), known, found)
        outcome = fit.run(weights, self._on_epoch_end, self.progress)
        self._take_over(outcome, found, config.parts.bound, X)
        return self

    def _validation_on(
        self, cluster: Cluster, X_val: Any, y_val: Any, known: Future[Known]
    ) -> list[Future[TrainingData]] | None:
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

    def _take_over(self, outcome: FitResult, found: Survey, bound: Any, X: Any) -> None:
        self._adopt(outcome, found.classes, bound, found.counts)
        self._take_over_rows(found, X)

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
        local: estimators.LinearClassifier = super().to_local()
        if hasattr(local, "classes_"):
            local._keep_model()
        return local

    def decision_function(self, X: Any) -> Any:
        """Scores as in `bigcat.LinearClassifier`, as a Dask array."""
        shape = () if len(self._classes) == 2 else (len(self._classes),)
        return self._lazily("decision_function", X, shape=shape)

    def lower_bound(self, X: Any, y: Any) -> Any:
        """The bound of the fit on `log_proba_of`, as a Dask array."""
        return lazily(ask("lower_bound"), self._model(), X, y, dtypes=(np.float64,))[0]
