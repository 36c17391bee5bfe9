"""The reference bounds: below the exact value, tight at their optimum, gradients, unbiasedness."""

import numpy as np
import pytest

from reference import bounds
from reference.noise import GAUSSIAN, GUMBEL, LOGISTIC, STUDENT_T

PSI_Y = 0.4
PSI = np.array([1.3, -0.8, 0.1, -2.5, 2.2])  # asymmetric on purpose
WEIGHTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
ONES = np.ones(PSI.size)
LOG_ETA, ALPHA, MU, GAMMA = 1.7, 1.1, 0.9, -0.3
OTHER_NOISES = [GAUSSIAN, LOGISTIC, STUDENT_T]


def at_fixed_local(noise):
    rule = bounds.quadrature(noise.family, 12)
    return lambda y, psi, w: bounds.augment_reduce(noise, y, psi, w, MU, GAMMA, rule)


# Sums over the classes: the ones whose sampled version is unbiased.
SUMS = {
    "one-vs-each": bounds.one_vs_each,
    "bouchard at an alpha": lambda y, psi, w: bounds.bouchard(y, psi, w, ALPHA),
    "softmax augment-reduce": lambda y, psi, w: bounds.softmax_augment_reduce(y, psi, w, LOG_ETA),
    **{f"augment-reduce {noise.name}": at_fixed_local(noise) for noise in OTHER_NOISES},
}
ALL = {
    **SUMS,
    "exact": lambda psi_y, psi, weights: bounds.exact(psi_y, psi),
    "bouchard": bounds.bouchard,
    "equation 6": lambda psi_y, psi, weights: bounds.exact_times_one_vs_each(
        psi_y, psi[:2], psi[2:], weights[2:]
    ),
}


@pytest.mark.parametrize("name", ALL)
def test_gradients_match_finite_differences(name):
    bound, h = ALL[name], 1e-5
    found = bound(PSI_Y, PSI, WEIGHTS)
    up, down = bound(PSI_Y + h, PSI, WEIGHTS).value, bound(PSI_Y - h, PSI, WEIGHTS).value
    assert found.grad_y == pytest.approx((up - down) / (2 * h), abs=1e-8)
    for k in range(PSI.size):
        step = h * (np.arange(PSI.size) == k)
        up, down = (bound(PSI_Y, PSI + s, WEIGHTS).value for s in (step, -step))
        assert found.grads[k] == pytest.approx((up - down) / (2 * h), abs=1e-8)


# Bounds on the softmax


def test_bouchard_alpha():
    # Two classes: the mean of the scores (OVE, equation 13). All equal: f + log(K - 1).
    assert bounds.bouchard_alpha(3.0, np.array([-1.5]), np.ones(1)) == pytest.approx(0.75)
    alpha = bounds.bouchard_alpha(2.0, np.full(9, 2.0), np.ones(9))
    assert alpha == pytest.approx(2.0 + np.log(9.0))
    # alpha = f_y gives half of the one-vs-each bound (OVE, below equation 12).
    half = bounds.bouchard(PSI_Y, PSI, ONES, alpha=PSI_Y).value
    assert half == pytest.approx(bounds.one_vs_each(PSI_Y, PSI, ONES).value - np.log(2.0))


@pytest.mark.parametrize("seed", range(10))
def test_bouchard_alpha_is_stationary(seed):
    rng = np.random.default_rng(seed)
    psi, weights = rng.normal(0, 10, 8), rng.uniform(0.2, 30, 8)
    found = bounds.bouchard(1.0, psi, weights)
    assert found.grad_y + found.grads.sum() == pytest.approx(0.0, abs=1e-12)


# Augment and reduce with other noises


@pytest.mark.parametrize(
    ("density", "mean", "variance"),
    [(GAUSSIAN, 0.0, 1.0), (LOGISTIC, 0.0, np.pi**2 / 3), (GUMBEL, np.euler_gamma, np.pi**2 / 6)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_quadrature_moments(density, mean, variance):
    u, w = bounds.quadrature(density.name, 20)
    assert w @ u == pytest.approx(mean, abs=1e-9)
    assert w @ (u - mean) ** 2 == pytest.approx(variance, rel=1e-6)
    # The entropy of the standard member is -E[log density].
    assert -w @ density.log_pdf(u) == pytest.approx(bounds.ENTROPY[density.name], rel=1e-6)


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
