"""L-BFGS on the whole data and all classes, for everything that is deterministic."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse

from bigcat._system import one_blas_thread
from bigcat.bounds import full_rows
from bigcat.combinations import Parts
from bigcat.compile import clock
from bigcat.linear import WeightsKind
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, is_sparse
from bigcat.solvers import LBFGS, DivergedError

#: Scores held at a time, in numbers: 32 MB.
BLOCK = 1 << 22
#: Multiplications in one pass below which the products run on one thread.
SMALL_PRODUCT = 1 << 27


class Objective:
    """Sum of row values - l2/2 |W|^2, and its gradient, in blocks of rows."""

    def __init__(self, problem: Problem, parts: Parts, kind: WeightsKind) -> None:
        self.problem, self.kind = problem, kind
        self.tag = parts.bound.lower(parts.noise)
        self.n_local = max(parts.bound.n_local, 1)
        self.is_softmax = parts.bound.is_likelihood and parts.noise.softmax
        self.rng = new_state(np.random.RandomState(0))
        rest = np.setdiff1d(np.arange(problem.n_classes), problem.head)
        self.order = np.concatenate([problem.head, rest]).astype(np.int64)
        self.total_weight = float(problem.row_weights.sum())
        self.at_a_time = max(1, BLOCK // problem.n_classes)
        # Many evaluations use a problem of one block, and making it each time would cost most.
        self.whole = self._rows(0, problem.n_rows) if problem.n_rows <= self.at_a_time else None

    def __call__(
        self, matrix: np.ndarray, intercepts: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the value and its gradients; the matrix is that of the weights' kind."""
        p, kind = self.problem, self.kind
        value = 0.0
        gradient, of_intercepts = np.zeros_like(matrix), np.zeros_like(intercepts)
        for start in range(0, p.n_rows, self.at_a_time):
            stop = min(start + self.at_a_time, p.n_rows)
            x = self._rows(start, stop) if self.whole is None else self.whole
            score_gradients = kind.scores(matrix, x, p) + intercepts
            values = self._values(score_gradients, p.labels[start:stop])
            row_weights = p.row_weights[start:stop]
            value += float(row_weights @ values)
            score_gradients *= row_weights[:, None]
            kind.add_gradient(gradient, matrix, x, score_gradients, p)
            of_intercepts += score_gradients.sum(axis=0)
        value -= 0.5 * p.l2 * np.vdot(matrix, matrix)
        gradient -= p.l2 * matrix
        if not p.fit_intercept:
            of_intercepts[:] = 0.0
        return value, gradient, of_intercepts

    def _rows(self, start: int, stop: int) -> Any:
        """Return some rows in double precision."""
        rows = self.problem.rows
        if not is_sparse(rows):
            return rows.values[start:stop].astype(np.float64, copy=False)
        first, last = rows.indptr[start], rows.indptr[stop]
        values = rows.values[first:last].astype(np.float64, copy=False)
        indptr = rows.indptr[start : stop + 1] - first
        shape = (stop - start, self.problem.n_features)
        return _SparseRows((values, rows.indices[first:last], indptr), shape=shape)

    def _values(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the value of each row, (n,); scores become gradients."""
        if self.is_softmax:
            return _softmax_values(scores, labels)
        values, local = np.empty(len(labels)), np.empty((len(labels), self.n_local))
        n_head = len(self.problem.head)
        full_rows(
            self.tag, self.rng, scores, labels, n_head, self.order, local, values, scores, True
        )
        return values

    def compile(self) -> None:
        """Compile the bound, which the softmax does not need."""
        if not self.is_softmax:
            self._values(np.empty((0, self.problem.n_classes)), self.problem.labels[:0])


def _softmax_values(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the log-likelihood of each row; scores become its gradient."""
    rows = np.arange(len(labels))
    top = scores.max(axis=1)
    own = scores[rows, labels]
    scores -= top[:, None]
    np.exp(scores, out=scores)
    sums = scores.sum(axis=1)
    scores /= -sums[:, None]
    scores[rows, labels] += 1.0
    values: np.ndarray = own - top - np.log(sums)
    return values


class _SparseRows(scipy.sparse.csr_array):  # type: ignore[misc]  # scipy has no types
    """Sparse rows that cache their transpose, which costs as much as a small product."""

    @functools.cached_property
    def T(self) -> Any:
        return self.transpose()


def run_lbfgs(
    problem: Problem,
    parts: Parts,
    kind: WeightsKind,
    matrix: np.ndarray,
    intercepts: np.ndarray,
    *,
    max_iterations: int,
    on_compiled: Callable[[float], None],
    on_iteration: Callable[[float, float, np.ndarray, np.ndarray], bool],
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Maximise; return the matrix of weights, the intercepts and whether it converged.

    `tol` is the largest gradient of the mean value per row that counts as converged, with rows in
    units of their typical length: the same for rows of any size.
    """
    solver = parts.solver
    assert isinstance(solver, LBFGS)
    objective = Objective(problem, parts, kind)
    shape, total = matrix.shape, objective.total_weight
    started = time.perf_counter()
    objective.compile()
    on_compiled(time.perf_counter() - started)

    length = math.sqrt(problem.typical_size)

    def split(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return theta[: matrix.size].reshape(shape) / length, theta[matrix.size :]

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, of_intercepts = objective(*split(theta))
        flat = np.concatenate([gradient.ravel() / length, of_intercepts]) / -total
        return -value / total, flat

    began, stopped = [clock()], False

    def after_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        nonlocal stopped
        seconds = clock() - began[0]
        w, b = split(intermediate_result.x)
        ridge = 0.5 * problem.l2 * np.vdot(w, w) / total
        stopped = on_iteration(ridge - intermediate_result.fun, seconds, w, b)  # the bound alone
        began[0] = clock()
        if stopped:
            raise StopIteration

    start = np.concatenate([matrix.ravel() * length, intercepts]).astype(np.float64)
    # Threads cost more than they give in small products, far more where others use the cores.
    small = problem.n_rows * matrix.size < SMALL_PRODUCT
    with one_blas_thread if small else contextlib.nullcontext():
        result = scipy.optimize.minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={
                "maxiter": max_iterations,
                "maxfun": 2 * max_iterations + 20,
                "maxcor": solver.memory,
                "gtol": solver.tol,
                "ftol": 0.0,
            },
        )
    if not (math.isfinite(result.fun) and np.isfinite(result.x).all()):
        bound = parts.bound
        raise DivergedError(
            f"the {bound.name} {bound.word} became {-result.fun} in iteration {result.nit + 1}; "
            "scale the columns of X to similar size"
        )
    if not result.nit and not stopped:  # it began at the optimum: a fit with one row of history
        with contextlib.suppress(StopIteration):
            after_iteration(result)
    best_w, best_b = split(result.x)
    return best_w, best_b, bool(result.success) or stopped
