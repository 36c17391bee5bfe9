"""Rows that are scored twice: by an embedding, and by weights of single pairs.

A pair is a class and a feature that occur together in some training row.  Pairs are kept by
feature, their classes ascending.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, implement
from bigcat.rows.forms import DenseRows, SparseRows
from bigcat.verbs import block_shape, row_count, score_block, scores


class PairedRows(NamedTuple):
    """Rows as they meet class vectors, and as they meet pairs."""

    embedded: DenseRows
    rows: SparseRows
    offsets: np.ndarray  # (n_features + 1,): where a feature's pairs begin
    classes: np.ndarray  # of the pairs
    pair_weights: np.ndarray


@device
def first_pair(classes, begin, end, least):
    """The first pair of begin..end whose class is at least `least`; `end` where there is none."""
    while begin < end:
        middle = (begin + end) // 2
        if classes[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


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
