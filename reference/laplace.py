"""The posterior around its mode: Laplace's approximation, and a chain that corrects it.

Weights W of shape (K, M), an intercept being the weight of a column of ones; prior N(0, 1 / P) with
precisions P of shape (K, M) or (1, M), all independent. At the mode the curvature of the negative
log posterior is

    H = sum_n s_n F(psi_n) (x) x_n x_n' + diag(P),     F = E_y[g_y g_y'],  g_y = d log p(y) / d psi,

s_n being the weight of row n and psi_n its scores. For the softmax g_y = e_y - p, so that
F = diag(p) - p p' is the Hessian itself; for other noises it is the Hessian in expectation over the
label. N(mode, H^-1) is Laplace's approximation.

With H = L L' and W = mode + L^-T u the posterior of u is nearly standard normal. A Hamiltonian step
follows that normal exactly, by rotating u and its velocity, and corrects for the rest (Shahbaba,
Lan, Johnson and Neal, 2014, Split Hamiltonian Monte Carlo). The scale of the prior is drawn in
turn: half-t with v degrees of freedom and width A is (Wand et al., 2011)

    precision ~ Gamma(v/2, v a),     a ~ Gamma(1/2, 1 / A^2).
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from .noise import Noise
from .probabilities import log_prob_of


def log_prob_and_grads(noise: Noise, psi: np.ndarray, y: int) -> tuple[float, np.ndarray]:
    """Return log p(y) and d log p(y) / d psi of one row."""
    if noise.name != "gumbel":
        return log_prob_of(noise, psi, y)
    log_p = log_softmax(psi)
    return float(log_p[y]), np.eye(len(psi))[y] - np.exp(log_p)


def log_likelihood(noise: Noise, W: np.ndarray, X, y, s) -> tuple[float, np.ndarray]:
    """Return sum_n s_n log p(y_n) and its gradient in W."""
    value, gradient = 0.0, np.zeros_like(W)
    for x, label, weight in zip(X, y, s):
        one, grads = log_prob_and_grads(noise, W @ x, label)
        value += weight * one
        gradient += weight * np.outer(grads, x)
    return value, gradient


def energy(noise: Noise, W: np.ndarray, X, y, s, P) -> tuple[float, np.ndarray]:
    """Return minus the log posterior without its constant, and its gradient."""
    value, gradient = log_likelihood(noise, W, X, y, s)
    return 0.5 * float(np.sum(P * W * W)) - value, P * W - gradient


def find_mode(noise: Noise, X, y, s, P, n_classes: int) -> np.ndarray:
    """Return the mode of the posterior."""
    shape = (n_classes, X.shape[1])

    def negative(w):
        value, gradient = energy(noise, w.reshape(shape), X, y, s, P)
        return value, gradient.ravel()

    found = minimize(negative, np.zeros(np.prod(shape)), jac=True, method="BFGS", tol=1e-9)
    return found.x.reshape(shape)


# Curvature


def information(noise: Noise, psi: np.ndarray) -> np.ndarray:
    """Return F of one row, (K, K)."""
    total = np.zeros((len(psi), len(psi)))
    for y in range(len(psi)):
        log_p, grads = log_prob_and_grads(noise, psi, y)
        total += np.exp(log_p) * np.outer(grads, grads)
    return total


def precision(noise: Noise, W: np.ndarray, X, s, P) -> np.ndarray:
    """Return H of all weights, (K M, K M), grouped by class."""
    total = np.diag(np.broadcast_to(P, W.shape).ravel().astype(float))
    for x, weight in zip(X, s):
        total += weight * np.kron(information(noise, W @ x), np.outer(x, x))
    return total


def class_blocks(H: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the diagonal blocks of the classes, (K, M, M)."""
    M = len(H) // n_classes
    return np.array([H[k * M : (k + 1) * M, k * M : (k + 1) * M] for k in range(n_classes)])


