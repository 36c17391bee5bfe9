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

#: An approximate direction is enough far from the optimum (Dembo, Eisenstat and Steihaug, 1982).
LOOSE = 0.1
TIGHT = 1e-3
MOST_CG_STEPS = 200
_SUFFICIENT = 1e-4
_MOST_HALVINGS = 30

#: V -> P V and V -> (about the inverse Hessian) V, for the columns of a block.
Precision = Callable[[Floats], Floats]
Preconditioner = Callable[[Floats], Floats]


class Direction(NamedTuple):
    step: Floats  # (M, B)
    scores: Floats  # X step, (n, B)


def conjugate_gradients(
    design: Design,
    weights: Floats | None,
    precision: Precision,
    right: Floats,
    preconditioner: Preconditioner,
    tolerances: Floats,
) -> Direction:
    """Solve (X' diag(w_k) X + P_k) d_k = right_k for every column, by its own tolerance.

    `tolerances` are relative, in the norm of the preconditioner; weights None are ones, and with
    float32 weights the products are rough, which a direction of ascent can stand.
    """
    step = np.zeros_like(right)
    residual = right.copy()
    z = preconditioner(residual)
    rho = np.einsum("mb,mb->b", residual, z)
    goal = tolerances**2 * rho
    direction = z
    for _ in range(MOST_CG_STEPS):
        active = rho > goal
        if not active.any():
            break
        curved = design.curvature_product(weights, direction) + precision(direction)
        bend = np.einsum("mb,mb->b", direction, curved)
        alpha = np.where(active & (bend > 0.0), rho / np.where(bend > 0.0, bend, 1.0), 0.0)
        step += alpha * direction
        residual -= alpha * curved
        z = preconditioner(residual)
        new_rho = np.einsum("mb,mb->b", residual, z)
        beta = np.where(active, new_rho / np.where(rho > 0.0, rho, 1.0), 0.0)
        rho = np.where(active, new_rho, rho)
        direction = z + beta * direction
    return Direction(step, design.product(step))


class Stepped(NamedTuple):
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
    slope: Floats,
) -> Stepped:
    """Halve each class's step until f grows enough; a class where it never does stays.

    Parameters
    ----------
    values, penalty : functions of scores (n, B) and of means (M, B)
    current : f at `mean`, (B,)
    slope : the derivative of f along the direction, (B,)
    """
    length = np.ones(mean.shape[1])
    for _ in range(_MOST_HALVINGS):
        new_scores = scores + length * direction.scores
        new_mean = mean + length * direction.step
        new = values(new_scores) - penalty(new_mean)
        short = ~(new >= current + _SUFFICIENT * length * slope)
        short &= length > 0.0
        if not short.any():
            break
        length[short] *= 0.5
        # What is left to gain is rounding: stay.
        length[short & (length * slope <= 1e-15 * np.abs(current))] = 0.0
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


def diagonal_preconditioner(diagonal: Floats) -> Preconditioner:
    inverse = 1.0 / diagonal

    def apply(values: Floats) -> Floats:
        return inverse * values

    return apply


def spectral_preconditioner(basis: Floats, diagonal: Floats) -> Preconditioner:
    """(T diag(d_k) T')-inverse-like: T diag(1/d_k) T' for the columns of `diagonal` (M, B)."""
    inverse = 1.0 / diagonal

    def apply(values: Floats) -> Floats:
        return basis @ (inverse * (basis.T @ values))

    return apply


def precision_product(precision: Floats, is_matrix: bool) -> Precision:
    """V -> P V for a matrix, or a diagonal of shape (M, 1) or (M, B)."""

    def apply(values: Floats) -> Floats:
        return precision @ values if is_matrix else precision * values

    return apply
