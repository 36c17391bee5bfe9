"""The reference steps on the double sum: slopes, optimality of the implicit steps, the tails."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy import optimize
from scipy.special import lambertw, wrightomega

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


def random_batch(seed, n_rows=3, n_drawn=2, fit_intercept=False):
    rows = [random_row([seed, i], n_drawn, fit_intercept) for i in range(n_rows)]
    X, y, drawn, weights, u = zip(*(row[2:7] for row in rows))
    return [*rows[0][:2], np.array(X), np.array(y), drawn, weights, np.array(u), rows[0].rate]


def batch_step(batch, *more):
    return double_sum.implicit_batch_step(*batch, *more)


def differences(W, b, x, y, drawn):
    psi_y, psi = double_sum.row_scores(W, b, x, y, drawn)
    return psi - psi_y


def stationarity(batch, fit_intercept, l2, new):
    """The largest violation of: new = old + rate times the mean slope at the new point."""
    W, b, X, y, drawn, weights, u, rate = batch
    W_new, b_new, u_new = new
    grads, slopes_u = np.zeros((len(y), len(b))), np.zeros(len(y))
    for i in range(len(y)):
        row = *double_sum.row_scores(W_new, b_new, X[i], y[i], drawn[i]), weights[i], u_new[i]
        bound = bounds.softmax_augment_reduce(*row)
        np.add.at(grads[i], np.append(drawn[i], y[i]), np.append(bound.grads, bound.grad_y))
        slopes_u[i] = double_sum.local_grad(*row)
    residuals = [
        (1 + rate * l2) * W_new - W - rate / len(y) * grads.T @ X,
        b_new - b - fit_intercept * rate / len(y) * grads.sum(axis=0),
        u_new - u - rate * slopes_u,
    ]
    return max(np.abs(residual).max() for residual in residuals)


# The two forms


@forms
def test_slopes_match_finite_differences(form):
    bound, u, h = double_sum.BOUND[form], 1.7, 1e-5
    found = bound(PSI_Y, PSI, WEIGHTS, u)
    up, down = (bound(PSI_Y + step, PSI, WEIGHTS, u).value for step in (h, -h))
    assert found.grad_y == pytest.approx((up - down) / (2 * h), abs=1e-8)
    up, down = (bound(PSI_Y, PSI, WEIGHTS, u + step).value for step in (h, -h))
    slope_u = double_sum.local_grad(PSI_Y, PSI, WEIGHTS, u, form)
    assert slope_u == pytest.approx((up - down) / (2 * h), abs=1e-8)
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


@forms
def test_umax_is_vanilla_where_u_is_large_enough(form):
    row = random_row(5)._replace(rate=1e-3, u=20.0)
    vanilla, umax = double_sum.vanilla_step(*row, form), double_sum.umax_step(*row, 1.0, form=form)
    for found, expected in zip(umax, vanilla):
        np.testing.assert_array_equal(found, expected)


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


@pytest.mark.parametrize("seed", range(20))
def test_implicit_step_by_wrights_omega(seed):
    # p_k = rate c_k exp(d_k - u) at the new point: -p_k x, +P x, and s p_k is an omega.
    row = random_row(seed)
    W, b, u = double_sum.implicit_step(*row)
    s = row.x @ row.x + row.fit_intercept
    p = row.rate * row.weights * np.exp(differences(W, b, *row[2:5]) - u)
    exponents = np.log(s * row.rate * row.weights) + differences(*row[:5]) - u - s * p.sum()
    np.testing.assert_allclose(s * p, wrightomega(exponents), rtol=1e-8, atol=1e-12)
    assert u == pytest.approx(row.u - row.rate * (1 - np.exp(-u)) + p.sum(), abs=1e-8)
    np.testing.assert_allclose((W - row.W)[row.drawn], np.outer(-p, row.x), atol=1e-8)
    np.testing.assert_allclose((W - row.W)[row.y], p.sum() * row.x, atol=1e-8)
    np.testing.assert_allclose((b - row.b)[row.drawn], -row.fit_intercept * p, atol=1e-8)


def test_a_class_drawn_twice_counts_twice():
    row = random_row(2, n_drawn=3)
    k, j, _ = row.drawn
    twice = row._replace(drawn=np.array([k, j, k]), weights=np.array([1.0, 2.0, 3.0]))
    once = row._replace(drawn=np.array([j, k]), weights=np.array([2.0, 4.0]))
    for found, expected in zip(double_sum.implicit_step(*twice), double_sum.implicit_step(*once)):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    for found, expected in zip(double_sum.vanilla_step(*twice), double_sum.vanilla_step(*once)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


# The implicit step of a batch


@pytest.mark.parametrize("l2", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(10))
def test_a_batch_of_one_is_the_row_step(seed, l2):
    row = random_row(seed)
    W, b, x, y, drawn, weights, u, rate, fit_intercept = row
    batch = [W, b, x[None], np.array([y]), [drawn], [weights], np.array([u]), rate, fit_intercept]
    in_batch = batch_step(batch, l2)
    for found, expected in zip(in_batch, double_sum.implicit_step(*row, l2)):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_ridge_shrinks_what_the_rows_do_not_reach():
    batch = random_batch(2, n_rows=2)
    rate, W = batch[-1], batch[0]
    new = batch_step(batch, False, 0.3)[0]
    V, coordinates = double_sum.orthonormal_basis(batch[2])
    np.testing.assert_allclose(V.T @ V, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(coordinates @ V.T, batch[2], atol=1e-14)
    across = np.eye(4) - V @ V.T
    np.testing.assert_allclose(new @ across, W @ across / (1 + 0.3 * rate), atol=1e-12)
    never = np.setdiff1d(np.arange(7), np.concatenate([batch[3], *batch[4]]))
    np.testing.assert_allclose(new[never], W[never] / (1 + 0.3 * rate), rtol=1e-14)


def some_batch(spread, u=1.0):
    rng = np.random.default_rng(11)
    X, E = rng.standard_normal((3, 2)), np.eye(4)
    contrasts = [E[[1, 2]] - E[0], E[[0, 3]] - E[1], E[[0, 1]] - E[3]]
    moves = [np.kron(contrast, x) for contrast, x in zip(contrasts, X)]
    W = spread * rng.standard_normal((4, 2))
    scores = [contrast @ W @ x for contrast, x in zip(contrasts, X)]
    return double_sum.Batch(scores, moves, [np.array([2.0, 3.0])] * 3, np.full(3, u), 0.7)


def test_the_reduced_problem_has_u_at_its_best():
    # Equation 21 against the objective minimised over u by a library, up to one constant.
    batch, rng = some_batch(2.0), np.random.default_rng(1)

    def over_u(a):
        total = 0.5 * a @ a
        for d, moves, weights, u_old in zip(*batch[:4]):

            def part(u, d=d + moves @ a, weights=weights, u_old=u_old):
                value = bounds.softmax_augment_reduce(0.0, d, weights, u).value
                return (0.5 * (u - u_old) ** 2 - batch.rate * value) / 3

            total += optimize.minimize_scalar(part, bracket=(0.0, 5.0), tol=1e-12).fun
        return total

    points = rng.standard_normal((4, 8))
    gaps = [double_sum.reduced_problem(a, batch)[0] - over_u(a) for a in points]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-9)
