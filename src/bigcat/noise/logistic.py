"""Logistic noise: the multinomial logistic model (not the softmax, whose noise is Gumbel)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.compile import implement
from bigcat.noise._base import Noise
from bigcat.numerics.special import log_sigmoid_grad, log_sigmoid_with_grad
from bigcat.verbs import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad


class LogisticTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class Logistic(Noise):
    """Standard logistic noise: the multinomial logistic model of augment and reduce.

    Examples
    --------
    >>> from bigcat.noise import Logistic
    >>> float(Logistic().log_cdf_grad(0.0))
    0.5
    """

    name: ClassVar[str] = "logistic"
    variational: ClassVar[str] = "logistic"

    def lower(self) -> LogisticTag:
        """Return the tag."""
        return LogisticTag()


@implement(log_cdf, LogisticTag)
def _(noise, t):
    return log_sigmoid_with_grad(t)[0]


@implement(log_cdf_grad, LogisticTag)
def _(noise, t):
    return log_sigmoid_grad(t)


@implement(log_cdf_with_grad, LogisticTag)
def _(noise, t):
    return log_sigmoid_with_grad(t)


@implement(log_pdf, LogisticTag)
def _(noise, t):
    return log_sigmoid_with_grad(t)[0] + log_sigmoid_with_grad(-t)[0]


@implement(log_pdf_grad, LogisticTag)
def _(noise, t):
    return log_sigmoid_grad(t) - log_sigmoid_grad(-t)
