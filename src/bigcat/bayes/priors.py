"""Priors of the weights: Gaussian, with a learnt scale, or with a horseshoe for each weight.

A prior is a small frozen object.  Bound to a problem it becomes a *state* with the expected
precision P of the weights, which is what the fit needs, and closed-form updates of its own
variational factors.  Every state reports its exact part of the ELBO,

    sum_k E[log p(beta_k | P)] + E[log p(scales)] - E[log q(scales)],

so that the ELBO stays exact and cannot fall.  (The M/2 log 2 pi of prior and entropy cancel and are
left out on both sides.)  Which precisions classes share decides what a covariance costs:

==================  ===========================  ===========================================
sharing             precision                    covariance of the probit, ``"full"``
==================  ===========================  ===========================================
``"shared"``        the same for all classes     one matrix
``"class"``         tau_k, one per class         one eigenbasis and K spectra
``"coordinate"``    one per class and feature    K matrices: K M^2 numbers
==================  ===========================  ===========================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from bigcat.bayes._arrays import Block, Floats
from bigcat.bayes._gamma import gamma_terms, mixed_gamma_terms
from bigcat.bayes._prior_arrays import (
    check_positive,
    fixed_units,
    full_mean,
    full_precision,
    precision_of,
)
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.prior_chains import PriorChain, Scales
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.checks import check_choice
from bigcat.part import Part

Sharing = Literal["shared", "class", "coordinate"]


class PriorState(ABC):
    """A prior bound to K classes and M columns (the intercept last, where there is one)."""

    sharing: Sharing
    learnt: bool = False
    is_matrix: bool = False  # is `precision` a matrix, not a diagonal?
    intercept_precision: float | None = None
    mean: np.ndarray  # (M,)

    @abstractmethod
    def precision(self, block: Block) -> np.ndarray:
        """Expected precision: (M, 1) or (M, B) where it is diagonal, else (M, M)."""

    @abstractmethod
    def absorb(self, block: Block, mean: np.ndarray, covariance: Covariance) -> Any:
        """Take in the posterior of a block of classes: a part of the ELBO, or what `energy` needs.

        Blocks may come from several threads; `mean` is (B, M).
        """

    @abstractmethod
    def energy(self, absorbed: Sequence[Any]) -> float:
        """Update what classes share, and return the prior's part of the ELBO."""

    def scales(self) -> np.ndarray:
        """Precision per class, (K,), with ``sharing="class"``."""
        raise TypeError(f"{type(self).__name__} has no scale per class")


@dataclass(frozen=True, repr=False)
class Prior(Part, ABC):
    """What every prior declares."""

    name: ClassVar[str]
    #: Are its scales learnt from all rows?
    learnt: ClassVar[bool] = False
    #: Does it see columns in units of their own, and centred?
    in_units_of_columns: ClassVar[bool] = False

    @property
    @abstractmethod
    def sharing(self) -> Sharing:
        """Which precisions classes share: that of its states."""

    @abstractmethod
    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> PriorState:
        """The state of the prior for a problem."""

    def one_scale(self) -> tuple[float, float] | None:
        """Standard deviations of weights and of intercepts, if these and means of 0 are all."""
        return None

    def known(self, n_classes: int, n_columns: int, intercept: bool) -> WeightPrior | None:
        """What weights are drawn from; None where scales are learnt."""
        return None

    @abstractmethod
    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        """The prior as chains see it; ValueError where they cannot.

        `squared_length` is the mean squared length of rows of scaled columns.
        """


# Gaussian


