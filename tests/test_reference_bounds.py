"""The reference bounds: below the exact value, tight where they should be, slopes, unbiasedness."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.special import log_expit

from reference import bounds
from reference.noise import GAUSSIAN, GUMBEL, LOGISTIC, STUDENT_T
from reference.probabilities import log_prob_of

PSI_Y = 0.4
PSI = np.array([1.3, -0.8, 0.1, -2.5, 2.2])  # asymmetric on purpose
WEIGHTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
ONES = np.ones(PSI.size)
LOG_ETA, ALPHA, MU, GAMMA = 1.7, 1.1, 0.9, -0.3
OTHER_NOISES = [GAUSSIAN, LOGISTIC, STUDENT_T]
other_noises = pytest.mark.parametrize("noise", OTHER_NOISES, ids=lambda noise: noise.name)


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
# Those that do not change when a constant is added to all scores at a fixed local parameter.
INVARIANT = {name: bound for name, bound in ALL.items() if name != "bouchard at an alpha"}


@pytest.mark.parametrize("name", ALL)
def test_slopes_match_finite_differences(name):
    bound, h = ALL[name], 1e-5
    found = bound(PSI_Y, PSI, WEIGHTS)
    up, down = bound(PSI_Y + h, PSI, WEIGHTS).value, bound(PSI_Y - h, PSI, WEIGHTS).value
    assert found.slope_y == pytest.approx((up - down) / (2 * h), abs=1e-8)
    for k in range(PSI.size):
        step = h * (np.arange(PSI.size) == k)
        up, down = (bound(PSI_Y, PSI + s, WEIGHTS).value for s in (step, -step))
        assert found.slopes[k] == pytest.approx((up - down) / (2 * h), abs=1e-8)


@pytest.mark.parametrize("name", INVARIANT)
def test_shift_invariance(name):
    here = INVARIANT[name](PSI_Y, PSI, WEIGHTS)
    there = INVARIANT[name](PSI_Y + 31.5, PSI + 31.5, WEIGHTS)
    assert there.value == pytest.approx(here.value, abs=1e-11)
    np.testing.assert_allclose(there.slopes, here.slopes, atol=1e-11)
    assert here.slope_y == pytest.approx(-here.slopes.sum(), abs=1e-12)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("n_negatives", [1, 2, 4])
def test_sampled_value_and_slopes_are_unbiased(name, n_negatives):
    # The mean over all subsets of that size is the expectation: no randomness involved.
    full = SUMS[name](PSI_Y, PSI, ONES)
    weights = np.full(n_negatives, PSI.size / n_negatives)
    subsets = [list(s) for s in combinations(range(PSI.size), n_negatives)]
    values, slopes_y, slopes = [], [], np.zeros(PSI.size)
    for subset in subsets:
        sampled = SUMS[name](PSI_Y, PSI[subset], weights)
        values.append(sampled.value)
        slopes_y.append(sampled.slope_y)
        slopes[subset] += sampled.slopes / len(subsets)
    assert np.mean(values) == pytest.approx(full.value, rel=1e-12)
    assert np.mean(slopes_y) == pytest.approx(full.slope_y, rel=1e-12)
    np.testing.assert_allclose(slopes, full.slopes, rtol=1e-12)


@pytest.mark.parametrize("name", ["bouchard", "softmax augment-reduce"])
def test_optimal_local_parameter_of_a_sample_is_biased(name):
    # Why unbiasedness is claimed at a fixed local parameter only.
    def optimal(psi, weights):
        if name == "bouchard":
            return bounds.bouchard(PSI_Y, psi, weights).value
        best = bounds.log_eta_estimate(PSI_Y, psi, weights)
        return bounds.softmax_augment_reduce(PSI_Y, psi, weights, best).value

    singles = [optimal(PSI[[k]], np.array([PSI.size])) for k in range(PSI.size)]
    assert np.mean(singles) > optimal(PSI, ONES) + 0.01


# Bounds on the softmax


@pytest.fixture(params=range(20))
def softmax_row(request):
    rng = np.random.default_rng(request.param)
    n_classes = int(rng.integers(2, 12))
    psi = rng.normal(0, rng.choice([0.1, 1.0, 6.0]), n_classes)
    return psi[0], psi[1:], bounds.exact(psi[0], psi[1:]).value


def test_softmax_bounds_are_below_the_exact_value(softmax_row):
    psi_y, psi, exact = softmax_row
    ones = np.ones(psi.size)
    assert bounds.one_vs_each(psi_y, psi, ones).value <= exact + 1e-14
    assert bounds.bouchard(psi_y, psi, ones).value <= exact
    for log_eta in [-1.0, 0.0, 2.0, 9.0]:
        assert bounds.softmax_augment_reduce(psi_y, psi, ones, log_eta).value <= exact
    for alpha in [psi_y - 3, psi_y, psi_y + 3]:
        at_alpha = bounds.bouchard(psi_y, psi, ones, alpha=alpha).value
        assert at_alpha <= bounds.bouchard(psi_y, psi, ones).value + 1e-13


def test_softmax_augment_reduce_is_tight_at_the_optimal_eta(softmax_row):
    psi_y, psi, exact = softmax_row
    ones = np.ones(psi.size)
    best = bounds.log_eta_estimate(psi_y, psi, ones)
    tight = bounds.softmax_augment_reduce(psi_y, psi, ones, best)
    assert tight.value == pytest.approx(exact, abs=1e-12)
    np.testing.assert_allclose(tight.slopes, bounds.exact(psi_y, psi).slopes, rtol=1e-11)


def test_equation_6_is_tighter_with_a_larger_exact_set(softmax_row):
    psi_y, psi, exact = softmax_row
    ones = np.ones(psi.size)
    values = [
        bounds.exact_times_one_vs_each(psi_y, psi[:c], psi[c:], ones[c:]).value
        for c in range(psi.size + 1)
    ]
    assert values[0] == pytest.approx(bounds.one_vs_each(psi_y, psi, ones).value, abs=1e-13)
    assert values[1] == pytest.approx(values[0], abs=1e-13)  # one class: its own softmax
    assert (np.diff(values) >= -1e-13).all()
    assert values[-1] == pytest.approx(exact, abs=1e-13)


def test_one_vs_each_is_exact_for_two_classes():
    found = bounds.one_vs_each(0.3, np.array([1.9]), np.ones(1))
    exact = bounds.exact(0.3, np.array([1.9]))
    assert found.value == pytest.approx(exact.value, rel=1e-14)
    assert found.slope_y == pytest.approx(exact.slope_y, rel=1e-14)


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
    assert found.slope_y + found.slopes.sum() == pytest.approx(0.0, abs=1e-12)


def test_softmax_local_step():
    step = bounds.softmax_local_step(np.log(3.0), np.log(11.0), 0.25)
    assert np.exp(step) == pytest.approx(0.75 * 3.0 + 0.25 * 11.0)
    assert bounds.softmax_local_step(5.0, 900.0, 1.0) == 900.0


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


def test_a_gumbel_q_suits_logistic_noise_with_many_classes():
    psi = np.random.default_rng(2).standard_normal(200)
    exact, gap = log_prob_of(LOGISTIC, psi, 0)[0], {}
    for family in ["logistic", "gaussian", "gumbel"]:
        row = (replace(LOGISTIC, family=family), psi[0], psi[1:], np.ones(199))
        rule = bounds.quadrature(family, 60)
        gap[family] = (
            exact - bounds.augment_reduce(*row, *bounds.optimal_local(*row, rule), rule)[0]
        )
    assert 0 < gap["gumbel"] < 1e-3 < 0.05 < gap["gaussian"] < gap["logistic"]


@other_noises
def test_local_gradient_matches_finite_differences(noise):
    row, rule, h = (noise, PSI_Y, PSI, WEIGHTS), bounds.quadrature(noise.family, 7), 1e-5
    found = bounds.local_gradient(*row, MU, GAMMA, rule)
    for i, step in enumerate(h * np.eye(2)):
        up = bounds.augment_reduce(*row, MU + step[0], GAMMA + step[1], rule).value
        down = bounds.augment_reduce(*row, MU - step[0], GAMMA - step[1], rule).value
        assert found[i] == pytest.approx((up - down) / (2 * h), abs=1e-7)


@other_noises
def test_one_sample_averages_to_the_quadrature(noise):
    # 4 standard errors over 5,000 draws, the seed fixed.
    row, rng = (noise, PSI_Y, PSI, ONES), np.random.default_rng(8)
    draws = np.array(
        [
            bounds.local_gradient(*row, MU, GAMMA, bounds.one_sample(noise.family, rng))
            for _ in range(5_000)
        ]
    )
    expected = bounds.local_gradient(*row, MU, GAMMA, bounds.quadrature(noise.family, 60))
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 4 * error).all()


@other_noises
@pytest.mark.parametrize("y", [0, 1, 4])
def test_augment_reduce_is_below_and_near_the_exact_value(noise, y):
    psi = np.append(PSI_Y, PSI)
    others, rule = np.delete(psi, y), bounds.quadrature(noise.family, 40)
    exact = log_prob_of(noise, psi, y)[0]
    row = (noise, psi[y], others, np.ones(others.size))
    best = bounds.augment_reduce(*row, *bounds.optimal_local(*row, rule), rule).value
    assert bounds.augment_reduce(*row, MU, GAMMA, rule).value <= best <= exact
    # How far below is a property of the family: a Gaussian q has lighter tails than a t posterior.
    assert exact - best < {"gaussian": 0.02, "logistic": 0.05}.get(noise.name, 0.5)


@pytest.mark.parametrize(("noise", "gain"), [(GAUSSIAN, 1.0), (LOGISTIC, 1.0), (LOGISTIC, 3.0)])
@pytest.mark.parametrize("step", [1.0, 0.4])
def test_natural_step_has_the_fixed_point_of_the_bound(noise, gain, step):
    row, rule = (noise, PSI_Y, PSI, WEIGHTS), bounds.quadrature(noise.family, 30)
    local = 0.0, bounds.inverse_softplus(1.0)
    for _ in range(100 if gain == 3.0 or noise is GAUSSIAN else 400):
        local = bounds.local_natural_step(*row, *local, rule, step, gain)
    np.testing.assert_allclose(bounds.local_gradient(*row, *local, rule), 0.0, atol=1e-10)
    np.testing.assert_allclose(local, bounds.optimal_local(*row, rule), atol=1e-6)


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


def test_natural_step_says_when_the_precision_would_be_negative():
    one_draw = np.array([0.2]), np.ones(1)
    with pytest.raises(ValueError, match=r"the step 1.0 leads to the precision -.*smaller step"):
        bounds.local_natural_step(GAUSSIAN, PSI_Y, PSI, ONES, 0.0, 0.0, one_draw, 1.0)


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


# Extreme scores


@pytest.mark.parametrize("size", [1e3, 1e9])
@pytest.mark.parametrize("psi_y", [-1.0, 0.0, 1.0])
def test_extreme_scores_stay_finite(size, psi_y):
    psi_y, psi, ones = size * psi_y, size * np.array([1.0, 0.25, -1.0]), np.ones(3)
    log_eta = bounds.log_eta_estimate(psi_y, psi, ones)
    found = [
        bounds.exact(psi_y, psi),
        bounds.one_vs_each(psi_y, psi, ones),
        bounds.exact_times_one_vs_each(psi_y, psi[:1], psi[1:], ones[1:]),
        bounds.bouchard(psi_y, psi, ones),
        bounds.softmax_augment_reduce(psi_y, psi, ones, log_eta),
        *(
            bounds.augment_reduce(
                noise, psi_y, psi, ones, MU, GAMMA, bounds.quadrature(noise.family, 10)
            )
            for noise in OTHER_NOISES
        ),
    ]
    for bound in found:
        assert np.isfinite([bound.value, bound.slope_y, *bound.slopes]).all()
    for bound in found[1:5]:
        assert bound.value <= found[0].value + 1e-15 * size
    assert found[1].value == pytest.approx(log_expit(psi_y - psi).sum())


@pytest.mark.parametrize("noise", [GAUSSIAN, LOGISTIC], ids=lambda noise: noise.name)
def test_optimal_local_parameters_for_a_very_unlikely_class(noise):
    psi, rule = np.array([40.0, 38.0, 3.0]), bounds.quadrature(noise.family, 40)
    row = (noise, 0.0, psi, np.ones(3))
    best = bounds.augment_reduce(*row, *bounds.optimal_local(*row, rule), rule).value
    exact = log_prob_of(noise, np.append(0.0, psi), 0)[0]
    assert exact - 0.5 < best < exact
