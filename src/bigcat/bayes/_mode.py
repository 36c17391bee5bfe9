"""The mode of the posterior, by L-BFGS in coordinates where the curvature is nearly even."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from bigcat.bayes._arrays import Floats
from bigcat.bayes._likelihood import Likelihood
from bigcat.machine import one_blas_thread

#: Up to so many columns their Gram matrix has an eigenbasis; above it columns are only scaled.
MOST_COLUMNS = 1_500
MOST_ITERATIONS = 300


def find_mode(
    likelihood: Likelihood,
    precision: Floats,
    prior_mean: Floats,
    start: Floats,
    tol: float = 1e-5,
) -> tuple[Floats, bool]:
    """Weights that maximise likelihood and prior, and whether they were found.

    Without signal the curvature of class k is f_k (1 - f_k) X'X + prior, f_k being its frequency:
    in the eigenbasis of X'X that is diagonal, and its root makes all directions alike.

    Parameters
    ----------
    precision : array of shape (K, M) or (1, M)
        Of the prior, whose mean is `prior_mean`, of shape (K, M) or (1, M).
    start : array of shape (K, M)
    tol : float
        The largest slope in such a direction that counts as none.
    """
    basis, sizes = _basis(likelihood)
    counts = np.bincount(
        likelihood.labels, likelihood.design.row_weights, minlength=likelihood.n_classes
    )
    frequencies = (counts + 0.5) / (counts + 0.5).sum()
    curvature = (frequencies * (1.0 - frequencies))[:, None] * sizes
    scales = 1.0 / np.sqrt(curvature + precision.mean(axis=1, keepdims=True))

    def weights_of(theta: Floats) -> Floats:
        turned = theta.reshape(start.shape) * scales
        return turned if basis is None else turned @ basis.T

    def negative(theta: Floats) -> tuple[float, Floats]:
        weights = weights_of(theta)
        value, gradient = likelihood.gradients(weights[None])
        away = weights - prior_mean
        slopes = precision * away - gradient[0]
        turned = slopes if basis is None else slopes @ basis
        energy = 0.5 * float((precision * away * away).sum()) - float(value[0])
        return energy, (turned * scales).ravel()

    turned = start if basis is None else start @ basis
    with one_blas_thread:  # the optimiser's own products are too short for several
        found = scipy.optimize.minimize(
            negative,
            (turned / scales).ravel(),
            jac=True,
            method="L-BFGS-B",
            # The precision of single floats ends the search where that of slopes does not.
            options={
                "maxiter": MOST_ITERATIONS,
                "gtol": _tolerance(likelihood, tol),
                "ftol": 1e-11,
            },
        )
    return weights_of(found.x), found.nit < MOST_ITERATIONS


def _tolerance(likelihood: Likelihood, tol: float) -> float:
    return tol if likelihood.dtype == np.float64 else max(tol, 1e-3)


def _basis(likelihood: Likelihood) -> tuple[Floats | None, Floats]:
    """An eigenbasis of X'X and its eigenvalues; None and the diagonal where it is too large."""
    design = likelihood.design
    if design.n_columns > MOST_COLUMNS:
        return None, np.maximum(design.squared_sums(), 1e-12)
    values, vectors = np.linalg.eigh(design.gram())
    return vectors, np.maximum(values, 0.0)
