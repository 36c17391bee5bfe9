"""L-BFGS on the whole data and all classes, for everything that is deterministic."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scipy.optimize
import scipy.sparse
from threadpoolctl import threadpool_limits

from bigcat.bounds import Bound
from bigcat.bounds._base import full_rows
from bigcat.noise import Noise
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, Rows, is_sparse
from bigcat.solvers import LBFGS

#: Scores held at a time, in numbers: 32 MB.
BLOCK = 1 << 22


#: Multiplications in one pass below which the products run on one thread.
SMALL_PRODUCT = 1 << 27


class Objective:
    """Sum of row values - l2/2 |W|^2, and its gradient, in blocks of rows."""

    def __init__(self, problem: Problem, bound: Bound, noise: Noise) -> None:
        self.problem = problem
        self.tag = bound.lower(noise)
        self.n_local = max(bound.n_local, 1)
        self.rng = new_state(np.random.RandomState(0))
        rest = np.setdiff1d(np.arange(problem.n_classes), problem.head)
        self.order = np.concatenate([problem.head, rest]).astype(np.int64)

    def __call__(self, weights: np.ndarray, intercepts: np.ndarray):
        """Value and gradients; `weights` are class-major, or vectors of classes and features."""
        p = self.problem
        value = 0.0
        grad_w, grad_b = np.zeros_like(weights), np.zeros_like(intercepts)
        block = max(1, BLOCK // p.n_classes)
        for start in range(0, p.n_rows, block):
            stop = min(start + block, p.n_rows)
            x = _block(p.rows, start, stop, p.n_features)
            h, vectors = x, weights
            if p.rank is not None:
                vectors = weights[: p.n_classes]
                h = p.unit * np.asarray(x @ weights[p.n_classes :])
            slopes = np.asarray(h @ vectors.T) + intercepts
            values = np.empty(stop - start)
            local = np.empty((stop - start, self.n_local))
            full_rows(
                self.tag,
                self.rng,
                slopes,
                p.labels[start:stop],
                len(p.head),
                self.order,
                local,
                values,
                slopes,
                True,
            )
            row_weights = p.row_weights[start:stop]
            value += float(row_weights @ values)
            slopes *= row_weights[:, None]
            grad_w[: p.n_classes] += _transposed_product(slopes, h)
            if p.rank is not None:
                grad_w[p.n_classes :] += x.T @ (p.unit * (slopes @ vectors))
            grad_b += slopes.sum(axis=0)
        value -= 0.5 * p.l2 * np.vdot(weights, weights)
        grad_w -= p.l2 * weights
        if not p.fit_intercept:
            grad_b[:] = 0.0
        return value, grad_w, grad_b


def _block(rows: Rows, start: int, stop: int, n_features: int):
    if is_sparse(rows):
        first, last = rows.indptr[start], rows.indptr[stop]
        values = rows.values[first:last].astype(np.float64, copy=False)
        indptr = rows.indptr[start : stop + 1] - first
        shape = (stop - start, n_features)
        return scipy.sparse.csr_array((values, rows.indices[first:last], indptr), shape=shape)
    return rows.values[start:stop].astype(np.float64, copy=False)


def _transposed_product(slopes: np.ndarray, x) -> np.ndarray:
    if scipy.sparse.issparse(x):
        return np.asarray((x.T @ slopes).T)
    return slopes.T @ x


def run_lbfgs(
    problem: Problem,
    bound: Bound,
    noise: Noise,
    solver: LBFGS,
    weights: np.ndarray,
    intercepts: np.ndarray,
    *,
    max_iterations: int,
    tol: float,
    on_compiled: Callable[[float], None],
    on_epoch: Callable[[float, float, np.ndarray, np.ndarray], bool],
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Maximise; returns weights as they were given, intercepts and whether it converged.

    Weights are class-major, or those of training where the rank is low.

    `tol` is the largest gradient of the mean value a row that counts as converged.
    """
    objective = Objective(problem, bound, noise)
    shape = weights.shape
    total = float(problem.row_weights.sum())
    started = time.perf_counter()
    _compile(objective)
    on_compiled(time.perf_counter() - started)

    def split(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return theta[: weights.size].reshape(shape), theta[weights.size :]

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, grad_w, grad_b = objective(*split(theta))
        return -value / total, np.concatenate([grad_w.ravel(), grad_b]) / -total

    clock = [time.perf_counter()]
    stopped = False

    def after_iteration(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        nonlocal stopped
        seconds = time.perf_counter() - clock[0]
        w, b = split(intermediate_result.x)
        ridge = 0.5 * problem.l2 * np.vdot(w, w) / total
        stopped = on_epoch(ridge - intermediate_result.fun, seconds, w, b)  # the bound alone
        clock[0] = time.perf_counter()
        if stopped:
            raise StopIteration

    start = np.concatenate([weights.ravel(), intercepts]).astype(np.float64)
    # Threads cost more than they give in small products, far more where others use the cores.
    small = problem.n_rows * weights.size < SMALL_PRODUCT
    with threadpool_limits(limits=1 if small else None, user_api="blas"):
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
                "gtol": tol,
                "ftol": 0.0,
            },
        )
    best_w, best_b = split(result.x)
    return best_w, best_b, bool(result.success) or stopped


def _compile(objective: Objective) -> None:
    none = np.empty((0, objective.problem.n_classes))
    local, labels = np.empty((0, objective.n_local)), objective.problem.labels[:0]
    full_rows(
        objective.tag,
        objective.rng,
        none,
        labels,
        0,
        objective.order,
        local,
        np.empty(0),
        none,
        True,
    )
