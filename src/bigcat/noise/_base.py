"""Base class of noises; their compiled side is in `bigcat.verbs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bigcat.compile import kernel
from bigcat.part import Part
from bigcat.verbs import log_cdf, log_cdf_grad, log_pdf, log_pdf_grad


@dataclass(frozen=True, repr=False)
class Noise(Part):
    """Additive noise of the utilities: ``y = argmax_k score_k + noise_k``.

    Notes
    -----
    See ``docs/conventions.md`` for conventions. A noise is a frozen dataclass whose `lower` returns
    the tag that kernels dispatch on.
    """

    name: ClassVar[str]
    #: Family of the variational distribution that augment-and-reduce uses with this noise.
    variational: ClassVar[str] = "gaussian"
    #: True for the softmax, with probabilities and bounds in closed form.
    softmax: ClassVar[bool] = False
    #: True if the tails fall faster than exponentially, which calls for shorter steps.
    light_tails: ClassVar[bool] = False

    def lower(self) -> Any:
        """Return the tag that compiled code sees."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.noise")

    def log_cdf(self, t: ArrayLike) -> np.ndarray:
        """Return the log of the distribution function, elementwise.

        Examples
        --------
        >>> from bigcat.noise import Logistic
        >>> float(Logistic().log_cdf(0.0).round(4))
        -0.6931
        """
        return self._map(_map_log_cdf, t)

    def log_cdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Return the derivative of `log_cdf`, elementwise."""
        return self._map(_map_log_cdf_grad, t)

    def log_pdf(self, t: ArrayLike) -> np.ndarray:
        """Return the log-density, elementwise."""
        return self._map(_map_log_pdf, t)

    def log_pdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Return the derivative of `log_pdf`, elementwise."""
        return self._map(_map_log_pdf_grad, t)

    def _map(self, function: Any, t: ArrayLike) -> np.ndarray:
        t = np.asarray(t, dtype=np.float64)
        out = np.empty(t.size)
        function.for_steps(t.size)(self.lower(), np.ravel(t), out)
        return out.reshape(t.shape)


@kernel
def _map_log_cdf(noise, t, out):
    for i in range(t.shape[0]):
        out[i] = log_cdf(noise, t[i])


@kernel
def _map_log_cdf_grad(noise, t, out):
    for i in range(t.shape[0]):
        out[i] = log_cdf_grad(noise, t[i])


@kernel
def _map_log_pdf(noise, t, out):
    for i in range(t.shape[0]):
        out[i] = log_pdf(noise, t[i])


@kernel
def _map_log_pdf_grad(noise, t, out):
    for i in range(t.shape[0]):
        out[i] = log_pdf_grad(noise, t[i])
