"""The mode of the posterior, and from there its mean."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from bigcat.bayes._arrays import Floats
from bigcat.bayes._frames import Frame
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

    L-BFGS in coordinates where the curvature is nearly even.
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
        turned: Floats = theta.reshape(start.shape) * scales
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


#: Steps to the mean, pairs of draws of each, and how far a step may go, in standard deviations.
MEAN_STEPS, PAIRS, LONGEST_STEP = 6, 3, 0.5


def mean_of_gaussian(
    likelihood: Likelihood,
    precision: Floats,
    prior_mean: Floats,
    frame: Frame,
    random_state: np.random.RandomState,
) -> Floats:
    """The mean of the Gaussian closest to the posterior, with the covariance of the frame.

    Its expected slope is zero (Opper and Archambeau, 2009), which the slope at the mode is not: the
    likelihood falls faster on one side than on the other, and the mean lies on the slow side.
    Draws come in pairs around the mean, so that a Gaussian posterior gives no noise at all; the
    mean of the last half of the steps has less of the rest.
    """
    shift = np.zeros((1, *frame.mode.shape))  # in coordinates of the frame
    found = np.zeros_like(shift)
    for step in range(MEAN_STEPS):
        u = random_state.standard_normal((PAIRS, *frame.mode.shape))
        stack = frame.to_weights(np.concatenate([shift + u, shift - u]))
        gradients = likelihood.gradients(stack)[1] - precision * (stack - prior_mean)
        move = frame.pulled(gradients).mean(axis=0)
        shift = shift + np.clip(move, -LONGEST_STEP, LONGEST_STEP)
        if step >= MEAN_STEPS // 2:
            found += shift / (MEAN_STEPS - MEAN_STEPS // 2)
    mean: Floats = frame.to_weights(found)[0]
    return mean


def _tolerance(likelihood: Likelihood, tol: float) -> float:
    return tol if likelihood.dtype == np.float64 else max(tol, 1e-3)


def _basis(likelihood: Likelihood) -> tuple[Floats | None, Floats]:
    """An eigenbasis of X'X and its eigenvalues; None and the diagonal where it is too large."""
    design = likelihood.design
    if design.n_columns > MOST_COLUMNS:
        return None, np.maximum(design.squared_sums(), 1e-12)
    values, vectors = np.linalg.eigh(design.gram())
    return vectors, np.maximum(values, 0.0)
