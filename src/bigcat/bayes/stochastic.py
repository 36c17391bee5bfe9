"""Natural-gradient steps on batches of rows, for data that do not come in one piece (SVI).

A batch of n rows stands for N: its sufficient statistics count N/n times, and each factor moves a
part rho_t = t^-power from its natural parameters to the best ones for the batch (Hoffman et al.,
2013).  For N(mu_k, Sigma_k) natural parameters are Sigma_k^-1 and Sigma_k^-1 mu_k, and their best
values are the coordinate-ascent updates (D.3.5, E.3.4).  Only the Gaussian prior is supported.

With a diagonal covariance the means' updates are coupled by X'X.  Moving all of them at once by
their own curvature overshoots where rows have many features, so each has its share of

    (x.d)^2 <= sum_m |x_m| |x|_1 d_m^2,

which bounds X' diag(h) X, h the curvature of the rows, by a diagonal matrix.
"""

from __future__ import annotations

import copy

import numpy as np

from bigcat.bayes import _updates
from bigcat.bayes._design import Design
from bigcat.bayes.binary_fit import class_blocks
from bigcat.bayes.covariance import (
    ClassDiagonal,
    ClassFull,
    Covariance,
    SharedDiagonal,
    SharedFull,
    symmetric_inverses,
)
from bigcat.bayes.links import LINKS, polya_gamma
from bigcat.bayes.priors import PriorState


