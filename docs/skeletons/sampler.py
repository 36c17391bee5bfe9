"""Skeleton of a sampler of the other classes that a step visits.

Copy this file and replace each line marked FILL; docs/extending/sampler.md shows one filled in.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Sampler, below, draw, implement


class Tag(NamedTuple):
    """Options as kernels see them: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, repr=False)
class MySampler(Sampler):
    """Options as users see them."""

    # name, summary    for tables and errors
    # n_negatives      number of drawn classes per row
    # shared           True if all rows of a batch may share a draw
    # all_classes      True if a draw contains every other class
    # scratch          fields of the tag that a draw writes to
    ...  # FILL: declarations

    def lower(self, problem):
        ...  # FILL: lower

    def width(self, n_classes, head=None):
        ...  # FILL: width


@implement(draw, Tag)
def _(sampler, rng, rows, i, label, classes, counts):
    """Write the distinct classes of one draw for row i, without `label`, and their counts.

    The count of the label comes last. Return the number of classes, and how many of them are in
    every draw.
    """
    ...  # FILL: draw
