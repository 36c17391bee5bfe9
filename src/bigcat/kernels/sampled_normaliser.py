"""Softmax normaliser from a sample of the classes."""

from __future__ import annotations

import math

import numpy as np

from bigcat.compile import kernel
from bigcat.numerics.random import skip, uniform
from bigcat.samplers._alias import alias_draw
from bigcat.verbs import scores


@kernel
def fill_log_probs(rows, weights, intercepts, table, rng, first, n_samples, known, log_probs, std):
    """Fill (n, k) log-probabilities and (n,) standard errors.

    `first` is the number of the first row among all rows, so that draws do not depend on the split
    into tasks.
    """
    skip(rng, first * n_samples)
    n_known = known.shape[1]
    classes, drawn_scores = np.empty(n_samples, np.int64), np.empty(n_samples, weights.dtype)
    known_scores, values = np.empty(n_known, weights.dtype), np.empty(n_samples)
    for r in range(known.shape[0]):
        scores(rows, r, weights, 1.0, intercepts, known[r], n_known, known_scores)
        for s in range(n_samples):
            classes[s] = alias_draw(table, uniform(rng))
        scores(rows, r, weights, 1.0, intercepts, classes, n_samples, drawn_scores)
        high = float(known_scores[0])
        for c in range(n_known):
            high = max(high, float(known_scores[c]))
        for s in range(n_samples):
            values[s] = drawn_scores[s] - math.log(table.probability[classes[s]])
            for c in range(n_known):
                if classes[s] == known[r, c]:  # is in the exact part
                    values[s] = -math.inf
            high = max(high, values[s])
        mean = 0.0
        for s in range(n_samples):
            values[s] = math.exp(values[s] - high)
            mean += values[s] / n_samples
        squares = 0.0
        for s in range(n_samples):
            squares += (values[s] - mean) ** 2
        total = mean
        for c in range(n_known):
            total += math.exp(known_scores[c] - high)
        std[r] = math.sqrt(squares / (n_samples - 1) / n_samples) / total
        for c in range(n_known):
            log_probs[r, c] = (known_scores[c] - high) - math.log(total)
