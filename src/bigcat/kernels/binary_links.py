"""Contributions of rows to the ELBO of binary regressions, with gradients and curvatures."""

from __future__ import annotations

import math

from bigcat.compile import kernel
from bigcat.numerics.special import log_ndtr_with_grad


@kernel
def probit_terms(eta, labels, weights, classes, value, grad, curvature):
    """Add probit log-likelihoods to `value`; write gradients and curvatures."""
    for i in range(eta.shape[0]):
        for b in range(eta.shape[1]):
            sign = 1.0 if labels[i] == classes[b] else -1.0
            t = sign * eta[i, b]
            log_cdf, ratio = log_ndtr_with_grad(t)
            value[b] += weights[i] * log_cdf
            grad[i, b] = weights[i] * sign * ratio
            # phi/Phi (phi/Phi + t) lies in (0, 1); far out its second factor is rounding.
            curvature[i, b] = weights[i] * min(max(ratio * (ratio + t), 0.0), 1.0)


@kernel
def probit_values(eta, labels, weights, classes, value):
    """Add probit log-likelihoods to `value`."""
    for i in range(eta.shape[0]):
        for b in range(eta.shape[1]):
            t = eta[i, b] if labels[i] == classes[b] else -eta[i, b]
            value[b] += weights[i] * log_ndtr_with_grad(t)[0]


@kernel
def logit_terms(eta, variance, labels, weights, classes, value, grad, curvature):
    """Add logit bounds (Jaakkola and Jordan) to `value`; write gradients and curvatures."""
    for i in range(eta.shape[0]):
        for b in range(eta.shape[1]):
            e = eta[i, b]
            sign = 0.5 if labels[i] == classes[b] else -0.5
            xi = math.sqrt(variance[i, b] + e * e)
            decay = math.exp(-xi)
            value[b] += weights[i] * (sign * e - 0.5 * xi - math.log1p(decay))
            if xi < 1e-4:
                w = 0.25 - xi * xi / 48.0
                bend = -xi * xi / 24.0
            else:
                w = 0.5 * (1.0 - decay) / ((1.0 + decay) * xi)
                bend = decay / ((1.0 + decay) * (1.0 + decay)) - w  # xi w'(xi)
            grad[i, b] = weights[i] * (sign - w * e)
            share = e * e / (xi * xi) if xi > 0.0 else 0.0
            curvature[i, b] = weights[i] * (w + share * bend)


@kernel
def logit_values(eta, variance, labels, weights, classes, value):
    """Add logit bounds (Jaakkola and Jordan) to `value`."""
    for i in range(eta.shape[0]):
        for b in range(eta.shape[1]):
            e = eta[i, b]
            xi = math.sqrt(variance[i, b] + e * e)
            sign = 0.5 if labels[i] == classes[b] else -0.5
            value[b] += weights[i] * (sign * e - 0.5 * xi - math.log1p(math.exp(-xi)))


@kernel
def polya_gamma(eta, variance, weights, omega, constant):
    """Write the expected Polya-Gamma variables and add the constants of their bounds."""
    for i in range(eta.shape[0]):
        for b in range(eta.shape[1]):
            square = variance[i, b] + eta[i, b] * eta[i, b]
            xi = math.sqrt(square)
            decay = math.exp(-xi)
            if xi < 1e-4:
                w = 0.25 - square / 48.0
            else:
                w = 0.5 * (1.0 - decay) / ((1.0 + decay) * xi)
            omega[i, b] = weights[i] * w
            constant[b] += weights[i] * (0.5 * (w * square - xi) - math.log1p(decay))
