"""Estimators of log p(y) from a sample of the classes, which are not bounds.

As in ``bounds``, a row has the score ``psi_y`` of its label and the scores ``psi`` of its drawn
classes, with importance weights c_k (``weights``): one over the expected number of draws of class
k. ``weight_y`` is the weight that the label would have if it were drawn like the others.
"""

import numpy as np
from scipy.special import expit, log_expit

from .bounds import Bound, exact


def importance(psi_y: float, psi: np.ndarray, weights: np.ndarray, weight_y: float) -> Bound:
    """Return the log of c_y e^psi_y / (c_y e^psi_y + sum_k c_k e^psi_k): sampled softmax.

    The softmax over the label and the drawn classes, each score corrected by minus the logarithm of
    its expected count (Bengio and Senecal, 2008). Equal weights cancel.
    """
    return exact(psi_y + np.log(weight_y), psi + np.log(weights))


def complementary(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> Bound:
    """Return -log(1 + sum_k c_k exp(psi_k - psi_y)) (Botev et al., 2017).

    The sum is unbiased, so minus its logarithm is too large on average. It is
    ``softmax_augment_reduce`` at the eta that is best for the sample.
    """
    return exact(psi_y, psi + np.log(weights))


def noise_contrastive(psi_y: float, psi: np.ndarray, weights: np.ndarray, weight_y: float) -> Bound:
    """Return log sigmoid(delta_y) + sum over the noise of log sigmoid(-delta_k).

    delta_k = psi_k - log Q_k, and Q_k = 1 / c_k is how many noise draws of class k are expected
    (Mnih and Teh, 2012). Noise may be of any class, the label too, but ``psi`` never holds the
    label: its share enters as the expectation Q_y log sigmoid(-delta_y). Then exp(psi_k) = p_k at
    the optimum: the scores normalise themselves, and their gradients do not sum to zero.
    """
    delta_y, delta = psi_y + np.log(weight_y), psi + np.log(weights)
    value = log_expit(delta_y) + log_expit(-delta_y) / weight_y + log_expit(-delta).sum()
    return Bound(value, expit(-delta_y) - expit(delta_y) / weight_y, -expit(delta))
