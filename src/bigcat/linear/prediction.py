"""Predictions of the linear model on all cores, a few rows at a time.

The softmax has kernels of its own (`bigcat.estimators._predict_kernel`); the probabilities of
other noises come from `bigcat.probabilities`.  Results do not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from threadpoolctl import ThreadpoolController

from bigcat.kernels.predict import DENSE_ROWS, best_classes, log_probs, log_probs_of_labels
from bigcat.linear import scores as _scores
from bigcat.linear.weights import Factors, Weights
from bigcat.machine import available_cores, map_on_threads
from bigcat.noise import Gumbel, Noise
from bigcat.probabilities import log_probabilities, log_probabilities_of
from bigcat.rows import as_rows, read_only

#: Scores below which more than one thread is not worth it, and the most that a task holds.
FEW_SCORES = 1 << 17
TASK_SCORES = 1 << 22

_libraries = functools.cache(ThreadpoolController)


class Scorer:
    """A linear model that predicts for checked rows.

    Parameters
    ----------
    coef : array of shape (n_classes, n_features), or its factors
    intercept : array of shape (n_classes,)
    noise : Noise
    how : {"quadrature", "quick", "importance"}
        As in `bigcat.probabilities`; "quick" is for `log_proba_of` only.
    n_threads : int or None
        None for all cores.
    """

    def __init__(
        self,
        coef: Weights,
        intercept: np.ndarray,
        noise: Noise,
        how: str = "quadrature",
        n_threads: int | None = None,
    ) -> None:
        self.coef, self.intercept = coef, intercept
        self.noise, self.how = noise, how
        self.n_classes = len(coef)
        self.n_threads = n_threads or available_cores()
        self.in_closed_form = isinstance(noise, Gumbel) and how != "importance"

    def best(self, X: Any) -> np.ndarray:
        """The class with the highest score, the first of equal ones, (n,)."""
        return self._best_classes(X, 1, want_log=False)[0][:, 0]

    def top_k(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The `k` best classes, best first, and their log-probabilities, both (n, k)."""
        if not self.in_closed_form:
            classes = np.arange(self.n_classes)
            return _scores.top_k(self._score_blocks(X), self._of_scores, classes, k)
        _scores.check_k(k, self.n_classes)
        return self._best_classes(X, int(k), want_log=True)

    def log_proba_of(self, X: Any, labels: np.ndarray) -> np.ndarray:
        """Log-probability of one class a row, (n,)."""
        labels = np.ascontiguousarray(labels, np.int64)
        out = np.empty(len(labels))
        if self.in_closed_form:
            self._run(X, lambda s, *model: log_probs_of_labels(*model, labels[s], out[s]))
            return out
        for rows, scores in self._score_blocks(X):
            parts = self._on_threads(
                lambda s, y: log_probabilities_of(self.noise, s, y, how=self.how),
                scores,
                labels[rows],
            )
            out[rows] = np.concatenate(parts)
        return out

    def log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of all classes, (n, n_classes)."""
        if not self.in_closed_form:
            return np.concatenate([self._of_scores(s) for _, s in self._score_blocks(X)])
        out = np.empty((X.shape[0], self.n_classes), _scores.precision(self.coef))
        self._run(X, lambda s, *model: log_probs(*model, out[s]))
        return out

    def _best_classes(self, X: Any, k: int, want_log: bool) -> tuple[np.ndarray, np.ndarray]:
        classes = np.empty((X.shape[0], k), np.int64)
        values = np.empty((X.shape[0], k), _scores.precision(self.coef))
        self._run(X, lambda s, *model: best_classes(*model, want_log, classes[s], values[s]))
        return classes, values

    def _run(self, X: Any, call: Callable[..., None]) -> None:
        """Call ``call(rows as a slice, rows, weights, intercepts)`` for all rows, on threads."""
        dtype = _scores.precision(self.coef)
        weights: Any = self.coef
        embedding = None
        if isinstance(self.coef, Factors):
            weights, embedding = self.coef.classes, self.coef.features.astype(dtype, copy=False)
        sparse = embedding is None and scipy.sparse.issparse(X)
        # No copy of weights that lie as the kernels want them: those of training on such rows.
        weights = weights.T if sparse else weights
        weights = read_only(np.ascontiguousarray(weights, dtype=dtype))
        intercepts = read_only(self.intercept.astype(dtype))

        def task(rows: slice) -> None:
            x = X[rows] if embedding is None else np.asarray(X[rows] @ embedding)
            call(rows, as_rows(x, dtype), weights, intercepts)

        few = X.shape[0] * self.n_classes < FEW_SCORES
        n_threads = 1 if few else self.n_threads
        # A group of dense rows is never cut, so that threads do not change how sums are rounded.
        group = 1 if sparse else DENSE_ROWS
        most = max(1, TASK_SCORES // (self.n_classes * group))
        size = group * min(most, max(1, X.shape[0] // (4 * n_threads * group)))
        tasks = [slice(a, min(a + size, X.shape[0])) for a in range(0, X.shape[0], size)]
        alone: Any = contextlib.nullcontext()
        if not sparse:  # the threads are ours
            alone = _libraries().limit(limits=1, user_api="blas")
        with alone:
            map_on_threads(task, tasks, n_threads)

    # Other noises

    def _score_blocks(self, X: Any):
        return _scores.score_blocks(X, self.coef, self.intercept)

    def _of_scores(self, scores: np.ndarray) -> np.ndarray:
        def part(s):
            return log_probabilities(self.noise, s, how=self.how)

        return np.concatenate(self._on_threads(part, scores))

    def _on_threads(self, function: Callable, *arrays: np.ndarray) -> list:
        """`function` of parts of the arrays' rows."""
        n = len(arrays[0])
        size = max(1, -(-n // (4 * self.n_threads)))
        parts = [slice(a, a + size) for a in range(0, n, size)]
        return map_on_threads(lambda s: function(*(a[s] for a in arrays)), parts, self.n_threads)
