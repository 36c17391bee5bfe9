"""The reference steps on the double sum: gradients, optimality of implicit steps, the tails."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize
from scipy.special import lambertw

from reference import double_sum


class Row(NamedTuple):
    """The arguments that every step of one row begins with."""

    W: np.ndarray
    b: np.ndarray
    x: np.ndarray
    y: int
    drawn: np.ndarray
    weights: np.ndarray
    u: float
    rate: float
    fit_intercept: bool


def random_row(seed, n_drawn=None, fit_intercept=None) -> Row:
    rng = np.random.default_rng(seed)
    n_classes, n_features, spread = 7, 4, rng.choice([0.1, 1.0, 5.0])
    y, m = int(rng.integers(n_classes)), n_drawn or int(rng.integers(1, 6))
    drawn = rng.choice(np.delete(np.arange(n_classes), y), m, replace=False)
    return Row(
        spread * rng.standard_normal((n_classes, n_features)),
        rng.standard_normal(n_classes),
        rng.standard_normal(n_features),
        y,
        drawn,
        rng.uniform(0.5, 9.0, m),
        rng.uniform(0.0, 3.0),
        rng.choice([0.01, 0.3, 2.0, 50.0]),
        bool(rng.integers(2)) if fit_intercept is None else fit_intercept,
    )


# The implicit step of one row


def appendix_f1(row):
    """(1, 1) by the paper's own equations, bisection replaced by a library's root finder."""
    W, b, x, y, (k,), (c,), u_old, rate, _ = row
    d, squared_norm = (W[k] - W[y]) @ x + b[k] - b[y], x @ x

    def a(u):  # equation 14
        return lambertw(2 * rate * c * squared_norm * np.exp(d - u)).real

    def derivative(u):  # equation 16
        both = a(u) / (1 + a(u)) + a(u) ** 2 / (1 + a(u))
        return 2 * rate - 2 * rate * np.exp(-u) - both / squared_norm + 2 * (u - u_old)

    lower, upper = double_sum.bracket(np.array([d]), np.array([c]), u_old, rate, squared_norm)
    assert (derivative(u_old) < 0) == (lower == u_old)
    u = optimize.brentq(derivative, lower - 1e-9, upper + 1e-9, xtol=1e-14, rtol=1e-14)
    W = W.copy()
    W[y] += a(u) * x / (2 * squared_norm)  # equation 11
    W[k] -= a(u) * x / (2 * squared_norm)

    def objective(v):  # equation 12
        u, a = v
        value = 2 * rate * (u + np.exp(-u) + c * np.exp(d - a - u))
        return value + (u - u_old) ** 2 + a**2 / (2 * squared_norm)

    return W, u, a(u), objective


@pytest.mark.parametrize("seed", range(20))
def test_one_class_is_the_appendix(seed):
    row = random_row(seed, n_drawn=1, fit_intercept=False)
    expected_W, expected_u, a, objective = appendix_f1(row)
    W, b, u = double_sum.implicit_step(*row)
    np.testing.assert_allclose(W, expected_W, atol=1e-9)
    np.testing.assert_array_equal(b, row.b)
    assert u == pytest.approx(expected_u, abs=1e-9)
    for step in [(1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3)]:
        assert objective((u, a)) < objective((u + step[0], a + step[1]))


# The implicit step of a batch
