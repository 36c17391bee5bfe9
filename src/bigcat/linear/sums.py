"""Weighted sums of models as one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bigcat.linear.full_rank import FullRankWeights
from bigcat.linear.low_rank import LowRankWeights
from bigcat.linear.paired import PairedWeights
from bigcat.linear.weights import Weights


def weighted_sum(factors: Sequence[float], weights: Sequence[Weights]) -> Weights:
    """Return weights whose scores are the weighted sum of the scores of several models.

    Low-rank vectors are concatenated, so ranks add up, and pairs are kept. The sum is of full rank
    if one of the terms is. A single model is scaled in place.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.linear import FullRankWeights, weighted_sum
    >>> ones = FullRankWeights(np.ones((2, 3)))
    >>> weighted_sum([0.5, 2.0], [ones, ones]).coef[0].tolist()
    [2.5, 2.5, 2.5]
    """
    if len(weights) == 1:
        return weights[0].multiplied(float(factors[0]))
    if any(isinstance(w, FullRankWeights) for w in weights):
        total = sum(np.float32(f) * w.dense() for f, w in zip(factors, weights))
        return FullRankWeights(np.asarray(total))
    low: list[LowRankWeights] = []
    for w in weights:
        part = w.low if isinstance(w, PairedWeights) else w
        assert isinstance(part, LowRankWeights)
        low.append(part)
    vectors = LowRankWeights(
        np.concatenate([np.float32(f) * w.classes for f, w in zip(factors, low)], axis=1),
        np.concatenate([w.features for w in low], axis=1),
    )
    for factor, w in zip(factors, weights):
        if isinstance(w, PairedWeights):  # there is one at most
            return replace(w, low=vectors, pair_weights=np.float32(factor) * w.pair_weights)
    return vectors
