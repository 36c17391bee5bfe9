"""When and how the training loop takes products of matrices: batches that share their classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from bigcat.rows import Problem, is_sparse
from bigcat.samplers import Sampler
from bigcat.solvers._base import Solver


class Work(NamedTuple):
    """Scratch memory of a thread: a batch's entries by feature, and where a class is in it."""

    back: np.ndarray  # gradients of the rows' embeddings
    gradient: np.ndarray  # of one feature's vector
    slot_of: np.ndarray  # of a feature, -1 between batches
    features: np.ndarray
    ends: np.ndarray
    members: np.ndarray
    values: np.ndarray
    place_of: np.ndarray  # of a class, -1 between batches


def applies(dense: bool, sampler: Sampler, solver: Solver, batch_size: int) -> bool:
    """Are there batches of `dense` vectors, rows or embeddings, that share their classes?"""
    bounded = getattr(solver, "weight_bound", np.inf) < np.inf
    return sampler.shared and dense and batch_size > 1 and not solver.implicit and not bounded


def make_work(problem: Problem, batch_size: int, weights: np.ndarray) -> Work:
    embeds, rows = problem.rank is not None, problem.rows
    n_entries = 0
    if embeds and is_sparse(rows):
        a_row = int(np.diff(rows.indptr).max(initial=1))
        n_entries = min(batch_size * a_row, max(len(rows.values), 1))
    n_features = problem.n_features if n_entries else 0
    n_touched = min(n_features, n_entries)
    return Work(
        back=np.empty((batch_size if embeds else 0, weights.shape[1]), weights.dtype),
        gradient=np.empty(weights.shape[1], weights.dtype),
        slot_of=np.full(n_features, -1, np.int32),
        features=np.empty(n_touched, np.int32),
        ends=np.empty(n_touched, np.int64),
        members=np.empty(n_entries, np.int32),
        values=np.empty(n_entries, weights.dtype),
        place_of=np.full(problem.n_classes, -1, np.int32),
    )


def entry_numbers(n_features: int, n_entries: int) -> int:
    """Numbers that the entries of a batch of sparse rows need, where features have vectors."""
    return n_features + 3 * min(n_features, n_entries) + 2 * n_entries


def work_numbers(batch_size: int, n_drawn: int, width: int) -> int:
    """Numbers that a batch needs for its rows, its classes and their scores."""
    n_classes = n_drawn + batch_size
    return batch_size * (n_classes + 2 * width) + 2 * n_classes * width


def one_thread_each() -> Any:
    """Products would otherwise start threads of their own, and round as these split."""
    return threadpool_limits(limits=1, user_api="blas")