@dataclass(frozen=True, repr=False)
class GaussianPrior(Prior):
    """Independent weights of each class, beta_k ~ N(mean, precision^-1), the same for all classes.

    Parameters
    ----------
    mean : float or array of shape (n_features,) or (n_features + 1,), default=0.0
    scale : float, default=1.0
        Standard deviation of every weight, used where `precision` is None.
    precision : float, array of shape (M,) or (M, M), or None, default=None
        M is n_features, or n_features + 1 with the intercept last.
    intercept_scale : float or None, default=None
        Standard deviation of the intercept; None is that of the other weights, as in the paper.

    Examples
    --------
    >>> from bigcat.bayes import GaussianPrior
    >>> state = GaussianPrior(scale=2.0, intercept_scale=10.0).bind(5, 3, True)
    >>> state.precision(slice(0, 5)).ravel().tolist()
    [0.25, 0.25, 0.01]
    """

    name: ClassVar[str] = "gaussian"

    mean: float | ArrayLike = 0.0
    scale: float = 1.0
    precision: float | ArrayLike | None = None
    intercept_scale: float | None = None

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)
        if self.intercept_scale is not None:
            check_positive("intercept_scale", self.intercept_scale)
        if np.ndim(self.mean) == 0:  # arrays have to fit the data: `bind` checks them
            full_mean(self.mean, 1, False)
        if self.precision is not None and np.ndim(self.precision) == 0:
            full_precision(self.precision, 1, False, 0.0)

    @property
    def sharing(self) -> Sharing:
        return "shared"

    def one_scale(self) -> tuple[float, float] | None:
        if np.any(np.asarray(self.mean) != 0.0):
            return None
        scale = self.scale
        if self.precision is not None:
            precision = np.asarray(self.precision)
            if precision.ndim > 0:
                return None
            scale = float(precision) ** -0.5
        own = self.intercept_scale
        return float(scale), float(scale if own is None else own)

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> GaussianState:
        """The state of the prior for a problem."""
        precision = 1.0 / self.scale**2 if self.precision is None else self.precision
        free = 0.0 if self.intercept_scale is None else precision_of(self.intercept_scale)
        matrix = full_precision(precision, n_columns, intercept, free)
        return GaussianState(full_mean(self.mean, n_columns, intercept), matrix)

    def known(self, n_classes: int, n_columns: int, intercept: bool) -> WeightPrior | None:
        state = self.bind(n_classes, n_columns, intercept)
        if state.is_matrix:
            return WeightPrior.of_matrix(state.mean, state.matrix)
        return WeightPrior(state.mean, state.matrix[None])

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        state = self.bind(n_classes, n_features + intercept, intercept)
        if state.is_matrix:
            raise ValueError(
                "method='laplace' takes a precision for each column and not a matrix; turn the "
                "columns of X, or take method='independent-binary'"
            )
        return PriorChain(state.mean, state.matrix, n_chains, has_intercept=intercept)


class GaussianState(PriorState):
    sharing: Sharing = "shared"

    def __init__(self, mean: np.ndarray, precision: np.ndarray) -> None:
        self.mean = mean
        self.matrix = precision  # (M,) or (M, M)
        self.is_matrix = precision.ndim == 2
        if precision.ndim == 1:
            self.log_determinant = np.log(precision).sum()
        else:
            self.log_determinant = np.linalg.slogdet(precision)[1]

    def precision(self, block: Block) -> np.ndarray:
        return self.matrix[:, None] if self.matrix.ndim == 1 else self.matrix

    def absorb(self, block: Block, mean: np.ndarray, covariance: Covariance) -> Any:
        deviation = mean - self.mean
        if self.matrix.ndim == 1:
            squares = np.einsum("bm,m,bm->", deviation, self.matrix, deviation)
        else:
            squares = np.einsum("bm,bm->", deviation @ self.matrix, deviation)
        traces = np.broadcast_to(covariance.traces(self.matrix, block), len(mean)).sum()
        return 0.5 * (len(mean) * self.log_determinant - squares - traces)

    def energy(self, absorbed: Sequence[Any]) -> float:
        return float(sum(absorbed))


# A learnt scale


@dataclass(frozen=True, repr=False)
class HierarchicalPrior(Prior):
    """Weights with a learnt precision: beta_mk ~ N(0, 1/tau), tau ~ Gamma(shape, rate).

    Parameters
    ----------
    per : {"feature", "class"}, default="feature"
        One tau_m a feature, shared by the classes (a feature that tells no class apart is shrunk
        for all of them; the probit keeps one covariance), or one tau_k per class.
    shape, rate : float, default=0.5
        Of the Gamma hyperprior; 0.5 and 0.5 make each weight Cauchy a priori.
    intercept_scale : float, default=10.0
        Standard deviation of the intercept, which is not learnt.

    Examples
    --------
    >>> from bigcat.bayes import HierarchicalPrior
    >>> HierarchicalPrior(per="class").bind(3, 4, True).sharing
    'class'
    """

    name: ClassVar[str] = "hierarchical"
    learnt: ClassVar[bool] = True

    per: str = "feature"
    shape: float = 0.5
    rate: float = 0.5
    intercept_scale: float = 10.0

    def __post_init__(self) -> None:
        check_choice("per", self.per, ("feature", "class"))
        for name in ("shape", "rate", "intercept_scale"):
            check_positive(name, getattr(self, name))

    @property
    def sharing(self) -> Sharing:
        return "shared" if self.per == "feature" else "class"

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> PriorState:
        """The state of the prior for a problem."""
        kind = FeatureScaleState if self.per == "feature" else ClassScaleState
        return kind(self, n_classes, n_columns, intercept)

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        per_class = self.per == "class"
        groups = (n_chains, n_classes, 1) if per_class else (n_chains, 1, n_features)
        learnt = Scales.gamma(self.shape, self.rate, groups)
        return PriorChain(
            np.zeros(n_features + intercept),
            fixed_units(n_features, intercept, self.intercept_scale),
            n_chains,
            scales=learnt if per_class else None,
            features=None if per_class else learnt,
            has_intercept=intercept,
        )


