"""The mode of the posterior."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from bigcat._system import one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes.laplace.likelihood import Likelihood

#: Maximal number of columns whose Gram matrix gets an eigenbasis; others are only scaled.
MAX_COLUMNS = 1_500
MAX_ITERATIONS = 300


def find_mode(
    likelihood: Likelihood,
    precision: Floats,
    prior_mean: Floats,
    start: Floats,
    tol: float = 1e-5,
) -> tuple[Floats, bool]:
    """Return the weights that maximise likelihood times prior, and True if L-BFGS converged.

    L-BFGS runs in coordinates where the curvature is similar in all directions.  For columns in
    units of the prior and labels without signal, the curvature of class k is
    f_k (1 - f_k) X'X + 1, where f_k is the frequency of the class.  It is diagonal in the
    eigenbasis of X'X, and dividing by its root makes all directions alike.

    Parameters
    ----------
    precision : array of shape (K, M) or (1, M)
        Precision of the prior; `prior_mean` has the same shape.
    start : array of shape (K, M)
    tol : float
        Largest gradient in such a direction that counts as zero.
    """
    units = np.exp(-0.5 * np.log(precision).mean(axis=0))
    basis, sizes = _basis(likelihood, units)
    counts = likelihood.class_weights()
    frequencies = (counts + 0.5) / (counts + 0.5).sum()
    scales = 1.0 / np.sqrt((frequencies * (1.0 - frequencies))[:, None] * sizes + 1.0)

    def weights_of(theta: Floats) -> Floats:
        turned = theta.reshape(start.shape) * scales
        weights: Floats = (turned if basis is None else turned @ basis.T) * units
        return weights

    def negative(theta: Floats) -> tuple[float, Floats]:
        weights = weights_of(theta)
        value, gradient = likelihood.gradients(weights[None])
        away = weights - prior_mean
        energy_gradient = (precision * away - gradient[0]) * units
        turned = energy_gradient if basis is None else energy_gradient @ basis
        energy = 0.5 * float((precision * away * away).sum()) - float(value[0])
        return energy, (turned * scales).ravel()

    begin = start / units
    begin = begin if basis is None else begin @ basis
    # Threads of BLAS cost more than they give in the vectors of L-BFGS.
    with one_blas_thread:
        found = scipy.optimize.minimize(
            negative,
            (begin / scales).ravel(),
            jac=True,
            method="L-BFGS-B",
            # Gradients are in standard deviations: a hundredth is nothing, and float32 resolves no
            # less.
            options={
                "maxiter": MAX_ITERATIONS,
                "gtol": tol if likelihood.dtype == np.float64 else max(tol, 1e-2),
                "ftol": 1e-11,
            },
        )
    return weights_of(found.x), found.nit < MAX_ITERATIONS


def _basis(likelihood: Likelihood, units: Floats) -> tuple[Floats | None, Floats]:
    """Return an eigenbasis of X'X, columns in those units, and its eigenvalues.

    None and the diagonal where it is too large.
    """
    design = likelihood.design
    if design.n_columns > MAX_COLUMNS:
        return None, np.maximum(design.squared_sums() * units**2, 1e-12)
    values, vectors = np.linalg.eigh(design.gram() * np.outer(units, units))
    return vectors, np.maximum(values, 0.0)
