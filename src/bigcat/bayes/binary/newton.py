"""Newton steps for a block of classes at once, each direction by conjugate gradients.

The mean of each class maximises a concave function, its ELBO with the other factors at their best:
f(mu) = sum_i value(x_i.mu) - (mu - m)'P(mu - m)/2.  The Hessian X' diag(h_k) X + P differs from
class to class, so it is never formed: conjugate gradients need products with it only, one BLAS
product for the whole block, and few of them, because the preconditioner is the inverse of
c_k X'X + P with c_k the mean of h_k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design

#: Bounds of a direction's tolerance: approximate ones are enough far from the optimum (Dembo,
#: Eisenstat and Steihaug, 1982).
LOOSE, TIGHT = 0.1, 1e-3
MAX_CG_STEPS = 200
_SUFFICIENT = 1e-4
_MAX_HALVINGS = 30

#: Product with about the inverse Hessian, for the columns of a block.
Preconditioner = Callable[[Floats], Floats]


class Direction(NamedTuple):
    """Newton direction of each class."""

    step: Floats  # (M, B)
    scores: Floats  # X step, (n, B)


def conjugate_gradients(
    design: Design,
    weights: Floats,
    precision: Floats,
    right: Floats,
    preconditioner: Preconditioner,
    tolerances: Floats,
) -> Direction:
    """Solve (X' diag(w_k) X + diag(P)) d_k = right_k for every column, by its own tolerance.

    `tolerances` are relative, in the norm of the preconditioner.  With float32 weights the products
    are rough, which does no harm to a direction of ascent.
    """
    step = np.zeros_like(right)
    residual = right.copy()
    z = preconditioner(residual)
    rho = np.einsum("mb,mb->b", residual, z)
    goal = tolerances**2 * rho
    direction = z
    for _ in range(MAX_CG_STEPS):
        active = rho > goal
        if not active.any():
            break
        curved = design.curvature_product(weights, direction) + precision * direction
        curvature = np.einsum("mb,mb->b", direction, curved)
        alpha = np.where(
            active & (curvature > 0.0), rho / np.where(curvature > 0.0, curvature, 1.0), 0.0
        )
        step += alpha * direction
        residual -= alpha * curved
        z = preconditioner(residual)
        new_rho = np.einsum("mb,mb->b", residual, z)
        beta = np.where(active, new_rho / np.where(rho > 0.0, rho, 1.0), 0.0)
        rho = np.where(active, new_rho, rho)
        direction = z + beta * direction
    return Direction(step, design.product(step))


class Stepped(NamedTuple):
    """Result of a line search."""

    mean: Floats  # (M, B)
    scores: Floats  # (n, B)
    gain: Floats  # (B,), what the step added to f


def line_search(
    values: Callable[[Floats], Floats],
    penalty: Callable[[Floats], Floats],
    mean: Floats,
    scores: Floats,
    direction: Direction,
    current: Floats,
    derivative: Floats,
) -> Stepped:
    """Halve each class's step until f grows enough; a class where it never does stays.

    Parameters
    ----------
    values, penalty : functions of scores (n, B) and of means (M, B)
    current : f at `mean`, (B,)
    derivative : the derivative of f along the direction, (B,)
    """
    length = np.ones(mean.shape[1])
    for _ in range(_MAX_HALVINGS):
        new_scores = scores + length * direction.scores
        new_mean = mean + length * direction.step
        new = values(new_scores) - penalty(new_mean)
        short = ~(new >= current + _SUFFICIENT * length * derivative)
        short &= length > 0.0
        if not short.any():
            break
        length[short] *= 0.5
        # Stay: the rest of the gain is rounding.
        length[short & (length * derivative <= 1e-15 * np.abs(current))] = 0.0
    else:
        length[short] = 0.0
        new_scores = scores + length * direction.scores
        new_mean = mean + length * direction.step
        new = np.where(length > 0.0, new, current)
    return Stepped(new_mean, new_scores, np.where(length > 0.0, new - current, 0.0))


def forcing(decrement: Floats, first: Floats | float) -> Floats:
    """Tolerance of the next direction: loose at first, later so that steps square the error."""
    ratio = np.sqrt(np.maximum(decrement, 0.0) / np.maximum(first, 1e-300))
    return np.clip(ratio, TIGHT, LOOSE)
