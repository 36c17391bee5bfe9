"""Skeleton of a bound: a value for one row, and its gradients.

Copy this file and replace each line marked FILL; docs/extending/bound.md shows one filled in.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.extending import Bound, Method, fit_local, implement, negative_sum, step


class Tag(NamedTuple):
    """What the kernels get to see: numbers and arrays, at least one."""

    ...  # FILL: tag fields


@dataclass(frozen=True, kw_only=True, repr=False)
class MyBound(Bound):
    """What people see."""

    # name, summary    for tables and errors
    # noises           the noises it holds for, by name; None for all
    # is_bound         is the value never above log p(y | x)?
    # can_sample       is it right on average over a sample of classes?  (An estimator that is
    #                  no bound: may classes be sampled?)
    # n_local          variational parameters per row
    # is_likelihood, has_expectation, wants_log_probabilities: see bigcat.bounds.Bound
    # ... and the options that people may set
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
    """The bound as a method: `LinearClassifier(method=method(...))`."""
    return Method(MyBound.name, MyBound(**options))
