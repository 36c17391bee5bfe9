"""What every solver declares; the compiled side of the stochastic ones is `bigcat._seam`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True)
class Solver:
    """How parameters move."""

    name: ClassVar[str]
    #: One line for tables.
    promise: ClassVar[str]
    #: Mini-batches and sampled classes, or whole passes over everything?
    stochastic: ClassVar[bool] = True
    #: Needs as many numbers again as there are weights?
    has_state: ClassVar[bool] = False
    #: Is a step linear in the gradient, so that a batch's rows can be applied one by one?
    linear: ClassVar[bool] = False
    #: Is the gradient that of the sum over all rows ("sum") or of the mean a row ("mean")?
    gradient: ClassVar[str] = "mean"

    def lower(self) -> Any:
        """Tag below the seam."""
        raise TypeError(f"{type(self).__name__} has no compiled form")

    def __post_init__(self) -> None:
        rate = getattr(self, "learning_rate", 1.0)
        if not rate > 0.0:
            raise ValueError(f"learning_rate={rate!r} must be above 0")