def low_rank_covariances(
    noise: Noise, W: np.ndarray, X, s, P: np.ndarray, n_directions: int, n_rows: int, least: float
) -> np.ndarray:
    """Return approximate inverses of the class blocks, (K, M, M), by a diagonal and directions.

    In the basis T with T' P T = I and T' (sum of all blocks without P) T diagonal, a block is the
    identity and sum_n f_n z_n z_n', z = T' x.  The `n_rows` rows with the largest f above `least`
    stay together, of the others the diagonal is kept: I + sum of these = diag(d).  Of the rows that
    stay together, in units of d, the largest `n_directions` eigenvectors are kept, and the diagonal
    of what that leaves out.
    """
    F = np.array([weight * np.diag(information(noise, W @ x)) for x, weight in zip(X, s)])
    units = 1.0 / np.sqrt(P)
    total = (X * units * F.sum(axis=1)[:, None]).T @ (X * units)
    T = units[:, None] * np.linalg.eigh(total)[1]
    Z = X @ T
    found = []
    for f in F.T:
        largest = np.argsort(-f)[:n_rows]
        together = largest[f[largest] > least]
        others = np.setdiff1d(np.arange(len(f)), together)
        d = 1.0 + f[others] @ Z[others] ** 2
        rows = np.sqrt(f[together])[:, None] * Z[together]
        _, sizes, right = np.linalg.svd(rows / np.sqrt(d), full_matrices=False)
        kept = (sizes[:, None] * right * np.sqrt(d))[:n_directions]
        d = d + (rows**2).sum(axis=0) - (kept**2).sum(axis=0)
        found.append(T @ np.linalg.inv(np.diag(d) + kept.T @ kept) @ T.T)
    return np.array(found)


def log_evidence(noise: Noise, X, y, s, P, n_classes: int) -> float:
    """Return Laplace's approximation of log p(y): height of the posterior times its volume."""
    mode = find_mode(noise, X, y, s, P, n_classes)
    height = -energy(noise, mode, X, y, s, P)[0]
    log_prior = np.log(np.broadcast_to(P, mode.shape)).sum()  # the 2 pi of both cancel
    return height + 0.5 * log_prior - 0.5 * np.linalg.slogdet(precision(noise, mode, X, s, P))[1]


# A chain


def rotate(
    energy_of: Callable,
    u: np.ndarray,
    angle: float,
    n_steps: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Take a split Hamiltonian step; `energy_of` returns the energy of u and its gradient.

    The next u, and the probability with which the step was accepted.
    """
    velocity = rng.standard_normal(u.shape)
    value, gradient = energy_of(u)
    before, moved = value + 0.5 * velocity @ velocity, u
    for _ in range(n_steps):
        velocity = velocity - 0.5 * angle * (gradient - moved)
        moved, velocity = (
            np.cos(angle) * moved + np.sin(angle) * velocity,
            np.cos(angle) * velocity - np.sin(angle) * moved,
        )
        value, gradient = energy_of(moved)
        velocity = velocity - 0.5 * angle * (gradient - moved)
    accepted = float(np.exp(min(0.0, before - value - 0.5 * velocity @ velocity)))
    return (moved if rng.uniform() < accepted else u), accepted


def draw_precision(
    squares: float, count: int, mixing: float, freedom: float, width: float, rng
) -> tuple[float, float]:
    """Draw a precision given its weights (number, sum of squares), and then its a."""
    rate = freedom * mixing + 0.5 * squares
    value = rng.gamma(0.5 * (freedom + count)) / rate
    mixing = rng.gamma(0.5 * (freedom + 1.0)) / (width**-2.0 + freedom * value)
    return value, mixing


def chain(
    noise: Noise,
    X,
    y,
    s,
    n_classes: int,
    n_draws: int,
    rng: np.random.Generator,
    freedom: float = 4.0,
    width: float = 2.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw weights (n_draws, K, M) and their precision (n_draws,).

    From the frame of Laplace's approximation with the precision 1, which stays where it is.
    """
    one = np.ones((1, X.shape[1]))
    mode = find_mode(noise, X, y, s, one, n_classes)
    root = np.linalg.cholesky(precision(noise, mode, X, s, one))
    u, value, mixing = np.zeros(mode.size), 1.0, 1.0
    stack, values = [], []

    def weights_of(u):
        return mode + np.linalg.solve(root.T, u).reshape(mode.shape)

    for _ in range(n_draws):
        P = value * one

        def energy_of(u, P=P):
            found, gradient = energy(noise, weights_of(u), X, y, s, P)
            return found, np.linalg.solve(root, gradient.ravel())

        u, _ = rotate(energy_of, u, 0.4, 4, rng)
        W = weights_of(u)
        value, mixing = draw_precision((W * W).sum(), W.size, mixing, freedom, width, rng)
        stack.append(W)
        values.append(value)
    return np.array(stack), np.array(values)
