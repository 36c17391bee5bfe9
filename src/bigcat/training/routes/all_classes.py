"""When and how the training loop takes the kernels that visit all classes at vector speed."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bigcat.bounds import Bound, Exact
from bigcat.kernels.train_all_classes import train_dense, train_sparse
from bigcat.kernels.train_rows import Plan
from bigcat.noise import Gumbel, Noise
from bigcat.rows import Problem, is_sparse
from bigcat.samplers import Everything, Sampler
from bigcat.solvers._base import Solver
from bigcat.solvers.damped import Damped
from bigcat.solvers.sgd import SGD
from bigcat.training.state import State
from bigcat.training.threads import train_together


def applies(noise: Noise, bound: Bound, sampler: Sampler, solver: Solver) -> bool:
    """Is this the exact softmax with plain steps?"""
    return (
        isinstance(noise, Gumbel)
        and type(bound) is Exact
        and type(sampler) is Everything
        and type(solver) in (SGD, Damped)
    )


def train(
    problem: Problem,
    plan: Plan,
    solver: Any,
    state: State,
    order: np.ndarray,
    norms: np.ndarray,
    first: int,
    last: int,
    scale: float,
    n_threads: int = 1,
) -> tuple[float, float]:
    """Train on rows ``order[first:last]``: the sum of their values, and the weights' new scale."""
    kernel = train_sparse if is_sparse(problem.rows) else train_dense

    def part(thread: int, first: int, last: int, scale: float, n_together: int):
        return kernel(
            problem.rows,
            problem.labels,
            problem.row_weights,
            order,
            first,
            last,
            plan,
            solver,
            state.weights,
            state.intercepts,
            norms,
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
        return train_together(part, first, last, scale, n_threads, plan, solver, state)
