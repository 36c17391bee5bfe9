"""Estimators that are not bounds, most of them for the softmax.

Each is a function of the label's score and those of a few drawn classes. Its optimum is near the
maximum of the likelihood, not at it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bigcat.bounds._base import Bound
from bigcat.bounds.exact import TRAINING_QUADRATURE, Exact
from bigcat.compile import implement
from bigcat.noise import Noise
from bigcat.numerics.special import log1p_exp, log_softmax_with_grads, sigmoid
from bigcat.verbs import fit_local, step


class NoiseContrastiveTag(NamedTuple):
    """Tag without fields."""


class ImportanceTag(NamedTuple):
    """Tag without fields."""


class ComplementaryTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class NotABound(Bound):
    """Base class of estimators without local parameters, softmax only by default."""

    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)
    is_bound: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class NoiseContrastive(NotABound):
    """Noise-contrastive estimation (Mnih and Teh, 2012), with a normaliser of one.

    Discriminates the label from noise, with an expected number Q_k of draws of class k: log
    sigmoid(psi_y - log Q_y) + sum over draws of log sigmoid(log Q_k - psi_k). Scores are fitted to
    be log-probabilities, so their level matters, not only differences.

    Examples
    --------
    >>> from bigcat.bounds import NoiseContrastive
    >>> NoiseContrastive().is_bound
    False
    """

    name: ClassVar[str] = "nce"
    summary: ClassVar[str] = "tells the label from noise; right if scores can be log-probabilities"
    needs_log_probabilities: ClassVar[bool] = True

    def lower(self, noise: Noise) -> NoiseContrastiveTag:
        """Return the tag for the noise."""
        return NoiseContrastiveTag()


@dataclass(frozen=True, repr=False)
class ImportanceSampling(NotABound):
    """Sampled softmax: the softmax over the label and the drawn classes (Jean et al., 2015).

    Scores are corrected by importance weights, the label's too (after Bengio and Senecal, 2008).
    With uniform draws the corrections cancel.

    Examples
    --------
    >>> from bigcat.bounds import ImportanceSampling
    >>> ImportanceSampling().can_sample
    True
    """

    name: ClassVar[str] = "importance"
    summary: ClassVar[str] = "softmax over label and sample; an optimum of its own on finite data"

    def lower(self, noise: Noise) -> ImportanceTag:
        """Return the tag for the noise."""
        return ImportanceTag()


@dataclass(frozen=True, repr=False)
class Complementary(NotABound):
    """Complementary sum sampling (Botev, Zheng and Barber, 2017).

    The normaliser is the label's term plus an unbiased estimate of the other terms. Its logarithm
    is biased downwards, so the value is too high; the bias shrinks with the number of drawn
    classes.

    Other noises use A&R equation 5: the log-probability as an integral, with an unbiased estimate
    of the sum of log Phi over all classes. The logarithm of the integral is convex in that sum, so
    the value is too high here too.

    Parameters
    ----------
    nodes : Exact, default=Exact()
        Quadrature of that integral; a coarser one saves time.

    Examples
    --------
    >>> from bigcat.bounds import Complementary
    >>> Complementary().n_local
    0
    """

    name: ClassVar[str] = "complementary"
    summary: ClassVar[str] = "log of an unbiased normaliser; right only with many classes drawn"
    noises: ClassVar[tuple[str, ...] | None] = None
    nodes: Exact = Exact()  # noqa: RUF009 (it is frozen)

    def lower(self, noise: Noise) -> Any:
        """Return the tag for the noise."""
        return ComplementaryTag() if noise.softmax else self.nodes.lower(noise)

    def for_training(self, noise: Noise) -> Bound:
        """Return a coarser quadrature for noises other than Gumbel."""
        return self if noise.softmax else Complementary(TRAINING_QUADRATURE)


def _no_local(bound, local, label_score, others, counts, n):
    pass


for _tag in (NoiseContrastiveTag, ImportanceTag, ComplementaryTag):
    implement(fit_local, _tag)(_no_local)


@implement(step, NoiseContrastiveTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    value = 0.0
    for c in range(n):
        delta = others[c] + math.log(counts[c])
        value -= log1p_exp(delta)
        grads[c] = -sigmoid(delta)
    # The label's class is never drawn as noise here; its expectation replaces it.
    delta = label_score + math.log(counts[n])
    own_noise = 1.0 / counts[n]
    grads[n] = sigmoid(-delta) - own_noise * sigmoid(delta)
    return value - log1p_exp(-delta) - own_noise * log1p_exp(delta)


@implement(step, ImportanceTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    corrected = label_score + math.log(counts[n])
    return log_softmax_with_grads(corrected, others, counts, n, grads)


@implement(step, ComplementaryTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    return log_softmax_with_grads(label_score, others, counts, n, grads)
