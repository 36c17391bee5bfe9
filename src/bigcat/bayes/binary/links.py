"""The two links of the independent binary model: what a row adds, its slope, its curvature.

With t = s eta, s = 1 where the row is of the class and -1 elsewhere, and v = x' Sigma x:

probit
    After q(z) is optimal a row adds log Phi(t) - v/2 to the ELBO (D.3.8, simplified: the entropy of
    the truncated normal and the energy cancel to this); the slope in eta is s phi(t)/Phi(t), so
    E[z] = eta + slope (D.3.6), by the Mills ratio of the right sign and finite at |eta| = 1e4.
logit
    After q(omega) is optimal it adds (y - 1/2) eta - log(2 cosh(xi/2)), xi^2 = v + eta^2 (E.3.12).
    This is concave in eta for a fixed v: with w(xi) = tanh(xi/2)/(2 xi) the curvature is
    w + (eta/xi)^2 xi w'(xi) >= w + xi w'(xi) = (xi w)' > 0.

A row of weight s adds all of this s times.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, ndtr, ndtri

from bigcat.bayes._arrays import Floats
from bigcat.kernels import binary_links


class Probit:
    """Is it class k?  With probability Phi(eta)."""

    name: ClassVar[str] = "probit"
    has_row_variance: ClassVar[bool] = False

    @staticmethod
    def terms(
        eta: np.ndarray,
        variance: np.ndarray | None,
        labels: np.ndarray,
        weights: np.ndarray,
        classes: np.ndarray,
        slope: np.ndarray,
        curvature: np.ndarray,
    ) -> np.ndarray:
        value = np.zeros(eta.shape[1])
        binary_links.probit_terms(eta, labels, weights, classes, value, slope, curvature)
        return value

    @staticmethod
    def values(
        eta: np.ndarray,
        variance: np.ndarray | None,
        labels: np.ndarray,
        weights: np.ndarray,
        classes: np.ndarray,
    ) -> np.ndarray:
        value = np.zeros(eta.shape[1])
        binary_links.probit_values(eta, labels, weights, classes, value)
        return value

    @staticmethod
    def score_of(probability: Floats) -> Floats:
        score: Floats = ndtri(probability)
        return score

    @staticmethod
    def log_cdf(t: np.ndarray) -> np.ndarray:
        logs: Floats = log_ndtr(t)
        return logs

    @staticmethod
    def cdf(t: np.ndarray) -> np.ndarray:
        values: Floats = ndtr(t)
        return values

    @staticmethod
    def log_odds(t: np.ndarray) -> np.ndarray:
        odds: Floats = log_ndtr(t) - log_ndtr(-t)
        return odds

    @staticmethod
    def averaged(eta: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E[Phi(eta + sqrt(variance) e)] = Phi(eta / sqrt(1 + variance)), exactly."""
        return eta / np.sqrt(1.0 + variance)


class Logit:
    """Is it class k?  With probability 1 / (1 + exp(-eta))."""

    name: ClassVar[str] = "logit"
    has_row_variance: ClassVar[bool] = True

    @staticmethod
    def terms(
        eta: np.ndarray,
        variance: np.ndarray | None,
        labels: np.ndarray,
        weights: np.ndarray,
        classes: np.ndarray,
        slope: np.ndarray,
        curvature: np.ndarray,
    ) -> np.ndarray:
        value = np.zeros(eta.shape[1])
        binary_links.logit_terms(eta, variance, labels, weights, classes, value, slope, curvature)
        return value

    @staticmethod
    def values(
        eta: np.ndarray,
        variance: np.ndarray | None,
        labels: np.ndarray,
        weights: np.ndarray,
        classes: np.ndarray,
    ) -> np.ndarray:
        value = np.zeros(eta.shape[1])
        binary_links.logit_values(eta, variance, labels, weights, classes, value)
        return value

    @staticmethod
    def score_of(probability: Floats) -> Floats:
        return np.log(probability) - np.log1p(-probability)

    @staticmethod
    def log_cdf(t: np.ndarray) -> np.ndarray:
        logs: Floats = log_expit(t)
        return logs

    @staticmethod
    def cdf(t: np.ndarray) -> np.ndarray:
        values: Floats = expit(t)
        return values

    @staticmethod
    def log_odds(t: np.ndarray) -> np.ndarray:
        return t

    @staticmethod
    def averaged(eta: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """MacKay's (1992) expectation of the sigmoid: its scale is widened as a probit's would."""
        return eta / np.sqrt(1.0 + np.pi / 8.0 * variance)


LINKS: dict[str, type[Probit] | type[Logit]] = {"probit": Probit, "logit": Logit}


def polya_gamma(
    eta: np.ndarray, variance: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """s E[omega], E[omega] = tanh(xi/2)/(2 xi) (E.3.5); sum_i s (w xi^2/2 - log(2 cosh(xi/2)))."""
    omega, constant = np.empty_like(eta), np.zeros(eta.shape[1])
    binary_links.polya_gamma(eta, variance, weights, omega, constant)
    return omega, constant
