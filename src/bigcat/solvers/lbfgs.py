"""L-BFGS on the whole data and all classes, for everything that is deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bigcat.solvers._base import Solver


@dataclass(frozen=True, repr=False)
class LBFGS(Solver):
    """Limited-memory BFGS (scipy), in float64, local parameters at their optimum.

    Examples
    --------
    >>> from bigcat.solvers import LBFGS
    >>> LBFGS().stochastic
    False
    """

    name: ClassVar[str] = "lbfgs"
    promise: ClassVar[str] = "the optimum itself; every pass visits all rows and classes"
    stochastic: ClassVar[bool] = False
    memory: int = 10

    @property
    def arrays_held(self) -> int:
        return 2 * self.memory + 8  # its pairs of vectors, and work arrays
