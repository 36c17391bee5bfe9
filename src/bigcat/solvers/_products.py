"""When and how the training loop takes products of matrices: batches that share their classes."""

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


def applies(dense: bool, sampler: Sampler, solver: Solver, batch_size: int) -> bool:
    """Are there batches of `dense` vectors, rows or embeddings, that share their classes?"""
    bounded = getattr(solver, "weight_bound", np.inf) < np.inf
    return sampler.shared and dense and batch_size > 1 and not solver.implicit and not bounded


def make_work(problem: Problem, batch_size: int, weights: np.ndarray) -> Work:
    n_slots = feature_slots(problem, batch_size)
    n_majors = len(weights) if n_slots else 0
    return Work(
        gradient=np.zeros((n_slots, weights.shape[1]), weights.dtype),
        slot_of=np.full(n_majors, -1, np.int32),
        touched=np.empty(n_slots, np.int64),
        place_of=np.full(problem.n_classes, -1, np.int32),
    )


def feature_slots(problem: Problem, batch_size: int) -> int:
    """The most features that a batch of sparse rows can touch, where they have vectors."""
    if problem.rank is None or not is_sparse(problem.rows):
        return 0
    a_row = int(np.diff(problem.rows.indptr).max(initial=1))
    return min(problem.n_features, batch_size * a_row)


def work_numbers(batch_size: int, n_drawn: int, width: int) -> int:
    """Numbers that a batch needs for its rows, its classes and their scores."""
    n_classes = n_drawn + batch_size
    return batch_size * (n_classes + 2 * width) + 2 * n_classes * width


def one_thread_each() -> Any:
    """Products would otherwise start threads of their own, and round as these split."""
    return threadpool_limits(limits=1, user_api="blas")
