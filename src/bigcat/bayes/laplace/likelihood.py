"""Log-likelihoods of many weight matrices at once, with their gradients and curvature.

A *stack* of weights has shape (C, K, M): C chains, K classes, M columns with the intercept last.
The scores of all chains are one product of matrices, and no more of them exist at a time than fit a
core's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg import get_blas_funcs

from bigcat._system import map_on_threads, one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import CACHED, Design
from bigcat.bounds import Exact, full_rows
from bigcat.kernels.softmax_rows import softmax_rows
from bigcat.noise import Noise
from bigcat.numerics.random import new_state
from bigcat.probabilities import log_probabilities

#: Nodes for noises without a closed form: errors of 1e-8, at a quarter of the price of rounding.
LIKELIHOOD = Exact(spacing=0.5, tail=20.0)
#: Number of products n K M from which on scores are computed in single precision.
MANY_PRODUCTS = 1 << 22
#: Number of chunks of rows whose gradients are summed in single precision, unlike other sums.
CHUNKS_SUMMED = 8
#: Scores whose exponentials, and sums of very many of them, are numbers of single precision.
SMALL = 60.0


class Likelihood:
    """The rows, their labels and a noise, as a function of the weights.

    Parameters
    ----------
    design : Design
    labels : array of shape (n,)
    noise : Noise
    n_classes : int
    n_threads : int
    """

    def __init__(
        self,
        design: Design,
        labels: np.ndarray,
        noise: Noise,
        n_classes: int,
        n_threads: int = 1,
    ) -> None:
        self.design, self.noise = design, noise
        self.labels = np.ascontiguousarray(labels, np.int64)
        self.n_classes, self.n_threads = n_classes, n_threads
        self.dtype = precision_of(design.n, n_classes, design.n_columns, noise)
        self.rows = design.rows.astype(self.dtype, copy=False)
        self._longest_row = _longest(self.rows)
        self.n_gradients = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights: classes, columns."""
        return self.n_classes, self.design.n_columns

    def class_weights(self) -> Floats:
        """Return sums of the weights of the rows of each class, (K,)."""
        found: Any = np.bincount(self.labels, self.design.row_weights, self.n_classes)
        return np.asarray(found, np.float64)

    def values(self, stack: Floats) -> Floats:
        """Log-likelihoods, (C,)."""
        return self._sums(stack, with_gradients=False)[0]

    def gradients(self, stack: Floats) -> tuple[Floats, Floats]:
        """Log-likelihoods (C,) and their gradients (C, K, M)."""
        self.n_gradients += len(stack)
        values, gradients = self._sums(stack, with_gradients=True)
        assert gradients is not None
        return values, gradients

    def _sums(self, stack: Floats, with_gradients: bool) -> tuple[Floats, Floats | None]:
        n_chains, n_classes, n_columns = stack.shape
        weights = np.ascontiguousarray(stack.reshape(-1, n_columns), dtype=self.dtype)

        # No product is longer than its factors together.
        small = bool(self._longest_row * _longest(weights) <= SMALL)
        step = max(1, CACHED // len(weights))

        def of_rows(part: slice) -> tuple[Floats, Floats | None]:
            values = np.zeros(n_chains)
            gradient = np.zeros(weights.shape) if with_gradients else None
            for first in range(part.start, part.stop, step * CHUNKS_SUMMED):
                last = min(first + step * CHUNKS_SUMMED, part.stop)
                total = np.zeros(weights.shape, self.dtype) if with_gradients else None
                for start in range(first, last, step):
                    rows = slice(start, min(start + step, last))
                    x = self.rows[rows]
                    scores = self._scores(x, weights).reshape(n_chains, n_classes, -1)
                    self._add_values(scores, rows, small, with_gradients, values)
                    if total is not None:
                        self._add_products(scores.reshape(len(weights), -1), x, total)
                if gradient is not None and total is not None:
                    gradient += total
            return values, gradient

        with one_blas_thread:
            found = map_on_threads(of_rows, self._parts(len(weights)), self.n_threads)
        total = np.sum([values for values, _ in found], axis=0)
        if not with_gradients:
            return total, None
        gradients = np.sum([g for _, g in found if g is not None], axis=0)
        return total, gradients.reshape(stack.shape)

    def _scores(self, x: Any, weights: Floats) -> Floats:
        """(C K, n): a class's scores of all rows side by side, so that few classes are as quick."""
        scores: Floats = (x @ weights.T).T if self.design.sparse else weights @ x.T
        return np.ascontiguousarray(scores)

    def _add_products(self, score_gradients: Floats, x: Any, total: Floats) -> None:
        """Add sums over rows of score_gradients (C K, n) times rows to a total (C K, M)."""
        if self.design.sparse:
            total += (x.T @ score_gradients.T).T
        else:  # transposed matrices are in the order that BLAS has, so that it adds in place
            # Not kept with the object, which a cluster sends about, and pickle knows no such thing.
            gemm = get_blas_funcs("gemm", dtype=self.dtype)
            gemm(1.0, x.T, score_gradients.T, beta=1.0, c=total.T, overwrite_c=True)

    def _parts(self, width: int) -> list[slice]:
        """Rows for each thread: one part where there is little to do."""
        n = self.design.n
        n_parts = min(self.n_threads, max(1, n * width // CACHED))
        size = -(-n // n_parts)
        return [slice(a, min(a + size, n)) for a in range(0, n, size)]

    def _add_values(
        self, scores: Floats, rows: slice, small: bool, with_gradients: bool, values: Floats
    ) -> None:
        """Add the sums over the rows for each chain; scores (C, K, n) may become gradients."""
        row_weights = self.design.row_weights[rows]
        labels = self.labels[rows]
        if self.noise.softmax:
            softmax_rows(scores, labels, row_weights, small, with_gradients, values)
        else:
            values += self._by_quadrature(scores, labels, row_weights, with_gradients)

    def _by_quadrature(
        self, scores: Floats, labels: np.ndarray, row_weights: Floats, with_gradients: bool
    ) -> Floats:
        n_chains, n_classes, n = scores.shape
        flat = np.ascontiguousarray(scores.transpose(0, 2, 1)).reshape(-1, n_classes)
        values = self._rows_by_quadrature(flat, np.tile(labels, n_chains), with_gradients)
        if with_gradients:
            found = flat.reshape(n_chains, n, n_classes) * row_weights[:, None]
            scores[:] = found.transpose(0, 2, 1)
        return values.reshape(n_chains, n) @ row_weights

    def _rows_by_quadrature(
        self, scores: Floats, labels: np.ndarray, with_gradients: bool
    ) -> Floats:
        """Return values of rows (n, K); their scores become gradients on request."""
        values, local = np.empty(len(scores)), np.empty((len(scores), 1))
        order = np.arange(scores.shape[1])
        rng = new_state(np.random.RandomState(0))
        tag = LIKELIHOOD.lower(self.noise)
        full_rows(tag, rng, scores, labels, 0, order, local, values, scores, with_gradients)
        return values

    # Curvature

    def probabilities(self, weights: Floats, rows: slice) -> Floats:
        """Return probabilities of all classes for some rows, (n, K)."""
        scores = np.asarray(self.design.rows[rows] @ weights.T)
        found: Floats = np.exp(log_probabilities(self.noise, scores))
        return found

    def _softmax(self, weights: Floats, rows: slice) -> Floats:
        """Return the same in the precision of the scores, (n, K)."""
        p: Floats = np.asarray(self.rows[rows] @ weights.T.astype(self.dtype))
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
        return p

    def score_derivatives(self, weights: Floats, rows: slice, label: int) -> Floats:
        """Return d log p(label) / d scores for some rows, (n, K)."""
        scores = np.ascontiguousarray(self.design.rows[rows] @ weights.T)
        self._rows_by_quadrature(scores, np.full(len(scores), label), True)
        return scores

    def fisher_weights(self, weights: Floats, rows: slice) -> Floats:
        """Return E_y[(d log p(y) / d psi_k)^2] of each row and class, (n, K).

        It is the Hessian of the log-likelihood in the scores, in expectation over the label:
        p (1 - p) for the softmax, whatever the label.
        """
        if self.noise.softmax:
            p = self._softmax(weights, rows)
            return p * (1.0 - p)
        p = self.probabilities(weights, rows)
        total = np.zeros_like(p)
        for label in range(self.n_classes):
            total += p[:, label : label + 1] * self.score_derivatives(weights, rows, label) ** 2
        return total


def precision_of(n_rows: int, n_classes: int, n_columns: int, noise: Noise) -> Any:
    """Return the type in which scores are computed."""
    many = n_rows * n_classes * n_columns >= MANY_PRODUCTS
    return np.float32 if many and noise.softmax else np.float64


def _longest(rows: Any) -> float:
    """Return the length of the longest row."""
    if scipy.sparse.issparse(rows):
        squares = rows.multiply(rows).sum(axis=1)
    else:
        squares = np.einsum("ij,ij->i", rows, rows)
    return float(np.sqrt(squares.max(initial=0.0)))
