"""One-vs-each (Titsias, 2016) and the tighter bounds above it in its hierarchy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.bounds._base import Bound
from bigcat.compile import implement
from bigcat.noise import Noise
from bigcat.numerics.special import exp_differences, negative_sum
from bigcat.verbs import fit_local, step


class OneVsEachTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class OneVsEach(Bound):
    """Product of pairwise probabilities, sum_k log sigmoid(psi_y - psi_k) (equation 4).

    With `exact_classes`, their softmax stays exact and one-vs-each covers the rest (equation 6):
    the more of them, the tighter the bound.

    Examples
    --------
    >>> from bigcat.bounds import OneVsEach
    >>> OneVsEach().noises
    ('gumbel',)
    """

    name: ClassVar[str] = "one-vs-each"
    summary: ClassVar[str] = "bound without local parameters; exact at two classes"
    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)

    def lower(self, noise: Noise) -> OneVsEachTag:
        """Return the tag for the noise."""
        return OneVsEachTag()


@implement(fit_local, OneVsEachTag)
def _(bound, local, label_score, others, counts, n):
    pass


@implement(step, OneVsEachTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    value = 0.0
    if n_always > 0:  # the first factor of equation 6: an exact softmax
        total, high = exp_differences(others, label_score, counts, n_always, grads)
        for c in range(n_always):
            grads[c] /= -total
        value -= high + math.log(total)
    for c in range(n_always, n):
        d = others[c] - label_score
        e = math.exp(-abs(d))
        value -= counts[c] * (max(d, 0.0) + math.log1p(e))
        grads[c] = -counts[c] * (1.0 if d >= 0.0 else e) / (1.0 + e)
    grads[n] = negative_sum(grads, n)
    return value
