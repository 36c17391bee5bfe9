"""The softmax as a double sum over rows and classes: vanilla SGD, U-max and implicit SGD on it.

F&I is Fagan and Iyengar (2018), Unbiased Scalable Softmax Optimization. Their f, to be minimised,
is one per row minus a bound of ours, to be maximised: with u = log eta, equation 5 there is
``bounds.softmax_augment_reduce``. A learning rate here is theirs times the number of rows.

Every step takes W (K, D), b (K,), a row's x, y and u and the classes ``drawn`` for it, never y,
with their ``weights`` c_k (the batch step: as many of these as rows), and returns the new
(W, b, u). The old ones are left alone.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize
from scipy.special import logsumexp, wrightomega

from .bounds import Bound, log_eta_estimate, softmax_augment_reduce

# The two forms of the double sum


def raman(psi_y: float, psi: np.ndarray, weights: np.ndarray, u: float) -> Bound:
    """Return 1 - u + psi_y - e^(psi_y - u) - sum_k c_k e^(psi_k - u) (F&I, equation 8)."""
    with np.errstate(over="ignore"):  # minus infinity is the bound of a u that is far too small
        total = np.exp(raman_best_u(psi_y, psi, weights) - u)
        grad_y, grads = -np.expm1(psi_y - u), -weights * np.exp(psi - u)
    return Bound(1.0 - u + psi_y - total, grad_y, grads)


def raman_best_u(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> float:
    """Return log(e^psi_y + sum_k c_k e^psi_k) (F&I, below equation 8)."""
    return float(logsumexp(np.append(psi, psi_y), b=np.append(weights, 1.0)))


BOUND = {"proposed": softmax_augment_reduce, "raman": raman}
BEST_U = {"proposed": log_eta_estimate, "raman": raman_best_u}


def local_grad(
    psi_y: float, psi: np.ndarray, weights: np.ndarray, u: float, form: str = "proposed"
) -> float:
    """Return the derivative of either form in u, (sum of exponentials) e^-u - 1 (F&I, 7)."""
    with np.errstate(over="ignore"):
        return float(np.expm1(BEST_U[form](psi_y, psi, weights) - u))


# Explicit steps: vanilla SGD and U-max


def row_scores(W, b, x, y, drawn) -> tuple[float, np.ndarray]:
    """Return the label's score and those of the drawn classes."""
    return float(W[y] @ x + b[y]), W[drawn] @ x + b[drawn]


def vanilla_step(W, b, x, y, drawn, weights, u, rate, fit_intercept, form="proposed"):
    """Ascend in (W, b, u), with every gradient taken at the old point (F&I, equation 7)."""
    psi_y, psi = row_scores(W, b, x, y, drawn)
    _, grad_y, grads = BOUND[form](psi_y, psi, weights, u)
    classes, grads = np.append(drawn, y), np.append(grads, grad_y)
    W, b = W.copy(), b.copy()
    np.add.at(W, classes, rate * np.outer(grads, x))
    if fit_intercept:
        np.add.at(b, classes, rate * grads)
    return W, b, u + rate * local_grad(psi_y, psi, weights, u, form)


def umax_step(
    W,
    b,
    x,
    y,
    drawn,
    weights,
    u,
    rate,
    fit_intercept,
    delta,
    u_bound=np.inf,
    w_bound=np.inf,
    form="proposed",
):
    """Raise u if it is too small, take the vanilla step, project (F&I, section 3.1).

    u is too small when it is ``delta`` below the logarithm of the sum over the label and the drawn
    classes, each counted once and without weights: that is never above the best u. The projection
    of W is onto |W| <= w_bound (Frobenius), the set of section 3.1 and of the proof of Theorem 1;
    Algorithm 1 has a ball for each class. The lowest u is that of a label without rivals.
    """
    psi_y, psi = row_scores(W, b, x, y, np.unique(drawn))
    floor = BEST_U[form](psi_y, psi, np.ones(psi.size))
    lowest = 0.0 if form == "proposed" else psi_y
    u = floor if u < floor - delta else u
    W, b, u = vanilla_step(W, b, x, y, drawn, weights, u, rate, fit_intercept, form)
    norm = np.linalg.norm(W)
    W = W * (w_bound / norm) if norm > w_bound else W
    return W, b, max(lowest, min(u_bound, u))


