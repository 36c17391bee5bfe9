"""The two links of the independent binary model: value, gradient and curvature of a row.

With t = s eta, s = 1 where the row is of the class and -1 elsewhere, and v = x' Sigma x:

probit
    After q(z) is optimal a row adds log Phi(t) - v/2 to the ELBO (D.3.8, simplified: the entropy of
    the truncated normal and the energy cancel to this); the gradient in eta is s phi(t)/Phi(t), so
    E[z] = eta + gradient (D.3.6), by the Mills ratio of the right sign and finite at |eta| = 1e4.
logit
    After q(omega) is optimal it adds (y - 1/2) eta - log(2 cosh(xi/2)), xi^2 = v + eta^2 (E.3.12).
    This is concave in eta for a fixed v: with w(xi) = tanh(xi/2)/(2 xi) the curvature is
    w + (eta/xi)^2 xi w'(xi) >= w + xi w'(xi) = (xi w)' > 0.

A row of weight s adds all of this s times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit, log_ndtr, logit, ndtri

from bigcat.bayes._arrays import Floats
from bigcat.kernels import binary_links


class Link(ABC):
    """A link of binary regressions, as kernels over rows (n, B) and classes (B,)."""

    name: ClassVar[str]
    #: True if the terms of a row depend on the variance of its score.
    has_row_variance: ClassVar[bool]
    value_kernel: ClassVar[Callable[..., None]]
    term_kernel: ClassVar[Callable[..., None]]
    #: The score with a probability, and the logarithm of the probability at a score.
    score_of: ClassVar[Callable[[Floats], Floats]]
    log_cdf: ClassVar[Callable[[Floats], Floats]]

    @classmethod
    def _inputs(cls, eta: Floats, variance: Floats | None, *others: np.ndarray) -> tuple[Any, ...]:
        return (eta, variance, *others) if cls.has_row_variance else (eta, *others)

    @classmethod
    def values(
        cls,
        eta: Floats,
        variance: Floats | None,
        labels: np.ndarray,
        weights: Floats,
        classes: np.ndarray,
    ) -> Floats:
        """Return sums over rows for each class, (B,)."""
        value = np.zeros(eta.shape[1])
        cls.value_kernel(*cls._inputs(eta, variance, labels, weights, classes), value)
        return value

    @classmethod
    def terms(
        cls,
        eta: Floats,
        variance: Floats | None,
        labels: np.ndarray,
        weights: Floats,
        classes: np.ndarray,
        score_gradient: Floats,
        curvature: Floats,
    ) -> Floats:
        """Return `values`, and write gradients and curvatures in the scores, (n, B)."""
        value = np.zeros(eta.shape[1])
        inputs = cls._inputs(eta, variance, labels, weights, classes)
        cls.term_kernel(*inputs, value, score_gradient, curvature)
        return value

    @staticmethod
    @abstractmethod
    def log_odds(t: Floats) -> Floats:
        """Return the logarithm of the odds at a score."""

    @staticmethod
    @abstractmethod
    def averaged(eta: Floats, variance: Floats) -> Floats:
        """Return the score whose probability is the mean under N(eta, variance)."""


class Probit(Link):
    """Probability Phi(eta)."""

    name: ClassVar[str] = "probit"
    has_row_variance: ClassVar[bool] = False
    value_kernel = staticmethod(binary_links.probit_values)
    term_kernel = staticmethod(binary_links.probit_terms)
    score_of = staticmethod(ndtri)
    log_cdf = staticmethod(log_ndtr)

    @staticmethod
    def log_odds(t: np.ndarray) -> np.ndarray:
        odds: Floats = log_ndtr(t) - log_ndtr(-t)
        return odds

    @staticmethod
    def averaged(eta: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E[Phi(eta + sqrt(variance) e)] = Phi(eta / sqrt(1 + variance)), exactly."""
        return eta / np.sqrt(1.0 + variance)


class Logit(Link):
    """Probability 1 / (1 + exp(-eta))."""

    name: ClassVar[str] = "logit"
    has_row_variance: ClassVar[bool] = True
    value_kernel = staticmethod(binary_links.logit_values)
    term_kernel = staticmethod(binary_links.logit_terms)
    score_of = staticmethod(logit)
    log_cdf = staticmethod(log_expit)

    @staticmethod
    def log_odds(t: np.ndarray) -> np.ndarray:
        return t

    @staticmethod
    def averaged(eta: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """MacKay's (1992) expectation of the sigmoid: its scale is widened as a probit's would."""
        return eta / np.sqrt(1.0 + np.pi / 8.0 * variance)


LINKS: dict[str, type[Link]] = {"probit": Probit, "logit": Logit}


def polya_gamma(
    eta: np.ndarray, variance: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return s E[omega] (n, B), and sum_i s (w xi^2/2 - log(2 cosh(xi/2))), (B,).

    E[omega] is w = tanh(xi/2)/(2 xi) (E.3.5).
    """
    omega, constant = np.empty_like(eta), np.zeros(eta.shape[1])
    binary_links.polya_gamma(eta, variance, weights, omega, constant)
    return omega, constant
