"""The validation split: rows held out of the training data, once or in folds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.training.data import MAX_ROWS_OF_FOLDS, TrainingData

#: Validation rows: a part of all rows, within these limits.
VALIDATION_PART, MIN_VALIDATION_ROWS, MAX_VALIDATION_ROWS = 0.05, 1_000, 5_000
#: Groups held out at least, if they are a fifth at most: a group is one observation.
MIN_GROUPS = 20
#: Folds of small data, which predict each row once.
N_FOLDS = 5


class Fold(NamedTuple):
    """Training rows and validation rows."""

    kept: np.ndarray
    held_out: np.ndarray


def split(
    data: TrainingData, random_state: np.random.RandomState, fraction: float | None = None
) -> list[Fold]:
    """Hold out random rows, or whole groups, once or in folds.

    Validation rows whose class has no other row are dropped: no fit could know the class.  A list
    without any validation row is empty.  With a `fraction` rows are held out once.
    """
    n = data.n_rows
    unit = np.arange(n) if data.groups is None else data.groups
    unit = np.unique(unit, return_inverse=True)[1]
    order = random_state.permutation(unit.max() + 1)[unit]  # rank of each row's group
    if fraction is None and n <= MAX_ROWS_OF_FOLDS:
        fold_of = order * N_FOLDS // (order.max() + 1)
        held = [fold_of == fold for fold in range(N_FOLDS)]
    else:
        wanted = n_validation_rows(n) if fraction is None else fraction * n
        rows_so_far = np.cumsum(np.bincount(order))
        n_units = len(rows_so_far)
        n_held = int(np.searchsorted(rows_so_far, wanted)) + 1
        n_held = max(n_held, min(MIN_GROUPS, n_units // 5))
        held = [order < min(n_held, n_units - 1)]
    folds = []
    for is_held in held:
        kept = np.flatnonzero(~is_held)
        known = np.zeros(data.labels.max() + 1, bool)
        known[data.labels[kept]] = True
        held_out = np.flatnonzero(is_held & known[data.labels])
        if len(held_out) and known.sum() > 1:
            folds.append(Fold(kept, held_out))
    return folds


def split_off_end(data: TrainingData, n_held: int) -> list[Fold]:
    """Hold out the last rows, of data that lie in random order in files."""
    first = max(data.n_rows - n_held, 0)
    known = np.isin(data.labels[first:], data.labels[:first])
    held_out = first + np.flatnonzero(known)
    return [Fold(np.arange(first), held_out)] if len(held_out) else []


def n_validation_rows(n: int) -> int:
    """Return how many of n rows are held out at once."""
    return int(np.clip(VALIDATION_PART * n, MIN_VALIDATION_ROWS, MAX_VALIDATION_ROWS))
