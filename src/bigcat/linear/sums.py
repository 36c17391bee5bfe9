"""Weighted sums of models as one model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bigcat.linear.full_rank import FullRankWeights
from bigcat.linear.low_rank import LowRankWeights
from bigcat.linear.paired import PairedWeights
from bigcat.linear.weights import Weights


def weighted_sum(factors: Sequence[float], weights: list[Weights]) -> Weights:
    """Return weights whose scores are the weighted sum of the scores of several models.

    Low-rank vectors are concatenated, so ranks add up, and pairs are kept. The sum is of full rank
    if one of the terms is. A single model is scaled in place. The list is emptied, which frees each
    array as soon as it is added.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.linear import FullRankWeights, weighted_sum
    >>> ones = FullRankWeights(np.ones((2, 3)))
    >>> weighted_sum([0.5, 2.0], [ones, ones]).coef[0].tolist()
    [2.5, 2.5, 2.5]
    """
    if len(weights) == 1:
        return weights.pop().multiplied(float(factors[0]))
    if any(isinstance(w, FullRankWeights) for w in weights):
        return _dense_sum(factors, weights)
    pairs: PairedWeights | None = None
    classes, features = list[np.ndarray](), list[np.ndarray]()
    for factor, w in zip(factors, weights):
        if isinstance(w, PairedWeights):  # there is one at most
            pairs = replace(w, pair_weights=np.float32(factor) * w.pair_weights)
            w = w.low
        assert isinstance(w, LowRankWeights)
        classes.append(w.classes)
        features.append(w.features)
    weights.clear()
    del w
    vectors = LowRankWeights(
        _side_by_side(classes, factors), _side_by_side(features, [1.0] * len(factors))
    )
    return vectors if pairs is None else replace(pairs, low=vectors)


def _dense_sum(factors: Sequence[float], weights: list[Weights]) -> FullRankWeights:
    total: np.ndarray = np.zeros(())
    for i, factor in enumerate(factors):
        scaled = np.float32(factor) * weights.pop(0).dense()
        total = np.add(total, scaled, out=total) if i else scaled
    return FullRankWeights(total)


def _side_by_side(arrays: list[np.ndarray], factors: Sequence[float]) -> np.ndarray:
    """Return an array of the scaled columns of all; the list is emptied."""
    width = sum(array.shape[1] for array in arrays)
    found = np.empty((len(arrays[0]), width), np.result_type(*arrays))
    first = 0
    for factor in factors:
        array = arrays.pop(0)
        last = first + array.shape[1]
        np.multiply(array, array.dtype.type(factor), out=found[:, first:last])
        first = last
    return found
