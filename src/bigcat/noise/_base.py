"""Base class of noises; their compiled side is in `bigcat.verbs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bigcat.compile import kernel
from bigcat.part import Part
from bigcat.verbs import log_cdf, log_cdf_grad, log_pdf, log_pdf_grad

_LOG_CDF, _LOG_CDF_GRAD, _LOG_PDF, _LOG_PDF_GRAD = range(4)


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
        return self._map(_LOG_CDF, t)

    def log_cdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Return the derivative of `log_cdf`, elementwise."""
        return self._map(_LOG_CDF_GRAD, t)

    def log_pdf(self, t: ArrayLike) -> np.ndarray:
        """Return the log-density, elementwise."""
        return self._map(_LOG_PDF, t)

    def log_pdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Return the derivative of `log_pdf`, elementwise."""
        return self._map(_LOG_PDF_GRAD, t)

    def _map(self, verb: int, t: ArrayLike) -> np.ndarray:
        t = np.asarray(t, dtype=np.float64)
        out = np.empty(t.size)
        _map_verb.for_steps(t.size)(self.lower(), verb, np.ravel(t), out)
        return out.reshape(t.shape)


@kernel
def _map_verb(noise, verb, t, out):
    """Write one of the four functions of a noise at each point."""
    for i in range(t.shape[0]):
        if verb == _LOG_CDF:
            out[i] = log_cdf(noise, t[i])
        elif verb == _LOG_CDF_GRAD:
            out[i] = log_cdf_grad(noise, t[i])
        elif verb == _LOG_PDF:
            out[i] = log_pdf(noise, t[i])
        else:
            out[i] = log_pdf_grad(noise, t[i])
