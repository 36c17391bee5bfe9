"""Noise of the utilities, y = argmax_k score_k + noise_k, as torch functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Noise:
    """Noise distribution given by two elementwise torch functions.

    Parameters
    ----------
    name : str
        For messages.
    log_cdf, log_pdf : callable
        Logarithms of the distribution function and of the density.  They have to be differentiable
        and finite for every argument that scores can produce.
    variational : {"gaussian", "logistic"}, default="gaussian"
        Family of the variational distribution that augment-and-reduce takes.

    Examples
    --------
    >>> import torch
    >>> from bigcat.torch import Noise
    >>> cauchy = Noise(
    ...     "cauchy",
    ...     lambda t: torch.log(torch.atan2(torch.ones_like(t), -t) / torch.pi),
    ...     lambda t: -torch.log(torch.pi * (1 + t * t)),
    ... )
    >>> cauchy.log_cdf(torch.zeros(1))
    tensor([-0.6931])
    """

    name: str
    log_cdf: Function
    log_pdf: Function
    variational: str = "gaussian"

    def __reduce__(self) -> Any:
        """Copy and pickle a named noise as the one of that name."""
        if NOISES.get(self.name) is self:
            return resolve, (self.name,)
        return super().__reduce__()

    @property
    def is_gumbel(self) -> bool:
        """Return True if the model is the softmax."""
        return self is GUMBEL


def derivative(function: Function, t: Tensor) -> Tensor:
    """Return the derivative of an elementwise function."""
    found: Tensor = torch.func.grad(lambda x: function(x).sum())(t)
    return found


GUMBEL = Noise(
    "gumbel",
    log_cdf=lambda t: -torch.exp(-t),
    log_pdf=lambda t: -t - torch.exp(-t),
)
GAUSSIAN = Noise(
    "gaussian",
    log_cdf=torch.special.log_ndtr,
    log_pdf=lambda t: -0.5 * t * t - _LOG_SQRT_2PI,
)
LOGISTIC = Noise(
    "logistic",
    log_cdf=torch.nn.functional.logsigmoid,
    log_pdf=lambda t: torch.nn.functional.logsigmoid(t) + torch.nn.functional.logsigmoid(-t),
    variational="logistic",
)
NOISES = {noise.name: noise for noise in (GUMBEL, GAUSSIAN, LOGISTIC)}


def resolve(noise: str | Noise) -> Noise:
    """Return the noise of that name, or the object itself."""
    if isinstance(noise, Noise):
        return noise
    if noise not in NOISES:
        raise ValueError(
            f"noise={noise!r} is not known; choose one of {', '.join(map(repr, NOISES))} "
            "or give a bigcat.torch.Noise"
        )
    return NOISES[noise]
