"""Coordinates in which a posterior is nearly a standard normal.

With a precision H = L L' at the mode m, weights are W = m + L^-T u.  Where the posterior is
Gaussian u is standard normal, so the roots serve three purposes: draws of the Laplace
approximation, its covariance, and coordinates for chains that correct it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.linalg

from bigcat.bayes._arrays import Floats
from bigcat.bayes.covariance import BlockSums, ClassFull, Covariance, JointFull
from bigcat.bayes.laplace.likelihood import Likelihood


class Whitening(ABC):
    """A Gaussian around a mode, with a root of its precision; u and weights are (C, K, M).

    Attributes
    ----------
    mode : array of shape (K, M)
    diagonal : array of shape (K, M)
        Of the precision.
    """

    mode: Floats
    diagonal: Floats

    @abstractmethod
    def covariance(self) -> Covariance:
        """Return the covariance of the weights."""

    @abstractmethod
    def to_weights(self, u: Floats) -> Floats:
        """Return m + L^-T u."""

    @abstractmethod
    def of_weights(self, stack: Floats) -> Floats:
        """Return L' (W - m)."""

    @abstractmethod
    def pulled(self, gradients: Floats) -> Floats:
        """Return L^-1 g: gradients with respect to u."""


class JointWhitening(Whitening):
    """All weights of all classes together: H is (K M, K M)."""

    def __init__(self, mode: Floats, precision: Floats) -> None:
        self.mode = mode
        self.diagonal = np.diag(precision).reshape(mode.shape).copy()
        self.root = np.linalg.cholesky(precision)
        self.inverse_root = scipy.linalg.solve_triangular(
            self.root, np.eye(len(precision)), lower=True
        )

    def to_weights(self, u: Floats) -> Floats:
        away: Floats = (u.reshape(len(u), -1) @ self.inverse_root).reshape(u.shape)
        return self.mode + away

    def of_weights(self, stack: Floats) -> Floats:
        away = (stack - self.mode).reshape(len(stack), -1)
        turned: Floats = (away @ self.root).reshape(stack.shape)
        return turned

    def pulled(self, gradients: Floats) -> Floats:
        flat = gradients.reshape(len(gradients), -1)
        turned: Floats = (flat @ self.inverse_root.T).reshape(gradients.shape)
        return turned

    def covariance(self) -> Covariance:
        return JointFull(self.inverse_root.T @ self.inverse_root, len(self.mode))


class ClassWhitening(Whitening):
    """A block for each class: H is (K, M, M)."""

    def __init__(self, mode: Floats, precisions: Floats) -> None:
        self.mode = mode
        self.diagonal = np.diagonal(precisions, axis1=1, axis2=2).copy()
        self.roots = np.linalg.cholesky(precisions)
        self.inverse_roots = np.empty_like(self.roots)
        identity = np.eye(precisions.shape[1])
        for k, root in enumerate(self.roots):
            self.inverse_roots[k] = scipy.linalg.solve_triangular(root, identity, lower=True)

    def to_weights(self, u: Floats) -> Floats:
        return self.mode + by_class(u, self.inverse_roots)

    def of_weights(self, stack: Floats) -> Floats:
        return by_class(stack - self.mode, self.roots)

    def pulled(self, gradients: Floats) -> Floats:
        return by_class(gradients, self.inverse_roots.transpose(0, 2, 1))

    def covariance(self) -> Covariance:
        matrices = np.matmul(self.inverse_roots.transpose(0, 2, 1), self.inverse_roots)
        logs = -2.0 * np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        return ClassFull(matrices, logs)


def by_class(stack: Floats, matrices: Floats) -> Floats:
    """Row vectors (C, K, M) times a matrix of each class."""
    product: Floats = np.matmul(stack.transpose(1, 0, 2), matrices).transpose(1, 0, 2)
    return product


# Precisions at a mode: the Fisher information of the rows, and the prior's diagonal.


def joint_precision(likelihood: Likelihood, weights: Floats, prior: Floats) -> Floats:
    """H of all weights together, (K M, K M); `prior` is (K, M), or (1, M).

    For the softmax sum_n (diag(p_n) - p_n p_n') (x) x_n x_n', for other noises the Fisher
    information sum_y p_y s_y s_y' in place of the bracket, s_y = d log p(y) / d scores.
    """
    n_classes, n_columns = likelihood.shape
    size = n_classes * n_columns
    total = np.zeros((size, size))
    design = likelihood.design
    for rows in design.chunks(size):
        x, row_weights = design.dense(rows), np.sqrt(design.row_weights[rows])
        p = likelihood.probabilities(weights, rows)
        if likelihood.noise.softmax:
            wide = _outer(p * row_weights[:, None], x)
            total -= wide.T @ wide
            for k in range(n_classes):
                own = slice(k * n_columns, (k + 1) * n_columns)
                root = x * (np.sqrt(p[:, k]) * row_weights)[:, None]
                total[own, own] += root.T @ root
            continue
        for label in range(n_classes):
            derivatives = likelihood.score_derivatives(weights, rows, label)
            wide = _outer(derivatives * (np.sqrt(p[:, label]) * row_weights)[:, None], x)
            total += wide.T @ wide
    total[np.diag_indices(size)] += np.broadcast_to(prior, likelihood.shape).ravel()
    return total


def _outer(left: Floats, right: Floats) -> Floats:
    """Kronecker products of rows, (n, K M)."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)


def class_precisions(likelihood: Likelihood, weights: Floats, prior: Floats) -> Floats:
    """Return the blocks sum_n w_nk x_n x_n', w = p (1 - p) for the softmax, (K, M, M)."""
    sums = BlockSums(*likelihood.shape, likelihood.dtype)
    for rows in likelihood.design.chunks(sum(likelihood.shape)):
        found = likelihood.fisher_weights(weights, rows)
        sums.add(found * likelihood.design.row_weights[rows, None], likelihood.design.rows[rows])
    return sums.matrices(prior)


#: Forms of the precision by name, the finest first.
WHITENINGS: dict[str, tuple[Callable[..., Floats], Callable[..., Whitening]]] = {
    "full": (joint_precision, JointWhitening),
    "class": (class_precisions, ClassWhitening),
}


def make_whitening(form: str, likelihood: Likelihood, mode: Floats, prior: Floats) -> Whitening:
    """Return the whitening of that form at the mode, with prior precisions (K, M) or (1, M)."""
    precision, kind = WHITENINGS[form]
    return kind(mode, precision(likelihood, mode, prior))
