"""The log-probability itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bigcat.bounds._base import Bound
from bigcat.compile import implement
from bigcat.noise import Noise
from bigcat.numerics.special import log_softmax_with_grads, negative_sum
from bigcat.probabilities import Rule, log_prob_of_label, make_rule
from bigcat.verbs import fit_local, step


class SoftmaxTag(NamedTuple):
    """Tag without fields."""


class QuadratureTag(NamedTuple):
    """Tag with the noise and its quadrature rule."""

    noise: Any
    rule: Rule


@dataclass(frozen=True, repr=False)
class Exact(Bound):
    """Exact log-likelihood: the softmax in closed form, other noises by quadrature.

    Parameters
    ----------
    spacing : float, default=0.25
        Distance of the quadrature nodes, in widths of the integrand's peak. The default has
        rounding errors only; at 1 the error is below 1e-3 in a quarter of the time.
    tail : float, default=40.0
        Nodes end where the integrand is e^-tail of its peak.
    precision : {"double", "single"}, default="double"
        Precision of the integrand at the nodes; "single" halves the time.

    Examples
    --------
    >>> from bigcat.bounds import Exact
    >>> Exact().name
    'exact'
    """

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "the log-likelihood itself; visits every class"
    can_sample: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = True
    spacing: float = 0.25
    tail: float = 40.0
    precision: str = "double"

    def __post_init__(self) -> None:
        if self.precision not in ("double", "single"):
            raise ValueError(f"precision={self.precision!r} must be 'double' or 'single'")
        for name, value in (("spacing", self.spacing), ("tail", self.tail)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name}={value!r} must be a finite number above 0")

    def lower(self, noise: Noise) -> SoftmaxTag | QuadratureTag:
        """Return the tag for the noise."""
        if noise.softmax:
            return SoftmaxTag()
        return QuadratureTag(noise.lower(), make_rule(self.spacing, self.tail, self.precision))

    def for_training(self, noise: Noise) -> Bound:
        """Return a coarser quadrature for noises other than Gumbel."""
        return self if noise.softmax else TRAINING_QUADRATURE


#: Quadrature for training: a tenth of the cost, errors far below the noise of stochastic steps.
TRAINING_QUADRATURE = Exact(spacing=1.0, tail=8.0, precision="single")


@implement(fit_local, SoftmaxTag)
def _(bound, local, label_score, others, counts, n):
    pass


@implement(fit_local, QuadratureTag)
def _(bound, local, label_score, others, counts, n):
    pass


@implement(step, SoftmaxTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    return log_softmax_with_grads(label_score, others, counts, n, grads)


@implement(step, QuadratureTag)
def _(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    value = log_prob_of_label(bound.noise, label_score, others, counts, n, bound.rule, grads)
    grads[n] = negative_sum(grads, n)
    return value
