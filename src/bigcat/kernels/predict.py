"""Softmax predictions without an (n, K) array: scores, normalisers and best classes.

Work proceeds by groups of rows and blocks of classes. Sparse rows form groups of one; dense rows
are multiplied in groups for fast products of matrices. All computations use the precision of the
intercepts; weights may be less precise, so that no full copy is needed.
"""

from __future__ import annotations

import math

import numpy as np

from bigcat.compile import device, implement, kernel, maximum
from bigcat.numerics.softmax import CLASS_BLOCK, NO_SCORE, exponentiate, fill, finish, join
from bigcat.rows import DenseRows, SparseRows
from bigcat.verbs import block_shape, row_count, score_block

#: Dense rows per product.
DENSE_ROWS = 64
#: Scores compared at a time with the lowest of the best.
_SCAN_SCORES = 64


@implement(row_count, SparseRows)
def _(rows):
    return rows.indptr.shape[0] - 1


@implement(row_count, DenseRows)
def _(rows):
    return rows.values.shape[0]


@implement(block_shape, SparseRows)
def _(rows, n_classes, n_features):
    return 1, min(CLASS_BLOCK, n_classes)


@implement(block_shape, DenseRows)
def _(rows, n_classes, n_features):
    return DENSE_ROWS, min(max((1 << 17) // n_features, 64), n_classes, CLASS_BLOCK)


# The k best form a heap with the worst in front; of equal scores the later class is worse.


@device
def _is_worse(values, classes, a, b):
    return values[a] < values[b] or (values[a] == values[b] and classes[a] > classes[b])


@device
def _sink(values, classes, place, size):
    """Sink the entry at `place` until nothing below it is worse."""
    while True:
        child = 2 * place + 1
        if child >= size:
            return
        if child + 1 < size and _is_worse(values, classes, child + 1, child):
            child += 1
        if not _is_worse(values, classes, child, place):
            return
        values[place], values[child] = values[child], values[place]
        classes[place], classes[child] = classes[child], classes[place]
        place = child


@device
def _offer(scores, start, values, classes):
    """Update the heap of the best with scores of the classes from `start`."""
    n, size = scores.shape[0], values.shape[0]
    for first in range(0, n, _SCAN_SCORES):
        last = min(first + _SCAN_SCORES, n)
        high = scores[first]
        for k in range(first, last):
            high = maximum(high, scores[k])
        if high > values[0]:
            for k in range(first, last):
                if scores[k] > values[0]:
                    values[0], classes[0] = scores[k], start + k
                    _sink(values, classes, 0, size)


@device
def _sort(values, classes):
    """Turn a heap into a list, the best first."""
    for size in range(values.shape[0] - 1, 0, -1):
        values[0], values[size] = values[size], values[0]
        classes[0], classes[size] = classes[size], classes[0]
        _sink(values, classes, 0, size)


@kernel
def best_classes(rows, weights, intercepts, want_log, classes, values):
    """Fill (n, k) `classes` and `values`, best first: scores or, if wanted, log-probabilities."""
    n_rows, n_classes = row_count(rows), intercepts.shape[0]
    group, width = block_shape(rows, n_classes, weights.size // n_classes)
    buffer = np.empty(group * width, intercepts.dtype)
    highs, totals = np.empty(group), np.empty(group)
    for r in range(n_rows):  # empty places, worse than every class
        fill(classes[r], n_classes)
        fill(values[r], -math.inf)
    for first in range(0, n_rows, group):
        n = min(group, n_rows - first)
        fill(highs, NO_SCORE)
        fill(totals, 0.0)
        for start in range(0, n_classes, width):
            m = min(width, n_classes - start)
            scores = buffer[: n * m].reshape(n, m)
            score_block(rows, first, weights, intercepts, start, scores)
            for r in range(n):
                _offer(scores[r], start, values[first + r], classes[first + r])
                if want_log:
                    high, total = exponentiate(scores[r])
                    highs[r], totals[r] = join(highs[r], totals[r], high, total)
        for r in range(n):
            _sort(values[first + r], classes[first + r])
            normaliser = highs[r] + math.log(totals[r]) if want_log else 0.0
            for c in range(values.shape[1]):
                values[first + r, c] = values[first + r, c] - normaliser
                # Scores that are NaN leave places empty.
                classes[first + r, c] = min(classes[first + r, c], n_classes - 1)


@kernel
def log_probs_of_labels(rows, weights, intercepts, labels, out):
    """Write the log-probability of one class per row, accurate even near 0."""
    n_rows, n_classes = row_count(rows), intercepts.shape[0]
    group, width = block_shape(rows, n_classes, weights.size // n_classes)
    buffer = np.empty(group * width, intercepts.dtype)
    highs, totals, label_scores = np.empty(group), np.empty(group), np.empty(group)
    for first in range(0, n_rows, group):
        n = min(group, n_rows - first)
        fill(highs, NO_SCORE)
        fill(totals, 0.0)
        for start in range(0, n_classes, width):
            m = min(width, n_classes - start)
            scores = buffer[: n * m].reshape(n, m)
            score_block(rows, first, weights, intercepts, start, scores)
            for r in range(n):
                y = labels[first + r] - start
                if 0 <= y < m:
                    label_scores[r] = scores[r, y]
                    scores[r, y] = NO_SCORE
                high, total = exponentiate(scores[r])
                highs[r], totals[r] = join(highs[r], totals[r], high, total)
        for r in range(n):
            out[first + r] = finish(label_scores[r], highs[r], totals[r])[0]


@kernel
def log_probs(rows, weights, intercepts, out):
    """Write the log-probabilities of all classes for each row."""
    n_rows, n_classes = row_count(rows), intercepts.shape[0]
    group, width = block_shape(rows, n_classes, weights.size // n_classes)
    buffer = np.empty(group * width, intercepts.dtype)
    highs, totals = np.empty(group), np.empty(group)
    for first in range(0, n_rows, group):
        n = min(group, n_rows - first)
        fill(highs, NO_SCORE)
        fill(totals, 0.0)
        for start in range(0, n_classes, width):
            m = min(width, n_classes - start)
            scores = buffer[: n * m].reshape(n, m)
            score_block(rows, first, weights, intercepts, start, scores)
            out[first : first + n, start : start + m] = scores
            for r in range(n):
                high, total = exponentiate(scores[r])
                highs[r], totals[r] = join(highs[r], totals[r], high, total)
        for r in range(n):
            # The highest is subtracted first: the remainder is small and keeps its digits.
            high = intercepts.dtype.type(highs[r])
            log_total = intercepts.dtype.type(math.log(totals[r]))
            row = out[first + r]
            for k in range(n_classes):
                row[k] = (row[k] - high) - log_total
