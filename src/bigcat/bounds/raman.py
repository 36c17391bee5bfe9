"""Double sum of Raman et al. (2016): the softmax bound with the label's score kept outside.

log p(y) >= 1 - u + psi_y - sum_k exp(psi_k - u), k over all classes   (unbiased softmax, eq. 8)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from bigcat.bounds._base import Bound, check_start
from bigcat.compile import implement
from bigcat.noise import Noise
from bigcat.numerics.special import exp_differences, log_sum_exp
from bigcat.verbs import at_local, fit_local, local_floor, step


class RamanTag(NamedTuple):
    """Tag without fields."""


@dataclass(frozen=True, repr=False)
class Raman(Bound):
    """Softmax bound of augment and reduce in the local parameter u = log eta + psi_y.

    At the best u both equal log p(y). Elsewhere the stochastic gradients of this one are larger,
    since psi_y, u and exp(psi_y - u) cancel only on average. Provided to reproduce the published
    comparison.

    Parameters
    ----------
    start : {"best", "zero"}, default="best"
        Start u at the optimum of the starting intercepts, or at 0.

    Examples
    --------
    >>> from bigcat.bounds import Raman
    >>> Raman().n_local
    1
    """

    name: ClassVar[str] = "raman"
    summary: ClassVar[str] = "tight bound for the softmax, the label's score kept outside"
    noises: ClassVar[tuple[str, ...] | None] = ("gumbel",)
    n_local: ClassVar[int] = 1
    start: str = "best"

    def __post_init__(self) -> None:
        check_start(self.start)

    def starts_at_zero(self, noise: Noise) -> bool:
        """Return True with ``start="zero"``."""
        return self.start == "zero"

    def lower(self, noise: Noise) -> RamanTag:
        """Return the tag for the noise."""
        return RamanTag()


@implement(fit_local, RamanTag)
def _(bound, local, label_score, others, counts, n):
    local[0] = log_sum_exp(label_score, 0.0, others, counts, n)


@implement(local_floor, RamanTag)
def _(bound, label_score, others, n):
    return log_sum_exp(label_score, 0.0, others, None, n)


@implement(at_local, RamanTag)
def _(bound, u, label_score, others, counts, n, grads):
    label_term = math.exp(label_score - u)
    total = label_term
    for c in range(n):
        term = counts[c] * math.exp(others[c] - u)
        grads[c] = -term
        total += term
    grads[n] = 1.0 - label_term
    return 1.0 - u + label_score - total, total - 1.0


@implement(step, RamanTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    # As in augment and reduce: exp(u) <- (1 - a) exp(u) + a sum, without overflow.
    total, high = exp_differences(others, label_score, counts, n, grads)
    u, best = local[0], label_score + high + math.log(total)
    fresh = math.exp(min(best - u, 600.0))
    value = 1.0 - u + label_score - fresh
    if progress > 0.0:
        top = max(u, best)
        u = top + math.log((1.0 - progress) * math.exp(u - top) + progress * math.exp(best - top))
        local[0] = u
    scale = math.exp(min(label_score + high - u, 600.0))
    for c in range(n):
        grads[c] *= -scale
    grads[n] = 1.0 - math.exp(min(label_score - u, 600.0))
    return value
