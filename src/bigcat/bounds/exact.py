"""The log-probability itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bigcat._jit import implement
from bigcat._seam import fit_local, step
from bigcat._special import log_softmax_with_slopes, negative_sum
from bigcat.bounds._base import Bound
from bigcat.noise import Gumbel, Noise
from bigcat.probabilities import log_prob_of_label


class SoftmaxTag(NamedTuple):
    unit: int = 0


class QuadratureTag(NamedTuple):
    noise: Any


@dataclass(frozen=True)
class Exact(Bound):
    """log p(y | x): the softmax in closed form, every other noise by quadrature.

    Examples
    --------
    >>> from bigcat.bounds import Exact
    >>> Exact().name
    'exact'
    """

    name: ClassVar[str] = "exact"
    promise: ClassVar[str] = "the log-likelihood itself; visits every class"
    can_sample: ClassVar[bool] = False

    def lower(self, noise: Noise) -> SoftmaxTag | QuadratureTag:
        return SoftmaxTag() if isinstance(noise, Gumbel) else QuadratureTag(noise.lower())


@implement(fit_local, SoftmaxTag)
def _(bound, local, label_score, others, counts, n):
    pass


@implement(fit_local, QuadratureTag)
def _(bound, local, label_score, others, counts, n):
    pass


@implement(step, SoftmaxTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
    return log_softmax_with_slopes(label_score, others, counts, n, slopes)


@implement(step, QuadratureTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
    value = log_prob_of_label(bound.noise, label_score, others, counts, n, slopes, True)
    slopes[n] = negative_sum(slopes, n)
    return value