# The implicit step of one row


def newton(conditions, start: np.ndarray) -> np.ndarray:
    """Return a root of ``conditions``, which returns residuals and Jacobian, to rounding.

    Newton's step, halved until the residuals shrink (so never into an overflow), until none does.
    That finds the root wherever the Jacobian is regular everywhere: Newton's direction always
    leads to smaller residuals.
    """
    point, (residual, jacobian) = start, conditions(start)
    for _ in range(1000):
        direction = np.linalg.solve(jacobian, residual)
        for halvings in range(60):
            new = point - 0.5**halvings * direction
            new_residual, new_jacobian = conditions(new)
            if np.abs(new_residual).max() < np.abs(residual).max():
                break
        else:
            return point
        point, residual, jacobian = new, new_residual, new_jacobian
    raise RuntimeError("no root after 1,000 Newton steps")


def implicit_step(W, b, x, y, drawn, weights, u, rate, fit_intercept, l2=0.0):
    """Take the proximal step of one row with any number of classes (F&I, equation 9).

    It maximises

        rate value(u, W, b) - (u - u_old)^2/2 - |W - W_old|^2/2 - |b - b_old|^2/2 - rate l2/2 |W|^2.

    Its conditions are those of a gradient step whose gradients are taken at the new point:

        (1 + rate l2) w_k = w_k,old + a_k x,    b_k = b_k,old + a_k,    a_k = rate grad_k(new),

    and u = u_old + rate dvalue/du(new). So only u and the a_k are unknown, and the score of class
    k moves by s a_k, s = |x|^2 / (1 + rate l2), plus one with an intercept, from where the ridge
    alone would leave it. W outside the drawn classes only shrinks.
    """
    classes, index = np.unique(drawn, return_inverse=True)
    weights = np.bincount(index, weights)  # a class drawn twice stands for as many as both draws
    shrink = 1.0 / (1.0 + rate * l2)
    psi_y, psi = row_scores(shrink * W, b, x, y, classes)

    # theta = (u, a_y, a_1, ..., a_m). The value is 1 - u - sum of exp(exponents); the exponents, -u
    # and log c_k + psi_k - psi_y - u, are linear in theta.
    m = classes.size
    s = shrink * (x @ x) + fit_intercept
    in_scores = np.zeros((m + 1, m + 2))  # derivatives of the exponents in (u, psi_y, psi)
    in_scores[:, 0], in_scores[1:, 1], in_scores[1:, 2:] = -1.0, -1.0, np.eye(m)
    in_theta = in_scores * np.append(1.0, np.full(m + 1, s))
    at_zero = np.append(0.0, np.log(weights) + psi - psi_y)
    old, unit = np.append(u, np.zeros(m + 1)), np.append(1.0, np.zeros(m + 1))

    def conditions(theta):
        with np.errstate(over="ignore", invalid="ignore"):
            e = np.exp(at_zero + in_theta @ theta)
            gradient = -unit - in_scores.T @ e
            hessian = -in_scores.T @ (e[:, None] * in_theta)
            return theta - old - rate * gradient, np.eye(m + 2) - rate * hessian

    start = max(u, at_zero.max()) * unit  # where no exponent is positive
    u, *steps = newton(conditions, start)
    moved = np.append(y, classes)
    W, b = shrink * W, b.copy()
    W[moved] += shrink * np.outer(steps, x)
    b[moved] += fit_intercept * np.array(steps)
    return W, b, float(u)


def evaluations_allowed(
    accuracy: float, difference: float, u: float, rate: float, squared_norm: float, n_others: int
) -> float:
    """Return the bound on evaluations in a bisection for u (F&I, Proposition 4).

    ``difference`` is psi_k - psi_y and ``n_others`` K - 1. The paper loses a log 2 between its
    derivation, where the interval is at most |difference - u| + log(2 (K - 1)) wide if u rises, and
    the proposition: with a small rate and K = 2 the interval can be wider than stated.
    """
    width = abs(difference - u) + 2.0 * rate * squared_norm + np.log(n_others)
    return float(np.log2(1.0 / accuracy) + np.log2(width))


