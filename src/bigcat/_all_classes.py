"""The softmax over all classes at vector speed, a block of classes at a time.

A block's scores stay in the nearest cache until they are exponentials; blocks join through their
highest scores, so that nothing overflows and no more than a block need be kept.
"""

import math

from bigcat._blas import product
from bigcat._jit import device, generic, implement, maximum
from bigcat._vector import vector_exp
from bigcat._weights import DenseRows, SparseRows

#: Classes whose scores for a sparse row are worked on at a time.
CLASS_BLOCK = 4096
#: In place of a score that must not count; finite, so that differences are.
NO_SCORE = -1e30


# Loops rather than assignments to slices, which take the compiler many times as long.


@device
def fill(out, value):
    for k in range(out.shape[0]):
        out[k] = value


@device
def copy_from(source, start, out):
    """out = source[start : start + the length of out]."""
    for k in range(out.shape[0]):
        out[k] = source[start + k]


@device
def exponentiate(scores):
    """Turn scores into exp(score - highest); returns the highest and the sum."""
    high = scores[0]
    for k in range(scores.shape[0]):
        high = maximum(high, scores[k])
    total = scores.dtype.type(0.0)
    for k in range(scores.shape[0]):
        e = vector_exp(scores[k] - high)
        scores[k] = e
        total += e
    return float(high), float(total)


@device
def join(high, total, more_high, more_total):
    """total exp(high) + more_total exp(more_high), as the same pair."""
    if more_high > high:
        return more_high, total * math.exp(high - more_high) + more_total
    return high, total + more_total * math.exp(more_high - high)


@device
def finish(label_score, high, others):
    """Log-probability of the label, that of all other classes together, and the normaliser.

    The label's slope is the second, not 1 minus the first, which would be rounding near 1.
    """
    top, total = join(high, others, label_score, 1.0)
    normaliser = top + math.log(total)
    return label_score - normaliser, others * math.exp(high - normaliser), normaliser


@device
def add_features(rows, first, last, weights, scale, start, out):
    """out += scale * (x . weights) for the classes from `start`, four features in a pass."""
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


@generic
def score_block(rows, first, weights, intercepts, start, out):
    """out[r, k] = w . x + b for row `first` + r and class `start` + k."""


@implement(score_block, SparseRows)
def _(rows, first, weights, intercepts, start, out):
    one = weights.dtype.type(1.0)
    for r in range(out.shape[0]):
        i = first + r
        copy_from(intercepts, start, out[r])
        add_features(rows, rows.indptr[i], rows.indptr[i + 1], weights, one, start, out[r])


@implement(score_block, DenseRows)
def _(rows, first, weights, intercepts, start, out):
    n_rows, n = out.shape
    product(rows.values[first : first + n_rows], False, weights[start : start + n], True, out)
    for r in range(n_rows):
        for k in range(n):
            out[r, k] += intercepts[start + k]
