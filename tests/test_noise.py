"""The battery of the noises: derivatives, tails, mass, extremes, and the same in plain NumPy."""

import math
import re

import mpmath
import numpy as np
import pytest

import bigcat.noise
from bigcat.noise import CustomNoise, Gaussian, resolve
from bigcat.probabilities import log_probabilities
from bigcat.verbs import log_cdf_with_grad

POINTS = np.array([-6.3, -2.2, -0.9, -0.05, 0.0, 0.4, 1.7, 5.1])  # asymmetric on purpose
FAR = [-300.0, -40.0, -12.5, -3.0, -0.7, 0.0, 0.3, 2.0, 7.9, 35.0]
VERBS = ["log_cdf", "log_cdf_grad", "log_pdf", "log_pdf_grad"]


def _student_t_cdf(t):
    u = abs(t) / mpmath.sqrt(3)
    tail = (mpmath.atan(1 / u) if u else mpmath.pi / 2) - u / (1 + u * u)
    return tail / mpmath.pi if t < 0 else 1 - tail / mpmath.pi


def _gaussian_cdf(t):
    return mpmath.erfc(-t / mpmath.sqrt(2)) / 2


# (cdf, log of the density), in as many digits as mpmath is told to carry.
EXACT = {
    "gumbel": (lambda t: mpmath.exp(-mpmath.exp(-t)), lambda t: -t - mpmath.exp(-t)),
    "gaussian": (_gaussian_cdf, lambda t: -t * t / 2 - mpmath.log(2 * mpmath.pi) / 2),
    "logistic": (
        lambda t: 1 / (1 + mpmath.exp(-t)),
        lambda t: -t - 2 * mpmath.log(1 + mpmath.exp(-t)),
    ),
    "student-t": (
        _student_t_cdf,
        lambda t: mpmath.log(2 / (mpmath.pi * mpmath.sqrt(3))) - 2 * mpmath.log(1 + t * t / 3),
    ),
}
SLOPE = {  # of the log of the density
    "gumbel": lambda t: mpmath.exp(-t) - 1,
    "gaussian": lambda t: -t,
    "logistic": lambda t: -mpmath.tanh(t / 2),
    "student-t": lambda t: -4 * t / (3 + t * t),
}


@pytest.mark.parametrize("verb", ["log_cdf", "log_pdf"])
def test_derivatives_are_finite_differences(pair, verb):
    h = 1e-5
    function, stated = getattr(pair.noise, verb), getattr(pair.noise, f"{verb}_grad")(POINTS)
    measured = (function(POINTS + h) - function(POINTS - h)) / (2 * h)
    np.testing.assert_allclose(stated, measured, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("t", FAR)
def test_tails_against_many_digits(pair, t):
    cdf, log_pdf = EXACT[pair.name]
    with mpmath.workdps(320):
        t_mp = mpmath.mpf(t)
        log_cdf = mpmath.log(cdf(t_mp))
        expected = {
            "log_cdf": log_cdf,
            "log_cdf_grad": mpmath.exp(log_pdf(t_mp) - log_cdf),
            "log_pdf": log_pdf(t_mp),
            "log_pdf_grad": SLOPE[pair.name](t_mp),
        }
        for verb in VERBS:
            found = float(getattr(pair.noise, verb)(t))
            # Tiny values may be denormal.
            assert found == pytest.approx(float(expected[verb]), rel=2e-13, abs=1e-300), verb


def test_density_has_mass_one_and_the_cdf_as_integral(pair):
    v, dv = np.linspace(-32.0, 32.0, 40_001, retstep=True)
    t = np.sinh(v)
    mass = np.exp(pair.noise.log_pdf(t)) * np.cosh(v) * dv
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    # Halves of the last cell: an error of order dv^2.
    cut = np.array([12_000, 19_000, 20_500, 23_000])
    below = np.cumsum(mass)[cut] - 0.5 * mass[cut]
    np.testing.assert_allclose(np.exp(pair.noise.log_cdf(t[cut])), below, rtol=1e-3, atol=1e-12)


def test_quantiles_of_the_twin_are_inverted(pair):
    p = np.array([1e-6, 0.02, 0.3, 0.5, 0.77, 0.9999])
    np.testing.assert_allclose(pair.noise.log_cdf(pair.twin.quantile(p)), np.log(p), rtol=1e-9)


@pytest.mark.parametrize("verb", VERBS)
def test_agrees_with_the_twin(pair, verb):
    t = np.linspace(-30.0, 25.0, 200)
    found, expected = getattr(pair.noise, verb)(t), getattr(pair.twin, verb)(t)
    # The Gaussian's upper tail beyond 12 is a short series, wrong by 1e-10 of what is 1e-33.
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-40)


@pytest.mark.parametrize("verb", VERBS)
def test_extremes_are_finite(pair, verb):
    t = np.array([-1e9, -1e3, 1e3, 1e9])
    found = getattr(pair.noise, verb)(t)
    assert np.isfinite(found).all()
    if verb == "log_cdf":
        assert (np.diff(found) >= 0).all()
        assert found[-1] == pytest.approx(0.0, abs=1e-9)
        assert found[0] < -50


