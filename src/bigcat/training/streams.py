"""Fits to rows that are mapped to files, in random order, and need not fit into memory.

Kernels take arrays that are mapped to files as any others.  What is left to do is to visit rows
that lie together, window after window, and to leave out what would copy all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse

from bigcat.samplers import Stratified
from bigcat.training.recipe import Recipe
from bigcat.training.sample import MOST_COPIES, Sample, row_factors, row_sums

#: Runs of rows that make a window: taken from all over the rows, anew in each epoch.
RUNS = 8
#: Values that are looked at together.
BLOCK_VALUES = 1 << 17


def in_windows(n: int, window: int, random_state: np.random.RandomState) -> np.ndarray:
    """The numbers below `n` in an order whose next `window` numbers lie in a few runs.

    The runs are drawn anew, and cut elsewhere, each time.
    """
    run = max(1, window // RUNS)
    first = random_state.randint(1, run + 1)
    starts = np.concatenate([[0], np.arange(first, n, run)])
    ends = np.append(starts[1:], n)
    order = np.concatenate(
        [np.arange(starts[i], ends[i]) for i in random_state.permutation(len(starts))]
    )
    for begin in range(0, n, window):
        random_state.shuffle(order[begin : begin + window])
    return order


def hold_out_last(
    sample: Sample, n_classes: int, n_held: int, remedy: str
) -> tuple[Sample, Sample]:
    """All rows, those that are held out with weight 0, and these: some of the last ones.

    The rows are in random order, so the last are as good as any, and no others have to be copied.
    As in `hold_out`, no class loses all its rows, and no copy of a row is on both sides.
    """
    n = sample.n_rows
    first = max(n - n_held, 0)
    left = np.bincount(sample.labels[:first], minlength=n_classes)
    can_be_held = (left[sample.labels[first:]] > 0) & ~_has_copies_before(sample, first)
    held = first + np.flatnonzero(can_be_held)
    if not len(held):
        raise ValueError(
            f"no validation row has a class that is left in the training rows; {remedy}"
        )
    weights = sample.row_weights.copy()
    weights[held] = 0.0
    return sample._replace(row_weights=weights), sample.take(held)


def _has_copies_before(sample: Sample, first: int) -> np.ndarray:
    """Of the rows from `first` on, which have a copy among those before (`kinds_of_rows`)?"""
    X, labels = sample.X, sample.labels
    factors = row_factors(X.shape[1])
    values, kind = np.unique(row_sums(X[first:], factors), return_inverse=True)
    n_equal, n_before = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    label = np.full(len(values), -1)
    label[kind] = labels[first:]
    one_label = np.ones(len(values), bool)
    per_row = X.nnz / X.shape[0] if scipy.sparse.issparse(X) else X.shape[1]
    step = max(1, int(BLOCK_VALUES / max(per_row, 1)))
    for start in range(0, sample.n_rows, step):
        rows = slice(start, min(start + step, sample.n_rows))
        sums = row_sums(X[rows], factors)
        place = np.minimum(np.searchsorted(values, sums), len(values) - 1)
        equal = np.flatnonzero(values[place] == sums)
        n_equal += np.bincount(place[equal], minlength=len(values))
        before = equal[start + equal < first]
        n_before += np.bincount(place[before], minlength=len(values))
        one_label[place[equal[labels[rows][equal] != label[place[equal]]]]] = False
    are_copies = one_label & (n_equal <= MOST_COPIES) & (n_before > 0)
    return np.asarray(are_copies[kind])


def for_streams(recipe: Recipe, window: int, chosen: bool) -> Recipe:
    """The recipe without what would hold all rows in memory; `chosen` by us, not by the user."""
    if not recipe.parts.solver.stochastic:
        name = recipe.parts.solver.name
        raise ValueError(
            f"solver={name!r} needs all rows in every step, and these are more than window_bytes; "
            "take solver='auto', or open the folder with as large a window as the rows"
        )
    left_out = [
        what
        for what, is_asked in {
            "scaled columns": recipe.scales_columns,
            "weights of pairs": recipe.with_pairs,
            "other fits beside": bool(recipe.beside),
            "an exact fit": bool(recipe.exact_fits),
            "a search for near copies": recipe.splits_rows,
        }.items()
        if is_asked
    ]
    parts = recipe.parts
    if chosen and parts.sampler.name == "co-occurrence":
        parts = replace(parts, sampler=Stratified.with_draws(parts.sampler.n_drawn or 1))
        left_out.append("tables of features and classes")
    recipe = replace(
        recipe,
        parts=parts,
        window=window,
        scales_columns=False,
        with_pairs=False,
        beside=(),
        otherwise=None,
        exactly=None,
    )
    if recipe.choice is None:
        return recipe
    reason = f"{recipe.choice['reason']}; rows come from files, {window:,} at a time"
    if left_out:
        reason += f", which leaves out what needs all of them: {', '.join(left_out)}"
    return recipe.noting(reason=reason, sampler=parts.sampler.name, window=window)
