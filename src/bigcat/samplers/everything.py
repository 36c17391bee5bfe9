"""Sampler of all other classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bigcat.compile import implement
from bigcat.rows import Problem
from bigcat.samplers._base import Sampler, always_in
from bigcat.verbs import draw


class EverythingTag(NamedTuple):
    """Tag of `Everything`."""

    n_classes: int
    head: np.ndarray  # visited first


@dataclass(frozen=True, repr=False)
class Everything(Sampler):
    """All other classes, at a cost proportional to their number.

    The exact method and L-BFGS use it; take it for up to a few hundred classes.

    Examples
    --------
    >>> from bigcat.samplers import Everything
    >>> Everything().sample(n_classes=4, label=2)[0].tolist()
    [0, 1, 3]
    """

    name: ClassVar[str] = "everything"
    summary: ClassVar[str] = "all other classes; cost grows with their number"
    shared: ClassVar[bool] = True
    all_classes: ClassVar[bool] = True

    def lower(self, problem: Problem) -> EverythingTag:
        """Return the tag."""
        return EverythingTag(problem.n_classes, problem.head)

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the number of other classes."""
        return n_classes - 1


@implement(draw, EverythingTag)
def _(sampler, rng, rows, i, label, classes, counts):
    n = n_always = always_in(sampler.head, label, classes, counts)
    for k in range(sampler.n_classes):
        inside = k == label
        for c in range(n_always):
            inside = inside or classes[c] == k
        if not inside:
            classes[n] = k
            n += 1
    counts[: n + 1] = 1.0
    return n, n_always
