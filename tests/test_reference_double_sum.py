"""The reference steps on the double sum: gradients, optimality of implicit steps, the tails."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize
from scipy.special import lambertw

from reference import bounds, double_sum

PSI_Y = 0.4
PSI = np.array([1.3, -0.8, 0.1, -2.5, 2.2])
WEIGHTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
FORMS = ["proposed", "raman"]
forms = pytest.mark.parametrize("form", FORMS)


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


def stationarity(batch, fit_intercept, l2, new):
    """Return the largest violation of: new = old + rate times mean gradient at the new point."""
    W, b, X, y, drawn, weights, u, rate = batch
    W_new, b_new, u_new = new
    grads, gradients_u = np.zeros((len(y), len(b))), np.zeros(len(y))
    for i in range(len(y)):
        row = *double_sum.row_scores(W_new, b_new, X[i], y[i], drawn[i]), weights[i], u_new[i]
        bound = bounds.softmax_augment_reduce(*row)
        np.add.at(grads[i], np.append(drawn[i], y[i]), np.append(bound.grads, bound.grad_y))
        gradients_u[i] = double_sum.local_grad(*row)
    residuals = [
        (1 + rate * l2) * W_new - W - rate / len(y) * grads.T @ X,
        b_new - b - fit_intercept * rate / len(y) * grads.sum(axis=0),
        u_new - u - rate * gradients_u,
    ]
    return max(np.abs(residual).max() for residual in residuals)


# The two forms


@forms
def test_gradients_match_finite_differences(form):
    bound, u, h = double_sum.BOUND[form], 1.7, 1e-5
    found = bound(PSI_Y, PSI, WEIGHTS, u)
    up, down = (bound(PSI_Y + step, PSI, WEIGHTS, u).value for step in (h, -h))
    assert found.grad_y == pytest.approx((up - down) / (2 * h), abs=1e-8)
    up, down = (bound(PSI_Y, PSI, WEIGHTS, u + step).value for step in (h, -h))
    gradient_u = double_sum.local_grad(PSI_Y, PSI, WEIGHTS, u, form)
    assert gradient_u == pytest.approx((up - down) / (2 * h), abs=1e-8)
    for k in range(PSI.size):
        step = h * (np.arange(PSI.size) == k)
        up, down = (bound(PSI_Y, PSI + s, WEIGHTS, u).value for s in (step, -step))
        assert found.grads[k] == pytest.approx((up - down) / (2 * h), abs=1e-8)


@forms
def test_the_best_u_gives_the_exact_softmax(form):
    ones, exact = np.ones(PSI.size), bounds.exact(PSI_Y, PSI)
    best = double_sum.BEST_U[form](PSI_Y, PSI, ones)
    tight = double_sum.BOUND[form](PSI_Y, PSI, ones, best)
    assert tight.value == pytest.approx(exact.value, rel=1e-13)
    assert tight.grad_y == pytest.approx(exact.grad_y, rel=1e-13)
    np.testing.assert_allclose(tight.grads, exact.grads, rtol=1e-13)
    assert double_sum.local_grad(PSI_Y, PSI, ones, best, form) == pytest.approx(0.0, abs=1e-14)
    for u in [best - 2.0, best + 0.1, best + 5.0]:
        assert double_sum.BOUND[form](PSI_Y, PSI, ones, u).value < exact.value


# Vanilla and U-max


@forms
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_vanilla_step_is_the_gradient(form, fit_intercept):
    row = random_row(5, n_drawn=3, fit_intercept=fit_intercept)
    W, b, x, y, drawn, weights, u, rate, _ = row

    def value(theta):
        W_at, b_at, u_at = theta[: W.size].reshape(W.shape), theta[W.size : -1], theta[-1]
        scores = double_sum.row_scores(W_at, b_at, x, y, drawn)
        return double_sum.BOUND[form](*scores, weights, u_at).value

    old, h = np.concatenate([W.ravel(), b, [u]]), 1e-6
    gradient = [(value(old + s) - value(old - s)) / (2 * h) for s in h * np.eye(old.size)]
    W_new, b_new, u_new = double_sum.vanilla_step(*row, form)
    new = np.concatenate([W_new.ravel(), b_new, [u_new]])
    expected = rate * np.array(gradient)
    expected[W.size : -1] *= fit_intercept
    np.testing.assert_allclose(new - old, expected, atol=1e-6 * np.abs(expected).max())


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


@pytest.mark.parametrize("l2", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(20))
def test_implicit_step_is_a_gradient_step_at_the_new_point(seed, l2):
    row = random_row(seed)
    W, b, x, y, drawn, weights, u, rate, fit_intercept = row
    new = double_sum.implicit_step(*row, l2)
    batch = [W, b, x[None], np.array([y]), [drawn], [weights], np.array([u]), rate]
    assert stationarity(batch, fit_intercept, l2, (*new[:2], np.array([new[2]]))) < 1e-9


# The implicit step of a batch
