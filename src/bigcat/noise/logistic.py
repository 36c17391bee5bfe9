"""Logistic noise: the multinomial logistic model (not the softmax, whose noise is Gumbel)."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat._jit import implement
from bigcat._seam import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad
from bigcat._special import log1p_exp, sigmoid
from bigcat.noise._base import Noise


class LogisticTag(NamedTuple):
    unit: int = 0


@dataclass(frozen=True)
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
        return LogisticTag()


@implement(log_cdf, LogisticTag)
def _(noise, t):
    return -log1p_exp(-t)


@implement(log_cdf_grad, LogisticTag)
def _(noise, t):
    return sigmoid(-t)


@implement(log_cdf_with_grad, LogisticTag)
def _(noise, t):
    e = math.exp(-abs(t))
    return min(t, 0.0) - math.log1p(e), (e if t >= 0.0 else 1.0) / (1.0 + e)


@implement(log_pdf, LogisticTag)
def _(noise, t):
    return -log1p_exp(-t) - log1p_exp(t)


@implement(log_pdf_grad, LogisticTag)
def _(noise, t):
    return sigmoid(-t) - sigmoid(t)
