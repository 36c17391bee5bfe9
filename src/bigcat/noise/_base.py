"""What every noise offers to people; the compiled side is `bigcat.verbs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bigcat.compile import kernel
from bigcat.part import Part
from bigcat.verbs import log_cdf, log_cdf_grad, log_pdf, log_pdf_grad

#: How class probabilities can be computed.
PROBABILITIES = ("quadrature", "importance")


@dataclass(frozen=True, repr=False)
class Noise(Part):
    """Additive noise of the utilities: ``y = argmax_k score_k + noise_k``.

    Parameters
    ----------
    probabilities : {"quadrature", "importance"}, default="quadrature"
        How class probabilities are computed where they have no closed form: exact to rounding, or
        by the papers' importance sampler, to reproduce their figures.  Its estimates of single
        classes are those of `log_proba_of`; where all classes of a row are asked for, they are made
        to add up to one.

    Notes
    -----
    Conventions: ``docs/conventions.md``.  A member is a frozen dataclass whose `lower` gives the
    tag that kernels dispatch on.
    """

    name: ClassVar[str]
    #: Family of the variational distribution that augment-and-reduce uses with this noise.
    variational: ClassVar[str] = "gaussian"
    #: Is the model the softmax, with probabilities and bounds in closed form?
    softmax: ClassVar[bool] = False
    #: Do its tails fall faster than exponentially, so that steps have to be shorter?
    light_tails: ClassVar[bool] = False
    probabilities: str = field(default="quadrature", kw_only=True)

    def __post_init__(self) -> None:
        if self.probabilities not in PROBABILITIES:
            raise ValueError(
                f"probabilities={self.probabilities!r} is not known; choose one of "
                f"{', '.join(map(repr, PROBABILITIES))}"
            )

    @property
    def in_closed_form(self) -> bool:
        """Do predictions take the softmax's own formula?"""
        return self.softmax and self.probabilities != "importance"

    def lower(self) -> Any:
        """Tag of this noise below the seam."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.noise")

    def log_cdf(self, t: ArrayLike) -> np.ndarray:
        """Log of the distribution function, elementwise.

        Examples
        --------
        >>> from bigcat.noise import Logistic
        >>> float(Logistic().log_cdf(0.0).round(4))
        -0.6931
        """
        return self._map(_map_log_cdf, t)

    def log_cdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Derivative of `log_cdf`, elementwise."""
        return self._map(_map_log_cdf_grad, t)

    def log_pdf(self, t: ArrayLike) -> np.ndarray:
        """Log of the density, elementwise."""
        return self._map(_map_log_pdf, t)

    def log_pdf_grad(self, t: ArrayLike) -> np.ndarray:
        """Derivative of `log_pdf`, elementwise."""
        return self._map(_map_log_pdf_grad, t)

    def _map(self, function: Any, t: ArrayLike) -> np.ndarray:
        t = np.asarray(t, dtype=np.float64)
        out = np.empty(t.size)
        function(self.lower(), np.ravel(t), out)
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
