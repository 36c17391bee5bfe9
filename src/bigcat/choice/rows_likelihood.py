"""Log-likelihood of rows that lie in memory, with derivatives and scores, in chunks of cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.choice.data import Array, Rows
from bigcat.choice.quadrature import integrate
from bigcat.noise import Noise

#: Numbers in the largest array of a chunk.
_CHUNK = 2_000_000
#: Nodes that a chunk of quadratures is expected to have.
_NODES = 64


class Derivatives(NamedTuple):
    """Log-likelihood, and where asked for its gradient and minus its second derivatives."""

    value: float
    gradient: Array | None = None
    information: Array | None = None


class RowsLikelihood:
    """Log-likelihood of choices among rows in memory, and probabilities of the rows.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_coefficients)
    offset : array of shape (n_rows,)
    rows : Rows
    noise : Noise
    """

    def __init__(self, X: Any, offset: Array, rows: Rows, noise: Noise) -> None:
        self.X, self.offset, self.rows, self.noise = X, offset, rows, noise
        self.labels, self.starts, self.chosen = rows.labels, rows.starts, rows.chosen
        self.n_coefficients = int(X.shape[1])
        self.n_cases = rows.n_cases

    def at(self, coef: Array, order: int = 2) -> Derivatives:
        """Return the log-likelihood, from order 1 its gradient, from order 2 the information."""
        value, gradient = 0.0, np.zeros(self.n_coefficients)
        information = np.zeros((self.n_coefficients,) * 2) if order > 1 else None
        for cases in self._chunks():
            part, scores, curvature = self._chunk(coef, cases, order)
            value += part
            if scores is not None:
                gradient += scores.sum(axis=0)
            if information is not None:
                information += curvature
        return Derivatives(value, gradient if order else None, information)

    def scores(self, coef: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the gradients of chunks of cases, of shape (n, n_coefficients)."""
        for cases in self._chunks():
            scores = self._chunk(coef, cases, 1)[1]
            assert scores is not None
            yield cases, scores

    def log_probabilities(self, coef: Array) -> Array:
        """Return the log-probability of each row in its case."""
        utilities = self.X @ coef + self.offset
        out = np.empty(len(utilities))
        for cases in self._chunks():
            rows = slice(self.starts[cases.start], self.starts[cases.stop])
            V, starts = utilities[rows], self.starts[cases.start : cases.stop] - rows.start
            if self.noise.softmax:
                out[rows] = log_softmax(V, starts)
                continue
            sizes = np.diff([*starts, len(V)])
            case = np.repeat(np.arange(len(starts)), sizes)
            most = max(1, _CHUNK // (_NODES * int(sizes.max())))
            for first in range(0, len(V), most):
                label = np.arange(first, min(first + most, len(V)))
                out[rows.start + label] = self._integrals(V, starts, sizes, case, label)[0].log_prob
        return out

    def probabilities(self, coef: Array) -> Array:
        """Return probabilities in the shape of the table given to `fit`; 0 if not available."""
        out = np.zeros(int(np.prod(self.rows.shape)))
        out[self.rows.places] = np.exp(self.log_probabilities(coef))
        return out.reshape(self.rows.shape)

    def shares(self, coefs: Array) -> Array:
        """Return the mean probability of each alternative, for each vector of coefficients."""
        rows = self.rows
        weights = rows.weights[rows.cases] / rows.weights.sum()
        masses = (weights * np.exp(self.log_probabilities(coef)) for coef in coefs)
        return np.stack([np.bincount(rows.alternative, p, len(rows.labels)) for p in masses])

    def log_sums(self, coef: Array) -> Array:
        """Return the log-sum of exponentiated utilities of each case."""
        if not self.noise.softmax:
            raise ValueError(f"noise={self.noise!r} has no logsum; it is for noise='gumbel'")
        return log_sums(self.X @ coef + self.offset, self.starts[:-1])

    def _chunks(self) -> Iterator[slice]:
        """Yield slices of cases whose arrays are small."""
        widest = int(np.diff(self.starts).max())
        size = widest * (1 if self.noise.softmax else max(_NODES, self.n_coefficients))
        step = max(1, _CHUNK // max(size, self.n_coefficients))
        for first in range(0, self.n_cases, step):
            yield slice(first, min(first + step, self.n_cases))

    def _chunk(
        self, coef: Array, cases: slice, order: int
    ) -> tuple[float, Array | None, Array | float]:
        rows = slice(self.starts[cases.start], self.starts[cases.stop])
        starts = self.starts[cases.start : cases.stop] - rows.start
        X, chosen = self.X[rows], self.chosen[rows]
        V = X @ coef + self.offset[rows]
        if not self.noise.softmax:
            return self._quadrature_chunk(X, V, starts, chosen, order)
        log_p = log_softmax(V, starts)
        value = float(chosen @ log_p)
        if order == 0:
            return value, None, 0.0
        totals = np.add.reduceat(chosen, starts)
        p = np.exp(log_p)
        expected = p * np.repeat(totals, np.diff([*starts, len(V)]))
        scores = _sums(chosen - expected, starts, X)
        if order == 1:
            return value, scores, 0.0
        means = _sums(p, starts, X) * np.sqrt(totals)[:, None]
        squares = X.T @ _times(expected, X)
        squares = squares.toarray() if sp.issparse(squares) else squares
        return value, scores, squares - means.T @ means

    def _quadrature_chunk(
        self, X: Any, V: Array, starts: Array, chosen: Array, order: int
    ) -> tuple[float, Array | None, Array | float]:
        sizes = np.diff([*starts, len(V)])
        case = np.repeat(np.arange(len(starts)), sizes)
        label = np.flatnonzero(chosen)  # of an observation: a case may have several
        weight = chosen[label]
        found, other, there = self._integrals(V, starts, sizes, case, label)
        value = float(weight @ found.log_prob)
        if order == 0:
            return value, None, 0.0
        X = X.toarray() if sp.issparse(X) else X
        gaps = np.where(there[:, :, None], X[other] - X[label][:, None], 0.0)  # (n, J, P)
        gradients = np.einsum("ijq,ijp->iqp", found.hazard, gaps, optimize=True)
        mean = np.einsum("iq,iqp->ip", found.weights, gradients)
        scores = np.zeros((len(starts), X.shape[1]))
        np.add.at(scores, case[label], -weight[:, None] * mean)
        if order == 1:
            return value, scores, 0.0
        flat = gradients.reshape(-1, X.shape[1])
        spread = flat.T @ ((weight[:, None] * found.weights).reshape(-1, 1) * flat)
        spread -= (mean * weight[:, None]).T @ mean
        flat = gaps.reshape(-1, X.shape[1])
        own = flat.T @ ((weight[:, None] * found.hazard_derivative).reshape(-1, 1) * flat)
        return value, scores, -(spread + own)

    def _integrals(
        self, V: Array, starts: Array, sizes: Array, case: Array, label: Array
    ) -> tuple[Any, Array, Array]:
        """Return integrals of the label rows, and the padded rows of their cases."""
        other = starts[case[label]][:, None] + np.arange(sizes.max())
        there = np.arange(sizes.max()) < sizes[case[label]][:, None]
        other = np.where(there, other, label[:, None])
        there &= other != label[:, None]
        return integrate(self.noise, V[other] - V[label][:, None], there), other, there


def log_softmax(V: Array, starts: Array) -> Array:
    """Return log-probabilities of rows in their cases."""
    return np.asarray(V - np.repeat(log_sums(V, starts), np.diff([*starts, len(V)])))


def log_sums(V: Array, starts: Array) -> Array:
    """Return the log-sum of exponentials of each case."""
    high = np.maximum.reduceat(V, starts)
    sizes = np.diff([*starts, len(V)])
    return np.asarray(high + np.log(np.add.reduceat(np.exp(V - np.repeat(high, sizes)), starts)))


def _sums(values: Array, starts: Array, X: Any) -> Array:
    """Return the sums of weighted rows for each case, (n_cases, n_coefficients)."""
    ends = np.concatenate([starts, [len(values)]])
    matrix = sp.csr_array((values, np.arange(len(values)), ends), shape=(len(starts), len(values)))
    found = matrix @ X
    return np.asarray(found.toarray() if sp.issparse(found) else found)


def _times(values: Array, X: Any) -> Any:
    return sp.diags_array(values) @ X if sp.issparse(X) else values[:, None] * X