def test_value_and_derivative_together(pair):
    t = np.array([-1e9, *FAR, *POINTS, 12.5, 1e9])
    with np.errstate(all="ignore"):
        values, grads = zip(*(log_cdf_with_grad(pair.noise.lower(), x) for x in t))
    np.testing.assert_allclose(values, pair.noise.log_cdf(t), rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(grads, pair.noise.log_cdf_grad(t), rtol=1e-14, atol=1e-300)


def test_resolve():
    assert all(resolve(name) is member for name, member in bigcat.noise.REGISTRY.items())
    assert resolve(Gaussian()) == Gaussian()
    for wrong in ("normal", 3, None, ["gumbel"]):
        with pytest.raises(ValueError, match="is not known; choose one of 'gumbel', 'gaussian'"):
            resolve(wrong)  # type: ignore[arg-type]


def wrong_log_pdf_grad(t):
    return -t + 0.01


def test_a_wrong_derivative_is_caught(student_t):
    functions = list(student_t.functions)
    functions[3] = wrong_log_pdf_grad
    broken = CustomNoise("broken", *functions)
    with pytest.raises(ValueError, match="correct one of the two functions") as caught:
        resolve(broken)
    assert "noise 'broken': log_pdf_grad(-3.0) is 3.01, but the finite difference of log_pdf" in (
        str(caught.value)
    )
    assert " log_pdf there is 1; correct" in str(caught.value)
    resolve(student_t)


def laplace(at_zero: float) -> CustomNoise:
    """A density with a corner at 0, where any derivative between those of the sides is right."""
    return CustomNoise(
        "laplace",
        lambda t: t - math.log(2.0) if t < 0.0 else math.log1p(-0.5 * math.exp(-t)),
        lambda t: 1.0 if t < 0.0 else 1.0 / (2.0 * math.exp(t) - 1.0),
        lambda t: -abs(t) - math.log(2.0),
        lambda t: at_zero if t == 0.0 else (1.0 if t < 0.0 else -1.0),
    )


@pytest.mark.parametrize("at_zero", [-1.0, 0.0, 1.0])
def test_a_density_may_have_a_corner(at_zero):
    noise = resolve(laplace(at_zero))
    # Two classes, d apart: P(e_0 - e_1 <= d) in closed form.
    d = np.array([-6.0, -1.3, 0.0, 0.4, 3.0])
    tail = 0.25 * (2.0 + np.abs(d)) * np.exp(-np.abs(d))
    found = np.exp(log_probabilities(noise, np.column_stack([d, np.zeros(5)]))[:, 0])
    np.testing.assert_allclose(found, np.where(d > 0.0, 1.0 - tail, tail), rtol=0, atol=2e-6)


def test_a_gradient_beyond_both_sides_of_a_corner_is_caught():
    """The message shows the difference of both sides together."""
    text = r"log_pdf_grad\(0\.0\) is (-?1\.2), but the finite difference of log_pdf there is (\S+);"
    for grad in (1.2, -1.2):
        with pytest.raises(ValueError, match=text) as caught:
            resolve(laplace(grad))
        stated, measured = re.search(text, str(caught.value)).groups()  # type: ignore[union-attr]
        assert float(stated) == grad
        assert float(measured) == pytest.approx(0.0, abs=1e-9)


def no_constant(t):
    return -2.0 * math.log1p(t * t / 3.0)


def of_another_scale(t):
    return -0.5 * t * t - 0.5 * math.log(2.0 * math.pi)


def of_another_scale_grad(t):
    return -t


@pytest.mark.parametrize(
    ("log_pdf", "log_pdf_grad", "stated"),
    [(no_constant, None, "0.0625"), (of_another_scale, of_another_scale_grad, "0.00443185")],
)
def test_a_density_of_another_distribution_is_caught(student_t, log_pdf, log_pdf_grad, stated):
    log_cdf, log_cdf_grad, _, right_grad = student_t.functions
    broken = CustomNoise("other", log_cdf, log_cdf_grad, log_pdf, log_pdf_grad or right_grad)
    with pytest.raises(ValueError) as caught:
        resolve(broken)
    assert str(caught.value) == (
        f"noise 'other': log_pdf gives the density {stated} at -3.0, but the derivative of the "
        "distribution function there, by log_cdf, is 0.022972; correct one of the two functions "
        "(a log-density needs its constant)"
    )


def not_finite(t):
    return math.sqrt(t)


def test_a_function_that_is_not_finite_is_caught(student_t):
    _, log_cdf_grad, log_pdf, log_pdf_grad = student_t.functions
    broken = CustomNoise("half", not_finite, log_cdf_grad, log_pdf, log_pdf_grad)
    with pytest.raises(ValueError, match=r"noise 'half': log_cdf_grad\(-3\.0\)"):
        broken.check()


def uses_a_file(t):
    with open("nowhere") as file:
        return float(file.read()) * t


def test_a_function_that_cannot_be_compiled(student_t):
    _, log_cdf_grad, log_pdf, log_pdf_grad = student_t.functions
    broken = CustomNoise("io", uses_a_file, log_cdf_grad, log_pdf, log_pdf_grad)
    with pytest.raises(ValueError, match="the noise's log_cdf cannot be compiled") as caught:
        resolve(broken)
    assert str(caught.value).endswith("Use arithmetic, if and the math module on one float")
