"""Batches of rows for the Laplace method: the posterior of one is the prior of the next.

The posterior so far is a Gaussian, in whose own coordinates it is N(0, 1); so the mode of the next
posterior is looked for there, and the curvature of the new rows is added to its precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.optimize

from bigcat._system import one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes.covariance import (
    ClassFull,
    Covariance,
    Drawn,
    JointFull,
    symmetric_inverse,
    symmetric_inverses,
)
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.mode import MAX_ITERATIONS
from bigcat.bayes.laplace.whitening import WHITENINGS, Whitening
from bigcat.bayes.posterior import GaussianPosterior

#: Draws for each weight of a matrix that is their covariance.
DRAWS_PER_WEIGHT = 4
#: Largest gradient, in standard deviations, that counts as zero.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Known:
    """A Gaussian posterior as the prior of further rows.

    Parameters
    ----------
    form : str
        One of `WHITENINGS`.
    whitening : Whitening
        Its mean and the root of its precision.
    precision : array
        (K M, K M) or (K, M, M), by form.
    """

    form: str
    whitening: Whitening
    precision: Floats

    @classmethod
    def of(cls, posterior: GaussianPosterior) -> Known:
        """Return the posterior as a prior; ValueError for too few draws or another covariance."""
        mean = np.asarray(posterior.scaled_mean, np.float64)
        form, precision = _precision(posterior.scaled_covariance, *mean.shape)
        return cls(form, WHITENINGS[form][1](mean, precision), precision)

    def mode_with(self, likelihood: Likelihood) -> Floats:
        """Return the most probable weights given these rows, too, (K, M)."""
        whitening = self.whitening

        def negative(theta: Floats) -> tuple[float, Floats]:
            u = theta.reshape(1, *whitening.mode.shape)
            value, gradient = likelihood.gradients(whitening.to_weights(u))
            negative_gradient = u - whitening.pulled(gradient)
            return 0.5 * float(theta @ theta) - float(value[0]), negative_gradient.ravel()

        with one_blas_thread:
            found = scipy.optimize.minimize(
                negative,
                np.zeros(whitening.mode.size),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": MAX_ITERATIONS, "gtol": TOLERANCE, "ftol": 1e-12},
            )
        weights: Floats = whitening.to_weights(found.x.reshape(1, *whitening.mode.shape))[0]
        return weights

    def updated(self, likelihood: Likelihood) -> Whitening:
        """Return the posterior with these rows."""
        mode = self.mode_with(likelihood)
        precision_of, kind = WHITENINGS[self.form]
        of_rows = precision_of(likelihood, mode, np.zeros((1, mode.shape[1])))
        found: Whitening = kind(mode, of_rows + self.precision)
        return found


def _precision(form: Covariance, n_classes: int, n_columns: int) -> tuple[str, Floats]:
    if isinstance(form, Drawn):
        form = _of_moments(form, n_classes, n_columns)
    if isinstance(form, JointFull):
        return "full", symmetric_inverse(form.matrix.copy())[0]
    if isinstance(form, ClassFull):
        return "class", symmetric_inverses(form.matrices.copy())[0]
    raise ValueError(
        "partial_fit continues from draws or a Gaussian with the covariance of all weights or of "
        f"each class, and the last fit has {form.in_words}; start with a new estimator, "
        "sklearn.base.clone(model)"
    )


def _of_moments(form: Drawn, n_classes: int, n_columns: int) -> Covariance:
    """Return the Gaussian with the covariance of draws, in the finest form they suffice for."""
    n_draws = len(form.deviations)
    if n_draws >= DRAWS_PER_WEIGHT * n_classes * n_columns:
        flat = form.deviations.reshape(n_draws, -1).astype(np.float64)
        return JointFull(np.cov(flat, rowvar=False), n_classes)
    if n_draws >= DRAWS_PER_WEIGHT * n_columns:
        matrices = form.array()
        return ClassFull(matrices, np.linalg.slogdet(matrices)[1])
    raise ValueError(
        f"partial_fit needs the covariance of {n_columns} weights, and the last fit kept "
        f"{n_draws} draws, which cannot tell it; start with partial_fit instead of fit, or name "
        f"covariance='class', or n_draws={DRAWS_PER_WEIGHT * n_columns}"
    )
