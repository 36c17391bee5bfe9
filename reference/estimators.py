"""Estimates of log p(y) from a sample of the classes: not bounds, but what bounds compete with.

As in ``bounds``: a row has the score ``psi_y`` of its label and the scores ``psi`` of the classes
drawn for it, each of which stands for c_k classes (``weights``), one over the number of times k is
expected to be drawn. ``weight_y`` is that number for the label, were it drawn like the others.
"""

import numpy as np
from scipy.special import expit, log_expit

from .bounds import Bound, exact


def importance(psi_y: float, psi: np.ndarray, weights: np.ndarray, weight_y: float) -> Bound:
    """Sampled softmax: log of c_y e^psi_y / (c_y e^psi_y + sum_k c_k e^psi_k).

    The softmax over the label and the drawn classes, each score corrected by minus the logarithm of
    its expected count (Bengio and Senecal, 2008). Equal weights cancel.
    """
    return exact(psi_y + np.log(weight_y), psi + np.log(weights))


def complementary(psi_y: float, psi: np.ndarray, weights: np.ndarray) -> Bound:
    """-log(1 + sum_k c_k exp(psi_k - psi_y)): the label counts once (Botev et al., 2017).

    The sum is unbiased, so minus its logarithm is too large on average. It is
    ``softmax_augment_reduce`` at the eta that is best for the sample.
    """
    return exact(psi_y, psi + np.log(weights))


def noise_contrastive(psi_y: float, psi: np.ndarray, weights: np.ndarray, weight_y: float) -> Bound:
    """Is it data or noise? log sigmoid(delta_y) + sum over the noise of log sigmoid(-delta_k).

    delta_k = psi_k - log Q_k, and Q_k = 1 / c_k is how many noise draws of class k are expected
    (Mnih and Teh, 2012). Noise may be of any class, the label too, but ``psi`` never holds the
    label: its share enters as the expectation Q_y log sigmoid(-delta_y). Then exp(psi_k) = p_k at
    the optimum: the scores normalise themselves, and their slopes do not sum to zero.
    """
    delta_y, delta = psi_y + np.log(weight_y), psi + np.log(weights)
    value = log_expit(delta_y) + log_expit(-delta_y) / weight_y + log_expit(-delta).sum()
    return Bound(value, expit(-delta_y) - expit(delta_y) / weight_y, -expit(delta))
