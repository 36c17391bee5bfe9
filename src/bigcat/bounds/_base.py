"""Base class of bounds; their compiled side is in `bigcat.verbs`."""

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

#: Decay of local steps: (1 + t)^-0.6 with epochs t = 1, 2, ... A&R section 4 uses 0.9; old weights
#: are forgotten faster with 0.6, and 200 epochs end ten times as close to the optimum. Epochs count
#: from 1, since a first step of 1 would replace the starting values by an estimate from a few
#: sampled classes.
LOCAL_DECAY = 0.6
#: Minimal local step for estimates over all classes, which are exact: rows whose scores move far
#: between visits would otherwise lag behind. It is below 1 so that an estimate of 0 (scores
#: hundreds apart) still has a logarithm.
EXACT_LOCAL_STEP = 0.9


@dataclass(frozen=True, repr=False)
class Bound(Part):
    """Objective of one row: log p(y | x) itself or a function below it."""

    name: ClassVar[str]
    #: One-line description for tables.
    summary: ClassVar[str]
    #: Names of the supported noises; None for all, including custom ones.
    noises: ClassVar[tuple[str, ...] | None] = None
    #: True if the value never exceeds log p(y | x); False for estimators.
    is_bound: ClassVar[bool] = True
    #: True if scores are fitted to be log-probabilities, so that their level matters.
    needs_log_probabilities: ClassVar[bool] = False
    #: True if classes may be sampled; for a bound, the sampled value is then unbiased.
    can_sample: ClassVar[bool] = True
    #: x) itself | True for log p(y | x) itself.
    is_likelihood: ClassVar[bool] = False
    #: Number of variational parameters per row.
    n_local: ClassVar[int] = 0
    #: True if the value is not random once all classes are visited.
    deterministic: bool = field(default=True, init=False)

    def lower(self, noise: Noise) -> Any:
        """Return the tag that compiled code sees for this bound and noise."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.bounds")

    def initial_local(self, noise: Noise, intercepts: np.ndarray) -> np.ndarray:
        """Return starting values of the local parameters, one row per label.

        They are optimal for scores that equal the intercepts, with all other classes sharing the
        one score that preserves their total probability (exact for the softmax).
        """
        table = np.zeros((len(intercepts), self.n_local))
        if self.n_local and not self.starts_at_zero(noise):
            scale = score_scale(noise, len(intercepts))
            fill = fit_table.for_steps(256 * len(intercepts))
            fill(self.lower(noise), table, intercepts.astype(np.float64), scale)
        return table

    @property
    def word(self) -> str:
        """Return "bound" or "objective", for messages."""
        return "bound" if self.is_bound else "objective"

    def for_training(self, noise: Noise) -> Bound:
        """Return a faster version with the precision that stochastic training needs."""
        return self

    def to_full_precision(self) -> Bound:
        """Return the most precise version, for reported values."""
        return self

    def local_progress(self, epoch: int, share: float) -> float:
        """Return the size of the local steps in an epoch, for the given share of drawn classes.

        Epochs count from 0.
        """
        return max(float((2.0 + epoch) ** -LOCAL_DECAY), EXACT_LOCAL_STEP * share**2)

    def starts_at_zero(self, noise: Noise) -> bool:
        """Return True if local parameters start at 0 for any intercepts."""
        return False

    def check_noise(self, noise: Noise) -> None:
        """Raise ValueError if the bound does not support the noise."""
        if self.noises is not None and noise.name not in self.noises:
            names = " or ".join(map(repr, self.noises))
            raise ValueError(
                f"the {self.name} {self.word} supports noise {names}, "
                f"not {noise.name!r}; set method='augment-reduce' or 'exact', which support "
                "every noise"
            )


def check_start(start: str) -> None:
    """Raise ValueError unless `start` is "best" or "zero"."""
    if start not in ("best", "zero"):
        raise ValueError(f"start={start!r} is not known; choose 'best' or 'zero'")


@kernel
def fit_table(bound, table, scores, scale):
    """Call `fit_local` for each label, with all rivals merged into one equivalent score."""
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
def full_rows(bound, rng, scores, labels, n_always, order, local, values, grads, with_grads):
    """Compute values over all classes at the best local parameters, with score gradients.

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
        if with_grads:
            grads[i, y] = row_grads[n]
            n = 0
            for c in range(n_classes):
                if order[c] != y:
                    grads[i, order[c]] = row_grads[n]
                    n += 1
