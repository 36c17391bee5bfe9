"""Skeleton of a bound: a value for one row, and its gradients.

Copy this file and replace each line marked FILL; docs/extending/bound.md shows one filled in.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Bound, Method, fit_local, implement, negative_sum, step


class Tag(NamedTuple):
    """Options as kernels see them: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, kw_only=True, repr=False)
class MyBound(Bound):
    """Options as users see them."""

    # name, summary    for tables and errors
    # noises           names of the supported noises; None for all
    # is_bound         True if the value is never above log p(y | x)
    # can_sample       True if classes may be sampled; the value of a bound is then unbiased
    # n_local          local parameters per row
    # is_likelihood, needs_log_probabilities: see bigcat.bounds.Bound
    # ... and the options of users
    ...  # FILL: declarations

    def lower(self, noise):
        ...  # FILL: lower


@implement(fit_local, Tag)
def _(bound, local, label_score, others, counts, n):
    """Set the row's local parameters to their optimum for these scores."""
    ...  # FILL: fit_local


@implement(step, Tag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    """Return the value, write all gradients (the label's last), move the local parameters."""
    ...  # FILL: step


def method(**options):
    """Return the bound as a method, for `LinearClassifier(method=method(...))`."""
    return Method(MyBound.name, MyBound(**options))
