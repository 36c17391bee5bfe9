"""Scores of a group of rows for a block of classes.

Computed in the precision of `out`, which may be higher than that of the weights.
"""

from bigcat.compile import as_precise_as, device, implement, like, product
from bigcat.numerics.softmax import copy_from
from bigcat.rows.forms import DenseRows, SparseRows
from bigcat.verbs import score_block

#: Number of dense rows from which on BLAS is used; it first copies the weights into another order.
MIN_BLAS_ROWS = 8


@device
def add_features(rows, first, last, weights, scale, start, out):
    """Add ``scale * (x . weights)`` for the classes from `start` to `out`."""
    n = out.shape[0]
    p = first
    while p + 4 <= last:
        a = weights[rows.indices[p], start : start + n]
        b = weights[rows.indices[p + 1], start : start + n]
        c = weights[rows.indices[p + 2], start : start + n]
        d = weights[rows.indices[p + 3], start : start + n]
        xa, xb = scale * rows.values[p], scale * rows.values[p + 1]
        xc, xd = scale * rows.values[p + 2], scale * rows.values[p + 3]
        for k in range(n):
            out[k] += (xa * a[k] + xb * b[k]) + (xc * c[k] + xd * d[k])
        p += 4
    while p < last:
        a, xa = weights[rows.indices[p], start : start + n], scale * rows.values[p]
        for k in range(n):
            out[k] += xa * a[k]
        p += 1


@implement(score_block, SparseRows)
def _(rows, first, weights, intercepts, start, out):
    one = intercepts.dtype.type(1.0)
    for r in range(out.shape[0]):
        i = first + r
        copy_from(intercepts, start, out[r])
        add_features(rows, rows.indptr[i], rows.indptr[i + 1], weights, one, start, out[r])


@implement(score_block, DenseRows)
def _(rows, first, weights, intercepts, start, out):
    n_rows, n = out.shape
    if n_rows < MIN_BLAS_ROWS:
        for r in range(n_rows):
            x = rows.values[first + r]
            for k in range(n):
                out[r, k] = intercepts[start + k] + _inner_product(x, weights[start + k])
        return
    block = as_precise_as(weights[start : start + n], out)
    product(rows.values[first : first + n_rows], False, block, True, out)
    for r in range(n_rows):
        for k in range(n):
            out[r, k] += intercepts[start + k]


@device
def _inner_product(x, w):
    total = like(0.0, x)
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total
