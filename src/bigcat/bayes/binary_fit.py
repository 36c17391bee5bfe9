"""Independent binary regressions of "is it class k?", fitted together (IB-CAVI and faster).

The posterior of the weights is q(B) = prod_k N(mu_k, Sigma_k).  Two solvers reach the same optimum:

``"cavi"``
    The papers' coordinate ascent in the authors' order: local factors, covariance, mean.
``"newton"``
    With the local factors at their best each mean maximises a concave function (for the probit a
    ridge-penalised likelihood whose covariance (P + X'X)^-1 never changes; for the logit the
    Jaakkola-Jordan bound given the row variances), so it takes Newton steps (`_newton`); the
    logit's covariances follow after each round.

Every ELBO in the history is exact for the factors held at that moment and never falls.  After the
last iteration the local factors are set to their best once more: that is `BinaryResult.elbo`.

Work is done for blocks of classes, so that no (n, K) array exists, by threads over blocks.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse

from bigcat._system import one_blas_thread
from bigcat.bayes import _newton, _updates
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import ClassDiagonal, ClassFull, Covariance
from bigcat.bayes.links import LINKS, polya_gamma
from bigcat.bayes.priors import PriorState

if TYPE_CHECKING:
    from bigcat.bayes.independent_binary import IndependentBinary

#: Scores (rows times classes) that a block holds, and the fewest classes it has.
BLOCK_SCORES = 1 << 21
FEWEST_CLASSES = 32
#: Newton steps on the means between two updates of the logit's covariances.
INNER_STEPS = 4


class BinaryResult(NamedTuple):
    """Where a fit ended."""

    mean: np.ndarray  # (K, M)
    covariance: Covariance
    elbo: float
    history: list[dict[str, float]]
    converged: bool


Result = TypeVar("Result")


class _Share(NamedTuple):
    """What a block of classes adds to the ELBO."""

    likelihood: float
    entropy: float
    absorbed: Any


def class_blocks(n_rows: int, n_classes: int, scores: int = BLOCK_SCORES) -> list[np.ndarray]:
    """Class numbers in blocks; the split does not depend on the number of threads."""
    size = max(FEWEST_CLASSES, min(scores // max(n_rows, 1), -(-n_classes // 2)))
    return [np.arange(start, min(start + size, n_classes)) for start in range(0, n_classes, size)]


def block_scores(class_matrices: bool) -> int:
    """Scores of a block; more where pairs of features are made once for all of its classes."""
    return (3 if class_matrices else 1) * BLOCK_SCORES


class BinaryFit:
    """The fit: means, covariances and the ELBO of K binary regressions.

    Parameters
    ----------
    design : Design
    labels : array of shape (n,)
        Class numbers.
    n_classes : int
    prior : PriorState
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
        prior: PriorState,
        how: IndependentBinary,
        n_threads: int = 1,
        start: np.ndarray | None = None,
    ) -> None:
        self.design = design
        self.labels = np.ascontiguousarray(labels, np.int64)
        self.row_weights = np.ascontiguousarray(design.row_weights, np.float64)
        self.n_classes = n_classes
        self.prior = prior
        self.tol, self.max_iter, self.n_threads = how.tol, how.max_iter, n_threads
        self.link = LINKS[how.link]
        self.full = how.covariance == "full"
        self.newton = how.solver == "newton"
        self.blocks = class_blocks(
            design.n, n_classes, block_scores(self.full and self.link.has_row_variance)
        )
        self.precisions = _updates.Precisions(design, prior, self.full)
        self.mean = self._start() if start is None else np.array(start, np.float64)
        self.covariance = self.precisions.probit_covariance(n_classes)
        self.class_sums = self._class_sums() if self._needs_class_sums() else None
        self._pairs_dtype = _updates.pairs_dtype(design, n_classes)
        self._store = self._storage() if self.link.has_row_variance else None
        # What each class was worth last, and the first decrement, which scales later tolerances.
        self._likelihood = np.zeros(n_classes)
        self._first_decrement = np.zeros(n_classes)
        self._done = np.zeros(n_classes, bool)
        self._negligible = 0.0

    def run(self, report: Callable[[float, float], None] = lambda i, e: None) -> BinaryResult:
        """Iterate until the ELBO grows by less than `tol` of its size."""
        with one_blas_thread:  # the threads are ours
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
        history[-1]["elbo"] = elbo
        history[-1]["seconds"] = time.perf_counter() - began
        return BinaryResult(self.mean, self.covariance, elbo, history, converged)

    def iterate(self) -> float:
        """Update every factor once; the ELBO after it."""
        if not self.link.has_row_variance and self.prior.learnt:
            self.precisions.refresh()
            self.covariance = self.precisions.probit_covariance(self.n_classes)
        elif self.prior.learnt:
            self.precisions.refresh()
        update = self._update_logit if self.link.has_row_variance else self._update_probit
        parts = self._map(update)
        if self._store is not None:
            self.covariance = self._store
        self._energy = self.prior.energy([p.absorbed for p in parts])
        self._entropy = sum(p.entropy for p in parts)
        return sum(p.likelihood for p in parts) + self._entropy + self._energy

    def evaluate(self) -> float:
        """The ELBO with local factors at their best for the means and covariances held now."""
        if self.newton and not self.link.has_row_variance:
            return float(self._likelihood.sum()) + self._entropy + self._energy
        if isinstance(self.covariance, ClassFull):
            self.covariance.pairs_dtype = np.float64
        return sum(self._map(self._best_likelihood)) + self._entropy + self._energy

    # Blocks

    def _update_probit(self, classes: np.ndarray) -> _Share:
        todo = classes[~self._done[classes]]
        if len(todo):
            update = self._newton_probit if self.newton else self._cavi_probit
            update(todo)
        return self._share(classes, float(self._likelihood[classes].sum()))

    def _newton_probit(self, classes: np.ndarray) -> None:
        mean = np.ascontiguousarray(self.mean[classes].T)
        mean, _, values = self._newton_steps(classes, mean, None, n_steps=1)
        self.mean[classes] = mean.T
        self._likelihood[classes] = values - 0.5 * self._variance_cost(classes)

    def _cavi_probit(self, classes: np.ndarray) -> None:
        """q(z) (D.3.7), then the mean (D.3.5a); the covariance is (D.3.5b) throughout.

        With q(z) at the old scores and mu moved by delta the likelihood part is
        sum_i log Phi(t_i) + slope_i x_i.delta - (x_i.delta)^2 / 2: E[z] = eta + slope in (D.3.8).
        """
        mean = np.ascontiguousarray(self.mean[classes].T)
        eta = self.design.product(mean)
        slope, curvature = np.empty_like(eta), np.empty_like(eta)
        values = self.link.terms(
            eta, None, self.labels, self.row_weights, classes, slope, curvature
        )
        precision = self._precision(classes)
        deviation = mean - self.prior.mean[:, None]
        gradient = self.design.transposed(slope)
        if self.full:
            right = self.design.transposed(self.row_weights[:, None] * eta + slope) + precision(
                np.broadcast_to(self.prior.mean[:, None], mean.shape)
            )
            new = _updates.apply_covariance(self.covariance, right, classes)
            moved = new - mean
            quadratic = np.einsum("mb,mb->b", moved, self.precisions.gram @ moved)
        else:
            weights = self.row_weights[:, None] if self.design.weighted else None
            solved = self._solve(classes, weights, gradient - precision(deviation))
            moved, new = solved.step, mean + solved.step
            quadratic = np.einsum("n,nb,nb->b", self.row_weights, solved.scores, solved.scores)
        values += np.einsum("mb,mb->b", moved, gradient) - 0.5 * quadratic
        self.mean[classes] = new.T
        self._likelihood[classes] = values - 0.5 * self._variance_cost(classes)

    def _update_logit(self, classes: np.ndarray) -> _Share:
        """Means (newton), q(omega) (E.3.3), covariances (E.3.4a), means (E.3.4b)."""
        design = self.design
        mean = np.ascontiguousarray(self.mean[classes].T)
        variance = self._row_variances(classes)
        if self.newton:
            mean, eta, _ = self._newton_steps(classes, mean, variance, n_steps=INNER_STEPS)
        else:
            eta = design.product(mean)
        omega, constant = polya_gamma(eta, variance, self.row_weights)
        precision = self._precision(classes)
        if self.full:
            grams = _updates.weighted_grams(design, omega, self._pairs_dtype)
            matrices, logs = _updates.class_covariances(grams, self.prior, classes)
            assert self.class_sums is not None
            kappa = self.class_sums[classes].T  # X'(y - 1/2)
            prior_part = precision(np.broadcast_to(self.prior.mean[:, None], mean.shape))
            mean = (matrices @ (kappa + prior_part).T[:, :, None])[:, :, 0].T
            assert isinstance(self._store, ClassFull)
            self._store.matrices[classes] = matrices
            self._store.logs[classes] = logs
            quadratic = np.einsum("mb,bm->b", mean, (grams @ mean.T[:, :, None])[:, :, 0])
            spread = np.einsum("bij,bij->b", grams, matrices)
            linear = np.einsum("mb,mb->b", kappa, mean)
        else:
            sums = design.squares_transposed(omega)  # the Gram matrices' diagonals
            if not self.newton:
                mean, eta = self._cavi_mean(classes, mean, eta, omega, precision)
            variances = 1.0 / (sums + self.precisions.diagonal(classes))
            assert isinstance(self._store, ClassDiagonal)
            self._store.values[classes] = variances.T
            quadratic = np.einsum("nb,nb,nb->b", omega, eta, eta)
            spread = np.einsum("mb,mb->b", sums, variances)
            linear = _updates.signed_sums(eta, self.labels, self.row_weights, classes)
        self.mean[classes] = mean.T
        values = linear + constant - 0.5 * (quadratic + spread)
        return self._share(classes, float(values.sum()), self._store)

    def _cavi_mean(
        self,
        classes: np.ndarray,
        mean: np.ndarray,
        eta: np.ndarray,
        omega: np.ndarray,
        precision: _newton.Precision,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean given q(omega) without an (M, M) matrix: mu + H^-1 gradient."""
        signs = np.where(self.labels[:, None] == classes, 0.5, -0.5)
        slope = self.row_weights[:, None] * signs - omega * eta
        gradient = self.design.transposed(slope) - precision(mean - self.prior.mean[:, None])
        solved = self._solve(classes, omega, gradient)
        return mean + solved.step, eta + solved.scores

    def _newton_steps(
        self, classes: np.ndarray, mean: np.ndarray, variance: np.ndarray | None, n_steps: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Up to `n_steps` Newton steps on the means of some classes; mean, scores and values."""
        link, labels, design, row_weights = self.link, self.labels, self.design, self.row_weights
        constant = _updates.constant_scores(design, mean)
        eta = design.product(mean) if constant is None else constant
        slope, curvature = np.empty_like(eta), np.empty(eta.shape, np.float32)
        prior_mean = self.prior.mean[:, None]
        for _ in range(n_steps):
            values = link.terms(eta, variance, labels, row_weights, classes, slope, curvature)
            precision = self._precision(classes)
            pull = precision(mean - prior_mean)
            penalties = 0.5 * np.einsum("mb,mb->b", mean - prior_mean, pull)
            if constant is None or design.weighted:
                gradient = design.transposed(slope) - pull
            else:  # sparse rows, before anything was learnt
                gradient = _updates.two_valued_transposed(design, slope, labels, classes) - pull
            preconditioner = self.precisions.preconditioner(classes, curvature)
            decrement = np.einsum("mb,mb->b", gradient, preconditioner(gradient))
            first = np.maximum(self._first_decrement[classes], decrement)
            self._first_decrement[classes] = first
            if (decrement <= 2.0 * self._negligible).all():
                if not link.has_row_variance and not self.prior.learnt:
                    self._done[classes] = True
                break
            direction = _newton.conjugate_gradients(
                design, curvature, precision, gradient, preconditioner,
                _newton.forcing(decrement, first),
            )  # fmt: skip
            stepped = _newton.line_search(
                lambda scores: link.values(scores, variance, labels, row_weights, classes),
                functools.partial(_penalties, precision, prior_mean),
                mean, eta, direction, values - penalties,
                np.einsum("mb,mb->b", gradient, direction.step),
            )  # fmt: skip
            new_penalties = _penalties(precision, prior_mean, stepped.mean)
            values = values - penalties + stepped.gain + new_penalties
            mean, eta, constant = stepped.mean, stepped.scores, None
        return mean, eta, values

    def _best_likelihood(self, classes: np.ndarray) -> float:
        eta = self.design.product(self.mean[classes].T)
        variance = self._row_variances(classes) if self.link.has_row_variance else None
        values = self.link.values(eta, variance, self.labels, self.row_weights, classes)
        if self.link.has_row_variance:
            return float(values.sum())
        return float((values - 0.5 * self._variance_cost(classes)).sum())

    # Inside

    def _share(
        self, classes: np.ndarray, likelihood: float, covariance: Covariance | None = None
    ) -> _Share:
        covariance = covariance or self.covariance
        log_determinants = np.broadcast_to(covariance.log_determinants(classes), len(classes))
        entropy = 0.5 * float(log_determinants.sum() + len(classes) * self.design.n_columns)
        absorbed = self.prior.absorb(classes, self.mean[classes], covariance)
        return _Share(likelihood, entropy, absorbed)

    def _variance_cost(self, classes: np.ndarray) -> np.ndarray:
        """sum_i s_i x_i' Sigma_k x_i = tr(X'SX Sigma_k), (B,)."""
        gram = self.precisions.gram if self.full else self.precisions.gram_diagonal
        return np.broadcast_to(self.covariance.traces(gram, classes), len(classes))

    def _row_variances(self, classes: np.ndarray) -> np.ndarray:
        variance = self.covariance.row_variances(self.design, classes)
        return np.ascontiguousarray(np.broadcast_to(variance, (self.design.n, len(classes))))

    def _precision(self, classes: np.ndarray) -> _newton.Precision:
        return _newton.precision_product(self.prior.precision(classes), self.prior.is_matrix)

    def _solve(
        self, classes: np.ndarray, weights: np.ndarray | None, right: np.ndarray
    ) -> _newton.Direction:
        curvature = self.row_weights[:, None] if weights is None else weights
        curvature = np.broadcast_to(curvature, (self.design.n, len(classes)))
        preconditioner = self.precisions.preconditioner(classes, curvature)
        tolerances = np.full(len(classes), 1e-10)
        return _newton.conjugate_gradients(
            self.design, weights, self._precision(classes), right, preconditioner, tolerances
        )

    def _map(self, function: Callable[[np.ndarray], Result]) -> list[Result]:
        """The function of every block, by threads over blocks."""
        return list(_in_threads(function, self.blocks, self.n_threads))

    def _start(self) -> np.ndarray:
        mean = np.tile(self.prior.mean, (self.n_classes, 1))
        if self.newton and self.design.intercept and not self.prior.mean.any():
            counts = np.bincount(self.labels, self.row_weights, self.n_classes)
            mean[:, -1] = self.link.score_of((counts + 0.5) / (self.design.total_weight + 1.0))
        return mean

    def _needs_class_sums(self) -> bool:
        return self.link.has_row_variance and self.full

    def _class_sums(self) -> np.ndarray:
        """X'S(y_k - 1/2) of every class, (K, M) (E.2.7a): a sum over the rows of the class."""
        where = (self.labels, np.arange(self.design.n))
        shape = (self.n_classes, self.design.n)
        indicator = scipy.sparse.csr_array((self.row_weights, where), shape=shape)
        sums = indicator @ self.design.rows
        dense = sums.toarray() if scipy.sparse.issparse(sums) else sums
        centred: np.ndarray = dense - 0.5 * self.design.sums()
        return centred

    def _storage(self) -> ClassFull | ClassDiagonal:
        m = self.design.n_columns
        if self.full:
            store = ClassFull(np.empty((self.n_classes, m, m)), np.empty(self.n_classes))
            store.pairs_dtype = self._pairs_dtype
            return store
        return ClassDiagonal(np.empty((self.n_classes, m)))


def _penalties(
    precision: _newton.Precision, prior_mean: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    deviation = mean - prior_mean
    penalties: np.ndarray = 0.5 * np.einsum("mb,mb->b", deviation, precision(deviation))
    return penalties


def _in_threads(
    function: Callable[[np.ndarray], Result], items: Sequence[np.ndarray], n_threads: int
) -> Iterable[Result]:
    if n_threads == 1 or len(items) == 1:
        return map(function, items)
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, items))
