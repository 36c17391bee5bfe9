"""Dense and sparse rows, and the memory layout of the weights that goes with each.

Dense rows go with *class-major* weights (n_classes, n_features): the weights of a class are one
contiguous run, as long as the row. Sparse rows go with *feature-major* weights (n_features,
n_classes): the weights of a non-zero for all classes are one contiguous run, so the few classes of
a step share pages, and a pass over all classes runs at vector speed. The first axis of the weights
is called *major*, the second *minor*.

Kernels access rows through the verbs below, with one implementation per format.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from bigcat.compile import device, implement, prefetch
from bigcat.verbs import (
    accumulate,
    at,
    batch_coordinates,
    each_coordinate,
    move,
    move_vector,
    prefetch_row,
    scores,
    update,
    update_touched,
)


class DenseRows(NamedTuple):
    """Rows of a C-ordered array; weights are class-major."""

    values: np.ndarray


class SparseRows(NamedTuple):
    """Rows in CSR form, without duplicate indices per row; weights are feature-major."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray


Rows = DenseRows | SparseRows


def as_rows(X: Any, dtype: DTypeLike) -> Rows:
    """Wrap checked input (C-ordered array or canonical CSR) for the kernels.

    Wrapped rows are returned unchanged. Each difference of types would compile all kernels again:
    so views are always read-only, as of memory-mapped input, and indices have 32 bits if these
    suffice.
    """
    if isinstance(X, tuple):
        return X  # type: ignore[return-value]  # of whatever form
    if scipy.sparse.issparse(X):
        data = X.data.astype(dtype, copy=False)
        index = np.int32 if max(X.nnz, X.shape[1]) <= np.iinfo(np.int32).max else np.int64
        indptr, indices = (part.astype(index, copy=False) for part in (X.indptr, X.indices))
        return SparseRows(read_only(indptr), read_only(indices), read_only(data))
    return DenseRows(read_only(np.ascontiguousarray(X, dtype=dtype)))


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view, which is a type of its own for numba."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def is_sparse(rows: Rows) -> TypeGuard[SparseRows]:
    """Return True for sparse rows."""
    return isinstance(rows, SparseRows)


@implement(scores, DenseRows)
def _(rows, i, weights, scale, intercepts, classes, n, out):
    x = rows.values[i]
    for c in range(n):
        w = weights[classes[c]]
        total = weights.dtype.type(0.0)
        for j in range(x.shape[0]):
            total += x[j] * w[j]
        out[c] = intercepts[classes[c]] + scale * total


@implement(scores, SparseRows)
def _(rows, i, weights, scale, intercepts, classes, n, out):
    for c in range(n):
        out[c] = intercepts[classes[c]]
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        w = weights[rows.indices[p]]
        x = weights.dtype.type(scale) * rows.values[p]
        for c in range(n):
            out[c] += x * w[classes[c]]


@implement(prefetch_row, DenseRows)
def _(rows, i, weights, classes, n):
    width = weights.shape[1]
    line = 64 // weights.itemsize
    # Hardware prefetching follows a run once it has begun; only the first lines cause waiting.
    for j in range(0, min(width, 8 * line), line):
        prefetch(rows.values, i * width + j)
    for c in range(n):
        for j in range(0, min(width, 4 * line), line):
            prefetch(weights, classes[c] * width + j)


@implement(prefetch_row, SparseRows)
def _(rows, i, weights, classes, n):
    pass  # single weights far apart: processors look that far ahead themselves


@implement(update, DenseRows)
def _(rows, i, weights, state, classes, grads, n, solver, rate):
    x = rows.values[i]
    for c in range(n):
        w, s, grad = weights[classes[c]], state[classes[c]], grads[c]
        if grad != 0.0:
            for j in range(x.shape[0]):
                move(solver, rate, w, s, j, grad * x[j])


@implement(update, SparseRows)
def _(rows, i, weights, state, classes, grads, n, solver, rate):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        w, s, x = weights[rows.indices[p]], state[rows.indices[p]], rows.values[p]
        for c in range(n):
            move(solver, rate, w, s, classes[c], grads[c] * x)


# Gradient of a mini-batch, for solvers that are not linear in it: one row ("slot") for each major
# coordinate that the batch touches, whatever the size of the weights.


@device
def slot(major, slot_of, touched, n_touched):
    """Return the slot of a major coordinate, a new one on its first appearance in the batch."""
    place = slot_of[major]
    if place < 0:
        place = n_touched[0]
        slot_of[major] = place
        touched[place] = major
        n_touched[0] += 1
    return place


@implement(accumulate, DenseRows)
def _(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    x = rows.values[i]
    for c in range(n):
        g, grad = gradient[slot(classes[c], slot_of, touched, n_touched)], grads[c]
        if grad != 0.0:
            for j in range(x.shape[0]):
                g[j] += grad * x[j]


@implement(accumulate, SparseRows)
def _(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        g, x = gradient[slot(rows.indices[p], slot_of, touched, n_touched)], rows.values[p]
        for c in range(n):
            g[classes[c]] += grads[c] * x


@implement(batch_coordinates, DenseRows)
def _(rows, order, start, stop, n_per_row):
    return (stop - start) * n_per_row * rows.values.shape[1]


@implement(batch_coordinates, SparseRows)
def _(rows, order, start, stop, n_per_row):
    total = 0
    for r in range(start, stop):
        total += rows.indptr[order[r] + 1] - rows.indptr[order[r]]
    return total * n_per_row


@implement(update_touched, DenseRows)
def _(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    for c in range(n):
        g = gradient[slot_of[classes[c]]]
        w, s = weights[classes[c]], state[classes[c]]
        for j in range(g.shape[0]):
            if g[j] != 0.0:
                move(solver, rate, w, s, j, g[j])
                g[j] = 0.0


@implement(update_touched, SparseRows)
def _(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        feature = rows.indices[p]
        g, w, s = gradient[slot_of[feature]], weights[feature], state[feature]
        for c in range(n):
            k = classes[c]
            if g[k] != 0.0:
                move(solver, rate, w, s, k, g[k])
                g[k] = 0.0


@device
def update_slots(weights, state, gradient, touched, n, solver, rate):
    """Move all coordinates of the `n` touched majors; vectorises, but visits all minors."""
    one = weights.dtype.type(1.0)
    for slot in range(n):
        g = gradient[slot]
        move_vector(solver, rate, weights[touched[slot]], state[touched[slot]], one, g)
        for j in range(g.shape[0]):
            g[j] = 0.0


# A posterior keeps four numbers per weight.  An *action* on them is a tag without arrays (numba
# would count references to their owners at every place); the verb applies it to a row's places.


@implement(each_coordinate, DenseRows)
def _(rows, i, classes, n, n_minors, action, q, first, second):
    mean, information, state, seen = q.mean, q.information, q.state, q.seen
    x = rows.values[i]
    for c in range(n):
        start = classes[c] * n_minors
        for j in range(x.shape[0]):
            at(action, start + j, c, x[j], mean, information, state, seen, first, second)


@implement(each_coordinate, SparseRows)
def _(rows, i, classes, n, n_minors, action, q, first, second):
    mean, information, state, seen = q.mean, q.information, q.state, q.seen
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        start, x = np.int64(rows.indices[p]) * n_minors, rows.values[p]
        for c in range(n):
            place = start + classes[c]
            at(action, place, c, x, mean, information, state, seen, first, second)
