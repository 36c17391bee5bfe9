"""The prior's scale of a problem whose chains would take too long, from one short chain.

Very many weights leave little doubt about a scale that they share, so a few draws of all weights
are enough for it, and two things are done otherwise than in `_chains`.

Steps are not accepted or rejected as wholes.  What a step of some angle gets wrong is a small
energy for each row; for thousands of rows these add up, and rejecting them would force steps that
are several times shorter.  But they bias a sum over the rows no more than they bias each term: so a
step counts as long as its error is small *per row*.

And factors of weights and scales together are not tried at random: the posterior as a function of
such a factor is nearly a Gaussian.  The gradient, which the last step has left, gives its slope at
once, and a part of the rows its bend; factors are drawn from there.  The next step begins with the
gradient where they lead, so that they cost nothing more.  Where the chain begins far off, moves
that shrink evenly tell where they will end (Aitken's extrapolation), which saves most of the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._chains import Chains, Place
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._mixing import Mixing
from bigcat.bayes.prior_chains import PriorChain, Scalable
from bigcat.machine import one_blas_thread

#: The error of a step that is tolerated, in nats per row (or per weight, where these are fewer).
TOLERATED = 1e-3
#: Of a step: larger ones are rejected now and then, and the gradients of four of them are lost.
LARGEST_ANGLE = 0.45
#: Iterations of each window on the way there, and how far a move may go, in logarithms.
WINDOWS, LONGEST_MOVE = (4, 4, 4, 4, 8, 8, 8), 0.5
#: Moves are extrapolated as if they fell by no less than this from half a window to the next.
SLOWEST = 0.8
#: Half the width of a parabola, and the part of the rows that tells its bend, at least so many.
HALF_WIDTH, PART_OF_ROWS, LEAST_ROWS = 0.05, 1 / 16, 500
#: The part of the rows that a chain begins with.
FIRST_PART = 1 / 8
#: The chain has arrived when the scale of the weights has moved, in the second half of a window, no
#: farther than this, or than twice the deviation of these moves.
ARRIVED = 0.03
#: The frame is moved once the scale of the weights has changed by more than this since it was made;
#: meanwhile coordinates stretch with the scale.
FAR = 0.5


class ScaleChain(Chains):
    """One chain over all weights.  Parameters are those of `Chains`; the prior has one chain."""

    mode_tol: ClassVar[float] = 0.1
    largest_angle: ClassVar[float] = LARGEST_ANGLE

    def learn(
        self, n_kept: int, on_iteration: Callable[[], None] = lambda: None
    ) -> tuple[Floats, Mixing]:
        """Precisions of the prior, (K or 1, M): geometric means over the last iterations."""
        self.arrive(on_iteration)
        logs, seen = [], []
        for _ in range(n_kept):
            self._iterate(on_iteration, True)
            logs.append(np.log(self.prior.precision[0]))
            seen.append(self.prior.summary())
        # Steps are not accepted as wholes, so there is no rate of acceptance.
        return np.exp(np.mean(logs, axis=0)), Mixing.of(math.nan, np.array(seen))

    def arrive(self, on_iteration: Callable[[], None] = lambda: None) -> None:
        """Move until the scale of the weights is about where it will stay."""
        self.framed = self._log_scales()
        for window in WINDOWS:
            moves = np.array([self._iterate(on_iteration, False) for _ in range(window)])
            first, second = np.split(moves, 2)
            if abs(second[:, 0].sum()) <= max(ARRIVED, 2.0 * second[:, 0].std()):
                break
            ahead = _extrapolated(first.sum(axis=0), second.sum(axis=0))
            self.stack, self.prior = self._multiplied(ahead)
            # Intercepts are one column of many, and nothing to move a frame for.
            if abs(self._log_scales()[0] - self.framed[0]) > FAR:
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
            self._rescale_by_peak(arrived)
        on_iteration()
        moved: Floats = self._log_scales() - before
        return moved

    def _rescale_by_peak(self, arrived: bool) -> None:
        """Weights and scales times factors from about the posterior of these factors.

        On the way factors are taken whatever they gain.
        """
        here = self._here()
        slopes, bends = self._parabolas(here)
        bends = np.maximum(bends, np.maximum(np.abs(slopes) / LONGEST_MOVE, LONGEST_MOVE**-2.0))
        logs = slopes / bends + self.rng.standard_normal(len(bends)) / np.sqrt(bends)
        stack, prior = self._multiplied(logs)
        there = self._look(stack)
        gain = there.values[0] - here.values[0]
        gain += _log_density(prior) - _log_density(self.prior)
        # Parabolas give the gain itself; what they do not is decided by Metropolis' rule.
        gain -= (slopes * logs - 0.5 * bends * logs**2).sum()
        if not arrived or math.log(self.rng.uniform()) < gain:
            self.stack, self.prior, self.known = stack, prior, there

    def _parabolas(self, here: Place) -> tuple[Floats, Floats]:
        """Slope and bend of the posterior in the logarithm of the factor of each kind of weights.

        A bend may be rough, since Metropolis' rule knows what it gets wrong; a slope may not.
        """
        slopes, bends = [], []
        share = self.likelihood.design.total_weight / self.some.design.total_weight
        middle = self.some.values(self.stack)[0]
        densities = _log_density(self.prior)
        for kind in self.prior.scalable():
            own = np.s_[:, :, kind.columns]
            slope = float((here.stack[own] * here.gradients[own]).sum())
            sides = [self._multiplied(log, kind) for log in (-HALF_WIDTH, HALF_WIDTH)]
            values = [self.some.values(stack)[0] for stack, _ in sides]
            bend = share * (2.0 * middle - sum(values))
            low, high = (_log_density(prior) for _, prior in sides)
            slopes.append(slope + (high - low) / (2.0 * HALF_WIDTH))
            bends.append((bend + 2.0 * densities - low - high) / HALF_WIDTH**2)
        return np.array(slopes), np.array(bends)

    @cached_property
    def some(self) -> Likelihood:
        """The likelihood of a part of the rows."""
        n = self.likelihood.design.n
        n_some = min(n, max(LEAST_ROWS, round(n * PART_OF_ROWS)))
        return self.likelihood.of_rows(np.sort(self.rng.choice(n, n_some, replace=False)), n)

    def _multiplied(
        self, logs: Floats | float, only: Scalable | None = None
    ) -> tuple[Floats, PriorChain]:
        """Weights and scales, of all kinds or only one, by factors with these logarithms."""
        kinds = self.prior.scalable() if only is None else [only]
        stack, prior = self.stack.copy(), self.prior
        for kind, log in zip(kinds, np.broadcast_to(logs, len(kinds))):
            stack[:, :, kind.columns] *= math.exp(log)
            prior = prior.rescaled(kind, np.exp([log]))
        return stack, prior


def first_rows(likelihood: Likelihood, rng: np.random.RandomState) -> Likelihood | None:
    """Some of the rows, which tell about where a chain over all of them will arrive.

    None where all rows are few.
    """
    n = likelihood.design.n
    n_first = round(n * FIRST_PART)
    if n_first < LEAST_ROWS:
        return None
    return likelihood.of_rows(np.sort(rng.choice(n, n_first, replace=False)), n)


def _log_density(prior: PriorChain) -> float:
    """Of the logarithms of all scales of one chain."""
    return float(sum(prior.log_density(kind)[0] for kind in prior.scalable()))


def _extrapolated(first: Floats, second: Floats) -> Floats:
    """What moves will add that were `first` in one half of a window and `second` in the other."""
    clear = np.minimum(first * np.sign(second), np.abs(second)) > ARRIVED
    ratio = np.clip(second / np.where(clear, first, np.inf), 0.0, SLOWEST)
    return np.clip(second * ratio / (1.0 - ratio), -LONGEST_MOVE, LONGEST_MOVE)