class _LearntState(PriorState):
    """What priors with learnt precisions and a fixed intercept share."""

    learnt = True

    def __init__(
        self,
        prior: HierarchicalPrior | HorseshoePrior,
        n_classes: int,
        n_columns: int,
        intercept: bool,
    ) -> None:
        self.prior = prior
        self.n_classes = n_classes
        self.mean = np.zeros(n_columns)
        self.n_learnt = n_columns - intercept
        self.intercept_precision = precision_of(prior.intercept_scale) if intercept else None

    def _moments(self, block: Block, mean: Floats, covariance: Covariance) -> Floats:
        """E[beta^2], (B, M)."""
        return mean * mean + covariance.variances(block)

    def _intercept_energy(self, moments: np.ndarray) -> float:
        if self.intercept_precision is None:
            return 0.0
        p = self.intercept_precision
        return float(0.5 * (len(moments) * np.log(p) - p * moments[:, -1].sum()))

    def _column(self, learnt: np.ndarray) -> np.ndarray:
        """Learnt precisions (M, B) with the intercept's below."""
        if self.intercept_precision is None:
            return learnt
        return np.vstack([learnt, np.full((1, learnt.shape[1]), self.intercept_precision)])


class FeatureScaleState(_LearntState):
    """tau_m ~ Gamma(a, b) for all classes: q(tau_m) = Gamma(a + K/2, b + sum_k E[beta^2]/2)."""

    prior: HierarchicalPrior
    sharing: Sharing = "shared"

    def __init__(
        self, prior: HierarchicalPrior, n_classes: int, n_columns: int, intercept: bool
    ) -> None:
        super().__init__(prior, n_classes, n_columns, intercept)
        self.rate = np.full(self.n_learnt, prior.shape + 0.5 * n_classes)  # E[tau] = 1 to begin

    @property
    def shape(self) -> float:
        return self.prior.shape + 0.5 * self.n_classes

    def precision(self, block: Block) -> np.ndarray:
        return self._column((self.shape / self.rate)[:, None])

    def absorb(self, block: Block, mean: np.ndarray, covariance: Covariance) -> Any:
        moments = self._moments(block, mean, covariance)
        return moments[:, : self.n_learnt].sum(axis=0), self._intercept_energy(moments)

    def energy(self, absorbed: Sequence[Any]) -> float:
        squares = np.sum([s for s, _ in absorbed], axis=0)
        self.rate = self.prior.rate + 0.5 * squares
        expected, log_expected = self.shape / self.rate, digamma(self.shape) - np.log(self.rate)
        weights = 0.5 * (self.n_classes * log_expected - expected * squares).sum()
        hyper = gamma_terms(self.prior.shape, self.prior.rate, self.shape, self.rate).sum()
        return float(weights + hyper + sum(e for _, e in absorbed))


class ClassScaleState(_LearntState):
    """tau_k ~ Gamma(a, b): q(tau_k) = Gamma(a + M/2, b + sum_m E[beta_mk^2]/2)."""

    prior: HierarchicalPrior
    sharing: Sharing = "class"

    def __init__(
        self, prior: HierarchicalPrior, n_classes: int, n_columns: int, intercept: bool
    ) -> None:
        super().__init__(prior, n_classes, n_columns, intercept)
        self.shape = prior.shape + 0.5 * self.n_learnt
        self.rate = np.full(n_classes, self.shape)

    def scales(self) -> np.ndarray:
        scales: np.ndarray = self.shape / self.rate
        return scales

    def precision(self, block: Block) -> np.ndarray:
        taus = self.shape / self.rate[block]
        return self._column(np.broadcast_to(taus, (self.n_learnt, len(taus))))

    def absorb(self, block: Block, mean: np.ndarray, covariance: Covariance) -> Any:
        moments = self._moments(block, mean, covariance)
        squares = moments[:, : self.n_learnt].sum(axis=1)
        self.rate[block] = rate = self.prior.rate + 0.5 * squares
        log_expected = digamma(self.shape) - np.log(rate)
        weights = 0.5 * (self.n_learnt * log_expected - self.shape / rate * squares).sum()
        hyper = gamma_terms(self.prior.shape, self.prior.rate, self.shape, rate).sum()
        return weights + hyper + self._intercept_energy(moments)

    def energy(self, absorbed: Sequence[Any]) -> float:
        return float(sum(absorbed))


# Variable selection


