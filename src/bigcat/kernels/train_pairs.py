"""Passes over rows for weights of pairs: the softmax over all classes at the price of a few.

With a weight for each class and feature that occur together, and fixed scores b_k, which are the
logarithms of class frequencies, only classes that share a feature with the row have a score other
than b_k.  The normaliser is thus exact without a look at the others:

    Z = sum_{k visited} exp(s_k) + (1 - sum_{k visited} exp(b_k)).
"""

from __future__ import annotations

import math

import numpy as np

from bigcat.compile import kernel
from bigcat.numerics.softmax import exponentiate, join


@kernel
def train_pairs(rows, labels, row_weights, order, offsets, classes, weights, base, rate):
    """Steps of the gradient for the rows in `order`; the sum of their log-likelihoods before."""
    n_classes = base.shape[0]
    seen_by = np.full(n_classes, -1, np.int64)  # the last row that visited a class, and
    place_of = np.empty(n_classes, np.int64)  # where it put the class's score
    scores = np.empty(n_classes, weights.dtype)
    total = 0.0
    for t in range(order.shape[0]):
        i = order[t]
        begin, end = rows.indptr[i], rows.indptr[i + 1]
        label = labels[i]
        seen_by[label], place_of[label], scores[0], n = t, 0, base[label], 1
        outside = 1.0 - math.exp(base[label])
        for p in range(begin, end):
            x = rows.values[p]
            for j in range(offsets[rows.indices[p]], offsets[rows.indices[p] + 1]):
                k = classes[j]
                if seen_by[k] != t:
                    seen_by[k], place_of[k], scores[n] = t, n, base[k]
                    outside -= math.exp(base[k])
                    n += 1
                scores[place_of[k]] += x * weights[j]
        of_label = float(scores[0])
        high, inside = exponentiate(scores[:n])
        top, normaliser = join(high, inside, 0.0, max(outside, 0.0))
        total += row_weights[i] * (of_label - top - math.log(normaliser))
        # Slopes of the loss in the scores: probabilities, less one for the label.
        factor = math.exp(high - top) / normaliser
        for place in range(n):
            scores[place] *= weights.dtype.type(factor)
        scores[0] -= weights.dtype.type(1.0)
        step = rate * row_weights[i]
        for p in range(begin, end):
            x = weights.dtype.type(step * rows.values[p])
            for j in range(offsets[rows.indices[p]], offsets[rows.indices[p] + 1]):
                weights[j] -= x * scores[place_of[classes[j]]]
    return total
