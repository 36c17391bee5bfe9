"""Draws of the weights and the prior's scales, by chains that start at the Laplace approximation.

In whitened coordinates u the posterior is nearly standard normal, and the Hamiltonian flow of a
standard normal is a rotation.  A step rotates (u, velocity) exactly; only the rest of the gradient
(that of the energy, less u) changes the velocity (a split Hamiltonian step; Shahbaba et al., 2014).
Where the Laplace approximation is exact no step is rejected, in any dimension, and a few gradients
make an independent draw.

A chain whose prior differs from that of the whitening stretches the coordinates by a ratio of
standard deviations.  A weight has the standard deviation 1 / sqrt(h + p), where h is the curvature
of the likelihood and p the precision of the prior.  The ratio is 1 where the rows determine the
weight, and the ratio of the prior's scales where they do not.

Between these moves the scales of the prior are drawn in two ways that complement each other (Yu and
Meng, 2011).  A draw given the weights mixes fast where the rows determine the weights; a joint draw
with the weights mixes fast where they do not.  A joint draw either multiplies scale and weights by
one factor, or keeps the weights in units of the Laplace approximation at the new scale, whose mode
and deviations move.  The factor is better where classes are nearly separable.  The units are better
with very many weights and little information per weight: the posterior of the weights is then
Gaussian, and this is a draw from the marginal posterior of the scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bigcat._system import one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.whitening import Whitening
from bigcat.bayes.priors.chains import PriorChain, Scalable
from bigcat.inference.mixing import LARGE_R_HAT, Mixing

#: A rotation by a quarter of a turn forgets where it began.
QUARTER = 0.5 * math.pi
#: Angles of a step, and how often steps should be accepted.
FIRST_ANGLE, MIN_ANGLE, MAX_ANGLE, ACCEPTED = 0.5, 0.03, 0.9, 0.8
#: Factors of a scale: the first deviation of their logarithm, how often they should be accepted,
#: and how many are tried in an iteration with either way for weights to follow.
FIRST_DEVIATION, FACTORS_ACCEPTED, N_FACTORS = 0.5, 0.4, 4
#: Iterations before the whitening moves to where the chains are, and how often at most; chains have
#: arrived when the mean of such a window differs from that of the one before by no more than this
#: part of their standard deviation, or by so little that no prediction would notice.
WINDOW, MAX_WINDOWS, SETTLED, NEGLIGIBLE = 16, 8, 0.5, 0.1
#: Effective draws of the prior's scales, as a part of all draws, with which chains may end.
MIN_EFFECTIVE_SHARE = 0.1

#: Makes a whitening at given precisions of the prior, from weights to start at.
WhitenAt = Callable[[Floats, Floats], Whitening]


@dataclass(frozen=True)
class ChainDraws:
    """Draws of chains.

    Parameters
    ----------
    stack : array of shape (S, K, M)
        Draws of the weights.
    precisions : array of shape (K or 1, M)
        Of the prior: geometric means over the draws.
    log_scales : array of shape (S, 1 or 2)
        Logarithms of the learned precisions, weights and intercepts.
    mixing : Mixing
        How far chains agree about the prior's scales, or about the energy where these are known.
    whitening : Whitening
        The last one, at about these precisions.
    """

    stack: Floats
    precisions: Floats
    log_scales: Floats
    mixing: Mixing
    whitening: Whitening


class ChainState(NamedTuple):
    """Weights of all chains, and what the likelihood is there."""

    stack: Floats  # (C, K, M)
    values: Floats  # (C,)
    gradients: Floats  # (C, K, M)

    def where(self, taken: np.ndarray, other: ChainState) -> ChainState:
        """Return `other` in the chains that took the step, and this state in the rest."""
        if taken.all():
            return other
        by = taken[:, None, None]
        return ChainState(
            np.where(by, other.stack, self.stack),
            np.where(taken, other.values, self.values),
            np.where(by, other.gradients, self.gradients),
        )


class Chains:
    """Several chains side by side.

    Parameters
    ----------
    likelihood : Likelihood
    prior : PriorChain
    whiten_at : WhitenAt
    start : Floats
        Weights (K, M) where the mode is looked for.
    random_state : RandomState

    Attributes
    ----------
    mode_tol : float
        The `tol` of `find_mode` that whitenings need.
    largest_angle : float
        Of a step.
    """

    mode_tol: ClassVar[float] = 1e-5
    largest_angle: ClassVar[float] = MAX_ANGLE

    def __init__(
        self,
        likelihood: Likelihood,
        prior: PriorChain,
        whiten_at: WhitenAt,
        start: Floats,
        random_state: np.random.RandomState,
    ) -> None:
        self.likelihood, self.prior, self.whiten_at = likelihood, prior, whiten_at
        self.rng = random_state
        self._whiten(start)
        shape = (prior.n_chains, *likelihood.shape)
        self.stack = self.whitening.to_weights(self.rng.standard_normal(shape))
        self.known: ChainState | None = None
        self.angle = min(FIRST_ANGLE, self.largest_angle)
        self.deviations = {(kind.name, way): FIRST_DEVIATION for kind, way in self._moves()}

    def _whiten(self, near: Floats) -> None:
        """Whiten at the prior's present precisions."""
        typical = self.prior.typical()
        self.whitening = self.whiten_at(typical, near)
        self.information = self.whitening.diagonal - typical

    def _stretch(self) -> Floats:
        """Return the stretch of the coordinates of each chain, (C, K, M)."""
        stretch: Floats = np.sqrt(
            self.whitening.diagonal / (self.information + self.prior.precision)
        )
        return stretch

    def run(
        self,
        n_kept: int,
        every: int = 1,
        most_every: int = 1,
        on_iteration: Callable[[], None] = lambda: None,
    ) -> ChainDraws:
        """Run until the chains agree, then keep `n_kept` draws of each, one per `every` iterations.

        Where these have too few effective draws of the prior's scales, chains go on for twice as
        long and keep every second draw, up to one in `most_every` iterations.
        """
        self._arrive(on_iteration)
        kept: list[tuple[Floats, Floats, Floats]] = []
        accepted, seen = [], []
        while True:
            while len(kept) < n_kept:
                for _ in range(every):
                    accepted.append(self._move(adapt=False))
                    seen.append(self._where_it_is())
                    on_iteration()
                scales = self.prior.summary() if self.prior.learns else np.empty((0, 0))
                kept.append((self.stack, np.log(self.prior.precision).mean(axis=0), scales))
            mixing = Mixing.of(float(np.mean(accepted)), np.array(seen))
            enough = not mixing.ess_bulk < MIN_EFFECTIVE_SHARE * n_kept * self.prior.n_chains
            enough = enough and not mixing.r_hat > LARGE_R_HAT
            if enough or 2 * every > most_every:
                break
            kept, every = kept[1::2], 2 * every
        stacks, logs, all_scales = zip(*kept)
        return ChainDraws(
            np.concatenate(stacks),
            np.exp(np.mean(logs, axis=0)),
            np.concatenate(all_scales),
            mixing,
            self.whitening,
        )

    def _arrive(self, on_iteration: Callable[[], None]) -> None:
        """Move until two windows of iterations agree, with the whitening where the chains are."""
        last = None
        for _ in range(MAX_WINDOWS):
            window = []
            for _ in range(WINDOW):
                self._move(adapt=True)
                window.append(self._where_it_is())
                on_iteration()
            if self.prior.learns:
                self._whiten(self.whitening.mode)
            now = np.array(window)
            if last is not None and _is_settled(last, now):
                break
            last = now

    def _where_it_is(self) -> Floats:
        """Return the numbers by which the agreement of chains is measured, (C, ...)."""
        if self.prior.learns:
            return self.prior.summary()
        return self.energies(self.stack)[:, None]

    def energies(self, stack: Floats) -> Floats:
        """Return minus the log-density of the posterior, up to a constant, (C,)."""
        return self._prior_energies(stack) - self.likelihood.values(stack)

    def _prior_energies(self, stack: Floats) -> Floats:
        away = stack - self.prior.mean
        energies: Floats = 0.5 * (self.prior.precision * away * away).sum(axis=(1, 2))
        return energies

    def _here(self) -> ChainState:
        """Return the present place of the chains, computed once."""
        if self.known is None or self.known.stack is not self.stack:
            self.known = self._look(self.stack)
        return self.known

    def _look(self, stack: Floats) -> ChainState:
        return ChainState(stack, *self.likelihood.gradients(stack))

    def _energies_and_rest(
        self, u: Floats, stretch: Floats, place: ChainState
    ) -> tuple[Floats, Floats]:
        """Energies, and their gradients with respect to u less u itself; the place is that of u."""
        stack, values, gradients = place
        energy_gradients = self.prior.precision * (stack - self.prior.mean) - gradients
        return self._prior_energies(stack) - values, self.whitening.pulled(
            energy_gradients * stretch
        ) - u

    def _move(self, adapt: bool) -> float:
        """Draw weights given scales, then scales; return the mean acceptance probability."""
        with one_blas_thread:  # asked for once, and not for each of its gradients
            accepted = self._rotate(adapt)
            if self.prior.learns:
                self.prior = self.prior.drawn(self.stack, self.rng)
                self._rescale(adapt)
        return accepted

    def _rotate(self, adapt: bool) -> float:
        stretch = self._stretch()
        u = self.whitening.of_weights(self.stack / stretch)
        velocity = self.rng.standard_normal(u.shape)
        angle = min(self.angle * self.rng.uniform(0.8, 1.2), self.largest_angle)
        cosine, sine = math.cos(angle), math.sin(angle)
        begun = self._here()
        energies, rest = self._energies_and_rest(u, stretch, begun)
        before = energies + 0.5 * np.square(velocity).sum(axis=(1, 2))
        moved = u
        for _ in range(max(1, round(QUARTER / angle))):
            velocity = velocity - 0.5 * angle * rest
            moved, velocity = cosine * moved + sine * velocity, cosine * velocity - sine * moved
            place = self._look(self.whitening.to_weights(moved) * stretch)
            energies, rest = self._energies_and_rest(moved, stretch, place)
            velocity -= 0.5 * angle * rest
        after = energies + 0.5 * np.square(velocity).sum(axis=(1, 2))
        probabilities = self._accepted(np.nan_to_num(before - after, nan=-np.inf))
        taken = self.rng.uniform(size=len(probabilities)) < probabilities
        self.known = begun.where(taken, place)
        self.stack = self.known.stack
        accepted = float(probabilities.mean())
        if adapt:
            factor = math.exp(0.5 * (accepted - ACCEPTED))
            self.angle = float(np.clip(self.angle * factor, MIN_ANGLE, self.largest_angle))
        return accepted

    def _accepted(self, gain: Floats) -> Floats:
        """Return acceptance probabilities of steps with these increases of energy, (C,)."""
        probabilities: Floats = np.exp(np.minimum(gain, 0.0))
        return probabilities

    def _moves(self) -> list[tuple[Scalable, str]]:
        """Scales, and how their weights follow them; intercepts gain nothing from the mode."""
        kinds = self.prior.scalable()
        return [(kind, "factor") for kind in kinds] + [(kind, "mode") for kind in kinds[:1]]

    def _rescale(self, adapt: bool) -> None:
        """Multiply scales by factors, together with their weights."""
        values = self._here().values
        # Probabilities that are integrals are as dear as gradients.
        n_factors = N_FACTORS if self.likelihood.noise.softmax else N_FACTORS // 2
        for kind, way in self._moves() * n_factors:
            move = kind.name, way
            logs = self.deviations[move] * self.rng.standard_normal(len(self.stack))
            stack, prior, gain = self._followed(kind, way, logs)
            new = self.likelihood.values(stack)
            taken = np.log(self.rng.uniform(size=len(gain))) < gain + new - values
            self.stack = np.where(taken[:, None, None], stack, self.stack)
            self.prior = self.prior.where(taken, prior)
            values = np.where(taken, new, values)
            if adapt:
                self.deviations[move] *= math.exp(0.5 * (taken.mean() - FACTORS_ACCEPTED))

    def _followed(
        self, kind: Scalable, way: str, logs: Floats
    ) -> tuple[Floats, PriorChain, Floats]:
        """Weights and prior with scales times exp(logs), (C,), and what their density gains.

        Volumes are included, so that weights times the same factors gain nothing given the scale.
        """
        prior = self.prior.rescaled(kind, np.exp(logs))
        gain = prior.log_density(kind) - self.prior.log_density(kind)
        stack = self.stack.copy()
        if way == "factor":
            stack[:, :, kind.columns] *= np.exp(logs)[:, None, None]
        else:
            stack[:, :, kind.columns], gained = self._with_the_mode(kind, logs, prior)
            gain += gained
        return stack, prior, gain

    def _with_the_mode(
        self, kind: Scalable, logs: Floats, prior: PriorChain
    ) -> tuple[Floats, Floats]:
        """Weights as many deviations from the mode as they were, and what their prior gains.

        With h + p as the precision of a weight, p being the prior's, its deviation is in proportion
        to 1 / sqrt(h + p), and if the likelihood is Gaussian its mode is to 1 / (h + p).
        """
        own = kind.columns
        weights, mode = self.stack[:, :, own], self.whitening.mode[:, own]
        before, after = self.prior.precision[:, :, own], prior.precision[:, :, own]
        precision = self.information[:, own] + before
        shrinkage = precision / (self.information[:, own] + after)
        nearer = self.whitening.diagonal[:, own] / precision * mode
        moved = nearer * shrinkage + (weights - nearer) * np.sqrt(shrinkage)
        squares = before * np.square(weights) - after * np.square(moved)
        terms = 0.5 * (squares + np.log(shrinkage)) - logs[:, None, None]
        return moved, terms.sum(axis=(1, 2))


def _is_settled(last: Floats, now: Floats) -> bool:
    """Return True if two windows, (iterations, C, numbers), may have one distribution."""
    moved = np.abs(now.mean(axis=(0, 1)) - last.mean(axis=(0, 1)))
    spread = now.reshape(-1, now.shape[2]).std(axis=0)
    return bool((moved <= np.maximum(SETTLED * spread, NEGLIGIBLE)).all())
