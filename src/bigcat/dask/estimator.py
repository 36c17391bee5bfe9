"""What the estimators of a cluster have in common: a client, lazy predictions, the local one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from dask import is_dask_collection
from distributed import Client, Future
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bigcat.dask.cluster import Cluster, client_or_current
from bigcat.dask.predictions import ask, is_right, lazily
from bigcat.dask.survey import Survey
from bigcat.linear.labels import classes_of

#: What belongs to this process alone.
_OF_THIS_PROCESS = ("_sent", "_fitted_model")


def with_parameters_of(local: type, own: tuple[str, ...]) -> Callable[..., Any]:
    """Let ``help``, `get_params` and `repr` see the local estimator's parameters, too."""

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        theirs = inspect.signature(local.__init__).parameters  # type: ignore[misc]
        ours = inspect.signature(init).parameters
        together = [*theirs.values(), *(ours[name] for name in own)]
        init.__signature__ = inspect.Signature(together)  # type: ignore[attr-defined]
        return init

    return decorate


class OnCluster:
    """An estimator whose rows are Dask collections; the class after it is the local one."""

    #: The ordinary estimator, parameters that it does not have, and the type of its numbers.
    _local: ClassVar[Any]
    _own: ClassVar[tuple[str, ...]]
    _dtype: ClassVar[Any]

    client: Client | None
    classes_: np.ndarray
    get_params: Callable[..., dict[str, Any]]

    @property
    def client_(self) -> Client:
        """The client that is used now."""
        return client_or_current(self.client)

    def __sklearn_clone__(self) -> Self:
        """With the same client: a connection cannot be copied."""
        parameters = self.get_params(deep=False)
        client = parameters.pop("client")
        copies = {name: clone(value, safe=False) for name, value in parameters.items()}
        kind: Any = type(self)
        cloned: Self = kind(**copies, client=client)
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection, which belongs to this process."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {name: value for name, value in state.items() if name != "_sent"} | {"client": None}

    def to_local(self) -> Any:
        """The ordinary estimator, with the same parameters and what was fitted."""
        parameters = self.get_params(deep=False)
        local = self._local(**{n: v for n, v in parameters.items() if n not in self._own})
        fitted = {
            name: value
            for name, value in vars(self).items()
            if name not in parameters and name not in _OF_THIS_PROCESS
        }
        local.__dict__.update(fitted)
        return local

    def _take_over_rows(self, found: Survey, X: Any) -> None:
        """What a fit has to say of the rows, after it has ended well."""
        self.n_features_in_ = found.sizes.n_features
        self.__dict__.pop("feature_names_in_", None)
        names = list(X.columns) if is_dask_collection(X) and hasattr(X, "columns") else []
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, object)
        self.__dict__.pop("_sent", None)

    # Predictions: those of the local estimator, which is sent to the workers once.

    def predict(self, X: Any, **options: Any) -> Any:
        """The most probable class of each row, as a Dask array."""
        return self._lazily("predict", X, dtype=self._classes.dtype, **options)

    def predict_proba(self, X: Any, **options: Any) -> Any:
        """Probabilities of all classes, as a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_proba", X, shape=(len(self._classes),), **options)

    def predict_log_proba(self, X: Any, **options: Any) -> Any:
        """Log-probabilities of all classes, as a Dask array of shape (n, n_classes)."""
        return self._lazily("predict_log_proba", X, shape=(len(self._classes),), **options)

    def predict_top_k(self, X: Any, k: int = 5, **options: Any) -> tuple[Any, Any]:
        """The `k` most probable classes of each row and their log-probabilities: Dask arrays."""
        dtypes = (self._classes.dtype, self._dtype)
        classes, logs = lazily(
            ask("predict_top_k"), self._model(), X, shape=(k,), dtypes=dtypes, k=k, **options
        )
        return classes, logs

    def log_proba_of(self, X: Any, y: Any, **options: Any) -> Any:
        """Log-probability of one class per row, as a Dask array; options as of the local one."""
        several = bool(options.get("return_std"))
        dtypes = (self._dtype,) * (1 + several)
        found = lazily(ask("log_proba_of"), self._model(), X, y, dtypes=dtypes, **options)
        return tuple(found) if several else found[0]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Accuracy, as a Dask array of no axes: ``float(...)`` works it out."""
        right = lazily(is_right, self._model(), X, y, dtypes=(np.float64,))[0]
        if sample_weight is None:
            return right.mean()
        return (right * sample_weight).sum() / sample_weight.sum()

    @property
    def _classes(self) -> np.ndarray:
        check_is_fitted(self)
        return self.classes_

    def _lazily(
        self, name: str, X: Any, *, shape: tuple[int, ...] = (), dtype: Any = None, **options: Any
    ) -> Any:
        dtypes = (self._dtype if dtype is None else dtype,)
        return lazily(ask(name), self._model(), X, shape=shape, dtypes=dtypes, **options)[0]

    def _model(self) -> Future[Any]:
        """The local model on all workers, sent once."""
        check_is_fitted(self)
        client = self.client_
        sent: tuple[Any, Any, Future[Any]] | None = getattr(self, "_sent", None)
        if sent is None or sent[0] is not client or sent[1] is not self.classes_:
            future = Cluster(client).put(self.to_local())
            self._sent = sent = (client, self.classes_, future)
        return sent[2]


def check_labels(found: Survey) -> None:
    """Raise where there is nothing to tell apart, or no row counts."""
    if len(found.classes) < 2:
        classes_of(found.classes)  # for its error
    if not found.weights.any():
        raise ValueError("sample_weight is zero for every row; give some rows a positive weight")
