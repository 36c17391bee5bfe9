"""Low-rank scores: rows are embedded before they meet the classes.

A score is ``v_k . h + b_k`` with ``h = x U``. Class vectors v_k and feature vectors u_j are the
majors of one array, *vectors* (n_classes + n_features, rank), classes first. So all code that
iterates over weights (averages, ridge, solver state, batch gradients) serves both, and only these
verbs distinguish them.

Both factors carry the lazy scale of the weights: scores are ``scale^2 v_k . (x U) + b_k``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, implement, prefetch
from bigcat.rows.forms import DenseRows, Rows, SparseRows, slot
from bigcat.rows.problem import Problem
from bigcat.verbs import (
    accumulate,
    accumulate_features,
    batch_coordinates,
    embed,
    move_features,
    move_vector,
    prefetch_features,
    prefetch_row,
    score_squared_norm,
    scores,
    update,
    update_touched,
)


class EmbeddedRows(NamedTuple):
    """Rows with the number of classes and scratch space for an embedding and its gradient.

    Features are multiplied by `unit`, so that rows have a length of about 1 and one step size suits
    both kinds of vectors. `hidden` is ``scale unit x U`` of the row last passed to `scores`, its
    last entry the scale; `back` is the gradient of ``x U``.
    """

    rows: Rows
    n_classes: int
    unit: float
    hidden: np.ndarray  # (rank + 1,)
    back: np.ndarray  # (rank,)


def embedded(problem: Problem, rank: int) -> EmbeddedRows:
    """Wrap the rows of a problem for one thread."""
    dtype = problem.rows.values.dtype
    # Padding of more than a cache line: threads must not share any.
    hidden, back = np.zeros(rank + 33, dtype)[: rank + 1], np.zeros(rank + 32, dtype)[:rank]
    return EmbeddedRows(problem.rows, problem.n_classes, problem.unit, hidden, back)


@implement(embed, SparseRows)
def _(rows, i, vectors, first, factor, out):
    rank = vectors.shape[1]
    for j in range(rank):
        out[j] = 0.0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        u, x = vectors[first + rows.indices[p]], factor * rows.values[p]
        for j in range(rank):
            out[j] += x * u[j]


@implement(embed, DenseRows)
def _(rows, i, vectors, first, factor, out):
    rank = vectors.shape[1]
    for j in range(rank):
        out[j] = 0.0
    for feature in range(rows.values.shape[1]):
        x = factor * rows.values[i, feature]
        if x != 0.0:
            u = vectors[first + feature]
            for j in range(rank):
                out[j] += x * u[j]


@implement(scores, EmbeddedRows)
def _(rows, i, weights, scale, intercepts, classes, n, out):
    hidden, rank = rows.hidden, weights.shape[1]
    factor = weights.dtype.type(scale * rows.unit)
    embed(rows.rows, i, weights, rows.n_classes, factor, hidden)
    hidden[rank] = scale
    for c in range(n):
        v = weights[classes[c]]
        total = weights.dtype.type(0.0)
        for j in range(rank):
            total += hidden[j] * v[j]
        out[c] = intercepts[classes[c]] + scale * total


@implement(score_squared_norm, EmbeddedRows)
def _(rows, i, weights, label, squared_norm):
    # The gradient of the label's score with respect to its class vector and to feature vectors.
    hidden, rank, v = rows.hidden, weights.shape[1], weights[label]
    by_class, by_features = 0.0, 0.0
    for j in range(rank):
        by_class += hidden[j] * hidden[j]
        by_features += v[j] * v[j]
    factor = rows.unit * hidden[rank]
    return by_class + squared_norm * factor * factor * by_features


@implement(prefetch_row, EmbeddedRows)
def _(rows, i, weights, classes, n):
    rank, line = weights.shape[1], 64 // weights.itemsize
    for c in range(n):
        for j in range(0, min(rank, 4 * line), line):
            prefetch(weights, classes[c] * rank + j)
    prefetch_features(rows.rows, i, weights, rows.n_classes)


@implement(prefetch_features, SparseRows)
def _(rows, i, vectors, first):
    rank, line = vectors.shape[1], 64 // vectors.itemsize
    start = rows.indptr[i]
    for p in range(start, min(rows.indptr[i + 1], start + 16)):
        for j in range(0, min(rank, 4 * line), line):
            prefetch(vectors, (first + rows.indices[p]) * rank + j)


@implement(prefetch_features, DenseRows)
def _(rows, i, vectors, first):
    width = rows.values.shape[1]
    for j in range(0, min(width, 128), 16):
        prefetch(rows.values, i * width + j)


@device
def _gradient_of_embedding(rows, weights, classes, grads, n):
    """Set ``rows.back`` to scale unit sum of grad_c v_c."""
    back, rank = rows.back, weights.shape[1]
    factor = weights.dtype.type(rows.unit * rows.hidden[rank])
    for j in range(rank):
        back[j] = 0.0
    for c in range(n):
        v, grad = weights[classes[c]], factor * grads[c]
        if grad != 0.0:
            for j in range(rank):
                back[j] += grad * v[j]


@implement(move_features, SparseRows)
def _(rows, i, vectors, state, first, back, solver, rate):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        major = first + rows.indices[p]
        move_vector(solver, rate, vectors[major], state[major], rows.values[p], back)


@implement(move_features, DenseRows)
def _(rows, i, vectors, state, first, back, solver, rate):
    for feature in range(rows.values.shape[1]):
        major, x = first + feature, rows.values[i, feature]
        if x != 0.0:
            move_vector(solver, rate, vectors[major], state[major], x, back)


@implement(update, EmbeddedRows)
def _(rows, i, weights, state, classes, grads, n, solver, rate):
    # For the row last passed to `scores`; classes move after their vectors were used.
    _gradient_of_embedding(rows, weights, classes, grads, n)
    for c in range(n):
        k = classes[c]
        if grads[c] != 0.0:
            move_vector(solver, rate, weights[k], state[k], grads[c], rows.hidden)
    move_features(rows.rows, i, weights, state, rows.n_classes, rows.back, solver, rate)


@implement(accumulate_features, SparseRows)
def _(rows, i, first, back, gradient, slot_of, touched, n_touched):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        g = gradient[slot(first + rows.indices[p], slot_of, touched, n_touched)]
        x = rows.values[p]
        for j in range(back.shape[0]):
            g[j] += x * back[j]


@implement(accumulate_features, DenseRows)
def _(rows, i, first, back, gradient, slot_of, touched, n_touched):
    for feature in range(rows.values.shape[1]):
        x = rows.values[i, feature]
        if x != 0.0:
            g = gradient[slot(first + feature, slot_of, touched, n_touched)]
            for j in range(back.shape[0]):
                g[j] += x * back[j]


@implement(accumulate, EmbeddedRows)
def _(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    _gradient_of_embedding(rows, weights, classes, grads, n)
    for c in range(n):
        g, grad = gradient[slot(classes[c], slot_of, touched, n_touched)], grads[c]
        if grad != 0.0:
            for j in range(weights.shape[1]):
                g[j] += grad * rows.hidden[j]
    accumulate_features(
        rows.rows, i, rows.n_classes, rows.back, gradient, slot_of, touched, n_touched
    )


# A batch touches whole vectors, so its slots are scanned without look-ups.


@implement(batch_coordinates, EmbeddedRows)
def _(rows, order, start, stop, n_per_row):
    return np.iinfo(np.int64).max // 8


@implement(update_touched, EmbeddedRows)
def _(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    pass