class Stream:
    """The state between batches: what is saved with an estimator after `partial_fit`."""

    def __init__(
        self, prior: PriorState, n_classes: int, link: str, full: bool, power: float
    ) -> None:
        if prior.learnt:
            raise ValueError(
                "partial_fit supports the GaussianPrior only; use fit for priors with learnt scales"
            )
        self.prior = prior
        self.n_classes = n_classes
        self.link = LINKS[link]
        self.full = full
        self.power = power
        self.n_steps = 0
        self.rows_seen = 0.0
        self.mean = np.tile(prior.mean, (n_classes, 1))
        self.precision: np.ndarray | None = None  # (M, M), (M,), (K, M, M) or (K, M)
        self.surrogate: np.ndarray | None = None  # (M,) or (K, M): bounds of X'WX + P
        self.covariance: Covariance | None = None

    def resume(self, mean: np.ndarray, covariance: Covariance, n_rows: float, n_steps: int) -> None:
        """Go on from `n_steps` steps on `n_rows` rows; a fit counts as one step."""
        self.n_steps = n_steps
        self.rows_seen = n_rows
        self.mean = mean.copy()
        self.covariance = covariance
        array = covariance.array()
        if not self.full:
            self.precision = 1.0 / array
        elif array.ndim == 2:
            self.precision = symmetric_inverses(array[None].copy())[0][0]
        else:
            self.precision = symmetric_inverses(array.copy())[0]

    def copied(self) -> Stream:
        """The same with arrays of its own, so that a step that fails leaves this one as it was."""
        other = copy.copy(self)
        for name in ("mean", "precision", "surrogate"):  # steps move these in place
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def step(self, design: Design, labels: np.ndarray, total_rows: int | None) -> float:
        """One step; an estimate of the ELBO before it, from the batch."""
        self.n_steps += 1
        self.rows_seen += design.total_weight
        total = self.rows_seen if total_rows is None else total_rows
        self.rate = self.n_steps**-self.power
        self.scale = total / design.total_weight
        if self.n_steps == 1:
            self._begin(design, labels)
        if not self.full and self.surrogate is None:
            self.surrogate = np.full(self.mean.shape, np.nan)  # the first batch sets it
        blocks = class_blocks(design.n, self.n_classes)
        elbo = sum(self._estimate_and_step(design, labels, classes) for classes in blocks)
        self._finish(design)
        return float(elbo)

    def _begin(self, design: Design, labels: np.ndarray) -> None:
        if design.intercept and not self.prior.mean.any():
            counts = np.bincount(labels, design.row_weights, self.n_classes)
            self.mean[:, -1] = self.link.score_of((counts + 0.5) / (design.total_weight + 1.0))
        self.covariance = _updates.Precisions(design, self.prior, self.full).probit_covariance(
            self.n_classes
        )
        if self.link.has_row_variance:
            m = design.n_columns
            shape = (self.n_classes, m, m) if self.full else (self.n_classes, m)
            self.precision = np.zeros(shape)

    def _estimate_and_step(self, design: Design, labels: np.ndarray, classes: np.ndarray) -> float:
        assert self.covariance is not None
        mean = np.ascontiguousarray(self.mean[classes].T)
        eta = design.product(mean)
        variance = self.covariance.row_variances(design, classes)
        variance = np.ascontiguousarray(np.broadcast_to(variance, eta.shape))
        slope, curvature = np.empty_like(eta), np.empty_like(eta)
        values = self.link.terms(
            eta, variance, labels, design.row_weights, classes, slope, curvature
        )
        likelihood = values.sum()
        if self.link.has_row_variance:
            weights, _ = polya_gamma(eta, variance, design.row_weights)
        else:
            weights = None
            likelihood -= 0.5 * (design.row_weights @ variance).sum()
        logs = np.broadcast_to(self.covariance.log_determinants(classes), len(classes))
        entropy = 0.5 * (logs.sum() + logs.size * design.n_columns)
        energy = self.prior.absorb(classes, self.mean[classes], self.covariance)
        pull = self._precision_times(mean - self.prior.mean[:, None])
        gradient = self.scale * design.transposed(slope) - pull
        if self.full:
            self._step_full(design, classes, mean, gradient, weights)
        else:
            self._step_diagonal(design, classes, mean, gradient, curvature, weights)
        return float(self.scale * likelihood + entropy + energy)

    def _step_full(
        self,
        design: Design,
        classes: np.ndarray,
        mean: np.ndarray,
        gradient: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        """(1 - r) L mu + r (L* mu + gradient), L* the batch's precision, is the new L mu."""
        rate, prior = self.rate, self.prior
        if weights is None:  # one precision for all classes: `_finish` divides by it
            if not hasattr(self, "_batch_precision"):
                matrix = prior.precision(classes)
                matrix = matrix if prior.is_matrix else np.diag(matrix[:, 0])
                self._batch_precision = matrix + self.scale * design.gram()
            old = self._batch_precision if self.precision is None else self.precision
            new = (1.0 - rate) * (old @ mean) + rate * (self._batch_precision @ mean + gradient)
            self.mean[classes] = new.T
            return
        assert self.precision is not None
        grams = self.scale * _updates.weighted_grams(design, weights, np.float64)
        total = _plus_precision(grams, prior, classes)
        old = self.precision[classes]
        columns = mean.T[:, :, None]
        new = (1.0 - rate) * (old @ columns) + rate * (total @ columns + gradient.T[:, :, None])
        mixed = (1.0 - rate) * old + rate * total
        self.precision[classes] = mixed
        self.mean[classes] = np.linalg.solve(mixed, new)[:, :, 0]

    def _step_diagonal(
        self,
        design: Design,
        classes: np.ndarray,
        mean: np.ndarray,
        gradient: np.ndarray,
        curvature: np.ndarray,
        weights: np.ndarray | None,
    ) -> None:
        rate, prior = self.rate, self.prior
        own = prior.precision(classes)
        own = np.diag(own)[:, None] if prior.is_matrix else own
        absolute = abs(design.rows)
        lengths = np.asarray(absolute.sum(axis=1)).reshape(-1, 1)
        bound = own + self.scale * (absolute.T @ (lengths * curvature))
        assert self.surrogate is not None
        old = self.surrogate[classes]
        old = np.where(np.isnan(old), bound.T, old)
        self.surrogate[classes] = (1.0 - rate) * old + rate * bound.T
        self.mean[classes] = (mean + rate * gradient / self.surrogate[classes].T).T
        if weights is not None:
            assert self.precision is not None
            best = own + self.scale * design.squares_transposed(weights)
            self.precision[classes] = (1.0 - rate) * self.precision[classes] + rate * best.T

    def _finish(self, design: Design) -> None:
        """Covariances from precisions."""
        if self.link.has_row_variance:
            assert self.precision is not None
            if self.full:
                self.covariance = ClassFull(*symmetric_inverses(self.precision.copy()))
            else:
                self.covariance = ClassDiagonal(1.0 / self.precision)
            return
        if self.full:
            batch = self._batch_precision
            del self._batch_precision
        else:
            own = self.prior.precision(slice(0, 1))
            own = np.diag(own) if self.prior.is_matrix else own[:, 0]
            batch = own + self.scale * design.squared_sums()
        rate = 1.0 if self.precision is None else self.rate
        old = batch if self.precision is None else self.precision
        self.precision = (1.0 - rate) * old + rate * batch
        if self.full:
            self.covariance = SharedFull.from_precision(self.precision)
            self.mean = np.linalg.solve(self.precision, self.mean.T).T
        else:
            self.covariance = SharedDiagonal(1.0 / self.precision)

    def _precision_times(self, values: np.ndarray) -> np.ndarray:
        precision = self.prior.precision(slice(0, 1))
        product: np.ndarray = precision @ values if self.prior.is_matrix else precision * values
        return product


def _plus_precision(grams: np.ndarray, prior: PriorState, classes: np.ndarray) -> np.ndarray:
    precision = prior.precision(classes)
    sums: np.ndarray = grams + (precision if prior.is_matrix else np.diag(precision[:, 0]))
    return sums
