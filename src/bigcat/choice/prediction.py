"""Probabilities, shares and changes of variables for data in any form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigcat.choice.data import Array, Pairs, Rows
from bigcat.choice.pairs_likelihood import PairsLikelihood
from bigcat.choice.rows_likelihood import RowsLikelihood, log_sums


@dataclass
class RowsModel:
    """A utility beside rows in memory."""

    likelihood: RowsLikelihood
    rows: Rows

    @property
    def labels(self) -> Array:
        return self.rows.labels

    def probabilities(self, coef: Array) -> Array:
        """Return probabilities in the places of the table that was given; 0 if not available."""
        out = np.zeros(int(np.prod(self.rows.shape)))
        out[self.rows.places] = np.exp(self.likelihood.log_probabilities(coef))
        return out.reshape(self.rows.shape)

    def shares(self, coefs: Array) -> Array:
        """Return the mean probability of each alternative, for each vector of coefficients."""
        rows, likelihood = self.rows, self.likelihood
        weights = rows.weights[rows.cases] / rows.weights.sum()
        return np.stack(
            [
                np.bincount(
                    rows.alternative,
                    weights * np.exp(likelihood.log_probabilities(coef)),
                    len(rows.labels),
                )
                for coef in coefs
            ]
        )

    def log_sums(self, coef: Array) -> Array:
        likelihood = self.likelihood
        return log_sums(likelihood.X @ coef + likelihood.offset, self.rows.starts[:-1])


@dataclass
class PairsModel:
    """A utility beside pairs that are made when they are needed."""

    likelihood: PairsLikelihood
    pairs: Pairs

    @property
    def labels(self) -> Array:
        return self.pairs.labels

    def probabilities(self, coef: Array) -> Array:
        out = np.empty((self.pairs.n_cases, len(self.pairs.labels)))
        for cases in self.likelihood.chunks():
            out[cases] = np.exp(self.likelihood.log_probabilities(coef, cases))
        return out

    def shares(self, coefs: Array) -> Array:
        weights = self.pairs.weights / self.pairs.weights.sum()
        out = np.zeros((len(coefs), len(self.pairs.labels)))
        for cases in self.likelihood.chunks():
            for total, coef in zip(out, coefs):
                total += weights[cases] @ np.exp(self.likelihood.log_probabilities(coef, cases))
        return out

    def log_sums(self, coef: Array) -> Array:
        out = np.empty(self.pairs.n_cases)
        for cases in self.likelihood.chunks():
            V = self.likelihood.utilities(coef, cases)[0]
            high = V.max(axis=1)
            out[cases] = high + np.log(np.exp(V - high[:, None]).sum(axis=1))
        return out


def changed(rows: Rows, variable: str, which: int | None, by: float, relative: bool) -> Rows:
    """Return rows with a variable changed, for one alternative or for all."""
    values = np.asarray(rows.columns[variable], float).copy()
    mask = np.ones(len(values), bool) if which is None else rows.alternative == which
    values[mask] += by * (values[mask] if relative else 1.0)
    return rows.with_column(variable, values)
