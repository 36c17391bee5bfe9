"""`BayesianClassifier` for rows that a cluster holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from distributed import Client, Future
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from bigcat import estimators
from bigcat import noise as noises
from bigcat.bayes import Laplace
from bigcat.bayes._column_sizes import ColumnSizes
from bigcat.bayes._laplace_plan import Plan, Work
from bigcat.bayes._posed import Posed, centres
from bigcat.bayes.method import PosteriorMethod, Seen, Task
from bigcat.bayes.priors import Prior
from bigcat.caller import warn_caller
from bigcat.dask.blocks import Known
from bigcat.dask.cluster import Cluster
from bigcat.dask.estimator import OnCluster, check_labels, with_parameters_of
from bigcat.dask.likelihood import (
    LikelihoodOfParts,
    Parts,
    likelihood_of,
    make_frame,
    rows_of_lane,
    sums_of_columns,
)
from bigcat.dask.predictions import ask, lazily
from bigcat.dask.source import Source, source_of
from bigcat.dask.survey import Survey, no_rows
from bigcat.linear.labels import classes_of, encode
from bigcat.rows import Sizes
from bigcat.training import memory
from bigcat.training.checks import check_whole
from bigcat.training.data import TrainingData

_OWN = ("client", "n_lanes")


def all_known(survey: Survey, classes: np.ndarray | None) -> Known:
    """Classes in sorted order, those without rows included."""
    known = survey.classes if classes is None else classes
    return Known(known, np.arange(len(known)))


class BayesianClassifier(OnCluster, estimators.BayesianClassifier):  # type: ignore[misc]
    """`bigcat.BayesianClassifier` on a Dask cluster, by the method of Laplace.

    Parameters, attributes and answers are those of `bigcat.BayesianClassifier`, but for rounding;
    rows are Dask arrays (of dense or SciPy CSR chunks), Dask data frames, or folders of
    `bigcat.data.convert`.  Each worker keeps its rows in memory.  Log-likelihoods, slopes and
    curvatures are sums over the workers; given the mode, classes are independent, and a task works
    out the covariance of a block of them.  The posterior is in this process, as that of the local
    estimator is.  ``docs/distributed.md`` says what that costs.

    Parameters
    ----------
    **parameters : those of `bigcat.BayesianClassifier`, as in its constructor
        The method is "laplace", with ``covariance="class"``, ``"diagonal"``, ``"full"`` or
        ``"draws"``.  `n_threads` is of no matter: the workers have theirs.
    client : distributed.Client or None, default=None
        None for the current one.
    n_lanes : int or None, default=None
        Parts of the rows; None for as many as the workers have threads when the fit begins.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from bigcat.bayes import Laplace
    >>> from bigcat.dask import BayesianClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> method = Laplace(covariance="class")
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0"):
    ...     rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    ...     model = BayesianClassifier(method, prior="gaussian", random_state=0).fit(rows, labels)
    ...     accuracy = float(model.score(rows, labels))
    >>> accuracy > 0.9
    True
    """

    _local, _own, _dtype = estimators.BayesianClassifier, _OWN, np.float64

    @with_parameters_of(estimators.BayesianClassifier, _OWN)
    def __init__(
        self,
        *positional: Any,
        client: Client | None = None,
        n_lanes: int | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__(*positional, **parameters)
        self.client = client
        self.n_lanes = n_lanes

    # Fitting

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        classes: ArrayLike | None = None,
        groups: Any = None,
        resume: bool = False,
    ) -> BayesianClassifier:
        """Fit the posterior; on bad input or failure the estimator stays as it was.

        Parameters
        ----------
        X : Dask array or data frame; or `bigcat.data.Shards`, names of folders, or a list of these
            Names may be paths, patterns such as ``"rows-*"``, and addresses of `fsspec`, such as
            ``"s3://bucket/rows"``, which each worker copies to its own disk.
        y, sample_weight : Dask array or series
            Of as many rows; not for shards, which have labels.
        classes : array, optional
            All classes, where some have no row.
        groups, resume :
            Not on a cluster: nothing is held out, and nothing is written down on the way.
        """
        method, prior = self.method_and_prior()
        method = _check(method, groups, resume or self.checkpoint is not None)
        if self.n_lanes is not None:
            check_whole("n_lanes", self.n_lanes)
        cluster = Cluster(self.client_, self.n_lanes)
        source = source_of(cluster, X, y, sample_weight)
        survey = source.survey(with_digest=False)
        found: Survey = cluster.fetch(survey)
        known = found.classes
        if classes is None:
            check_labels(found)
        else:
            known = classes_of(np.asarray(classes))[0]
            encode(found.classes, known)  # for its error
        sizes = found.sizes._replace(n_classes=len(known))
        work = Work.of(sizes, bool(self.fit_intercept), noises.resolve(method.noise))
        plan = _checked(method.plan(work, prior))
        self._check_memory_of(cluster, method, prior, sizes)
        if (warning := work.warning()) is not None:
            warn_caller(warning)
        task = Task(
            TrainingData(no_rows(found), np.empty(0, np.int64), np.empty(0)),
            known,
            prior,
            bool(self.fit_intercept),
            check_random_state(self.random_state),
            progress=self.progress,
        )
        places = cluster.submit("known", all_known, survey, None if classes is None else known)
        posed = self._posed(cluster, source, places, task, plan, method)
        seen = Seen(posed.likelihood.design.total_weight, 1)
        self._adopt(method.fit_posed(task, plan, posed, seen))
        self.class_count_ = np.zeros(len(known), np.int64)
        self.class_count_[encode(found.classes, known)] = found.counts
        self._take_over_rows(found, X)
        return self

    def _posed(
        self,
        cluster: Cluster,
        source: Source,
        known: Future[Known],
        task: Task,
        plan: Plan,
        method: Laplace,
    ) -> Posed:
        """The rows of the cluster, as the method sees them."""
        rows = Parts(
            cluster,
            [
                cluster.submit(
                    "rows", rows_of_lane, [b for b, _ in lane], [n for _, n in lane], known, lane=i
                )
                for i, lane in enumerate(source.lanes(known))
            ],
        )
        means = None
        if centres(task, plan) and isinstance(task.sample.X, np.ndarray):
            sums, weight = rows.sum(sums_of_columns)
            means = sums / weight
        noise = noises.resolve(method.noise)
        n_rows = sum(cluster.results(rows.each("n", _n_rows)))
        sent = None if means is None else cluster.put(means)
        arguments = (sent, task.fit_intercept, noise, task.n_classes, n_rows)
        parts = Parts(cluster, rows.each("likelihood", likelihood_of, *arguments))
        n_columns = task.sample.X.shape[1] + task.fit_intercept
        likelihood = LikelihoodOfParts(parts, noise, task.n_classes, n_columns, task.fit_intercept)
        columns = ColumnSizes.of_sums(likelihood.column_sums)
        return Posed(likelihood, columns, means, make_frame)

    def _check_memory_of(
        self, cluster: Cluster, method: Laplace, prior: Prior, sizes: Sizes
    ) -> None:
        """Of this process, which has the posterior, and of the workers, which have the rows."""
        needed = self._memory(method, prior, sizes, np.float64)
        memory.check(needed, sizes.n_classes, sizes.n_features, method.memory_remedy(prior))
        of_rows = 24 * sizes.n_values // cluster.n_lanes
        of_weights = 4 * 8 * sizes.n_classes * (sizes.n_features + 1)
        cluster.check_memory(of_rows + of_weights, "the rows of a lane in double precision")

    @property
    def partial_fit(self) -> Any:
        """Not on a cluster: `to_local` gives an estimator that has it."""
        raise AttributeError(
            "partial_fit is for rows in one process; to_local().partial_fit(X, y) goes on from the "
            "fitted posterior"
        )

    # Intervals

    def predict_interval(  # type: ignore[override]
        self, X: Any, level: float = 0.9, **options: Any
    ) -> tuple[Any, Any]:
        """Credible intervals of the class probabilities: Dask arrays of lower and upper ends."""
        shape = (len(self._classes),)
        return self._ends("predict_interval", X, shape, level=level, **options)

    def log_odds_interval(  # type: ignore[override]
        self, X: Any, first: Any, second: Any, level: float = 0.9, **options: Any
    ) -> tuple[Any, Any]:
        """Credible intervals of log p(first | x) - log p(second | x): Dask arrays of their ends."""
        named = {"first": first, "second": second, "level": level}
        return self._ends("log_odds_interval", X, (), **named, **options)

    def _ends(self, name: str, X: Any, shape: tuple[int, ...], **options: Any) -> tuple[Any, Any]:
        dtypes = (np.float64, np.float64)
        low, high = lazily(ask(name), self._model(), X, shape=shape, dtypes=dtypes, **options)
        return low, high


def _n_rows(sample: TrainingData) -> int:
    return sample.n_rows


def _check(method: PosteriorMethod, groups: Any, keeps: bool) -> Laplace:
    """The method, if it can be had on a cluster; raise for what cannot."""
    if not isinstance(method, Laplace):
        raise ValueError(
            f"method={method.name!r} needs all rows in one place; on a cluster take "
            "method='laplace', or bigcat.BayesianClassifier for rows that one machine holds"
        )
    if groups is not None:
        raise ValueError("groups are for rows that are held out, and on a cluster none are")
    if keeps:
        raise ValueError(
            "checkpoint and resume are for stochastic fits, and method='laplace' makes none; "
            "leave them out"
        )
    return method


def _checked(plan: Plan) -> Plan:
    if plan.form == "low-rank":
        raise ValueError(
            "covariance='low-rank' looks at single rows of all workers, and is not there on a "
            f"cluster (it was chosen since: {plan.reason}); set Laplace(covariance='class') or "
            "'diagonal', with rank=None"
        )
    return plan
