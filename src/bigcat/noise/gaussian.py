"""Gaussian noise: the multinomial probit model."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.compile import implement
from bigcat.noise._base import Noise
from bigcat.numerics.special import LOG_SQRT_2PI, log_ndtr_grad, log_ndtr_with_grad
from bigcat.verbs import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad


class GaussianTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class Gaussian(Noise):
    """Standard Gaussian noise: the multinomial probit model.

    Examples
    --------
    >>> from bigcat.noise import Gaussian
    >>> float(Gaussian().log_cdf_grad(-1e9).round())  # the inverse Mills ratio, far out
    1000000000.0
    """

    name: ClassVar[str] = "gaussian"
    light_tails: ClassVar[bool] = True

    def lower(self) -> GaussianTag:
        """Return the tag."""
        return GaussianTag()


@implement(log_cdf, GaussianTag)
def _(noise, t):
    return log_ndtr_with_grad(t)[0]


@implement(log_cdf_grad, GaussianTag)
def _(noise, t):
    return log_ndtr_grad(t)


@implement(log_cdf_with_grad, GaussianTag)
def _(noise, t):
    return log_ndtr_with_grad(t)


@implement(log_pdf, GaussianTag)
def _(noise, t):
    return -0.5 * t * t - LOG_SQRT_2PI


@implement(log_pdf_grad, GaussianTag)
def _(noise, t):
    return -t
