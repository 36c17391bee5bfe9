"""Gumbel noise: the softmax model."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.compile import implement
from bigcat.noise._base import Noise
from bigcat.verbs import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad


class GumbelTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class Gumbel(Noise):
    """Standard Gumbel noise: the softmax model.

    Examples
    --------
    >>> from bigcat.noise import Gumbel
    >>> float(Gumbel().log_cdf(0.0))
    -1.0
    """

    name: ClassVar[str] = "gumbel"
    softmax: ClassVar[bool] = True

    def lower(self) -> GumbelTag:
        """Return the tag."""
        return GumbelTag()


# exp(-t) overflows to inf below -709; the values are then beyond what a float64 holds.
@implement(log_cdf, GumbelTag)
def _(noise, t):
    return -math.exp(min(-t, 709.0))


@implement(log_cdf_grad, GumbelTag)
def _(noise, t):
    return math.exp(min(-t, 709.0))


@implement(log_cdf_with_grad, GumbelTag)
def _(noise, t):
    e = math.exp(min(-t, 709.0))
    return -e, e


@implement(log_pdf, GumbelTag)
def _(noise, t):
    return -t - math.exp(min(-t, 709.0))


@implement(log_pdf_grad, GumbelTag)
def _(noise, t):
    return math.exp(min(-t, 709.0)) - 1.0
