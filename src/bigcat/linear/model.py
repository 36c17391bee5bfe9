"""Predictions of a linear model on all cores: weights, intercepts and a noise.

The softmax of many rows has its own kernels (`bigcat.kernels.predict`), that of few uses NumPy.
Probabilities of other noises come from `bigcat.probabilities`. Results do not depend on the number
of threads.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from bigcat._system import available_cores, map_on_threads, one_blas_thread
from bigcat.bounds import Bound, full_rows
from bigcat.compile import Kernel, pays
from bigcat.kernels.predict import DENSE_ROWS, best_classes, log_probs, log_probs_of_labels
from bigcat.linear.top_k import best_columns, check_k
from bigcat.linear.weights import Weights
from bigcat.noise import Noise
from bigcat.numerics.random import new_state
from bigcat.probabilities import log_probabilities, log_probabilities_of
from bigcat.rows import as_rows, read_only
from bigcat.rows.blocks import MIN_BLAS_ROWS

#: Scores from which on threads are used, and the most per task.
MIN_THREADED_SCORES = 1 << 17
MAX_TASK_SCORES = 1 << 22
#: Scores held at a time outside of kernels, and those that fit in the cache.
BLOCK_SCORES, CACHED_SCORES = 1 << 22, 1 << 16
#: Cost of a score beyond its products, and of reading a weight from memory, in multiplications.
PRODUCTS_OF_A_SCORE, PRODUCTS_OF_A_READ = 16, 8
#: Number of weights from which on predictions run in float32 to save time.
MIN_FLOAT32_WEIGHTS = 1 << 22


class LinearModel:
    """Linear model that predicts for checked rows and numbered classes.

    Parameters
    ----------
    weights : Weights
    intercept : array of shape (n_classes,)
    noise : Noise
    n_threads : int or None
        None for all cores.
    """

    def __init__(
        self, weights: Weights, intercept: np.ndarray, noise: Noise, n_threads: int | None = None
    ) -> None:
        self.weights, self.intercept, self.noise = weights, intercept, noise
        self._n_threads = n_threads

    # Evaluated lazily: a fit creates a model after each epoch and may not use it.

    @property
    def n_classes(self) -> int:
        """Return the number of classes."""
        return len(self.weights)

    @property
    def n_threads(self) -> int:
        """Return the number of threads for predictions."""
        return self._n_threads or available_cores()

    def has_arrays(self, weights: Weights, intercept: np.ndarray, noise: Noise) -> bool:
        """Return True if the model holds these very arrays and this noise."""
        mine, others = self.weights.arrays(), weights.arrays()
        same = mine.keys() == others.keys() and all(mine[name] is others[name] for name in mine)
        return same and self.intercept is intercept and self.noise == noise

    @property
    def precision(self) -> Any:
        """Return the dtype of scores."""
        return np.float64 if self.weights.size < MIN_FLOAT32_WEIGHTS else np.float32

    # Probabilities

    def best(self, X: Any) -> np.ndarray:
        """Return the class with the highest score, the first of equal ones, (n,)."""
        return self._best_classes(X, 1, want_log=False)[0][:, 0]

    def top_k(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` best classes and their log-probabilities, both (n, k).

        The best come first, of equal scores the first class.
        """
        check_k(k, self.n_classes)
        classes, values = self._best_classes(X, int(k), want_log=self.noise.softmax)
        if not self.noise.softmax:
            for rows, scores in self.score_blocks(X):
                found = self._of_scores(scores)
                values[rows] = np.take_along_axis(found, classes[rows], axis=1)
        return classes, values

    def log_proba(self, X: Any) -> np.ndarray:
        """Return the log-probabilities of all classes, (n, n_classes)."""
        if not self.noise.softmax:
            return np.concatenate([self._of_scores(s) for _, s in self.score_blocks(X)])
        out = np.empty((X.shape[0], self.n_classes), self.precision)

        def uncompiled(rows: slice, scores: np.ndarray) -> None:
            out[rows] = log_probabilities(self.noise, scores)

        self._run(X, log_probs, lambda rows: (out[rows],), uncompiled)
        return out

    def log_proba_of(self, X: Any, labels: np.ndarray, *, quick: bool = False) -> np.ndarray:
        """Return the log-probability of one class per row, (n,).

        `quick` trades precision (1e-5) for speed, to monitor a fit.
        """
        labels = np.ascontiguousarray(labels, np.int64)
        out = np.empty(len(labels))
        if self.noise.softmax:

            def uncompiled(rows: slice, scores: np.ndarray) -> None:
                out[rows] = log_probabilities_of(self.noise, scores, labels[rows])

            self._run(X, log_probs_of_labels, lambda s: (labels[s], out[s]), uncompiled)
            return out
        for rows, scores in self.score_blocks(X):
            of_some = functools.partial(log_probabilities_of, self.noise, quick=quick)
            parts = self._on_threads(of_some, scores, labels[rows])
            out[rows] = np.concatenate(parts)
        return out

    def mean_log_likelihood(self, X: Any, labels: np.ndarray, row_weights: np.ndarray) -> float:
        """Return the mean log-likelihood per row, computed quickly to monitor a fit."""
        values = self.log_proba_of(X, labels, quick=True)
        return float(row_weights @ values / row_weights.sum())

    def lower_bound(self, bound: Bound, X: Any, labels: np.ndarray, head: np.ndarray) -> np.ndarray:
        """Return a bound's value for each row over all classes, at the best local parameters.

        `head` are the classes that the bound keeps exact.
        """
        if bound.is_likelihood:  # with as few nodes as it was fitted it may be above
            return self.log_proba_of(X, labels)
        rest = np.setdiff1d(np.arange(self.n_classes), head)
        order = np.concatenate([head, rest]).astype(np.int64)
        tag = bound.to_full_precision().lower(self.noise)
        rng = new_state(np.random.RandomState(0))
        out = np.empty(len(labels))
        for rows, scores in self.score_blocks(X):
            scores = scores.astype(np.float64, copy=False)
            local = np.zeros((len(scores), max(bound.n_local, 1)))
            values = np.empty(len(scores))
            full_rows(
                tag, rng, scores, labels[rows], len(head), order, local, values, scores, False
            )
            out[rows] = values
        return out

    # Scores

    def score_blocks(self, X: Any, size: int = BLOCK_SCORES) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield (rows, scores of all classes) in blocks of `size` scores or a row."""
        score = self._scorer(X)
        block = max(1, size // self.n_classes)
        for start in range(0, X.shape[0], block):
            rows = slice(start, min(start + block, X.shape[0]))
            yield rows, score(rows)

    def _scorer(self, X: Any) -> Callable[[slice], np.ndarray]:
        """Return a function that maps a slice of rows to their scores."""
        dtype = self.precision
        products = self.weights.products(scipy.sparse.issparse(X), dtype)
        intercept = self.intercept.astype(dtype)

        def score(rows: slice) -> np.ndarray:
            x = X if rows == slice(0, X.shape[0]) else X[rows]
            scores = products(x.astype(dtype, copy=False))
            scores += intercept
            return scores

        return score

    # Inside

    def _best_classes(self, X: Any, k: int, want_log: bool) -> tuple[np.ndarray, np.ndarray]:
        classes = np.empty((X.shape[0], k), np.int64)
        values = np.empty((X.shape[0], k), self.precision)

        def uncompiled(rows: slice, scores: np.ndarray) -> None:
            classes[rows] = best_columns(scores, k)
            values[rows] = np.take_along_axis(scores, classes[rows], axis=1)
            if want_log:
                scores -= values[rows, :1]
                np.exp(scores, out=scores)
                totals = scores.sum(axis=1, keepdims=True, dtype=np.float64)
                values[rows] = (values[rows] - values[rows, :1]) - np.log(totals)

        outputs = lambda rows: (want_log, classes[rows], values[rows])  # noqa: E731
        self._run(X, best_classes, outputs, uncompiled)
        return classes, values

    def _run(
        self,
        X: Any,
        kernel: Kernel,
        arguments: Callable[[slice], tuple[Any, ...]],
        uncompiled: Callable[[slice, np.ndarray], None],
    ) -> None:
        """Predict for all rows, in tasks on threads.

        Calls the kernel with ``(rows, weights, intercepts, *arguments)`` if it is compiled or the
        work is worth compiling it; otherwise `uncompiled` turns scores into the results.
        """
        dtype, n = self.precision, X.shape[0]
        operands = self.weights.operands(scipy.sparse.issparse(X), dtype)
        intercepts = read_only(self.intercept.astype(dtype, copy=False))
        few = n * self.n_classes < MIN_THREADED_SCORES
        n_threads = 1 if few else self.n_threads
        # A group of dense rows is never split, so that rounding does not depend on threads.
        group = 1 if operands.sparse else DENSE_ROWS
        most = max(1, MAX_TASK_SCORES // (self.n_classes * group))
        size = group * min(most, max(1, n // (4 * n_threads * group)))

        def of_kernel(rows: slice) -> tuple[Any, ...]:
            x = operands.as_rows(X if size >= n else X[rows])
            return (as_rows(x, dtype), operands.weights, intercepts, *arguments(rows))

        if operands.sparse:
            held, products = max(1, CACHED_SCORES // self.n_classes), X.nnz / max(n, 1)
        else:  # by BLAS in either case, but NumPy reads all weights for the rows held at a time
            held = max(1, min(group, MAX_TASK_SCORES // self.n_classes))
            products = PRODUCTS_OF_A_READ * operands.weights.shape[1] / held
        work = n * self.n_classes * (products + PRODUCTS_OF_A_SCORE)
        compiled = pays(work) or kernel.is_ready(*of_kernel(slice(0, min(n, 1))))
        score = None if compiled else self._scorer(X)
        if not compiled:
            size = min(size, max(held, CACHED_SCORES // self.n_classes))

        def task(rows: slice) -> None:
            if score is None:
                kernel(*of_kernel(rows))
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # as kernels do
                    uncompiled(rows, score(rows))

        # Our threads share the cores, so BLAS gets one; kernels multiply few rows without BLAS.
        alone = operands.sparse or (compiled and n < MIN_BLAS_ROWS)
        tasks = [slice(a, min(a + size, n)) for a in range(0, n, size)]
        with contextlib.nullcontext() if alone else one_blas_thread:
            map_on_threads(task, tasks, n_threads)

    def _of_scores(self, scores: np.ndarray) -> np.ndarray:
        parts = self._on_threads(lambda s: log_probabilities(self.noise, s), scores)
        return np.concatenate(parts)

    def _on_threads(self, function: Callable[..., Any], *arrays: np.ndarray) -> list[Any]:
        """Apply `function` to parts of the arrays' rows on threads."""
        n = len(arrays[0])
        size = max(1, -(-n // (4 * self.n_threads)))
        parts = [slice(a, a + size) for a in range(0, n, size)]
        return map_on_threads(lambda s: function(*(a[s] for a in arrays)), parts, self.n_threads)