def bracket(
    differences: np.ndarray, weights: np.ndarray, u: float, rate: float, squared_norm: float
) -> tuple[float, float]:
    """Return an interval that contains the implicit step's u (F&I, appendix F.1), without ridge.

    d_k = ``differences`` are psi_k - psi_y at the old point, s = ``squared_norm`` is |x|^2, plus
    one with an intercept. With p_k = rate c_k exp(d_k' - u) at the new point and P = sum p_k,

        u = u_old - rate (1 - e^-u) + P,    d_k' = d_k - s (p_k + P).

    If u rises, 1 - e^-u < sum c_k exp(d_k' - u) and d_k' < d_k bound it above. If it falls,
    P < rate (1 - e^-u) < rate, so d_k' > d_k - 2 s rate bounds it below (equations 17 and 18).
    """
    if u_rises(differences, weights, u, rate, squared_norm):
        return u, log_eta_estimate(0.0, differences, weights)
    return log_eta_estimate(0.0, differences - 2.0 * squared_norm * rate, weights), u


def u_rises(differences, weights, u: float, rate: float, squared_norm: float) -> bool:
    """Return the sign of equation 16 at the old u: True if P > rate (1 - e^-u) there.

    P is the root of sum p_k = P, where s p_k = omega(log(s rate c_k) + d_k - u - s P) and omega is
    Wright's function. The p_k fall as P grows, so it is enough to compare the two sides at
    P = rate (1 - e^-u). p_k is taken from p_k exp(s p_k) = exp(exponent), for s may be zero.
    """
    if u <= 0:
        return True
    P = -rate * np.expm1(-u)
    exponents = np.log(rate * weights) + differences - u - squared_norm * P
    with np.errstate(divide="ignore", over="ignore"):
        p = np.exp(exponents - wrightomega(np.log(squared_norm) + exponents))
    return bool(p.sum() > P)


# The implicit step of a batch (F&I, appendix F.3)


class Batch(NamedTuple):
    """Quantities of a batch for a step a, with the a_k of all classes in one vector.

    ``differences[i]`` are psi_k - psi_y of the classes drawn for row i where the ridge alone would
    leave them, ``moves[i]`` the matrix by which a changes them: b_i . (a_k - a_y).
    """

    differences: list
    moves: list
    weights: list
    u: np.ndarray
    rate: float


