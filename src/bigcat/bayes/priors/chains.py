"""Priors as chains see them: precisions that are drawn again whenever the weights have moved.

The precision of weight (k, m) is a product of what the prior learns, each with a conjugate draw:

    t_k r_m l_km u_m,     t | W ~ Gamma(shape + n/2, rate + sum of squares / 2),

a scale for all weights or one per class (t), one per feature (r), one per weight (l, the
horseshoe), and fixed units u.  A standard deviation with a half-t distribution of v degrees of
freedom and width A has the precision Gamma(v/2, v a) with a ~ Gamma(1/2, 1/A^2); v = 1 is the
half-Cauchy (Gelman, 2006; Wand et al., 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats


@dataclass(frozen=True)
class Scales:
    """Precisions of some groups of weights in every chain.

    Parameters
    ----------
    values : array of shape (C, ...)
    rate : array of the same shape
        Of their Gamma distribution, drawn too where there is a `width`.
    shape : float
    width : float or None
        Of a half-t distribution of the standard deviation, 1 / sqrt(value); its degrees of
        freedom are twice the `shape`.
    """

    values: Floats
    rate: Floats
    shape: float = 0.5
    width: float | None = None

    @classmethod
    def half_t(
        cls, width: float, groups: tuple[int, ...], freedom: float = 1.0, start: float = 1.0
    ) -> Scales:
        """Return standard deviations of a half-t distribution, at the precision `start`."""
        values = np.full(groups, start)
        return cls(values, np.full(groups, 0.5 * freedom / start), 0.5 * freedom, width)

    def drawn(self, counts: Floats | float, squares: Floats, rng: np.random.RandomState) -> Scales:
        """Given the weights of each group: how many there are, and their sum of squares."""
        values = rng.gamma(self.shape + 0.5 * counts, size=self.values.shape)
        values /= self.rate + 0.5 * squares
        values = np.clip(values, 1e-12, 1e12)
        rate = self.rate
        if self.width is not None:
            freedom = 2.0 * self.shape
            mixing = rng.gamma(self.shape + 0.5, size=values.shape)
            rate = freedom * mixing / (self.width**-2.0 + freedom * values)
        return replace(self, values=values, rate=rate)

    def maximised(self, counts: Floats, squares: Floats) -> Scales:
        """Return the most probable logarithms for as many weights with such a sum of squares."""
        values = (self.shape + 0.5 * counts) / (self.rate + 0.5 * squares)
        values = np.clip(values, 1e-12, 1e12)
        rate = self.rate
        if self.width is not None:
            freedom = 2.0 * self.shape
            rate = freedom * (self.shape + 0.5) / (self.width**-2.0 + freedom * values)
        return replace(self, values=values, rate=rate)

    def log_density(self) -> Floats:
        """Return the log-density of the logarithms of the values, up to a constant, (C,)."""
        terms = self.shape * np.log(self.values) - self.rate * self.values
        total: Floats = terms.reshape(len(terms), -1).sum(axis=1)
        return total

    def rescaled(self, factors: Floats) -> Scales:
        """Return precisions of standard deviations times factors."""
        by = factors.reshape(-1, *[1] * (self.values.ndim - 1))
        return replace(self, values=self.values / by**2)

    def where(self, chosen: np.ndarray, other: Scales) -> Scales:
        """Return `other` in the chosen chains, and these scales in the rest."""
        by = chosen.reshape(-1, *[1] * (self.values.ndim - 1))
        return replace(
            self,
            values=np.where(by, other.values, self.values),
            rate=np.where(by, other.rate, self.rate),
        )


#: The sets of scales that a `PriorChain` may have.
OF_FEATURES = ("locals_", "features", "scales")
PARTS = (*OF_FEATURES, "intercepts")


class Scalable(NamedTuple):
    """A set of scales of a `PriorChain`, and the columns of the weights that they belong to."""

    name: str
    columns: slice


@dataclass(frozen=True)
class PriorChain:
    """The prior's precisions in every chain.

    Parameters
    ----------
    mean : array of shape (M,)
    units : array of shape (M,)
        Fixed factors of the precisions, the intercept's last.
    scales : Scales or None
        (C, 1, 1), or (C, K, 1): of all weights or of each class, without the intercept.
    features : Scales or None
        (C, 1, D).
    locals_ : Scales or None
        (C, K, D).
    intercepts : Scales or None
        (C, 1, 1); None where there is no intercept, or its precision is fixed.
    has_intercept : bool
    """

    mean: Floats
    units: Floats
    n_chains: int
    scales: Scales | None = None
    features: Scales | None = None
    locals_: Scales | None = None
    intercepts: Scales | None = None
    has_intercept: bool = True

    @property
    def learns(self) -> bool:
        """True if scales are learned."""
        return self.scales is not None or self.features is not None

    @cached_property
    def precision(self) -> Floats:
        """(C, K or 1, M)."""
        n_features = len(self.units) - self.has_intercept
        product: Floats = np.broadcast_to(
            self.units[:n_features], (self.n_chains, 1, n_features)
        ).copy()
        for part in (self.scales, self.features, self.locals_):
            if part is not None:
                product = product * part.values
        if not self.has_intercept:
            return product
        last = np.full((self.n_chains, product.shape[1], 1), self.units[-1])
        if self.intercepts is not None:
            last = last * self.intercepts.values
        return np.concatenate([product, last], axis=2)

    def typical(self) -> Floats:
        """Geometric means over the chains, (K or 1, M)."""
        typical: Floats = np.exp(np.log(self.precision).mean(axis=0))
        return typical

    def drawn(self, stack: Floats, rng: np.random.RandomState) -> PriorChain:
        """Given the weights, one set after the other."""
        counts = np.ones((1, *stack.shape[1:]))
        squares = np.square(stack - self.mean) * self.units
        return self._renewed(counts, squares, partial(Scales.drawn, rng=rng))

    def maximised(self, mean: Floats, variances: Floats) -> PriorChain:
        """Return the best scales given the moments of the weights, (K, M), in a single chain.

        A weight counts by the part of it that the rows decide, 1 - precision * variance.
        """
        decided = np.clip(1.0 - self.precision[0] * variances, 1e-12, 1.0)[None]
        squares = (np.square(mean - self.mean) * self.units)[None]
        return self._renewed(decided, squares, Scales.maximised)

    def _renewed(
        self, counts: Floats, squares: Floats, renew: Callable[[Scales, Floats, Floats], Scales]
    ) -> PriorChain:
        """Return the prior with each set of scales renewed by the sums over its weights."""
        chain, n_features = self, len(self.units) - self.has_intercept
        for name in PARTS:
            part: Scales | None = getattr(chain, name)
            if part is None:
                continue
            own = np.s_[:, :, n_features:] if name == "intercepts" else np.s_[:, :, :n_features]
            of_part, sums = counts[own], squares[own]
            for other in () if name == "intercepts" else OF_FEATURES:
                scales = getattr(chain, other)
                if other != name and scales is not None:
                    sums = sums * scales.values
            axes = tuple(i for i in (1, 2) if part.values.shape[i] == 1)
            of_part, sums = (a.sum(axis=axes, keepdims=True) for a in (of_part, sums))
            chain = replace(chain, **{name: renew(part, of_part, sums)})  # type: ignore[arg-type]
        return chain

    # Weights times a factor, and their standard deviations with them

    def scalable(self) -> list[Scalable]:
        """Return sets of scales that can be multiplied together with the weights below them."""
        n_features = len(self.units) - self.has_intercept
        found = []
        if self.learns:
            name = "scales" if self.scales is not None else "features"
            found.append(Scalable(name, slice(0, n_features)))
        if self.intercepts is not None:
            found.append(Scalable("intercepts", slice(n_features, n_features + 1)))
        return found

    def log_density(self, kind: Scalable) -> Floats:
        """Return the log-density of the logarithms of these precisions, (C,)."""
        scales: Scales = getattr(self, kind.name)
        return scales.log_density()

    def rescaled(self, kind: Scalable, factors: Floats) -> PriorChain:
        """Return the prior with some standard deviations times factors."""
        scales: Scales = getattr(self, kind.name)
        changed: dict[str, Any] = {kind.name: scales.rescaled(factors)}
        return replace(self, **changed)

    def where(self, chosen: np.ndarray, other: PriorChain) -> PriorChain:
        """Return scales of `other` in the chosen chains."""
        changed: dict[str, Any] = {}
        for name in PARTS:
            part: Scales | None = getattr(self, name)
            if part is not None:
                changed[name] = part.where(chosen, getattr(other, name))
        return replace(self, **changed)

    def summary(self) -> Floats:
        """Return logarithms of scales of each chain, (C, 1 or 2)."""
        widest = self.scales if self.scales is not None else self.features
        assert widest is not None
        found = [np.log(widest.values).reshape(self.n_chains, -1).mean(axis=1)]
        if self.intercepts is not None:
            found.append(np.log(self.intercepts.values).reshape(self.n_chains))
        return np.stack(found, axis=1)
