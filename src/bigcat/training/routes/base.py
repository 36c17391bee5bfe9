"""What a way through the rows has to say of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import WeightsKind
from bigcat.rows import Sizes

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


class Journey(NamedTuple):
    """What a route is asked about: the parts, the weights and the sizes, before any array."""

    parts: Parts
    kind: WeightsKind
    sizes: Sizes
    batch_size: int
    n_head: int = 0  # classes that are kept exact

    @property
    def n_looked_at(self) -> int:
        """Classes that a row looks at, its own among them."""
        head = np.empty(self.n_head, np.int64)
        return self.parts.sampler.width(self.sizes.n_classes, head) + 1


class Route(ABC):
    """A kernel, the memory it needs, and the call that trains on some rows."""

    #: Would BLAS start threads of its own beside ours, and round as they split?
    multiplies: bool

    @staticmethod
    @abstractmethod
    def applies(journey: Journey) -> bool:
        """Does this route lead there?"""

    @staticmethod
    @abstractmethod
    def scratch_numbers(journey: Journey) -> int:
        """Numbers that each thread holds beside the weights, their state and the data."""

    @abstractmethod
    def __init__(self, passes: Passes) -> None:
        """Allocate what `scratch_numbers` said."""

    @abstractmethod
    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        """Train on rows ``order[first:last]``: the sum of their values, the weights' new scale.

        `n_together` threads do so at once, on rows of their own and the same weights.
        """
