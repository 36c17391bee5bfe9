"""Gamma distributions in an ELBO."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from bigcat.bayes._arrays import Floats


def _gamma_entropy(shape: float, rate: Floats) -> Floats:
    entropy: Floats = shape - np.log(rate) + gammaln(shape) + (1.0 - shape) * digamma(shape)
    return entropy


def gamma_terms(shape0: float, rate0: float, shape: float, rate: Floats) -> Floats:
    """E_q[log Gamma(x; shape0, rate0)] + entropy of q = Gamma(shape, rate)."""
    log_expected = digamma(shape) - np.log(rate)
    constant = shape0 * np.log(rate0) - gammaln(shape0)
    energy: Floats = constant + (shape0 - 1.0) * log_expected - rate0 * shape / rate
    return energy + _gamma_entropy(shape, rate)


def mixed_gamma_terms(shape: float, rate: Floats, mixing_rate: Floats) -> Floats:
    """The same for x | a ~ Gamma(1/2, a) with q(a) = Gamma(1, mixing_rate)."""
    log_mixing, mixing = digamma(1.0) - np.log(mixing_rate), 1.0 / mixing_rate
    log_expected = digamma(shape) - np.log(rate)
    energy: Floats = 0.5 * log_mixing - gammaln(0.5) - 0.5 * log_expected - mixing * shape / rate
    return energy + _gamma_entropy(shape, rate)
