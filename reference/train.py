"""Doubly stochastic training: Algorithms 1 and 2 of A&R, and one-vs-each, as plain loops.

All three share one loop, ``train``: draw rows, draw classes for each, ascend the gradients. They
differ in what a row does with its scores, and in whether it keeps a local parameter to do it with.
"""

from collections.abc import Callable

import numpy as np

from . import bounds, samplers
from .noise import Noise
from .solvers import AdaptiveStep


class OneVsEach:
    """Doubly stochastic one-vs-each (OVE, section 3), without local parameters."""

    def visit(self, n, epoch, psi_y, psi, weights, rng):
        """Return the value of a row and its gradients."""
        return bounds.one_vs_each(psi_y, psi, weights)


class SoftmaxAugmentReduce:
    """Algorithm 1 of A&R: each row keeps log eta, moved before its gradients are taken.

    The schedule (1 + epoch)^-0.9 counts epochs from one, and eta starts at two: the authors' code
    keeps eta - 1 and starts that at one.
    """

    def __init__(self, n_rows: int) -> None:
        self.log_eta = np.full(n_rows, np.log(2.0))

    def visit(self, n, epoch, psi_y, psi, weights, rng):
        """Return the value of a row and its gradients; move its local parameter."""
        estimate = bounds.log_eta_estimate(psi_y, psi, weights)
        step = (1.0 + epoch) ** -0.9
        self.log_eta[n] = bounds.softmax_local_step(self.log_eta[n], estimate, step)
        return bounds.softmax_augment_reduce(psi_y, psi, weights, self.log_eta[n])


class AugmentReduce:
    """Algorithm 2 of A&R: each row keeps (mu, gamma); q starts standard.

    ``n_nodes`` = None takes the paper's single samples, one for the local and a new one for the
    global step; a number takes that many quadrature nodes. ``natural`` replaces the gradient step
    of size 0.01 (1 + epoch)^-0.9 by the natural-gradient step of size (1 + epoch)^-0.9.
    """

    def __init__(self, noise: Noise, n_rows: int, n_nodes: int | None = None, natural=False):
        self.noise, self.n_nodes, self.natural = noise, n_nodes, natural
        self.local = np.tile([0.0, bounds.inverse_softplus(1.0)], (n_rows, 1))

    def rule(self, rng):
        """Return the nodes and weights of the expectation over q."""
        if self.n_nodes is None:
            return bounds.one_sample(self.noise.family, rng)
        return bounds.quadrature(self.noise.family, self.n_nodes)

    def visit(self, n, epoch, psi_y, psi, weights, rng):
        """Return the value of a row and its gradients; move its local parameters."""
        row, step = (self.noise, psi_y, psi, weights), (1.0 + epoch) ** -0.9
        mu, gamma = self.local[n]
        if self.natural:
            new = bounds.local_natural_step(*row, mu, gamma, self.rule(rng), step)
            self.local[n] = new
        else:
            gradient = bounds.local_gradient(*row, mu, gamma, self.rule(rng))
            self.local[n] += 0.01 * step * gradient
        mu, gamma = self.local[n]
        return bounds.augment_reduce(*row, mu, gamma, self.rule(rng))


def train(
    method,
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    *,
    n_negatives: int,
    batch_size: int,
    n_epochs: int,
    rng: np.random.Generator,
    make_step: Callable = AdaptiveStep,
):
    """Fit weights and intercepts; return W (K, D), b (K,) and the mean bound of each epoch.

    Weights start at 0.1 N(0, 1) and biases at 0.001 N(0, 1) (A&R, section 4). An epoch is a random
    order cut into batches; an incomplete last batch is left out, as in the authors' code.
    """
    n_rows, n_features = X.shape
    W = 0.1 * rng.standard_normal((n_classes, n_features))
    b = 0.001 * rng.standard_normal(n_classes)
    step_W, step_b = make_step(W.shape), make_step(b.shape)
    history = []
    for epoch in range(1, n_epochs + 1):
        order = rng.permutation(n_rows)
        total, seen = 0.0, 0
        for start in range(0, n_rows - batch_size + 1, batch_size):
            gradient_W, gradient_b = np.zeros_like(W), np.zeros_like(b)
            for n in order[start : start + batch_size]:
                drawn, weights = samplers.uniform(rng, n_classes, y[n], n_negatives)
                psi_y, psi = W[y[n]] @ X[n] + b[y[n]], W[drawn] @ X[n] + b[drawn]
                value, grad_y, grads = method.visit(n, epoch, psi_y, psi, weights, rng)
                classes, grads = np.append(drawn, y[n]), np.append(grads, grad_y)
                gradient_W[classes] += np.outer(grads, X[n])
                gradient_b[classes] += grads
                total, seen = total + value, seen + 1
            W += step_W(n_rows / batch_size * gradient_W)
            b += step_b(n_rows / batch_size * gradient_b)
        history.append(total / seen)
    return W, b, np.array(history)