def orthonormal_basis(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return V, an orthonormal basis of the rows of X, and B with X = B V' (F&I, F.3.2).

    The pivots of QR show the dimension of the span where rows depend on each other (footnote 11).
    """
    Q, R, _ = linalg.qr(X.T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(R))
    V = Q[:, pivots > pivots.max(initial=0.0) * max(X.shape) * np.finfo(float).eps]
    return V, X @ V


def reduced_problem(a: np.ndarray, batch: Batch) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the objective at the best u and two derivatives (F&I, equations 19, 21).

    Row i's best u is u_old - rate + P_i, where P_i exp(P_i) = z_i = rate D_i exp(rate - u_old),
    D_i = 1 + sum_k c_k exp(psi_k - psi_y), and its part of the objective is (1 + P_i)^2 / 2n, whose
    derivative in log D_i is P_i / n. P_i is Lambert's W at z_i, here from log z_i.
    """
    n = len(batch.u)
    value, gradient, hessian = 0.5 * a @ a, a.copy(), np.eye(a.size)
    for differences, moves, weights, u in zip(*batch[:4]):
        psi = np.append(0.0, differences + moves @ a)
        moves = np.vstack([np.zeros(a.size), moves])
        log_D = logsumexp(psi, b=np.append(1.0, weights))
        share = np.append(1.0, weights) * np.exp(psi - log_D)
        P = best_P(log_D, u, batch.rate)
        grad = moves.T @ share
        curvature = moves.T @ (share[:, None] * moves) - np.outer(grad, grad)
        value += 0.5 * (1.0 + P) ** 2 / n
        gradient += P * grad / n
        hessian += (P * curvature + P / (1.0 + P) * np.outer(grad, grad)) / n
    return value, gradient, hessian


def best_P(log_D, u, rate):
    """Return Lambert's W at rate D exp(rate - u), without overflow (F&I, above equation 19)."""
    return float(wrightomega(np.log(rate) + log_D + rate - u))


def feasible_start(batch: Batch) -> np.ndarray:
    """Return the shortest a (1-norm) without positive psi_k - psi_y - u (F&I, equation 22).

    Zero if none is. A u below zero, to which no implicit step leads, counts as zero, for otherwise
    there may be no such a (two rows with the same x and different labels).
    """
    room = np.concatenate([max(u, 0.0) - d for u, d in zip(batch.u, batch.differences)])
    moves = np.vstack(batch.moves)
    if (room >= 0).all():
        return np.zeros(moves.shape[1])
    found = optimize.linprog(
        np.ones(2 * moves.shape[1]), A_ub=np.hstack([moves, -moves]), b_ub=room, bounds=(0, None)
    )
    if not found.success:
        raise RuntimeError(f"no feasible start: {found.message}")
    return np.subtract(*np.split(found.x, 2))


def implicit_batch_step(W, b, X, y, drawn, weights, u, rate, fit_intercept, l2=0.0):
    """Take the proximal step of n rows, each with its own classes (F&I, appendix F.3).

    It maximises

        1/n sum_i [rate value_i - (u_i - u_i,old)^2 / 2]
            - |W - W_old|^2 / 2 - |b - b_old|^2 / 2 - rate l2/2 |W|^2.

    Unlike the paper's, the proximal term of a row's own u is divided by n as well, so that its step
    does not shrink with the size of the batch, and the ridge acts on all classes alike (beta = 1)
    and is multiplied by the rate, as the implicit step demands (the paper drops the rate there).

    With h = 1 / (1 + rate l2) the terms in w are |w - h w_old|^2 / 2h and a constant: the ridge
    shrinks w by h, its part across the rows included, and what remains is a proximal term. In
    units of sqrt(h) for w, with features sqrt(h) x and, not shrunk, 1 for the intercept, it is the
    plain |step|^2 / 2, so the step lies in the span of those features: V a_k, with |a_k|^2 / 2.
    """
    n, n_features = X.shape
    shrink = 1.0 / (1.0 + rate * l2)
    features = np.hstack([np.sqrt(shrink) * X, np.ones((n, int(fit_intercept)))])
    V, coordinates = orthonormal_basis(features)
    classes = np.unique(np.concatenate([y, *drawn]))

    differences, moves = [], []
    for i in range(n):
        psi_y, psi = row_scores(shrink * W, b, X[i], y[i], drawn[i])
        contrasts = 1.0 * (classes == drawn[i][:, None]) - (classes == y[i])
        differences.append(psi - psi_y)
        moves.append(np.kron(contrasts, coordinates[i]))
    batch = Batch(differences, moves, weights, u, rate)
    a = minimise(batch) if V.size else np.zeros(0)
    step = a.reshape(classes.size, -1) @ V.T
    W, b = shrink * W, b.copy()
    W[classes] += np.sqrt(shrink) * step[:, :n_features]
    if fit_intercept:
        b[classes] += step[:, -1]
    log_D = [log_eta_estimate(0.0, d + M @ a, c) for d, M, c in zip(*batch[:3])]
    return W, b, np.array([ui - rate + best_P(log_Di, ui, rate) for ui, log_Di in zip(u, log_D)])


def minimise(batch: Batch) -> np.ndarray:
    """Run a quasi-Newton method from the feasible start (F&I, F.3.3), then Newton's to rounding."""
    found = optimize.minimize(
        lambda a: reduced_problem(a, batch)[:2],
        feasible_start(batch),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-12},
    )
    return newton(lambda a: reduced_problem(a, batch)[1:], found.x)
