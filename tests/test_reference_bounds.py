"""The reference bounds: below the exact value, tight at their optimum, gradients, unbiasedness."""

import numpy as np
import pytest

from reference import bounds
from reference.noise import GAUSSIAN, GUMBEL

PSI_Y = 0.4
PSI = np.array([1.3, -0.8, 0.1, -2.5, 2.2])  # asymmetric on purpose
WEIGHTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
ONES = np.ones(PSI.size)
LOG_ETA, ALPHA, MU, GAMMA = 1.7, 1.1, 0.9, -0.3


# Augment and reduce with other noises


def test_natural_step_is_the_natural_gradient_for_a_gaussian():
    # In the natural parameters (mu / s^2, -1 / (2 s^2)) the natural gradient is the gradient in the
    # mean parameters (mu, mu^2 + s^2), here by finite differences of the whole bound.
    row, rule, step, h = (
        (GAUSSIAN, PSI_Y, PSI, WEIGHTS),
        bounds.quadrature("gaussian", 40),
        0.1,
        1e-5,
    )
    mu, s = MU, bounds.softplus(GAMMA)
    mean = np.array([mu, mu**2 + s**2])

    def value(mean):
        gamma = bounds.inverse_softplus(np.sqrt(mean[1] - mean[0] ** 2))
        return bounds.augment_reduce(*row, mean[0], gamma, rule).value

    gradient = [(value(mean + d) - value(mean - d)) / (2 * h) for d in h * np.eye(2)]
    natural = np.array([mu / s**2, -0.5 / s**2]) + step * np.array(gradient)
    s_new = np.sqrt(-0.5 / natural[1])
    mu_found, gamma_found = bounds.local_natural_step(*row, mu, GAMMA, rule, step)
    assert bounds.softplus(gamma_found) == pytest.approx(s_new, rel=1e-7)
    assert mu_found == pytest.approx(natural[0] * s_new**2, rel=1e-7)


def test_gumbel_q_gives_the_softmax_bound():
    # Equation 8 is equation 7 with q = Gumbel(log eta, 1): by quadrature over that q.
    log_eta = 1.2
    v = np.linspace(-6.0, 45.0, 20_001)
    e = log_eta + v
    log_q = GUMBEL.log_pdf(v)
    joint = GUMBEL.log_pdf(e) + GUMBEL.log_cdf(e[:, None] + PSI_Y - PSI) @ ONES
    value = np.sum(np.exp(log_q) * (joint - log_q)) * (v[1] - v[0])
    expected = bounds.softmax_augment_reduce(PSI_Y, PSI, ONES, log_eta).value
    assert value == pytest.approx(expected, rel=1e-9)
