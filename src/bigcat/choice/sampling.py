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
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.choice.data import Array, Rows
from bigcat.choice.newton import Penalised, solve
from bigcat.choice.pairs_likelihood import PairsLikelihood
from bigcat.choice.rows_likelihood import RowsLikelihood
from bigcat.noise import Gumbel

#: Passes over the cases, and the error (in standard errors) at which they may end.
_MIN_PASSES, _MAX_PASSES, _MAX_ERROR = 4, 128, 0.03
#: Cases of a chunk times draws.
_CHUNK = 1 << 20


class Improved(NamedTuple):
    """Estimate near the maximum, and the error that sampling leaves."""

    coef: Array
    log_likelihood: float
    information: Array
    #: Standard deviation from sampling, in standard errors.
    error: Array
    #: Gradient of each case, and the covariance of their sum from sampling.
    scores: Array
    noise: Array


@dataclass
class SampledCases:
    """Cases of a table of alternatives, for which alternatives are drawn."""

    full: PairsLikelihood
    probabilities: Array
    n_draws: int
    random_state: np.random.RandomState

    def _draw(self, n: int) -> Array:
        cumulative = np.cumsum(self.probabilities)
        draws = self.random_state.random_sample((n, self.n_draws)) * cumulative[-1]
        drawn = np.searchsorted(cumulative, draws, "right")
        return np.asarray(np.minimum(drawn, len(cumulative) - 1))

    def _values(self, i: Array, j: Array) -> tuple[Array, Array]:
        """Return variables and offsets of pairs: (*shape, P) and (*shape)."""
        columns = self.full.pairs.columns(i, j)
        shape = np.broadcast_shapes(i.shape, j.shape)
        X = np.empty((*shape, len(self.full.terms)))
        for k, term in enumerate(self.full.terms):
            X[..., k] = term.value(columns)
        offset = np.zeros(shape) if self.full.offset is None else self.full.offset.value(columns)
        return X, np.broadcast_to(offset, shape)

    def likelihood(self) -> RowsLikelihood:
        """Return McFadden's likelihood of one sample."""
        pairs, everyone = self.full.pairs, np.arange(self.full.n_cases)
        J, chosen = self.full.n_alternatives, self.full.chosen(slice(None))
        drawn = np.column_stack([self._draw(len(everyone)), chosen])
        keys, counts = np.unique(everyone[:, None] * J + drawn, return_counts=True)
        i, j = keys // J, keys % J
        mask = pairs.availability(i, j)
        if mask is not None:
            i, j, counts = i[mask], j[mask], counts[mask]
        X, offset = self._values(i, j)
        if self.full.others is not None:
            place = self.full.constant[j]
            kept = np.flatnonzero(place >= 0)
            entries = (np.ones(len(kept)), (kept, place[kept]))
            shape = len(j), self.full.n_coefficients - X.shape[1]
            X = sp.csr_array(sp.hstack([sp.csr_array(X), sp.csr_array(entries, shape=shape)]))
        rows = Rows(
            columns=pairs.columns(i, j),
            starts=np.searchsorted(i, np.arange(len(everyone) + 1)),
            alternative=j,
            labels=pairs.labels,
            case_names=pairs.case_names,
            chosen=np.where(j == chosen[i], pairs.weights[i], 0.0),
            weights=pairs.weights,
            groups=pairs.groups,
            places=np.arange(len(j)),
            shape=j.shape,
        )
        return RowsLikelihood(X, offset + np.log(counts / self.probabilities[j]), rows, Gumbel())

    def improve(self, start: Array, free: Array, target: Penalised) -> Improved:
        """Take two Newton steps towards the maximum, the second with as many passes as needed."""
        coef, n_passes = start, _MIN_PASSES
        block = np.ix_(free, free)
        for last in (False, True):
            value, scores, expected, noise = self._sums(coef, n_passes)
            gradient = scores.sum(axis=0) - target.precision * (coef - target.mean)
            information = expected + np.diag(target.precision)
            inverse = solve(information[block], np.eye(int(free.sum())))
            error = np.sqrt(np.diag(inverse @ noise[block] @ inverse) / np.diag(inverse))
            if not last:
                needed = n_passes * float((error / _MAX_ERROR).max()) ** 2
                n_passes = int(np.clip(np.ceil(1.2 * needed), _MIN_PASSES, _MAX_PASSES))
            step = np.zeros_like(coef)
            step[free] = inverse @ gradient[free]
            coef = coef + step
        value += float(step @ scores.sum(axis=0) - 0.5 * step @ expected @ step)
        return Improved(coef, value, information, error, scores, noise)

    def _sums(self, coef: Array, n_passes: int) -> tuple[float, Array, Array, Array]:
        """Return log-likelihood, gradients of cases, information, and noise of the gradient."""
        n, P, given = self.full.n_cases, len(coef), self.full.pairs.weights
        value, scores = 0.0, np.empty((n, P))
        information, noise = np.zeros((P, P)), np.zeros((P, P))
        step = max(1, _CHUNK // (self.n_draws * (1 + P)))
        for first in range(0, n, step):
            i = np.arange(first, min(first + step, n))[:, None]
            weights = given[i]
            sums, squares = np.empty((n_passes, len(i), 1 + P)), np.zeros((len(i), P, P))
            for part in sums:
                part[:], square = self._draw_sums(coef, i)
                squares += square
            statistic, left_out = _jackknife(sums)
            value += float(weights[:, 0] @ statistic[:, 0])
            scores[i[:, 0]] = weights * statistic[:, 1:]
            away = weights * left_out[:, :, 1:]
            noise += (n_passes - 1) / n_passes * np.einsum("tip,tir->pr", away, away, optimize=True)
            whole = sums.sum(axis=0)
            means = whole[:, 1:] / whole[:, :1]
            information += np.einsum("i,ipr->pr", weights[:, 0] / whole[:, 0], squares)
            information -= (weights * means).T @ means
        return value, scores, information, noise

    def _draw_sums(self, coef: Array, i: Array) -> tuple[Array, Array]:
        """Return estimates of Z, sum x exp(V) and sum x x' exp(V), over exp(V) of the chosen."""
        chosen = self.full.chosen(i)
        drawn = self._draw(len(i))
        j = np.hstack([chosen, drawn])
        X, offset = self._values(i, j)
        V = X @ coef + offset
        mass = np.exp(V - V[:, :1])
        mass[:, 1:] *= (drawn != chosen) / (self.probabilities[drawn] * self.n_draws)
        mask = self.full.pairs.availability(i, j)
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
