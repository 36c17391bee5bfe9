"""What every bound declares to people and to the registry; the compiled side is `bigcat.verbs`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bigcat.compile import kernel
from bigcat.noise import Noise
from bigcat.part import Part
from bigcat.probabilities import score_scale
from bigcat.verbs import fit_local, step

#: How local steps fall, (1 + t)^-0.6 with epochs t = 1, 2, ...: old weights are forgotten sooner
#: than by the 0.9 of A&R section 4, with which 200 epochs were ten times as far from the optimum.
#: Counted from 1, since a first step of 1 would throw the starting values away for an estimate
#: from a few sampled classes.
LOCAL_DECAY = 0.6
#: But where all classes are drawn the estimate is exact, and a local step goes this part of the way
#: in any epoch: a row of scores that move far from visit to visit is else always behind them.  Not
#: all of it, so that an estimate of nothing (scores hundreds apart) leaves a logarithm.
EXACT_LOCAL_STEP = 0.9


@dataclass(frozen=True, repr=False)
class Bound(Part):
    """What is maximised: log p(y | x) itself or something below it, a row at a time."""

    name: ClassVar[str]
    #: One line for tables.
    promise: ClassVar[str]
    #: Noises it is made for, by name; None for every noise, a user's own included.
    noises: ClassVar[tuple[str, ...] | None] = None
    #: Never above log p(y | x)?  (An estimator that is no bound says False.)
    is_bound: ClassVar[bool] = True
    #: Do scores have to be log-probabilities themselves, so that their common level counts?
    needs_log_probabilities: ClassVar[bool] = False
    #: May classes be sampled?  For a bound: is its value over a sample right on average?
    can_sample: ClassVar[bool] = True
    #: Is it log p(y | x) itself?
    is_likelihood: ClassVar[bool] = False
    #: Has it an expectation over Gaussian scores (`expected_step`), which posteriors need?
    has_expectation: ClassVar[bool] = False
    #: Variational parameters per row.
    n_local: ClassVar[int] = 0
    #: Is the value free of randomness when all classes are visited?
    deterministic: bool = field(default=True, init=False)

    def lower(self, noise: Noise) -> Any:
        """Tag below the seam."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.bounds")

    def initial_local(self, noise: Noise, intercepts: np.ndarray) -> np.ndarray:
        """Local parameters before a row's features are known, one set for each label.

        The optimum where the label has its intercept as score and every other class the one
        score that makes the rest as probable as it is (exactly so for the softmax).
        """
        table = np.zeros((len(intercepts), self.n_local))
        if self.n_local and not self.starts_at_zero(noise):
            scale = score_scale(noise, len(intercepts))
            fit_table(self.lower(noise), table, intercepts.astype(np.float64), scale)
        return table

    @property
    def word(self) -> str:
        """What its value is called."""
        return "bound" if self.is_bound else "objective"

    def for_training(self, noise: Noise) -> Bound:
        """As precise as stochastic passes need, where that is quicker."""
        return self

    def to_full_precision(self) -> Bound:
        """As precise as can be, for values that people see."""
        return self

    def local_progress(self, epoch: int, share: float) -> float:
        """Size of the local steps in that epoch, counted from 0, for a share of classes drawn."""
        return max(float((2.0 + epoch) ** -LOCAL_DECAY), EXACT_LOCAL_STEP * share**2)

    def starts_at_zero(self, noise: Noise) -> bool:
        """Do local parameters start at 0 whatever the intercepts are?"""
        return False

    def check_noise(self, noise: Noise) -> None:
        """Raise if this bound does not hold for that noise."""
        if self.noises is not None and noise.name not in self.noises:
            names = " or ".join(map(repr, self.noises))
            raise ValueError(
                f"the {self.name} {self.word} holds for noise {names}, "
                f"not for {noise.name!r}; take method='augment-reduce' or 'exact', which hold "
                "for every noise"
            )


def check_start(start: str) -> None:
    if start not in ("best", "zero"):
        raise ValueError(f"start={start!r} is not known; choose 'best' or 'zero'")


@kernel
def fit_table(bound, table, scores, scale):
    """`fit_local` for each label, its rivals merged into one score that stands for all."""
    n_classes = scores.shape[0]
    high = scores.max()
    total = 0.0
    for k in range(n_classes):
        total += math.exp((scores[k] - high) / scale)
    rival, count = np.empty(1), np.array([n_classes - 1.0, 1.0])
    for k in range(n_classes):
        rest = max(total - math.exp((scores[k] - high) / scale), 1e-300)
        rival[0] = high + scale * math.log(rest / (n_classes - 1))
        fit_local(bound, table[k], scores[k], rival, count, 1)


@kernel
def full_rows(bound, rng, scores, labels, n_always, order, local, values, grads, want_grads):
    """Value a row over *all* classes at the best local parameters, and slopes for all scores.

    Parameters
    ----------
    scores : (n, n_classes) array
    order : (n_classes,) array
        Classes in the order of visit; the first `n_always` are the ones kept exact.
    local : (n, n_local) array
        Receives the best local parameters.
    values : (n,) array
    grads : (n, n_classes) array
        May be `scores` itself.
    """
    n_classes = scores.shape[1]
    others, counts = np.empty(n_classes - 1), np.ones(n_classes)
    row_grads = np.empty(n_classes)
    for i in range(scores.shape[0]):
        y = labels[i]
        n = 0
        exact = n_always
        for c in range(n_classes):
            if order[c] != y:
                others[n] = scores[i, order[c]]
                n += 1
            elif c < n_always:
                exact -= 1
        psi_y = np.float64(scores[i, y])
        fit_local(bound, local[i], psi_y, others, counts, n)
        values[i] = step(bound, rng, local[i], 0.0, psi_y, others, counts, n, exact, row_grads)
        if want_grads:
            grads[i, y] = row_grads[n]
            n = 0
            for c in range(n_classes):
                if order[c] != y:
                    grads[i, order[c]] = row_grads[n]
                    n += 1