@dataclass(frozen=True, repr=False)
class HorseshoePrior(Prior):
    """Most weights near zero, a few left alone (Carvalho, Polson and Scott, 2010).

    beta_mk ~ N(0, lambda_mk^2 tau_k^2) with half-Cauchy lambda_mk and tau_k, tau_k of scale
    `global_scale`.  A half-Cauchy scale is a precision l ~ Gamma(1/2, a) with a ~ Gamma(1/2, 1), so
    all updates are closed (Neville, Ormerod and Wand, 2014).  A precision for each class and
    feature: with ``link="probit"`` take ``covariance="diagonal"``; the full one is a matrix for
    each class.

    Parameters
    ----------
    global_scale : float, default=1.0
    intercept_scale : float, default=10.0
        Standard deviation of the intercept, which has no horseshoe.

    Examples
    --------
    >>> from bigcat.bayes import HorseshoePrior
    >>> HorseshoePrior().bind(3, 4, False).precision(slice(0, 2)).shape
    (4, 2)
    """

    name: ClassVar[str] = "horseshoe"
    learnt: ClassVar[bool] = True

    global_scale: float = 1.0
    intercept_scale: float = 10.0

    def __post_init__(self) -> None:
        for name in ("global_scale", "intercept_scale"):
            check_positive(name, getattr(self, name))

    @property
    def sharing(self) -> Sharing:
        return "coordinate"

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> PriorState:
        """The state of the prior for a problem."""
        return HorseshoeState(self, n_classes, n_columns, intercept)

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        return PriorChain(
            np.zeros(n_features + intercept),
            fixed_units(n_features, intercept, self.intercept_scale),
            n_chains,
            scales=Scales.half_t(self.global_scale, (n_chains, n_classes, 1)),
            locals_=Scales.half_t(1.0, (n_chains, n_classes, n_features)),
            has_intercept=intercept,
        )


class HorseshoeState(_LearntState):
    """q(l_mk) = Gamma(1, E[a] + E[t] E[beta^2]/2), q(a_mk) = Gamma(1, 1 + E[l]), and for the class
    q(t_k) = Gamma((M + 1)/2, E[c] + sum_m E[l] E[beta^2]/2), q(c_k) = Gamma(1, 1/A^2 + E[t])."""

    prior: HorseshoePrior
    sharing: Sharing = "coordinate"

    def __init__(
        self, prior: HorseshoePrior, n_classes: int, n_columns: int, intercept: bool
    ) -> None:
        super().__init__(prior, n_classes, n_columns, intercept)
        self.local_rate = np.ones((n_classes, self.n_learnt))
        self.local_mixing_rate = np.full((n_classes, self.n_learnt), 2.0)
        self.global_shape = 0.5 * (self.n_learnt + 1)
        self.global_rate = np.full(n_classes, self.global_shape)
        self.global_mixing_rate = 1.0 / prior.global_scale**2 + np.ones(n_classes)

    def precision(self, block: Block) -> np.ndarray:
        taus = self.global_shape / self.global_rate[block]
        return self._column(taus / self.local_rate[block].T)

    def absorb(self, block: Block, mean: np.ndarray, covariance: Covariance) -> Any:
        moments = self._moments(block, mean, covariance)
        squares = moments[:, : self.n_learnt]
        tau = self.global_shape / self.global_rate[block]
        local_rate = 1.0 / self.local_mixing_rate[block] + 0.5 * tau[:, None] * squares
        local = 1.0 / local_rate
        mixing_rate = 1.0 + local
        weighted = (local * squares).sum(axis=1)
        global_rate = 1.0 / self.global_mixing_rate[block] + 0.5 * weighted
        tau = self.global_shape / global_rate
        prior_rate = 1.0 / self.prior.global_scale**2
        global_mixing_rate = prior_rate + tau
        self.local_rate[block], self.local_mixing_rate[block] = local_rate, mixing_rate
        self.global_rate[block], self.global_mixing_rate[block] = global_rate, global_mixing_rate
        log_local = (digamma(1.0) - np.log(local_rate)).sum()
        log_global = digamma(self.global_shape) - np.log(global_rate)
        weights = 0.5 * (log_local + self.n_learnt * log_global.sum() - (tau * weighted).sum())
        hyper = (
            mixed_gamma_terms(1.0, local_rate, mixing_rate).sum()
            + gamma_terms(0.5, 1.0, 1.0, mixing_rate).sum()
            + mixed_gamma_terms(self.global_shape, global_rate, global_mixing_rate).sum()
            + gamma_terms(0.5, prior_rate, 1.0, global_mixing_rate).sum()
        )
        return weights + hyper + self._intercept_energy(moments)

    def energy(self, absorbed: Sequence[Any]) -> float:
        return float(sum(absorbed))
