"""Log-probabilities of labels and their gradients with respect to the scores of several chains."""

from __future__ import annotations

import math

import numpy as np

from bigcat.compile import kernel
from bigcat.numerics.softmax import exponentiate_columns, fill, highest_of_columns


@kernel
def softmax_rows(scores, labels, row_weights, small, grads, values):
    """Add the weighted log-probabilities of each chain to `values`, (C,).

    Scores (C, K, n) are overwritten; with `grads` they become derivatives with respect to the
    scores, times the row weights. `small` scores cannot overflow, so their maximum is not computed.
    """
    n_chains, n_classes, n = scores.shape
    highs, totals = np.empty(n, scores.dtype), np.empty(n, scores.dtype)
    own = np.empty(n, scores.dtype)
    for c in range(n_chains):
        of_chain = scores[c]
        for r in range(n):
            own[r] = of_chain[labels[r], r]
        if small:
            fill(highs, 0.0)
        else:
            highest_of_columns(of_chain, highs)
        exponentiate_columns(of_chain, highs, totals)
        for r in range(n):
            log_probability = float(own[r] - highs[r]) - math.log(float(totals[r]))
            values[c] += row_weights[r] * log_probability
        if grads:
            for r in range(n):
                totals[r] = -row_weights[r] / totals[r]
            for k in range(n_classes):
                for r in range(n):
                    of_chain[k, r] *= totals[r]
            for r in range(n):
                of_chain[labels[r], r] += row_weights[r]
