"""When and how the training loop takes the kernels that visit all classes at vector speed."""

from __future__ import annotations

import contextlib
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bigcat._seam import rate
from bigcat._weights import is_sparse
from bigcat.bounds import Bound, Exact
from bigcat.noise import Gumbel, Noise
from bigcat.samplers import Everything, Sampler
from bigcat.solvers._base import Solver
from bigcat.solvers._exact_kernel import train_dense, train_sparse
from bigcat.solvers._kernel import SMALLEST_SCALE, Plan
from bigcat.solvers._state import Problem, State
from bigcat.solvers.sgd import SGD

#: The part of the weights that the ridge may take between two meetings of the threads.
LARGEST_DRIFT = 0.1


def applies(noise: Noise, bound: Bound, sampler: Sampler, solver: Solver) -> bool:
    """Is this the exact softmax with plain steps?"""
    return (
        isinstance(noise, Gumbel)
        and type(bound) is Exact
        and type(sampler) is Everything
        and type(solver) is SGD
    )


def train(
    problem: Problem,
    plan: Plan,
    solver: Any,
    state: State,
    order: np.ndarray,
    first: int,
    last: int,
    scale: float,
    n_threads: int = 1,
) -> tuple[float, float]:
    """Train on rows ``order[first:last]``: the sum of their values, and the weights' new scale.

    Threads share the weights and lock nothing (Niu et al., 2011), each with a part of the rows.
    One thread gives the same bits every time.
    """
    kernel = train_sparse if is_sparse(problem.rows) else train_dense

    def part(cuts: tuple[int, int], n_together: int) -> tuple[float, int, float]:
        return kernel(
            problem.rows,
            problem.labels,
            problem.row_weights,
            order,
            *cuts,
            plan,
            solver,
            state.weights,
            state.intercepts,
            state.iteration,
            state.epoch,
            scale,
            n_together,
        )

    # Products of matrices would otherwise start threads of their own, and round as these split.
    one_thread_each: Any = contextlib.nullcontext()
    if not is_sparse(problem.rows):
        one_thread_each = threadpool_limits(limits=1, user_api="blas")
    with one_thread_each:
        if n_threads == 1 or last - first <= plan.batch_size:
            value, state.iteration, scale = part((first, last), 1)
            return value, scale
        value = 0.0
        with ThreadPoolExecutor(n_threads) as pool:
            while first < last:
                stop = min(last, first + _rows_a_round(plan, solver, state))
                cuts = _cut(first, stop, plan.batch_size, n_threads)
                done = list(pool.map(part, cuts, [len(cuts)] * len(cuts)))
                value += sum(v for v, _, _ in done)
                state.iteration += -(-(stop - first) // plan.batch_size)
                # Each thread has shrunk the weights for all of them: take the mean step.
                scale *= math.prod(s / scale for _, _, s in done) ** (1.0 / len(cuts))
                if scale < SMALLEST_SCALE:
                    state.weights *= state.weights.dtype.type(scale)
                    scale = 1.0
                first = stop
    return value, scale


def _rows_a_round(plan: Plan, solver: Any, state: State) -> int:
    """Rows until the threads must meet, since their ideas of the weights' scale drift apart."""
    step = math.log1p(rate(solver, state.iteration + 1, state.epoch) * plan.shrink)
    most = 1 << 40
    n_steps = most if step == 0.0 else min(LARGEST_DRIFT / step, most)
    return plan.batch_size * max(1, int(n_steps))


def _cut(first: int, last: int, batch_size: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut rows into parts of as many whole batches each; fewer parts where batches are few."""
    n_batches = -(-(last - first) // batch_size)
    n_parts = min(n_parts, n_batches)
    edges = [first + batch_size * (n_batches * part // n_parts) for part in range(n_parts)]
    return list(zip(edges, [*edges[1:], last]))
