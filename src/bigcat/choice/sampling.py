"""Conditional logit from sampled alternatives.

McFadden's estimator (1978) takes the alternatives of a case to be the chosen one and those drawn.
With draws by probabilities q and with replacement, and n_j the times that j came up (once more for
the chosen one), utilities are corrected by log(n_j / q_j) (Ben-Akiva and Lerman 1985, chapter 9).
It is consistent, but less efficient than maximum likelihood with all alternatives.

`improve` goes from there to the maximum of the full likelihood.  The sum over all alternatives,

    Z_i = exp(V_iy) + sum_{j != y} exp(V_ij),    estimated by  exp(V_iy) + mean_s exp(V_is) / q_s,

and sums of x_ij exp(V_ij) have unbiased estimates; their ratio has a bias of the order of one over
the draws, which the jackknife over independent passes of draws takes away.  Few passes tell their
error, by the same jackknife, and so how many make it small beside the standard errors.  Draws are
by mean probabilities of some cases, mixed with the former q so that no weight is large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from bigcat.choice.data import Array, Pairs
from bigcat.choice.newton import solve
from bigcat.choice.rows_likelihood import Derivatives, RowsLikelihood
from bigcat.choice.utility import Term
from bigcat.noise import Gumbel

#: Passes over the cases, and the error (in standard errors) at which they may end.
_MIN_PASSES, _MAX_PASSES, _ENOUGH = 4, 128, 0.03
#: Cases of a chunk times draws.
_CHUNK = 1 << 20


@dataclass
class SampledCases:
    """Pairs of cases and alternatives from which samples are drawn."""

    pairs: Pairs
    terms: list[Term]
    offset: Term | None
    constants: bool
    reference: int
    probabilities: Array
    n_draws: int
    random_state: np.random.RandomState

    def _chosen(self) -> Array:
        assert self.pairs.chosen is not None
        return self.pairs.chosen

    def _draw(self, n: int) -> Array:
        cumulative = np.cumsum(self.probabilities)
        draws = self.random_state.random_sample((n, self.n_draws)) * cumulative[-1]
        drawn = np.searchsorted(cumulative, draws, "right")
        return np.asarray(np.minimum(drawn, len(cumulative) - 1))

    def _values(self, i: Array, j: Array) -> tuple[Array, Array]:
        """Return variables and offsets of pairs: (*shape, P) and (*shape)."""
        columns = self.pairs.columns(i, j)
        shape = np.broadcast_shapes(i.shape, j.shape)
        X = np.empty((*shape, len(self.terms)))
        for k, term in enumerate(self.terms):
            X[..., k] = term.value(columns)
        offset = np.zeros(shape) if self.offset is None else self.offset.value(columns)
        return X, np.broadcast_to(offset, shape)

    def likelihood(self) -> RowsLikelihood:
        """Return McFadden's likelihood of one sample."""
        n, J = self.pairs.n_cases, len(self.pairs.labels)
        drawn = np.column_stack([self._draw(n), self._chosen()])
        keys, counts = np.unique(np.arange(n)[:, None] * J + drawn, return_counts=True)
        i, j = keys // J, keys % J
        mask = self.pairs.availability(i, j)
        if mask is not None:
            i, j, counts = i[mask], j[mask], counts[mask]
        X, offset = self._values(i, j)
        if self.constants:
            place = j - (j > self.reference)
            kept = np.flatnonzero(j != self.reference)
            entries = (np.ones(len(kept)), (kept, place[kept]))
            block = sp.csr_array(entries, shape=(len(j), J - 1))
            X = sp.csr_array(sp.hstack([sp.csr_array(X), block], format="csr"))
        offset = offset + np.log(counts / self.probabilities[j])
        chosen = np.where(j == self._chosen()[i], self.pairs.weights[i], 0.0)
        starts = np.searchsorted(i, np.arange(n + 1))
        return RowsLikelihood(X, offset, starts, chosen, Gumbel())

    def improve(self, coef: Array, free: Array) -> tuple[Array, Derivatives, Array]:
        """Return coefficients two Newton steps on, derivatives, and their error by sampling."""
        n_passes = _MIN_PASSES
        for last in (False, True):
            value, gradient, information, noise = self._sums(coef, n_passes)
            inverse = solve(information[np.ix_(free, free)], np.eye(int(free.sum())))
            spread = np.sqrt(np.diag(inverse @ noise[np.ix_(free, free)] @ inverse))
            error = spread / np.sqrt(np.diag(inverse))
            if not last:
                needed = n_passes * float((error / _ENOUGH).max()) ** 2
                n_passes = int(np.clip(np.ceil(1.2 * needed), _MIN_PASSES, _MAX_PASSES))
            step = np.zeros_like(coef)
            step[free] = inverse @ gradient[free]
            coef = coef + step
        value += 0.5 * float(step @ gradient)
        return coef, Derivatives(value, gradient, information), error

    def _sums(self, coef: Array, n_passes: int) -> tuple[float, Array, Array, Array]:
        """Return log-likelihood, gradient, information and the gradient's noise."""
        n, P = self.pairs.n_cases, len(coef)
        totals = np.zeros(1 + P)
        information, noise = np.zeros((P, P)), np.zeros((P, P))
        step = max(1, _CHUNK // (self.n_draws * (1 + P)))
        for first in range(0, n, step):
            i = np.arange(first, min(first + step, n))[:, None]
            weights = self.pairs.weights[i]
            sums, squares = np.empty((n_passes, len(i), 1 + P)), np.zeros((len(i), P, P))
            for part in sums:
                part[:], square = self._draw_sums(coef, i)
                squares += square
            statistic, left_out = _jackknife(sums)
            totals += (weights * statistic).sum(axis=0)
            away = weights * left_out[:, :, 1:]
            noise += (n_passes - 1) / n_passes * np.einsum("tip,tir->pr", away, away, optimize=True)
            whole = sums.sum(axis=0)
            means = whole[:, 1:] / whole[:, :1]
            information += np.einsum("i,ipr->pr", weights[:, 0] / whole[:, 0], squares)
            information -= (weights * means).T @ means
        return float(totals[0]), totals[1:], information, noise

    def _draw_sums(self, coef: Array, i: Array) -> tuple[Array, Array]:
        """Return estimates of Z, sum x exp(V) and sum x x' exp(V), over exp(V) of the chosen."""
        chosen = self._chosen()[i]
        drawn = self._draw(len(i))
        j = np.hstack([chosen, drawn])
        X, offset = self._values(i, j)
        V = X @ coef + offset
        mass = np.exp(V - V[:, :1])
        mass[:, 1:] *= (drawn != chosen) / (self.probabilities[drawn] * self.n_draws)
        mask = self.pairs.availability(i, j)
        if mask is not None:
            mass = mass * mask
        X = X - X[:, :1]
        weighted = mass[:, :, None] * X
        squares = np.matmul(weighted.transpose(0, 2, 1), X)
        return np.column_stack([mass.sum(axis=1), weighted.sum(axis=1)]), squares


def _jackknife(sums: Array) -> tuple[Array, Array]:
    """Return log-likelihood and gradient of each case without first bias, and what parts change."""
    n_passes = len(sums)

    def statistics(total: Array) -> Array:
        return np.column_stack([-np.log(total[:, 0]), -total[:, 1:] / total[:, :1]])

    whole = sums.sum(axis=0)
    left_out = np.stack([statistics((whole - part) / (n_passes - 1)) for part in sums])
    mean = left_out.mean(axis=0)
    return n_passes * statistics(whole / n_passes) - (n_passes - 1) * mean, left_out - mean
