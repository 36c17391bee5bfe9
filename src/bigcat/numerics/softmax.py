"""The softmax over all classes at vector speed, a block of classes at a time.

A block's scores stay in the nearest cache until they are exponentials; blocks join through their
highest scores, so that nothing overflows and no more than a block need be kept.
"""

import math

from bigcat.compile import device, maximum
from bigcat.numerics.vector import vector_exp

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
def highest_of_columns(scores, highs):
    """The highest score of each row, scores being (classes, rows)."""
    highs[:] = scores[0]
    for k in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            highs[r] = maximum(highs[r], scores[k, r])


@device
def exponentiate_columns(scores, highs, totals):
    """Turn scores (classes, rows) into exp(score - high); sums over classes go to `totals`."""
    totals[:] = 0.0
    for k in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            e = vector_exp(scores[k, r] - highs[r])
            scores[k, r] = e
            totals[r] += e


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
