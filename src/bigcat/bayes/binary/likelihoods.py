"""Class probabilities from K binary regressions (section 2.4).

Both likelihoods take margins t_k, the binary regression of class k saying yes with probability
H(t_k), and work with logarithms throughout: t = 1e4 or -1e4 is as good as t = 1.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from bigcat.bayes._arrays import Floats
from bigcat.bayes.binary.links import LINKS

LIKELIHOODS = ("average", "conditioned", "marginalised")


def log_conditioned(link: str, margins: np.ndarray) -> np.ndarray:
    """CBC (2.4.2): exactly one regression says yes; a softmax of log odds (section B.2).

    With the logit link it is the softmax of the margins.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.bayes.binary.likelihoods import log_conditioned
    >>> np.exp(log_conditioned("probit", np.array([[40.0, -40.0, 0.0]]))).round(3).tolist()
    [[1.0, 0.0, 0.0]]
    """
    odds = LINKS[link].log_odds(margins)
    logs: Floats = odds - logsumexp(odds, axis=-1, keepdims=True)
    return logs


def log_marginalised(link: str, margins: np.ndarray) -> np.ndarray:
    """CBM (2.4.1): each regression's yes, normalised."""
    logs = LINKS[link].log_cdf(margins)
    normalised: Floats = logs - logsumexp(logs, axis=-1, keepdims=True)
    return normalised


def log_probabilities(link: str, likelihood: str, margins: np.ndarray, weight: float) -> np.ndarray:
    """Log-probabilities of all classes, (..., K).

    Parameters
    ----------
    likelihood : {"average", "conditioned", "marginalised"}
    weight : float
        Weight of the conditioned likelihood in the average.
    """
    if likelihood == "conditioned" or (likelihood == "average" and weight == 1.0):
        return log_conditioned(link, margins)
    if likelihood == "marginalised" or (likelihood == "average" and weight == 0.0):
        return log_marginalised(link, margins)
    with np.errstate(divide="ignore"):
        log_weight, log_rest = np.log(weight), np.log1p(-weight)
    both: Floats = np.logaddexp(
        log_conditioned(link, margins) + log_weight, log_marginalised(link, margins) + log_rest
    )
    return np.minimum(both, 0.0, out=both)  # rounding
