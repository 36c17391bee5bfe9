"""Solvers: update rules of the parameters."""

from bigcat.solvers._base import DivergedError, Solver
from bigcat.solvers.damped import Damped
from bigcat.solvers.double_sum import UMax, Vanilla
from bigcat.solvers.implicit import Implicit
from bigcat.solvers.lbfgs import LBFGS
from bigcat.solvers.sgd import SGD, AdaGrad, Adaptive

__all__ = [
    "LBFGS",
    "SGD",
    "AdaGrad",
    "Adaptive",
    "Damped",
    "DivergedError",
    "Implicit",
    "Solver",
    "UMax",
    "Vanilla",
]

REGISTRY: dict[str, type[Solver]] = {
    s.name: s for s in (Adaptive, AdaGrad, SGD, Damped, Vanilla, UMax, Implicit, LBFGS)
}
