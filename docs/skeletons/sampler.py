"""Skeleton of a sampler: which other classes a row looks at.

Copy this file and replace each line marked FILL; docs/extending/sampler.md shows one filled in.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Sampler, below, draw, implement


class Tag(NamedTuple):
    """What the kernels get to see: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, repr=False)
class MySampler(Sampler):
    """What people see."""

    # name, summary    for tables and errors
    # n_negatives      how many classes a row draws
    # shared           may all rows of a batch share a draw?
    # all_classes      does a draw give every other class?
    # scratch          fields of the tag that a draw writes to
    ...  # FILL: declarations

    def lower(self, problem):
        ...  # FILL: lower

    def width(self, n_classes, head=None):
        ...  # FILL: width


@implement(draw, Tag)
def _(sampler, rng, rows, i, label, classes, counts):
    """For row i: write distinct classes other than `label`, what each stands for, and the label.

    Return how many there are, and how many of these are in whatever is drawn.
    """
    ...  # FILL: draw
