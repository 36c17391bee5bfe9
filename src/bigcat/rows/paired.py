"""Rows scored by an embedding plus weights of single pairs.

A pair is a class and a feature that occur together in some training row. Pairs are stored by
feature, with ascending classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, implement
from bigcat.rows.forms import DenseRows, SparseRows, read_only
from bigcat.verbs import (
    accumulate,
    batch_coordinates,
    block_shape,
    move,
    prefetch_row,
    row_count,
    score_block,
    scores,
    update,
    update_touched,
)


class PairedRows(NamedTuple):
    """Rows in the form that meets class vectors, and in the form that meets pairs."""

    embedded: DenseRows
    rows: SparseRows
    offsets: np.ndarray  # (n_features + 1,): where a feature's pairs begin
    classes: np.ndarray  # of the pairs
    pair_weights: np.ndarray


@device
def first_pair(classes, begin, end, least):
    """Return the first pair of begin..end with a class of at least `least`; `end` if none has."""
    n = end - begin
    if n <= 0:
        return end
    while n > 1:  # without a branch that the processor would have to guess
        half = n >> 1
        begin += half if classes[begin + half - 1] < least else 0
        n -= half
    return begin + (1 if classes[begin] < least else 0)


@implement(row_count, PairedRows)
def _(rows):
    return row_count(rows.embedded)


@implement(block_shape, PairedRows)
def _(rows, n_classes, n_features):
    return block_shape(rows.embedded, n_classes, n_features)


@implement(score_block, PairedRows)
def _(rows, first, weights, intercepts, start, out):
    score_block(rows.embedded, first, weights, intercepts, start, out)
    n_rows, n = out.shape
    sparse = rows.rows
    for r in range(n_rows):
        for p in range(sparse.indptr[first + r], sparse.indptr[first + r + 1]):
            feature, x = sparse.indices[p], sparse.values[p]
            end = rows.offsets[feature + 1]
            j = first_pair(rows.classes, rows.offsets[feature], end, start)
            while j < end and rows.classes[j] < start + n:
                out[r, rows.classes[j] - start] += x * rows.pair_weights[j]
                j += 1


@implement(scores, PairedRows)
def _(rows, i, weights, scale, intercepts, classes, n, out):
    scores(rows.embedded, i, weights, scale, intercepts, classes, n, out)
    sparse = rows.rows
    for p in range(sparse.indptr[i], sparse.indptr[i + 1]):
        feature, x = sparse.indices[p], sparse.values[p]
        begin, end = rows.offsets[feature], rows.offsets[feature + 1]
        for c in range(n):
            j = first_pair(rows.classes, begin, end, classes[c])
            if j < end and rows.classes[j] == classes[c]:
                out[c] += x * rows.pair_weights[j]


class TrainedPairRows(NamedTuple):
    """Sparse rows with weights of pairs only, in one array (1, n_pairs).

    Pairs found by `scores` are kept for the `update` of the same row.
    """

    rows: SparseRows
    offsets: np.ndarray
    classes: np.ndarray
    slot_of: np.ndarray  # of a class among those of the row, -1 between rows
    ends: np.ndarray  # of each value of the row, where its pairs end among those found
    pairs: np.ndarray  # found: the pair
    slots: np.ndarray  # and its class's slot


#: Pairs of a feature per class up to which all are scanned instead of searched.
MAX_SCANNED_PAIRS = 8


def trained_pairs(
    rows: SparseRows, offsets: np.ndarray, classes: np.ndarray, n_classes: int, n_found: int
) -> TrainedPairRows:
    """Wrap rows for training, with room for `n_found` pairs per row."""
    most = int(np.diff(rows.indptr).max(initial=1))
    return TrainedPairRows(
        rows,
        read_only(offsets),
        read_only(classes),
        np.full(n_classes, -1, np.int32),
        np.empty(most, np.int64),
        np.empty(n_found, np.int64),
        np.empty(n_found, np.int32),
    )


@implement(scores, TrainedPairRows)
def _(rows, i, weights, scale, intercepts, classes, n, out):
    sparse, w, slot_of = rows.rows, weights[0], rows.slot_of
    for c in range(n):
        out[c] = intercepts[classes[c]]
        slot_of[classes[c]] = c
    found, first = 0, sparse.indptr[i]
    for p in range(first, sparse.indptr[i + 1]):
        feature, x = sparse.indices[p], weights.dtype.type(scale) * sparse.values[p]
        begin, end = rows.offsets[feature], rows.offsets[feature + 1]
        if end - begin <= MAX_SCANNED_PAIRS * n:
            for j in range(begin, end):
                c = slot_of[rows.classes[j]]
                if c >= 0:
                    out[c] += x * w[j]
                    rows.pairs[found], rows.slots[found] = j, c
                    found += 1
        else:
            for c in range(n):
                j = first_pair(rows.classes, begin, end, classes[c])
                if j < end and rows.classes[j] == classes[c]:
                    out[c] += x * w[j]
                    rows.pairs[found], rows.slots[found] = j, c
                    found += 1
        rows.ends[p - first] = found
    for c in range(n):
        slot_of[classes[c]] = -1


@implement(update, TrainedPairRows)
def _(rows, i, weights, state, classes, grads, n, solver, rate):
    sparse, w, s = rows.rows, weights[0], state[0]
    found, first = 0, sparse.indptr[i]
    for p in range(first, sparse.indptr[i + 1]):
        x = sparse.values[p]
        for at in range(found, rows.ends[p - first]):
            move(solver, rate, w, s, rows.pairs[at], grads[rows.slots[at]] * x)
        found = rows.ends[p - first]


@implement(prefetch_row, TrainedPairRows)
def _(rows, i, weights, classes, n):
    pass  # followed by a search, whose accesses are unknown


# `CoOccurringPairs.check_solver` admits only solvers that move row by row: no gradient of a
# batch is ever summed.


@implement(accumulate, TrainedPairRows)
def _(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    pass


@implement(batch_coordinates, TrainedPairRows)
def _(rows, order, start, stop, n_per_row):
    return 0


@implement(update_touched, TrainedPairRows)
def _(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    pass
