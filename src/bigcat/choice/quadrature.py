"""Choice probabilities of noises without a closed form, with first and second derivatives.

With gaps g_j = V_j - V_y to the utility of the chosen alternative,

    p_y = integral of phi(e) prod_j F(e - g_j) de

by a trapezoid rule in e, which converges exponentially for smooth integrands (the same idea as in
`bigcat.probabilities`, but for a chunk of cases at a time in NumPy).  With the nodes' weights w_q,
normalised to add up to one, and H_j = F'/F at e_q - g_j,

    d log p / d g_j           = -E_w[H_j]
    d2 log p / d g_j d g_k    = Cov_w(H_j, H_k), plus E_w[H_j'] where j = k
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bigcat.choice.data import Array
from bigcat.compile import compiling_always
from bigcat.noise import Noise

#: The integrand counts until it is exp(-36) of its peak, in steps of a third of the peak's width.
_NEGLIGIBLE, _STEP = 36.0, 1 / 3
_MAX_NODES = 600


class Integral(NamedTuple):
    """Log-probabilities of the chosen alternatives, and what their derivatives follow from."""

    log_prob: Array  # (n,)
    weights: Array  # (n, Q): of the nodes, adding up to one per case
    hazard: Array  # (n, J, Q): H_j at the nodes, zero where there is no alternative
    hazard_derivative: Array  # (n, J): E_w[H_j']


@compiling_always()  # a fit calls it for every step
def integrate(noise: Noise, gaps: Array, present: Array) -> Integral:
    """Return log-probabilities of the chosen alternatives from the others' gaps, both (n, J)."""
    gaps = np.where(present, gaps, 0.0)

    def height(e: Array) -> Array:
        terms = noise.log_cdf(e[:, None] - gaps)
        return np.asarray(noise.log_pdf(e) + np.where(present, terms, 0.0).sum(axis=1))

    def derivative(e: Array) -> Array:
        terms = noise.log_cdf_grad(e[:, None] - gaps)
        return np.asarray(noise.log_pdf_grad(e) + np.where(present, terms, 0.0).sum(axis=1))

    mode, width = _mode(derivative, len(gaps))
    peak = height(mode)
    ends = []
    for sign in (-1.0, 1.0):
        inner, reach = np.zeros(len(gaps)), 2.0 * width
        for _ in range(60):
            near = height(mode + sign * reach) - peak > -_NEGLIGIBLE
            if not near.any():
                break
            inner = np.where(near, reach, inner)
            reach = np.where(near, 2.0 * reach, reach)
        for _ in range(3):
            middle = 0.5 * (inner + reach)
            near = height(mode + sign * middle) - peak > -_NEGLIGIBLE
            inner, reach = np.where(near, middle, inner), np.where(near, reach, middle)
        ends.append(mode + sign * reach)
    n_nodes = int(np.ceil(np.max((ends[1] - ends[0]) / width) / _STEP)) + 1
    n_nodes = min(max(n_nodes, 17), _MAX_NODES)
    spacing = (ends[1] - ends[0]) / (n_nodes - 1)
    nodes = ends[0][:, None] + spacing[:, None] * np.arange(n_nodes)
    levels = nodes[:, None, :] - gaps[:, :, None]
    there = present[:, :, None]
    heights = noise.log_pdf(nodes) + np.where(there, noise.log_cdf(levels), 0.0).sum(axis=1)
    weights = np.exp(heights - peak[:, None])
    totals = weights.sum(axis=1)
    weights /= totals[:, None]
    hazard = np.where(there, noise.log_cdf_grad(levels), 0.0)
    changes = hazard * (np.where(there, noise.log_pdf_grad(levels), 0.0) - hazard)
    log_prob = np.minimum(peak + np.log(totals * spacing), 0.0)
    return Integral(log_prob, weights, hazard, np.einsum("ijq,iq->ij", changes, weights))


def _mode(derivative: Callable[[Array], Array], n: int) -> tuple[Array, Array]:
    """Return where a falling function is zero, roughly, and the width of the peak there."""
    low, high = np.full(n, -1.0), np.full(n, 1.0)
    for end, sign in ((low, -1.0), (high, 1.0)):
        for _ in range(60):
            beyond = sign * derivative(end) > 0.0
            if not beyond.any():
                break
            end[beyond] *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        rising = derivative(middle) > 0.0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        if (high - low).max() < 0.02:
            break
    mode = 0.5 * (low + high)
    step = 1e-3
    fall = (derivative(mode - step) - derivative(mode + step)) / (2.0 * step)
    return mode, 1.0 / np.sqrt(np.maximum(fall, 1.0))
