"""The linear model: its kinds of weights, and how it predicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bigcat.linear.full_rank import FullRank, FullRankWeights
from bigcat.linear.low_rank import LowRank, LowRankWeights
from bigcat.linear.model import LinearModel
from bigcat.linear.paired import CoOccurringPairs, PairedWeights
from bigcat.linear.sums import weighted_sum
from bigcat.linear.weights import Weights, WeightsKind

__all__ = [
    "KINDS_OF_WEIGHTS",
    "CoOccurringPairs",
    "FullRank",
    "FullRankWeights",
    "LinearModel",
    "LowRank",
    "LowRankWeights",
    "PairedWeights",
    "Weights",
    "WeightsKind",
    "kind_of_rank",
    "weighted_sum",
    "weights_from",
]

#: Every kind of fitted weights; what stores, loads or serves models asks these.
KINDS_OF_WEIGHTS: tuple[type[Weights], ...] = (FullRankWeights, PairedWeights, LowRankWeights)


def kind_of_rank(rank: int | None) -> WeightsKind:
    """What the estimator's parameter `rank` stands for."""
    return FullRank() if rank is None else LowRank(int(rank))


def weights_from(array: Callable[[str], np.ndarray | None]) -> Weights:
    """Weights of the kind whose arrays are all there; `array` gives one by name, or None."""
    for kind in KINDS_OF_WEIGHTS:
        found: dict[str, Any] = {name: array(name) for name in kind.names()}
        if all(value is not None for value in found.values()):
            return kind.from_arrays(found)
    known = "; ".join(", ".join(kind.names()) for kind in KINDS_OF_WEIGHTS)
    raise ValueError(f"there are no weights: none of {known}")
