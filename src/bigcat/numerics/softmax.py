"""Softmax over all classes at vector speed, a block of classes at a time.

Scores of a block stay in the nearest cache until they are exponentials. Blocks are joined through
their highest scores, so nothing overflows and only one block is held at a time.
"""

import math

from bigcat.compile import device, maximum
from bigcat.numerics.vector import vector_exp

#: Classes per block for sparse rows.
CLASS_BLOCK = 4096
#: Replacement for an ignored score; finite, so that differences are finite.
NO_SCORE = -1e30


# Loops rather than assignments to slices, which take the compiler many times as long.


@device
def fill(out, value):
    """Set all entries to `value`."""
    for k in range(out.shape[0]):
        out[k] = value


@device
def copy_from(source, start, out):
    """Copy ``source[start:]`` to `out`, as far as it reaches."""
    for k in range(out.shape[0]):
        out[k] = source[start + k]


@device
def exponentiate(scores):
    """Turn scores into exp(score - highest); return the highest and the sum."""
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
    """Write the highest score of each row to `highs`; scores are (classes, rows)."""
    highs[:] = scores[0]
    for k in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            highs[r] = maximum(highs[r], scores[k, r])


@device
def exponentiate_columns(scores, highs, totals):
    """Turn scores (classes, rows) into exp(score - high); write sums over classes to `totals`."""
    totals[:] = 0.0
    for k in range(scores.shape[0]):
        for r in range(scores.shape[1]):
            e = vector_exp(scores[k, r] - highs[r])
            scores[k, r] = e
            totals[r] += e


@device
def join(high, total, more_high, more_total):
    """Return total exp(high) + more_total exp(more_high) as such a pair."""
    if more_high > high:
        return more_high, total * math.exp(high - more_high) + more_total
    return high, total + more_total * math.exp(more_high - high)


@device
def finish(label_score, high, others):
    """Return the log-probability of the label, the probability of all others, and the normaliser.

    The second is the gradient of the label's score; 1 minus the first would lose it to rounding
    near 1.
    """
    top, total = join(high, others, label_score, 1.0)
    normaliser = top + math.log(total)
    return label_score - normaliser, others * math.exp(high - normaliser), normaliser
