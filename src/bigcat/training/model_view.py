"""View of the model inside a callback."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from bigcat.linear import LinearModel
from bigcat.linear.labels import encode


class ModelView:
    """Model with the current weights, for rows and labels of the user.

    It has the methods that `bigcat.metrics` needs.  The weights move on with the fit: use it within
    the callback that received it.

    Parameters
    ----------
    model : callable
        Returns the `LinearModel`, in the columns and the order of classes of the fit.
    rows_of : callable
        Puts rows into these columns.
    classes : array of shape (n_classes,)
        Labels in that order.
    """

    def __init__(
        self, model: Callable[[], LinearModel], rows_of: Callable[[Any], Any], classes: np.ndarray
    ) -> None:
        self._fetch, self._rows_of, self._labels = model, rows_of, classes
        self._order = np.argsort(classes, kind="stable")
        self.classes_: np.ndarray = classes[self._order]

    @cached_property
    def _model(self) -> LinearModel:
        return self._fetch()

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row."""
        found: np.ndarray = self._labels[self._model.best(self._rows(X))]
        return found

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the log-probabilities of all classes, (n, n_classes)."""
        found: np.ndarray = self._model.log_proba(self._rows(X))[:, self._order]
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of all classes, (n, n_classes)."""
        found: np.ndarray = np.exp(self.predict_log_proba(X))
        return found

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes per row and their log-probabilities, (n, k)."""
        columns, log_probabilities = self._model.top_k(self._rows(X), k)
        return self._labels[columns], log_probabilities

    def log_proba_of(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return the log-probability of one class per row, (n,)."""
        return self._model.log_proba_of(self._rows(X), self._numbers(y))

    def log_likelihood_of(self, X: Any, y: ArrayLike) -> float:
        """Return the mean log-likelihood per row."""
        labels = self._numbers(y)
        return self._model.mean_log_likelihood(self._rows(X), labels, np.ones(len(labels)))

    def _rows(self, X: Any) -> Any:
        return self._rows_of(X.tocsr() if scipy.sparse.issparse(X) else np.ascontiguousarray(X))

    def _numbers(self, y: ArrayLike) -> np.ndarray:
        found: np.ndarray = self._order[encode(y, self.classes_)]
        return found
