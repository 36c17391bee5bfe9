"""Independent binary regressions of "is it class k?", fitted together (IB-CAVI and faster).

The posterior of the weights is q(B) = prod_k N(mu_k, Sigma_k).  Two solvers reach the same optimum:

``"cavi"``
    The papers' coordinate ascent in the authors' order: local factors, covariance, mean.
``"newton"``
    With the local factors at their best each mean maximises a concave function (for the probit a
    ridge-penalised likelihood whose covariance (P + X'X)^-1 never changes; for the logit the
    Jaakkola-Jordan bound given the row variances), so it takes Newton steps (`newton`); the
    logit's covariances follow after each round.

Every ELBO in the history is exact for the factors held at that moment and never falls.  After the
last iteration the local factors are set to their best once more: that is `BinaryResult.elbo`.

Work is done for blocks of classes, so that no (n, K) array exists, by threads over blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from bigcat._system import map_on_threads, one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design
from bigcat.bayes.binary import newton
from bigcat.bayes.binary.links import LINKS, polya_gamma
from bigcat.bayes.covariance import (
    BlockSums,
    ClassDiagonal,
    ClassFull,
    Covariance,
    SharedDiagonal,
    SharedFull,
    symmetric_inverses,
)
from bigcat.bayes.priors.binary import BinaryPrior

if TYPE_CHECKING:
    from bigcat.bayes.binary.method import IndependentBinary

#: Scores (rows times classes) of a block, and its fewest classes.
BLOCK_SCORES, MIN_CLASSES = 1 << 21, 32
#: Newton steps on the means between two updates of the logit's covariances.
INNER_STEPS = 4

Result = TypeVar("Result")


class BinaryResult(NamedTuple):
    """Result of a fit."""

    mean: np.ndarray  # (K, M)
    covariance: Covariance
    elbo: float
    history: list[dict[str, float]]
    converged: bool


class _Share(NamedTuple):
    """Part of the ELBO of a block of classes, and its sums of squared weights."""

    likelihood: float
    entropy: float
    squares: Floats  # (M,)


def class_blocks(n_rows: int, n_classes: int) -> list[np.ndarray]:
    """Return class numbers in blocks, which do not depend on the number of threads."""
    size = max(MIN_CLASSES, min(BLOCK_SCORES // max(n_rows, 1), -(-n_classes // 2)))
    return [np.arange(start, min(start + size, n_classes)) for start in range(0, n_classes, size)]


class BinaryFit:
    """Means, covariances and the ELBO of K binary regressions.

    Parameters
    ----------
    design : Design
    labels : array of shape (n,)
        Class numbers.
    n_classes : int
    prior : BinaryPrior
    how : IndependentBinary
        Its link, covariance, solver, tolerance and iterations.
    n_threads : int
    start : array of shape (K, M), optional
        Means to start from.
    """

    def __init__(
        self,
        design: Design,
        labels: np.ndarray,
        n_classes: int,
        prior: BinaryPrior,
        how: IndependentBinary,
        n_threads: int = 1,
        start: np.ndarray | None = None,
    ) -> None:
        self.design, self.prior, self.n_classes = design, prior, n_classes
        self.labels = np.ascontiguousarray(labels, np.int64)
        self.row_weights = np.ascontiguousarray(design.row_weights, np.float64)
        self.tol, self.max_iter, self.n_threads = how.tol, how.max_iter, n_threads
        self.link = LINKS[how.link]
        self.full = how.covariance == "full"
        self.newton = how.solver == "newton"
        self.blocks = class_blocks(design.n, n_classes)
        self.gram = design.gram() if self.full else np.empty((0, 0))
        self.gram_diagonal = np.diag(self.gram).copy() if self.full else design.squared_sums()
        self._set_precision()
        self.mean = self._start() if start is None else np.array(start, np.float64)
        self.covariance: Covariance = self._shared_covariance()
        if self.link.has_row_variance:
            shape = (n_classes, design.n_columns)
            self._matrices = np.empty((*shape, design.n_columns) if self.full else shape)
            self._logs = np.empty(n_classes)
        # Likelihood of each class, and the first decrement, which scales later tolerances.
        self._likelihood = np.zeros(n_classes)
        self._first_decrement = np.zeros(n_classes)
        self._done = np.zeros(n_classes, bool)
        self._negligible = 0.0

    def run(self, report: Callable[[float, float], None] = lambda i, e: None) -> BinaryResult:
        """Iterate until the ELBO grows by less than `tol` of its size."""
        with one_blas_thread:  # threads work on blocks of classes
            return self._run(report)

    def _run(self, report: Callable[[float, float], None]) -> BinaryResult:
        history: list[dict[str, float]] = []
        began = time.perf_counter()
        elbo, converged = -np.inf, False
        for iteration in range(1, self.max_iter + 1):
            before, elbo = elbo, self.iterate()
            seconds = time.perf_counter() - began
            history.append({"iteration": iteration, "seconds": seconds, "elbo": elbo})
            report(iteration, elbo)
            if not np.isfinite(elbo):
                raise FloatingPointError(
                    f"the ELBO became {elbo} in iteration {iteration}; scale the columns of X to "
                    "similar size"
                )
            self._negligible = 0.01 * self.tol * abs(elbo) / self.n_classes
            if self.tol > 0.0 and elbo - before <= self.tol * abs(elbo):
                converged = True
                break
        elbo = self.evaluate()
        history[-1] |= {"elbo": elbo, "seconds": time.perf_counter() - began}
        return BinaryResult(self.mean, self.covariance, elbo, history, converged)

    def iterate(self) -> float:
        """Update every factor once, and return the ELBO."""
        if self.prior.learned:
            self._set_precision()
        if not self.link.has_row_variance:
            if self.prior.learned:
                self.covariance = self._shared_covariance()
            shares = self._map(self._update_probit)
        else:
            shares = self._map(self._update_logit)
            self.covariance = self._class_covariance(slice(None))
        self._energy = self.prior.energy(np.sum([s.squares for s in shares], axis=0))
        self._entropy = sum(s.entropy for s in shares)
        return sum(s.likelihood for s in shares) + self._entropy + self._energy

    def evaluate(self) -> float:
        """Return the ELBO with local factors at their best for the present means."""
        if self.newton and not self.link.has_row_variance:
            return float(self._likelihood.sum()) + self._entropy + self._energy
        return sum(self._map(self._best_likelihood)) + self._entropy + self._energy

    # Blocks

    def _update_probit(self, classes: np.ndarray) -> _Share:
        todo = classes[~self._done[classes]]
        if len(todo):
            mean = np.ascontiguousarray(self.mean[todo].T)
            if self.newton:
                mean, _, values = self._newton_steps(todo, mean, None, n_steps=1)
            else:
                mean, values = self._cavi_probit(todo, mean)
            self.mean[todo] = mean.T
            self._likelihood[todo] = values - 0.5 * self._variance_cost()
        return self._share(classes, float(self._likelihood[classes].sum()), self.covariance)

    def _cavi_probit(self, classes: np.ndarray, mean: Floats) -> tuple[Floats, Floats]:
        """Update q(z) (D.3.7), then the mean (D.3.5a), whose covariance is (D.3.5b) throughout.

        With q(z) at the old scores and mu moved by delta the likelihood part is
        sum_i log Phi(t_i) + g_i x_i.delta - (x_i.delta)^2 / 2, with the gradient g in eta:
        E[z] = eta + g in (D.3.8).
        """
        assert isinstance(self.covariance, SharedFull)
        eta = self.design.product(mean)
        score_gradient, curvature = np.empty_like(eta), np.empty(eta.shape, np.float32)
        values = self.link.terms(
            eta, None, self.labels, self.row_weights, classes, score_gradient, curvature
        )
        gradient = self.design.transposed(score_gradient)
        moved = self.covariance.matrix @ (gradient - self._pull(mean))
        values += np.einsum("mb,mb->b", moved, gradient - 0.5 * (self.gram @ moved))
        return mean + moved, values

    def _update_logit(self, classes: np.ndarray) -> _Share:
        """Update means (newton), q(omega) (E.3.3), covariances (E.3.4a), means (E.3.4b)."""
        design, P = self.design, self.prior.precision
        mean = np.ascontiguousarray(self.mean[classes].T)
        variance = self._row_variances(classes)
        if self.newton:
            mean, eta, _ = self._newton_steps(classes, mean, variance, n_steps=INNER_STEPS)
        else:
            eta = design.product(mean)
        omega, constant = polya_gamma(eta, variance, self.row_weights)
        signs = self.row_weights[:, None] * np.where(self.labels[:, None] == classes, 0.5, -0.5)
        if self.full:
            sums = BlockSums(len(classes), design.n_columns)
            for rows in design.chunks(design.n_columns):
                sums.add(omega[rows], design.rows[rows])
            grams = sums.matrices(0.0)
            matrices, logs = symmetric_inverses(grams + np.diag(P))
            self._matrices[classes], self._logs[classes] = matrices, logs
            right = design.transposed(signs) + (P * self.prior.mean)[:, None]
            mean = (matrices @ right.T[:, :, None])[:, :, 0].T
            eta = design.product(mean)
            spread = np.einsum("bij,bij->b", grams, matrices)
        else:
            squares = design.squares_transposed(omega).T  # diagonals of the Gram matrices
            self._matrices[classes] = 1.0 / (squares + P)
            spread = (squares * self._matrices[classes]).sum(axis=1)
        self.mean[classes] = mean.T
        fitted = np.einsum("nb,nb->b", eta, signs - 0.5 * omega * eta)
        likelihood = float((fitted + constant - 0.5 * spread).sum())
        return self._share(classes, likelihood, self._class_covariance(classes), slice(None))

    def _newton_steps(
        self, classes: np.ndarray, mean: Floats, variance: Floats | None, n_steps: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean, scores and values after up to `n_steps` Newton steps of some classes."""
        link, labels, design, row_weights = self.link, self.labels, self.design, self.row_weights
        eta = design.product(mean)
        score_gradient, curvature = np.empty_like(eta), np.empty(eta.shape, np.float32)
        for _ in range(n_steps):
            values = link.terms(
                eta, variance, labels, row_weights, classes, score_gradient, curvature
            )
            penalties = self._penalties(mean)
            gradient = design.transposed(score_gradient) - self._pull(mean)
            preconditioner = self._preconditioner(curvature)
            decrement = np.einsum("mb,mb->b", gradient, preconditioner(gradient))
            first = np.maximum(self._first_decrement[classes], decrement)
            self._first_decrement[classes] = first
            if (decrement <= 2.0 * self._negligible).all():
                self._done[classes] = not link.has_row_variance and not self.prior.learned
                break
            direction = newton.conjugate_gradients(
                design, curvature, self.prior.precision[:, None], gradient, preconditioner,
                newton.forcing(decrement, first),
            )  # fmt: skip
            stepped = newton.line_search(
                lambda scores: link.values(scores, variance, labels, row_weights, classes),
                self._penalties,
                mean, eta, direction, values - penalties,
                np.einsum("mb,mb->b", gradient, direction.step),
            )  # fmt: skip
            mean, eta = stepped.mean, stepped.scores
            values = values - penalties + stepped.gain + self._penalties(mean)
        return mean, eta, values

    def _best_likelihood(self, classes: np.ndarray) -> float:
        eta = self.design.product(self.mean[classes].T)
        variance = self._row_variances(classes) if self.link.has_row_variance else None
        values = self.link.values(eta, variance, self.labels, self.row_weights, classes)
        if not self.link.has_row_variance:
            values = values - 0.5 * self._variance_cost()
        return float(values.sum())

    # Inside

    def _share(
        self,
        classes: np.ndarray,
        likelihood: float,
        covariance: Covariance,
        own: slice | np.ndarray | None = None,
    ) -> _Share:
        """Return the share of some classes, which are `own` in the covariance."""
        own, n = classes if own is None else own, len(classes)
        logs = np.broadcast_to(covariance.log_determinants(own), n)
        entropy = 0.5 * float(logs.sum() + n * self.design.n_columns)
        away = self.mean[classes] - self.prior.mean
        squares = (np.square(away) + covariance.variances(own)).sum(axis=0)
        return _Share(likelihood, entropy, squares)

    def _variance_cost(self) -> float:
        """Return sum_i s_i x_i' Sigma x_i = tr(X'SX Sigma), the same for all classes."""
        if isinstance(self.covariance, SharedFull):
            return float((self.gram * self.covariance.matrix).sum())
        return float((self.gram_diagonal * self.covariance.variances(slice(0, 1))[0]).sum())

    def _row_variances(self, classes: np.ndarray) -> Floats:
        variance = np.empty((self.design.n, len(classes)))
        variance[:] = self.covariance.row_variances(self.design, classes)
        return variance

    def _pull(self, mean: Floats) -> Floats:
        """Return P (mu - m), (M, B)."""
        return self.prior.precision[:, None] * (mean - self.prior.mean[:, None])

    def _penalties(self, mean: Floats) -> Floats:
        """Return (mu - m)' P (mu - m) / 2 for each class, (B,)."""
        away = mean - self.prior.mean[:, None]
        return 0.5 * (self.prior.precision @ np.square(away))

    def _set_precision(self) -> None:
        """Find T with T' P T = I and T' X'X T diagonal."""
        if self.full:
            units = 1.0 / np.sqrt(self.prior.precision)
            values, vectors = np.linalg.eigh(self.gram * np.outer(units, units))
            self.basis, self.eigenvalues = units[:, None] * vectors, np.maximum(values, 0.0)

    def _preconditioner(self, curvature: Floats) -> newton.Preconditioner:
        """Return about (X' diag(h_k) X + P)^-1: with the mean of h_k, or the diagonal."""
        if not self.full:
            sums = self.design.squares_transposed(curvature)
            diagonal = 1.0 / (sums + self.prior.precision[:, None])
            return lambda values: diagonal * values
        level = curvature.sum(axis=0, dtype=np.float64) / self.design.total_weight
        inverse = 1.0 / (self.eigenvalues[:, None] * level + 1.0)
        return lambda values: self.basis @ (inverse * (self.basis.T @ values))

    def _shared_covariance(self) -> Covariance:
        """Return (P + X'X)^-1, or the inverse of its diagonal (D.3.5b, D.4)."""
        P = self.prior.precision
        if self.full:
            return SharedFull.from_precision(self.gram + np.diag(P))
        return SharedDiagonal(1.0 / (P + self.gram_diagonal))

    def _class_covariance(self, classes: slice | np.ndarray) -> Covariance:
        """Return the logit's covariances of some classes."""
        if self.full:
            return ClassFull(self._matrices[classes], self._logs[classes])
        return ClassDiagonal(self._matrices[classes])

    def _map(self, function: Callable[[np.ndarray], Result]) -> list[Result]:
        """Return the function of every block."""
        return map_on_threads(function, self.blocks, self.n_threads)

    def _start(self) -> np.ndarray:
        mean = np.tile(self.prior.mean, (self.n_classes, 1))
        if self.newton and self.design.intercept and not self.prior.mean.any():
            counts = np.bincount(self.labels, self.row_weights, self.n_classes)
            mean[:, -1] = self.link.score_of((counts + 0.5) / (self.design.total_weight + 1.0))
        return mean
