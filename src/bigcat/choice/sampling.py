"""Conditional logit from sampled alternatives.

McFadden's estimator (1978) takes the alternatives of a case to be the chosen one and those drawn.
With draws by probabilities q and with replacement, and n_j the times that j came up (once more for
the chosen one), utilities are corrected by log(n_j / q_j) (Ben-Akiva and Lerman 1985, chapter 9).
It is consistent, but less efficient than maximum likelihood with all alternatives.

`improve` goes from there to the maximum of the full likelihood.  The sum over all alternatives,

    Z_i = exp(V_iy) + sum_{j != y} exp(V_ij),    estimated by  exp(V_iy) + mean_s exp(V_is) / q_s,

and sums of x_ij exp(V_ij) have unbiased estimates; their ratio has a bias of the order of one over
the draws, which the jackknife over independent passes of draws takes away.  Passes go on until
their error, estimated by the same jackknife, is small beside the standard errors.
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
_MIN_PASSES, _MAX_PASSES, _ENOUGH = 4, 128, 0.05
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
        return np.minimum(np.searchsorted(cumulative, draws, "right"), len(cumulative) - 1)

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
        """Return coefficients one Newton step on, derivatives, and their error by sampling."""
        sums, squares, n_passes = [], np.zeros((len(coef),) * 2), _MIN_PASSES
        while True:
            while len(sums) < n_passes:
                totals, square = self._pass(coef)
                sums.append(totals)
                squares += square
            value, gradient, noise = self._jackknife(np.stack(sums))
            information = squares / len(sums)
            inverse = solve(information[np.ix_(free, free)], np.eye(int(free.sum())))
            spread = np.sqrt(np.diag(inverse @ noise[np.ix_(free, free)] @ inverse))
            error = spread / np.sqrt(np.diag(inverse))
            if error.max() < _ENOUGH or n_passes >= _MAX_PASSES:
                break
            n_passes *= 2
        step = np.zeros_like(coef)
        step[free] = inverse @ gradient[free]
        return coef + step, Derivatives(value, gradient, information), error

    def _pass(self, coef: Array) -> tuple[Array, Array]:
        """Return estimates of Z and sum x exp(V) of each case, and of the information."""
        n, weights = self.pairs.n_cases, self.pairs.weights
        found, square = np.empty((n, 1 + len(coef))), np.zeros((len(coef),) * 2)
        step = max(1, _CHUNK // (self.n_draws * (1 + len(coef))))
        for first in range(0, n, step):
            i = np.arange(first, min(first + step, n))[:, None]
            chosen = self._chosen()[i]
            drawn = self._draw(len(i))
            j = np.hstack([chosen, drawn])
            X, offset = self._values(i, j)
            V = X @ coef + offset
            V = V - V[:, :1]  # relative to the chosen one, as Z is
            mass = np.exp(V)
            mass[:, 1:] *= (drawn != chosen) / (self.probabilities[drawn] * self.n_draws)
            mask = self.pairs.availability(i, j)
            if mask is not None:
                mass = mass * mask
            X = X - X[:, :1]
            found[i[:, 0], 0] = mass.sum(axis=1)
            found[i[:, 0], 1:] = means = np.einsum("ij,ijp->ip", mass, X)
            p = mass / mass.sum(axis=1, keepdims=True) * weights[i]
            square += np.einsum("ij,ijp,ijr->pr", p, X, X, optimize=True)
            means = means / mass.sum(axis=1, keepdims=True)
            square -= (weights[i] * means).T @ means
        return found, square

    def _jackknife(self, sums: Array) -> tuple[float, Array, Array]:
        """Return log-likelihood and gradient without their first bias, and the gradient's noise."""
        T, weights = len(sums), self.pairs.weights

        def statistics(total: Array) -> Array:
            return np.column_stack([-np.log(total[:, 0]), -total[:, 1:] / total[:, :1]])

        whole = sums.sum(axis=0)
        left_out = np.stack([statistics((whole - part) / (T - 1)) for part in sums])
        mean = left_out.mean(axis=0)
        best = weights @ (T * statistics(whole / T) - (T - 1) * mean)
        away = (left_out - mean)[:, :, 1:] * weights[:, None]
        noise = (T - 1) / T * np.einsum("tip,tir->pr", away, away, optimize=True)
        return float(best[0]), best[1:], noise
