"""Bouchard's bound (2007), as analysed in one-vs-each section 2.3."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.bounds._base import Bound
from bigcat.compile import device, implement
from bigcat.noise import Noise
from bigcat.numerics.special import log1p_exp, negative_sum, sigmoid
from bigcat.verbs import fit_local, step


class BouchardTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class Bouchard(Bound):
    """Bouchard's bound, with one local parameter per row.

    log p(y) >= psi_y - a - sum_k log(1 + exp(psi_k - a)), k over all classes (equation 12). The
    local parameter is stored as ``a - psi_y``, so that the bound depends on score differences only.

    Examples
    --------
    >>> from bigcat.bounds import Bouchard
    >>> Bouchard().n_local
    1
    """

    name: ClassVar[str] = "bouchard"
    summary: ClassVar[str] = "bound with one local parameter per row, found by a convex root"
    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)
    n_local: ClassVar[int] = 1

    def lower(self, noise: Noise) -> BouchardTag:
        """Return the tag for the noise."""
        return BouchardTag()


@device
def _best_offset(label_score, others, counts, n):
    """Return the root of sigmoid(-a) + sum_k counts_k sigmoid(d_k - a) = 1, d_k = psi_k - psi_y."""
    low, high, total = 0.0, 0.0, 1.0
    for c in range(n):
        d = others[c] - label_score
        low, high = min(low, d), max(high, d)
        total += counts[c]
    # At `low` every sigmoid is at least 1/2 and there are at least two; at `high` each is at
    # most exp(d - a) <= 1 / total.
    high += math.log(total)
    a = 0.5 * (low + high)
    for _ in range(200):
        s = sigmoid(-a)
        gap, grad = s - 1.0, s * (1.0 - s)
        for c in range(n):
            s = sigmoid(others[c] - label_score - a)
            gap += counts[c] * s
            grad += counts[c] * s * (1.0 - s)
        if gap > 0.0:
            low = a
        else:
            high = a
        newton = a + gap / max(grad, 1e-300)
        step_to = newton if low < newton < high else 0.5 * (low + high)
        if abs(step_to - a) <= 1e-13 * (1.0 + abs(a)):
            return step_to
        a = step_to
    return a


@implement(fit_local, BouchardTag)
def _(bound, local, label_score, others, counts, n):
    local[0] = _best_offset(label_score, others, counts, n)


@implement(step, BouchardTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    # The value precedes the move, so the local parameter does not depend on the drawn classes.
    a = local[0]
    value = -a - log1p_exp(-a)
    for c in range(n):
        value -= counts[c] * log1p_exp(others[c] - label_score - a)
    if progress > 0.0:
        a += progress * (_best_offset(label_score, others, counts, n) - a)
        local[0] = a
    for c in range(n):
        grads[c] = -counts[c] * sigmoid(others[c] - label_score - a)
    grads[n] = negative_sum(grads, n)
    return value
