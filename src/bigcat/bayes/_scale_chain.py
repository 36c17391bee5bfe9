"""The prior's scale of a problem whose chains would take too long, from one short chain.

Very many weights leave little doubt about a scale that they share, so a few draws of all weights
are enough for it, and two things are done otherwise than in `_chains`.

Steps are not accepted or rejected as wholes.  What a step of some angle gets wrong is a small
energy for each row; for thousands of rows these add up, and rejecting them would force steps that
are several times shorter.  But they bias a sum over the rows no more than they bias each term: so a
step counts as long as its error is small *per row*.

And a factor of weights and scale together is not tried at random: the posterior as a function of
that factor is nearly a Gaussian, three values of it give its peak and width, and the factor is
drawn from there.  Where the chain begins far off, moves that shrink evenly tell where they will end
(Aitken's extrapolation), which saves most of the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._chains import Chains
from bigcat.bayes._mixing import Mixing
from bigcat.bayes.prior_chains import Scalable
from bigcat.machine import one_blas_thread

#: The error of a step that is tolerated, in nats per row (or per weight, where these are fewer).
TOLERATED = 1e-3
#: Iterations of each window on the way there, and how far a move may go, in logarithms.
WINDOWS, LONGEST_MOVE = (4, 4, 8, 8, 8, 8), 0.5
#: Moves are extrapolated as if they fell by no less than this from half a window to the next.
SLOWEST = 0.8
#: Half the width of the parabola.
HALF_WIDTH = 0.05
#: The chain has arrived when the scale of the weights has moved, in the second half of a window, no
#: farther than this, or than twice the deviation of these moves.
ARRIVED = 0.03
#: The frame is moved once a scale has changed by more than this since it was made: on the way, and
#: when it has arrived.
FAR, NEAR = 0.5, 0.1


class ScaleChain(Chains):
    """One chain over all weights.  Parameters are those of `Chains`; the prior has one chain."""

    def learn(
        self, n_kept: int, on_iteration: Callable[[], None] = lambda: None
    ) -> tuple[Floats, Mixing]:
        """Precisions of the prior, (K or 1, M): geometric means over the last iterations."""
        self.framed = self._log_scales()
        for window in WINDOWS:
            moves = np.array([self._iterate(on_iteration, False) for _ in range(window)])
            first, second = np.split(moves, 2)
            if abs(second[:, 0].sum()) <= max(ARRIVED, 2.0 * second[:, 0].std()):
                break
            ahead = _extrapolated(first.sum(axis=0), second.sum(axis=0))
            for kind, log in zip(self.prior.scalable(), ahead):
                self._multiply(kind, log)
            self._reframe_beyond(FAR)
        self._reframe_beyond(NEAR)
        logs, seen = [], []
        for _ in range(n_kept):
            self._iterate(on_iteration, True)
            logs.append(np.log(self.prior.precision[0]))
            seen.append(self.prior.summary())
        # Steps are not accepted as wholes, so there is no rate of acceptance.
        return np.exp(np.mean(logs, axis=0)), Mixing.of(math.nan, np.array(seen))

    def _reframe_beyond(self, most: float) -> None:
        if (np.abs(self._log_scales() - self.framed) > most).any():
            self._set_frame(self.frame.mode)
            self.framed = self._log_scales()

    def _log_scales(self) -> Floats:
        """Logarithms of the learnt standard deviations, one for each kind of weights."""
        logs: Floats = -0.5 * self.prior.summary()[0]
        return logs

    def _accepted(self, gain: Floats) -> Floats:
        small = np.abs(gain) <= TOLERATED * min(self.likelihood.design.n, self.stack[0].size)
        return np.where(small, 1.0, super()._accepted(gain))

    def _iterate(self, on_iteration: Callable[[], None], arrived: bool) -> Floats:
        """Weights given scales, then scales; how far the logarithms of the scales have moved."""
        before = self._log_scales()
        with one_blas_thread:
            self._rotate(adapt=True)
            self.prior = self.prior.drawn(self.stack, self.rng)
            value = self.likelihood.values(self.stack)[0]
            for kind in self.prior.scalable():
                value = self._rescale_by_peak(kind, value, arrived)
        on_iteration()
        moved: Floats = self._log_scales() - before
        return moved

    def _rescale_by_peak(self, kind: Scalable, value: float, arrived: bool) -> float:
        """Weights and their scale times a factor from about its own posterior; the likelihood then.

        `value` is the likelihood before.  On the way the factor is taken whatever it gains.
        """
        middle = value + self.prior.log_density(kind)[0]
        sides = np.array([self._posterior_of(kind, log)[0] for log in (-HALF_WIDTH, HALF_WIDTH)])
        slope = (sides[1] - sides[0]) / (2.0 * HALF_WIDTH)
        bend = (2.0 * middle - sides.sum()) / HALF_WIDTH**2
        bend = max(bend, abs(slope) / LONGEST_MOVE, LONGEST_MOVE**-2.0)
        drawn = slope / bend + self.rng.standard_normal() / math.sqrt(bend)
        new, new_value = self._posterior_of(kind, drawn)
        # A parabola gives the gain itself; what it does not is decided by Metropolis' rule.
        gain = new - middle - (slope * drawn - 0.5 * bend * drawn**2)
        if arrived and math.log(self.rng.uniform()) >= gain:
            return value
        self._multiply(kind, drawn)
        return new_value

    def _posterior_of(self, kind: Scalable, log: float) -> tuple[float, float]:
        """Posterior and likelihood, in nats, with weights and their scale times exp(log)."""
        stack = self.stack.copy()
        stack[:, :, kind.columns] *= math.exp(log)
        value = float(self.likelihood.values(stack)[0])
        return value + float(self.prior.rescaled(kind, np.exp([log])).log_density(kind)[0]), value

    def _multiply(self, kind: Scalable, log: float) -> None:
        """Weights and their scale, by the factor with this logarithm."""
        self.stack = self.stack.copy()
        self.stack[:, :, kind.columns] *= math.exp(log)
        self.prior = self.prior.rescaled(kind, np.exp([log]))


def _extrapolated(first: Floats, second: Floats) -> Floats:
    """What moves will add that were `first` in one half of a window and `second` in the other."""
    clear = np.minimum(first * np.sign(second), np.abs(second)) > ARRIVED
    ratio = np.clip(second / np.where(clear, first, np.inf), 0.0, SLOWEST)
    return np.clip(second * ratio / (1.0 - ratio), -LONGEST_MOVE, LONGEST_MOVE)
