"""Conditional logit of choosers beside a table of alternatives, a few choosers at a time.

No array of cases x alternatives x coefficients exists.  A variable is one of two kinds:

- *separable*, a product of a column of the choosers and one of the alternatives, c_i a_j (where
  one of the two may be 1): utilities and expectations are products of matrices;
- *dense*, a function of both, computed for the choosers of a chunk and forgotten.

Besides, each alternative but the reference may have a constant.  With p_ij the probabilities of a
chunk and w_i the weights, the information is  sum_i w_i (E[x x'] - E[x] E[x]'), where for two
separable variables  sum_i w_i E[x x'] = sum_j a_j a'_j sum_i w_i p_ij c_i c'_i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bigcat._system import available_cores, map_on_threads, one_blas_thread
from bigcat.choice.data import Array, Pairs, quoted
from bigcat.choice.rows_likelihood import Derivatives
from bigcat.choice.utility import Term

#: Pairs in a chunk: its arrays stay in the cache.
_CHUNK = 1 << 18
#: Alternatives from which on their products with each other are one sum.
_MANY = 1_000
#: Cases from which probabilities of draws follow.
_SOME_CASES = 200


Sum = TypeVar("Sum")


@dataclass
class Variables:
    """Variables sorted by kind; `C[:, chooser[k]] * A[:, k]` is separable variable k."""

    separable: list[int]
    dense: list[int]
    C: Array  # (n_cases, m), distinct columns of choosers, the first all ones
    chooser: Array  # which of them a separable variable takes
    A: Array  # (n_alternatives, len(separable))


class PairsLikelihood:
    """Log-likelihood of choices among all alternatives of a table.

    Coefficients are those of the terms, then `n_constants`; `constant` is the number of that of
    each alternative, or -1.
    """

    def __init__(
        self,
        pairs: Pairs,
        terms: Sequence[Term],
        offset: Term | None,
        constant: Array,
        n_constants: int,
    ) -> None:
        self.pairs, self.terms, self.offset = pairs, list(terms), offset
        self.labels, self.n_alternatives = pairs.labels, len(pairs.labels)
        self.others = np.flatnonzero(constant >= 0) if n_constants else None
        self.constant = constant
        self.n_coefficients = len(self.terms) + n_constants
        self.n_cases = pairs.n_cases
        self.variables = self._sorted()

    def at(self, coef: Array, order: int = 2) -> Derivatives:
        """Return the log-likelihood, from order 1 its gradient, from order 2 the information."""
        return self._totals(coef, order, products=True).derivatives()

    def _totals(self, coef: Array, order: int, products: bool) -> _Totals:
        def add(total: _Totals, cases: slice) -> None:
            part = self._chunk(coef, cases, order)
            total.add(part, self.variables.C[cases], self.pairs.weights[cases])

        first, *others = self._by_threads(lambda: _Totals(self, order, products), add, products)
        for other in others:
            first.merge(other)
        return first

    def scores(self, coef: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the gradients of chunks of cases, of shape (n, n_coefficients)."""
        for cases in self.chunks():
            part = self._chunk(coef, cases, 1)
            scores = part.chosen - part.means
            if self.others is not None:
                constants = -part.p
                constants[np.arange(len(constants)), self.chosen(cases)] += 1.0
                scores = np.hstack([scores, constants[:, self.others]])
            yield cases, scores * self.pairs.weights[cases, None]

    def log_probabilities(self, coef: Array, cases: slice) -> Array:
        """Return log-probabilities of some cases, (n, n_alternatives); -inf if not available."""
        V = self.utilities(coef, cases)[0]
        V -= V.max(axis=1, keepdims=True)
        return np.asarray(V - np.log(np.exp(V).sum(axis=1, keepdims=True)))

    def probabilities(self, coef: Array) -> Array:
        """Return the probability of each alternative in each case."""
        out = np.empty((self.n_cases, self.n_alternatives))
        for cases in self.chunks():
            out[cases] = np.exp(self.log_probabilities(coef, cases))
        return out

    def shares(self, coefs: Array) -> Array:
        """Return the mean probability of each alternative, for each vector of coefficients."""
        weights = self.pairs.weights / self.pairs.weights.sum()
        out = np.zeros((len(coefs), self.n_alternatives))
        for cases in self.chunks():
            for total, coef in zip(out, coefs):
                total += weights[cases] @ np.exp(self.log_probabilities(coef, cases))
        return out

    def log_sums(self, coef: Array) -> Array:
        """Return the log-sum of exponentiated utilities of each case."""
        out = np.empty(self.n_cases)
        for cases in self.chunks():
            V = self.utilities(coef, cases)[0]
            high = V.max(axis=1)
            out[cases] = high + np.log(np.exp(V - high[:, None]).sum(axis=1))
        return out

    def blocks(self, coef: Array) -> tuple[Array, Array, Array]:
        """Return the information of terms, of constants with terms, and the constants' diagonal."""
        total = self._totals(coef, 2, products=False)
        squares, cross = total.of_terms(), total.of_constants_with_terms()
        p = total.expected[:, 0]
        return squares, cross, np.asarray(p[self.others])

    def mean_probabilities(self, coef: Array, random_state: np.random.RandomState) -> Array:
        """Return mean probabilities of the alternatives for some of the cases."""
        some = random_state.choice(self.n_cases, min(self.n_cases, _SOME_CASES), replace=False)
        rows = [np.exp(self.log_probabilities(coef, slice(i, i + 1)))[0] for i in some.tolist()]
        return np.asarray(np.mean(rows, axis=0))

    def constants_product(self, coef: Array, right: Array) -> Array:
        """Return the constants' block of the information times the columns of `right`."""
        assert self.others is not None
        full = np.zeros((self.n_alternatives, right.shape[1]))
        full[self.others] = right

        def add(out: Array, cases: slice) -> None:
            p = np.exp(self.log_probabilities(coef, cases))
            weights = self.pairs.weights[cases]
            out += (weights @ p)[:, None] * full - p.T @ (weights[:, None] * (p @ full))

        parts = self._by_threads(lambda: np.zeros_like(full), add, False)
        return np.asarray(np.sum(parts, axis=0)[self.others])

    def _by_threads(
        self, make: Callable[[], Sum], add: Callable[[Sum, slice], None], products: bool
    ) -> list[Sum]:
        """Return a sum over chunks for each thread; large products are left to threads of BLAS."""
        chunks = list(self.chunks())
        n_threads = min(available_cores(), len(chunks))
        if products and self.others is not None and self.n_alternatives > _MANY:
            n_threads = 1

        def work(share: Sequence[slice]) -> Sum:
            total = make()
            for cases in share:
                add(total, cases)
            return total

        if n_threads == 1:
            return [work(chunks)]
        with one_blas_thread:
            return map_on_threads(work, [chunks[k::n_threads] for k in range(n_threads)], n_threads)

    def chunks(self) -> Iterator[slice]:
        """Yield slices of cases whose arrays of pairs stay in the cache."""
        step = max(1, _CHUNK // self.n_alternatives)
        if self.others is not None:  # products of matrices of alternatives x alternatives
            step = max(step, 128)
        for first in range(0, self.n_cases, step):
            yield slice(first, min(first + step, self.n_cases))

    def _sorted(self) -> Variables:
        everyone, every = np.arange(self.n_cases), np.arange(self.n_alternatives)
        found = Variables([], [], np.ones((self.n_cases, 1)), np.zeros(0, int), np.empty(0))
        columns, choosers, which = [], {"": 0}, []
        for k, term in enumerate(self.terms):
            owners = self._owners(term)
            if owners is None:
                found.dense.append(k)
                continue
            by_chooser, by_alternative = owners
            found.separable.append(k)
            if by_chooser not in choosers:
                choosers[by_chooser] = len(choosers)
                values = Term(by_chooser, by_chooser).value(self.pairs.columns(everyone, every))
                found.C = np.column_stack([found.C, values])
            which.append(choosers[by_chooser])
            source = by_alternative if isinstance(by_alternative, str) else term.source
            value = Term(term.name, source).value(self.pairs.columns(everyone, every))
            columns.append(np.broadcast_to(value, self.n_alternatives))
            if np.ptp(columns[-1]) == 0.0:
                raise ValueError(
                    f"{term.name} is the same for all alternatives, so its coefficient is not "
                    "identified; leave it out"
                )
        found.A = np.column_stack(columns) if columns else np.zeros((self.n_alternatives, 0))
        found.chooser = np.array(which, int)
        for name, values, labels in (
            ("alternative", found.A, self.pairs.labels),
            ("case", found.C, self.pairs.case_names),
        ):
            if not np.isfinite(values).all():
                row, k = np.argwhere(~np.isfinite(values))[0]
                raise ValueError(f"a value of {name} {labels[row]} is {values[row, k]}; correct it")
        return found

    def _owners(self, term: Term) -> tuple[str, str | None] | None:
        """Return the choosers' and the alternatives' part of a separable term."""
        if callable(term.source):
            return None
        names = [name.strip() for name in term.source.split(":")]
        mine = [name for name in names if name in self.pairs.choosers]
        theirs = [name for name in names if name not in mine]
        if not theirs:
            raise ValueError(
                f"{term.name} is the same for all alternatives; give it a coefficient for each "
                "(by_alternative) or a product with a column of the alternatives"
            )
        return ":".join(mine), ":".join(theirs)

    def chosen(self, cases: slice | Array) -> Array:
        """Return the numbers of the chosen alternatives."""
        assert self.pairs.chosen is not None
        return self.pairs.chosen[cases]

    def utilities(self, coef: Array, cases: slice) -> tuple[Array, list[Array]]:
        """Return utilities of a chunk, and the values of its dense variables."""
        variables = self.variables
        i = np.arange(cases.start, cases.stop)[:, None]
        j = np.arange(self.n_alternatives)[None]
        shape = len(i), self.n_alternatives
        C = variables.C[cases]
        V = (C[:, variables.chooser] * coef[variables.separable]) @ variables.A.T
        columns = self.pairs.columns(i, j)
        dense = []
        for k in variables.dense:
            value = np.broadcast_to(self.terms[k].value(columns), shape)
            dense.append(value)
            V += coef[k] * value
        if self.offset is not None:
            V += self.offset.value(columns)
        if self.others is not None:
            V[:, self.others] += coef[len(self.terms) + self.constant[self.others]]
        mask = self.pairs.availability(i, j)
        if not np.isfinite(V).all():
            row, column = np.argwhere(~np.isfinite(V))[0]
            if mask is None or np.broadcast_to(mask, shape)[row, column]:
                raise ValueError(
                    f"the utility of {quoted(self.pairs.labels[column])} in case "
                    f"{self.pairs.case_names[cases.start + row]} is {V[row, column]}; correct a "
                    "variable there"
                )
        if mask is not None:
            V = np.where(mask, V, -np.inf)
        return V, dense

    def _chunk(self, coef: Array, cases: slice, order: int) -> _Part:
        variables, chosen = self.variables, self.chosen(cases)
        V, dense = self.utilities(coef, cases)
        rows = np.arange(len(V))
        V -= V.max(axis=1, keepdims=True)
        value = V[rows, chosen]
        p = np.exp(V, out=V)
        totals = p.sum(axis=1)
        value = value - np.log(totals)
        p /= totals[:, None]
        part = _Part(value, p, np.empty((len(V), len(self.terms))), np.empty((0, 0)), [])
        if order == 0:
            return part
        C = variables.C[cases][:, variables.chooser]
        part.means[:, variables.separable] = C * (p @ variables.A)
        part.chosen = np.empty_like(part.means)
        part.chosen[:, variables.separable] = C * variables.A[chosen]
        for k, value in zip(variables.dense, dense):
            part.chosen[:, k] = value[rows, chosen]
            part.means[:, k] = np.einsum("ij,ij->i", p, value)
        part.dense = dense
        return part


@dataclass
class _Part:
    """Probabilities and moments of a chunk of cases."""

    value: Array  # (n,)
    p: Array  # (n, J)
    means: Array  # (n, P): E[x]
    chosen: Array  # (n, P): x of the chosen alternative
    dense: list[Array]


class _Totals:
    """Sums over chunks."""

    def __init__(self, likelihood: PairsLikelihood, order: int, products: bool) -> None:
        self.order, self.likelihood = order, likelihood
        variables = likelihood.variables
        n_terms, J, m = len(likelihood.terms), likelihood.n_alternatives, variables.C.shape[1]
        self.value, self.gradient = 0.0, np.zeros(n_terms)
        self.squares = np.zeros((n_terms, n_terms))
        self.first, self.second = np.triu_indices(m)
        self.expected = np.zeros((J, len(self.first)))  # sum_i w_i p_ij c_i c'_i
        self.dense_expected = np.zeros((len(variables.dense), J, m))  # sum_i w_i p_ij x_ij c_i
        constants = likelihood.others is not None
        self.cross = np.zeros((J, n_terms)) if constants else None
        self.products = np.zeros((J, J)) if constants and products and order > 1 else None

    def add(self, part: _Part, C: Array, weights: Array) -> None:
        self.value += float(weights @ part.value)
        if self.order == 0:
            return
        variables, others = self.likelihood.variables, self.likelihood.others
        self.gradient += weights @ (part.chosen - part.means)
        if self.order == 1:
            if others is not None:
                self.expected[:, 0] += part.p.T @ weights
            return
        weighted = weights[:, None] * part.means
        self.expected += part.p.T @ (weights[:, None] * C[:, self.first] * C[:, self.second])
        self.squares -= weighted.T @ part.means
        for a, (k, value) in enumerate(zip(variables.dense, part.dense)):
            mass = part.p * value
            self.dense_expected[a] += mass.T @ (weights[:, None] * C)
            mass *= weights[:, None]
            for m, other in zip(variables.dense[: a + 1], part.dense):
                moment = float(np.einsum("ij,ij->", mass, other))
                self.squares[k, m] += moment
                if k != m:
                    self.squares[m, k] += moment
        if self.cross is not None:
            self.cross -= part.p.T @ weighted
        if self.products is not None:
            root = np.sqrt(weights)[:, None] * part.p
            self.products -= root.T @ root

    def merge(self, other: _Totals) -> None:
        """Add the sums over other chunks."""
        self.value += other.value
        for name in ("gradient", "squares", "expected", "dense_expected", "cross", "products"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None:
                mine += theirs

    def derivatives(self) -> Derivatives:
        likelihood = self.likelihood
        if self.order == 0:
            return Derivatives(self.value)
        gradient = self.gradient
        others, pairs = likelihood.others, likelihood.pairs
        if others is not None:
            missed = pairs.totals() - self.expected[:, 0]
            gradient = np.concatenate([gradient, missed[others]])
        if self.order == 1:
            return Derivatives(self.value, gradient)
        information = self.of_terms()
        if others is not None and self.products is not None:
            cross = self.of_constants_with_terms()
            own = (self.products + np.diag(self.expected[:, 0]))[np.ix_(others, others)]
            information = np.block([[information, cross.T], [cross, own]])
        return Derivatives(self.value, gradient, information)

    def _place(self, a: int, b: int) -> int:
        """Return the column of `expected` for the choosers' parts of two separable variables."""
        m, k = self.dense_expected.shape[2], sorted(self.likelihood.variables.chooser[[a, b]])
        return int(k[0] * m - k[0] * (k[0] - 1) // 2 + k[1] - k[0])

    def of_terms(self) -> Array:
        """Return the information of the terms' coefficients."""
        variables, squares = self.likelihood.variables, self.squares.copy()
        A = variables.A
        for a, k in enumerate(variables.separable):
            for b, m in enumerate(variables.separable):
                squares[k, m] += float(self.expected[:, self._place(a, b)] @ (A[:, a] * A[:, b]))
            for d, m in enumerate(variables.dense):
                moment = float(self.dense_expected[d, :, variables.chooser[a]] @ A[:, a])
                squares[k, m] += moment
                squares[m, k] += moment
        return squares

    def of_constants_with_terms(self) -> Array:
        """Return the information of each constant with each term."""
        variables = self.likelihood.variables
        assert self.cross is not None
        cross = self.cross.copy()
        for a, k in enumerate(variables.separable):
            place = variables.chooser[a]  # with the first column of choosers, all ones
            cross[:, k] += variables.A[:, a] * self.expected[:, place]
        for d, k in enumerate(variables.dense):
            cross[:, k] += self.dense_expected[d, :, 0]
        return np.asarray(cross[self.likelihood.others])
