"""When and how the training loop takes products of matrices: a batch shares its classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bigcat._weights import is_sparse
from bigcat.samplers import Sampler
from bigcat.solvers._base import Solver
from bigcat.solvers._state import Problem


class Work(NamedTuple):
    """Scratch memory of a thread: the features' gradients, and where a class is in the batch."""

    gradient: np.ndarray
    slot_of: np.ndarray
    touched: np.ndarray
    place_of: np.ndarray


def applies(problem: Problem, sampler: Sampler, solver: Solver, batch_size: int) -> bool:
    """Are there batches of dense vectors, rows or embeddings, that share their classes?"""
    dense = problem.rank is not None or not is_sparse(problem.rows)
    bounded = getattr(solver, "weight_bound", np.inf) < np.inf
    return sampler.shared and dense and batch_size > 1 and not solver.implicit and not bounded


def make_work(problem: Problem, batch_size: int, weights: np.ndarray) -> Work:
    n_slots, n_majors = 0, 0
    if problem.rank is not None:
        n_slots = feature_slots(problem, batch_size)
        n_majors = len(weights)
    return Work(
        gradient=np.zeros((n_slots, weights.shape[1]), weights.dtype),
        slot_of=np.full(n_majors, -1, np.int64),
        touched=np.empty(n_slots, np.int64),
        place_of=np.full(problem.n_classes, -1, np.int64),
    )


def feature_slots(problem: Problem, batch_size: int) -> int:
    """The most features that a batch can touch."""
    if not is_sparse(problem.rows):
        return problem.n_features
    a_row = int(np.diff(problem.rows.indptr).max(initial=1))
    return min(problem.n_features, batch_size * a_row)


def one_thread_each() -> Any:
    """Products would otherwise start threads of their own, and round as these split."""
    return threadpool_limits(limits=1, user_api="blas")
