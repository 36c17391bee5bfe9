"""The reference noises: tails against mpmath, derivatives, quantiles."""

import mpmath
import numpy as np
import pytest

from reference.noise import GAUSSIAN, GUMBEL, LOGISTIC, STUDENT_T

NOISES = [GUMBEL, GAUSSIAN, LOGISTIC, STUDENT_T]
by_name = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
mpmath.mp.dps = 60


def true_cdf_pdf(name, x):
    """Distribution function and density in 60 digits."""
    x = mpmath.mpf(x)
    if name == "gumbel":
        return mpmath.exp(-mpmath.exp(-x)), mpmath.exp(-x - mpmath.exp(-x))
    if name == "gaussian":
        cdf = mpmath.erfc(-x / mpmath.sqrt(2)) / 2
        return cdf, mpmath.exp(-(x**2) / 2) / mpmath.sqrt(2 * mpmath.pi)
    if name == "logistic":
        return 1 / (1 + mpmath.exp(-x)), 1 / (2 + mpmath.exp(x) + mpmath.exp(-x))
    a = x / mpmath.sqrt(3)
    cdf = mpmath.mpf(1) / 2 + (a / (1 + a**2) + mpmath.atan(a)) / mpmath.pi
    return cdf, 2 / (mpmath.pi * mpmath.sqrt(3) * (1 + a**2) ** 2)


POINTS = [-36.0, -7.3, -1.2, -0.3, 0.0, 0.4, 2.1, 5.7, 9.9]
FAR_POINTS = [-1e4, -300.0]  # where the Gumbel's exp(-exp(300)) is out of range for mpmath too


@pytest.mark.parametrize(
    ("noise", "x"),
    [(n, x) for n in NOISES for x in POINTS + FAR_POINTS if n is not GUMBEL or x in POINTS],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_values_match_mpmath(noise, x):
    cdf, pdf = true_cdf_pdf(noise.name, x)
    with mpmath.workdps(60):
        expected = [float(v) for v in (mpmath.log(cdf), pdf / cdf, mpmath.log(pdf))]
    found = [float(f(np.float64(x))) for f in (noise.log_cdf, noise.log_cdf_grad, noise.log_pdf)]
    np.testing.assert_allclose(found, expected, rtol=2e-13, atol=0)


@by_name
def test_upper_tail_keeps_its_relative_accuracy(noise):
    # 1 - cdf is far below the rounding error of cdf there.
    for x in [12.0, 30.0]:
        with mpmath.workdps(300):
            expected = float(mpmath.log(true_cdf_pdf(noise.name, x)[0]))
        assert noise.log_cdf(np.float64(x)) == pytest.approx(expected, rel=1e-12)


@by_name
def test_quantile_inverts_the_cdf(noise):
    x = np.array([-1.5, -0.4, 0.0, 0.8, 3.5])
    np.testing.assert_allclose(noise.quantile(np.exp(noise.log_cdf(x))), x, atol=1e-12)
