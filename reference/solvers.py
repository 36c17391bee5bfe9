"""Update rules: three stochastic ones, and L-BFGS for deterministic objectives.

A step rule is called with the gradient of the objective to be *maximised*, scaled to the whole data
set (times N / |B|), and returns the change of the weights.
"""

from collections.abc import Callable

import numpy as np
from scipy import optimize


class AdaptiveStep:
    """Sequence of Kucukelbir et al. (2017) as A&R use it (section 4, "Experimental setup").

        rho_t = rho0 t^(-1/2 + 1e-16) / (1 + sqrt(s_t)),    s_t = 0.1 g_t^2 + 0.9 s_(t-1),

    with rho0 times 0.9 every 2,000 iterations. Coordinates with a zero gradient keep their weight
    and their s. In the first iteration s = g^2; a coordinate first touched later starts from s = 0,
    so from s = 0.1 g^2 (``first="coordinate"`` gives it g^2 as well).
    """

    def __init__(self, shape, rho0: float = 0.02, first: str = "iteration") -> None:
        self.rho0, self.first, self.t = rho0, first, 0
        self.s = np.zeros(shape)

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        self.t += 1
        fresh = self.t == 1 if self.first == "iteration" else self.s == 0
        s = np.where(fresh, gradient**2, 0.1 * gradient**2 + 0.9 * self.s)
        self.s = np.where(gradient != 0, s, self.s)
        rho = self.rho0 * 0.9 ** (self.t // 2000) * self.t ** (-0.5 + 1e-16)
        return rho * gradient / (1.0 + np.sqrt(self.s))


class AdaGrad:
    """Rate over the root of the sum of squared gradients so far (Duchi et al., 2011)."""

    def __init__(self, shape, rate: float = 0.1) -> None:
        self.rate, self.total = rate, np.zeros(shape)

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        self.total += gradient**2
        return self.rate * gradient / np.sqrt(np.where(self.total > 0, self.total, 1.0))


class DecayingStep:
    """Plain ascent whose rate is multiplied by ``decay`` after each epoch (OVE, section 4.1)."""

    def __init__(self, rate: float, iterations_per_epoch: int, decay: float = 0.9) -> None:
        self.rate, self.decay, self.length, self.t = rate, decay, iterations_per_epoch, 0

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        epoch = self.t // self.length
        self.t += 1
        return self.rate * self.decay**epoch * gradient


def over_all_classes(bound: Callable) -> Callable:
    """Turn bound(psi_y, psi, weights) into row(psi, y) -> value and gradient in all K scores."""

    def row(psi, y):
        others = np.arange(psi.size) != y
        value, grad_y, grads = bound(psi[y], psi[others], np.ones(psi.size - 1))
        gradient = np.empty(psi.size)
        gradient[y], gradient[others] = grad_y, grads
        return value, gradient

    return row


def lbfgs(row: Callable, X: np.ndarray, y: np.ndarray, n_classes: int, l2: float = 0.0):
    """Maximise sum_n row(W x_n + b, y_n) - l2/2 |W|^2; intercepts are not penalised.

    Returns the weights (K, D), the biases (K,) and the objective.
    """
    n_features = X.shape[1]

    def negative(parameters):
        W, b = np.split(parameters.reshape(n_classes, n_features + 1), [n_features], axis=1)
        value, grads = 0.0, np.empty((len(y), n_classes))
        for n, label in enumerate(y):
            row_value, grads[n] = row(W @ X[n] + b[:, 0], label)
            value += row_value
        gradient = np.column_stack([grads.T @ X - l2 * W, grads.sum(axis=0)])
        return -(value - 0.5 * l2 * np.sum(W**2)), -gradient.ravel()

    start = np.zeros(n_classes * (n_features + 1))
    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-14, "gtol": 1e-8}
    found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    solution = found.x.reshape(n_classes, n_features + 1)
    return solution[:, :-1], solution[:, -1], -found.fun
