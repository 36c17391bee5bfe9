"""Linear model: kinds of weights, and predictions."""

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

#: All kinds of fitted weights, for code that saves, loads or serves models.
KINDS_OF_WEIGHTS: tuple[type[Weights], ...] = (FullRankWeights, PairedWeights, LowRankWeights)


def kind_of_rank(rank: int | None) -> WeightsKind:
    """Return the kind of weights for the estimator's parameter `rank`."""
    return FullRank() if rank is None else LowRank(int(rank))


def weights_from(array: Callable[[str], np.ndarray | None]) -> Weights:
    """Return weights of the kind whose arrays all exist; `array` returns one by name, or None."""
    for kind in KINDS_OF_WEIGHTS:
        found: dict[str, Any] = {name: array(name) for name in kind.names()}
        if all(value is not None for value in found.values()):
            return kind.from_arrays(found)
    known = "; ".join(", ".join(kind.names()) for kind in KINDS_OF_WEIGHTS)
    raise ValueError(f"there are no weights: none of {known}")
