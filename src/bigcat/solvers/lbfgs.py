"""L-BFGS on all rows and classes, for deterministic objectives."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import ClassVar

from bigcat.solvers._base import Solver


@dataclass(frozen=True, repr=False)
class LBFGS(Solver):
    """Limited-memory BFGS (scipy) in float64, with local parameters at their optimum.

    Parameters
    ----------
    memory : int, default=10
        Number of vector pairs that approximate the curvature. More of them take fewer iterations
        and two more arrays as large as the weights each.
    tol : float, default=1e-4
        Largest gradient of the mean value per row that counts as converged, for rows in units of
        their length. Lower it to compare likelihoods in many digits.

    Examples
    --------
    >>> from bigcat.solvers import LBFGS
    >>> LBFGS().stochastic
    False
    """

    name: ClassVar[str] = "lbfgs"
    summary: ClassVar[str] = "the optimum itself; every pass visits all rows and classes"
    stochastic: ClassVar[bool] = False
    memory: int = 10
    tol: float = 1e-4
    batch_size: int = field(default=0, init=False)  # all rows

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.tol, numbers.Real) and 0.0 <= self.tol < math.inf):
            raise ValueError(f"tol={self.tol!r} must be a finite number of at least 0")

    @property
    def n_work_arrays(self) -> int:
        """Return the number of arrays as large as the weights: vector pairs and work arrays."""
        return 2 * self.memory + 8
