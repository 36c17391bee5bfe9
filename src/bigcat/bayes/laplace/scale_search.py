"""Scales of a prior that maximise the evidence of a Gaussian posterior.

With the mean w and the variances v of the weights, the best precision of a group of them is
t = sum (1 - t v) / sum w^2, the number of weights that the rows decide over their squares (MacKay,
1992), here with the hyperprior of t.  Iterating that is slow where rows say little about each
weight, as both sides then move together; a secant on the logarithm of their ratio is not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes.priors.chains import PARTS, PriorChain, Scales

#: Bounds of the secant's slope, the longest step of a logarithm, and the steps that
#: are short, and too short to matter.
SLOPES, MAX_SCORE_STEP, NEAR, SETTLED = (-1.0, -0.05), 1.5, 0.4, 0.05
MAX_STEPS = 9


class ScaleSearch:
    """A secant search, for every set of scales that the prior has.

    Parameters
    ----------
    prior : PriorChain
        With one chain.
    """

    def __init__(self, prior: PriorChain) -> None:
        self.prior = prior
        self.last: dict[str, tuple[Floats, Floats]] = {}
        self.step = np.inf

    @property
    def near(self) -> bool:
        """Return True once a better Gaussian is worth its cost."""
        return self.step <= NEAR

    @property
    def settled(self) -> bool:
        """Return True once the last step was too short to matter."""
        return self.step <= SETTLED

    def update(self, mean: Floats, variances: Floats) -> PriorChain:
        """Return the prior after a step; `variances` are (K, M), or (1, M) for all classes."""
        best = self.prior.maximised(mean, np.broadcast_to(variances, mean.shape))
        changed: dict[str, Scales] = {}
        steps = []
        for name in PARTS:
            now, then = getattr(self.prior, name), getattr(best, name)
            if now is None:
                continue
            place, ratio = np.log(now.values), np.log(then.values) - np.log(now.values)
            slope = np.full(ratio.shape, 0.5 * sum(SLOPES))
            if name in self.last:
                before, ratio_before = self.last[name]
                moved = place - before
                clear = np.abs(moved) > 1e-3
                slope = (ratio - ratio_before) / np.where(clear, moved, 1.0)
                slope = np.clip(np.where(clear, slope, SLOPES[0]), *SLOPES)
            self.last[name] = place, ratio
            step = np.clip(-ratio / slope, -MAX_SCORE_STEP, MAX_SCORE_STEP)
            # A step matters in proportion to the standard deviation that it changes.
            sizes = np.minimum(1.0, 1.0 / np.sqrt(now.values))
            steps.append(float(np.sqrt(np.square(step * sizes).mean())))
            changed[name] = replace(then, values=np.exp(place + step))
        self.step = max(steps)
        self.prior = replace(self.prior, **changed)  # type: ignore[arg-type]
        return self.prior
