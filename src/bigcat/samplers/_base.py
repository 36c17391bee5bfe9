"""What every sampler offers to people; the compiled side is `bigcat._seam.draw`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bigcat import _random
from bigcat._jit import kernel
from bigcat._seam import draw


@dataclass(frozen=True)
class Sampler:
    """Which other classes a step looks at, and how many classes each of them stands for."""

    name: ClassVar[str]
    #: One line for tables.
    promise: ClassVar[str]

    def lower(self, n_classes: int, head: np.ndarray | None = None) -> Any:
        """Tag below the seam; the classes of `head` are always in and come first."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """The most classes that one draw can give."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def memory(self, n_rows: int, n_classes: int, n_values: int) -> int:
        """Bytes of its tables, for data of these sizes."""
        return 0

    def with_own_scratch(self, tag: Any) -> Any:
        """The tag for another thread: what draws write to is its own, the rest is shared."""
        return tag

    def sample(
        self, n_classes: int, label: int, seed: int = 0, head: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw once, as a step would: the classes and how many classes each stands for."""
        width = self.width(n_classes, head)
        classes, counts = np.empty((1, width), np.int64), np.empty((1, width + 1))
        state = _random.new_state(np.random.RandomState(seed))
        n = sample_many(self.lower(n_classes, head), state, label, classes, counts)
        return classes[0, :n], counts[0, :n]


@kernel
def sample_many(sampler, rng, label, classes, counts):
    """Fill each row of `classes` and `counts` with one draw; returns the last one's size."""
    n = 0
    for r in range(classes.shape[0]):
        n, _ = draw(sampler, rng, label, classes[r], counts[r])
    return n
