"""A Gaussian posterior over the weights, by augment and reduce (A&R, end of sections 3.1 and 3.2).

q(w_kj) = N(mean_kj, V_kj), independent; prior N(0, p^2).  What is maximised is

    ELBO = sum_n E_q[bound of row n] - KL(q || prior),

where a row sees q through its scores only, psi_k ~ N(m_k, v_k) with v_k = sum_j x_j^2 V_kj.  For
bounds that are sums over classes the expectation needs no draws of weights (`expected_step`), so
sampling rows and classes is all the randomness there is.

**How q moves.**  Means take the solver's steps.  Precisions take natural-gradient steps.  With
information h = 1/V - 1/p^2 the ELBO is stationary where h is the expected curvature of the data,
H = sum_n c_nk x_nj^2 with c_nk = -2 d(row)/d(v_k); a natural gradient step is a running average of
unbiased estimates of H, as Algorithm 1's step on eta is one of eta.  It has no step size to tune
and, since c >= 0 for log-concave noise, V never leaves (0, p^2].

**How the KL is applied.**  Its gradient reaches all K x D coordinates in every step, the data only
a few.  Followed for a time t at a constant rate, the gradient of the KL is solved exactly by

    mean(t) = mean(0) exp(-rate t / p^2),        h(t) = h(0) exp(-rate t):

two flows that compose (t1 and then t2 is t1 + t2) and are stable for any rate.  So each coordinate
remembers when it was last visited and catches up on its next visit: the same as a KL step after
every row, at a cost that does not depend on the number of classes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.bounds import AugmentReduce
from bigcat.combinations import Parts
from bigcat.kernels.posterior import Clock, Gaussians, settle, train_rows
from bigcat.noise import Noise
from bigcat.numerics import random as _random
from bigcat.probabilities import score_scale
from bigcat.rows import Problem, class_major, is_sparse, squared_columns, weights_shape
from bigcat.solvers import DivergedError
from bigcat.verbs import rate

__all__ = ["WeightPosterior", "fit_weight_posterior"]

#: Coordinates that one kernel call visits: a fraction of a second, for Ctrl-C.
CHUNK_COORDINATES = 1 << 23
#: Solvers whose steps are by coordinate and leave the rows' local parameters to the bound.
SOLVERS = ("adagrad", "adaptive", "sgd")


def _check_parts(parts: Parts) -> Any:
    """The bound's tag, or an error that says what would do."""
    bound, solver = parts.bound, parts.solver
    if not isinstance(bound, AugmentReduce):
        raise ValueError(
            f"a posterior over the weights needs the augment-reduce bound, not {bound.name!r}"
        )
    if solver.name not in SOLVERS:
        raise ValueError(
            f"solver {solver.name!r} cannot move a posterior over the weights; choose one of "
            f"{', '.join(map(repr, SOLVERS))}"
        )
    # A Gaussian q(e) adds up with Gaussian scores; draws of either are not needed.
    return replace(bound, expectation="quadrature", variational="gaussian").lower(parts.noise)


# Where a fit starts.


def _start_scale(noise: Noise, n_classes: int) -> float:
    """Scores that give probabilities p are about this times log p."""
    return score_scale(noise, n_classes)


def _new_gaussians(mean, information, scale: float | None, has_state: bool) -> Gaussians:
    mean, information = mean.ravel(), information.ravel()
    point = scale is None or scale == math.inf
    precision = 0.0 if point else float(scale) ** -2.0  # type: ignore[arg-type]
    state = np.zeros(len(mean) if has_state else 0, mean.dtype)
    seen = np.full(len(mean), -1, np.int32)
    return Gaussians(mean, information, state, seen, precision, math.inf if point else precision)


class _Start:
    """Class frequencies, and q and the local parameters for them.

    At the frequencies f_k the softmax bound has the expected curvature sum_n 2 f_k (1 - f_k) x^2,
    half of it from the rows of class k: the information starts there, so that scores neither
    start with the variance of the prior, which may be huge, nor wait for the data to shrink it.
    """

    def __init__(self, problem: Problem, parts: Parts, prior_scale, intercept_scale) -> None:
        p, noise = problem, parts.noise
        dtype = p.rows.values.dtype
        sums = np.bincount(p.labels, p.row_weights, p.n_classes) + 0.5
        frequencies = sums / sums.sum()
        scale = _start_scale(noise, p.n_classes)
        logs = np.log(frequencies) * scale
        curvature = 2.0 * frequencies * (1.0 - frequencies) / scale**2
        squares = squared_columns(p.rows, p.n_features, p.row_weights)
        majors, minors = (squares, curvature) if is_sparse(p.rows) else (curvature, squares)
        shape = weights_shape(is_sparse(p.rows), p.n_features, p.n_classes)
        information = np.multiply.outer(majors, minors).astype(dtype)
        has_state = parts.solver.has_state
        self.weights = _new_gaussians(np.zeros(shape, dtype), information, prior_scale, has_state)
        total = p.row_weights.sum()
        intercept = (logs - logs.mean() if p.fit_intercept else 0.0 * logs).astype(dtype)
        self.intercepts = _new_gaussians(
            intercept.copy(),
            (total * curvature).astype(dtype),
            intercept_scale if p.fit_intercept else None,
            has_state,
        )
        variance = _squared_scores(self.weights, shape, is_sparse(p.rows), squares / total)
        variance += 1.0 / (self.intercepts.base + self.intercepts.information)
        self.local = self._local(parts, intercept, variance)[p.labels]

    @staticmethod
    def _local(parts: Parts, intercept: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Local parameters of a row with mean squares as features, for each label."""
        bound = parts.bound
        if not parts.noise.softmax:
            bound = replace(bound, variational="gaussian")  # type: ignore[call-arg]
            return bound.initial_local(parts.noise, intercept)
        table = bound.initial_local(parts.noise, intercept + 0.5 * variance)
        table[:, 0] += variance
        return table


def _squared_scores(q: Gaussians, shape, feature_major: bool, squares: np.ndarray) -> np.ndarray:
    """sum_j squares_j V_kj for every class, one major row at a time."""
    information = q.information.reshape(shape)
    if not feature_major:
        return np.array([squares @ (1.0 / (q.base + h)) for h in information])
    total = np.zeros(shape[1])
    for square, h in zip(squares, information):
        total += square / (q.base + h)
    return total


def natural_rate(epoch: int) -> float:
    """Natural-gradient step a pass over the data, of q(w)'s precisions and of the local parameters.

    Slower to fall than (1 + t)^-0.9 (A&R section 4), which keeps too much of the first epochs: an
    eta that is too large hides curvature, and the scales stay too large with it.  At K = 300 the
    ELBO is half as far from its optimum after 100 epochs; a power of 0.5 is too noisy.
    """
    return float((2.0 + epoch) ** -0.7)


# The fit, and what it gives.


@dataclass(frozen=True)
class WeightPosterior:
    """Independent Gaussians over the weights, and how the fit came to them.

    Attributes
    ----------
    mean, scale : (n_classes, n_features) arrays
        Means and standard deviations.
    intercept_mean, intercept_scale : (n_classes,) arrays
        Standard deviations of 0 say that the intercepts are point estimates.
    history : list of dict
        One row an epoch: ``epoch, seconds, compile_seconds, elbo, expected_bound, kl,
        validation_log_likelihood``, the last four a row of data.  `elbo` is unbiased over classes;
        `kl` and so `elbo` are NaN in epochs without a pass over all weights.
    """

    mean: np.ndarray
    scale: np.ndarray
    intercept_mean: np.ndarray
    intercept_scale: np.ndarray
    history: list[dict[str, float]]

    def score_moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the scores, (n, n_classes) each: for blocks of rows."""
        squares = X.multiply(X) if scipy.sparse.issparse(X) else np.square(X)
        means = np.asarray(X @ self.mean.T) + self.intercept_mean
        variances = np.asarray(squares @ np.square(self.scale).T) + np.square(self.intercept_scale)
        return means, variances

    def sample_scores(self, X: Any, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw scores of a block of rows, (n, n_rows, n_classes).

        Weights are independent, so scores of one row are too: exact draws of what a row's
        predictive probabilities need, without draws of weights.  Rows are drawn apart.
        """
        means, variances = self.score_moments(X)
        return means + np.sqrt(variances) * rng.standard_normal((n, *means.shape))


def fit_weight_posterior(
    problem: Problem,
    parts: Parts,
    *,
    prior_scale: float = 1.0,
    intercept_scale: float | None = None,
    max_epochs: int = 50,
    shuffle: bool = True,
    random_state: np.random.RandomState | None = None,
    on_epoch: Callable[[dict[str, float]], Any] | None = None,
    judge: Callable[[np.ndarray, np.ndarray], float] | None = None,
) -> WeightPosterior:
    """Fit q(w) by sampling rows and classes; batches are single rows.

    Parameters
    ----------
    problem : Problem
        `l2` is not used: the prior takes its place.
    parts : Parts
        With the augment-reduce bound, any noise and sampler, and a solver for the means.  For
        noise other than Gumbel q(e) is Gaussian and expectations are taken by quadrature,
        whatever the bound says: then there is nothing to draw but rows and classes.
    prior_scale : float
        Standard deviation of the weights' prior.  Prior scores have the variance
        prior_scale^2 |x|^2; many times 1 makes the bound loose.
    intercept_scale : float or None
        Standard deviation of the intercepts' prior.  None or infinity, a flat prior, makes them
        point estimates: a flat prior's posterior would be improper for classes without rows.
    on_epoch : callable
        Called with each row of the history; a true answer stops the fit.
    judge : callable
        Of the means of weights and intercepts after each epoch: how good they are on rows that are
        not in `problem`.  The best epoch's posterior is returned.

    Returns
    -------
    WeightPosterior

    Notes
    -----
    Scales are on the small side.  q(w) and the rows' q(e) are independent, so a precision is the
    information of the *augmented* data: for the softmax, expected curvatures p_k (other classes)
    and 1 - p_y (the label) in place of p_k (1 - p_k), twice as much on average.  With many rows
    variances are half of what the inverse of the Hessian's diagonal says.

    Keep the bound's `band` infinite: a finite one ties eta to the sample, and curvatures with it.

    Memory: means, information and the solver's state in the precision of X, and a 4-byte stamp a
    weight.
    """
    if not 0.0 < prior_scale < math.inf:
        raise ValueError(f"prior_scale={prior_scale!r} must be a finite number above 0")
    if intercept_scale is not None and not intercept_scale > 0.0:
        raise ValueError(f"intercept_scale={intercept_scale!r} must be a number above 0, or None")
    run = _Run(problem, parts, prior_scale, intercept_scale, shuffle, random_state)
    best, best_score = None, -math.inf
    for epoch in range(max_epochs):
        row = run.one_epoch(epoch, last=epoch == max_epochs - 1 or judge is not None)
        if judge is not None:
            now = run.posterior()
            row["validation_log_likelihood"] = score = judge(now.mean, now.intercept_mean)
            if score > best_score:
                means = now.mean.copy(order="K"), now.intercept_mean.copy()
                best = replace(now, mean=means[0], intercept_mean=means[1])
                best_score = score
        if on_epoch is not None and on_epoch(row):
            break
    return run.posterior() if best is None else best


class _Run:
    """What a fit carries from epoch to epoch."""

    def __init__(self, problem, parts, prior_scale, intercept_scale, shuffle, random_state):
        self.problem, self.shuffle = problem, shuffle
        self.random_state = random_state or np.random.RandomState(0)
        self.bound, self.solver = _check_parts(parts), parts.solver.lower()
        self.sampler = parts.sampler.lower(problem)
        self.width = parts.sampler.width(problem.n_classes, problem.head)
        start = _Start(problem, parts, prior_scale, intercept_scale)
        self.weights, self.intercepts, self.local = start.weights, start.intercepts, start.local
        self.shape = weights_shape(is_sparse(problem.rows), problem.n_features, problem.n_classes)
        self.rng = _random.new_state(self.random_state)
        self.n_rows, self.total = problem.n_rows, float(problem.row_weights.sum())
        self.objective_scale = self.total if parts.solver.gradient == "mean" else 1.0
        self.order = np.arange(self.n_rows)
        self.iteration, self.now, self.seconds = 0, 0, 0.0
        visited = problem.rows.values.size * (self.width + 1)
        self.chunk = max(1, int(CHUNK_COORDINATES * self.n_rows / max(visited, 1)))
        # A pass over all weights, for the KL, as often as it is no dearer than the data.
        self.settle_every = max(1, round(start.weights.mean.size / max(visited, 1)))
        self.history: list[dict[str, float]] = []
        started = time.perf_counter()
        self._train(0, 0, 0)
        self.compile_seconds = time.perf_counter() - started

    def one_epoch(self, epoch: int, last: bool) -> dict[str, float]:
        started = time.perf_counter()
        if self.shuffle:
            self.order = self.random_state.permutation(self.n_rows)
        total = 0.0
        for first in range(0, self.n_rows, self.chunk):
            total += self._train(first, min(first + self.chunk, self.n_rows), epoch)
            if not np.isfinite(total):
                raise DivergedError(
                    f"the expected bound became {total} in epoch {epoch + 1}; lower "
                    "learning_rate or prior_scale, or scale the columns of X to similar size"
                )
        kl = math.nan
        # The flow's rates change with the epoch, and stamps are int32.
        if last or (epoch + 1) % self.settle_every == 0 or self.now > 1 << 30:
            kl = self._settle(epoch)
        self.seconds += time.perf_counter() - started
        row = {
            "epoch": epoch + 1,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "elbo": (total - kl) / self.total,
            "expected_bound": total / self.total,
            "kl": kl / self.total,
            "validation_log_likelihood": math.nan,
        }
        self.history.append(row)
        return row

    def _clock(self, epoch: int) -> Clock:
        return Clock(self.now, 1.0 / self.objective_scale, natural_rate(epoch) / self.n_rows)

    def _train(self, first: int, last: int, epoch: int) -> float:
        p, clock = self.problem, self._clock(epoch)
        value = train_rows(
            p.rows,
            p.labels,
            p.row_weights,
            self.order,
            first,
            last,
            self.bound,
            self.sampler,
            self.solver,
            self.rng,
            self.weights,
            self.intercepts,
            p.fit_intercept,
            self.local,
            self.shape[1],
            self.width,
            clock,
            self.n_rows / self.objective_scale,
            # What one row's share of the flow forgets, so that a constant stays what it is.
            -self.n_rows * math.expm1(-clock.information_share),
            self.iteration,
            epoch,
            natural_rate(epoch),
        )
        self.iteration += last - first
        self.now += last - first
        return value

    def _settle(self, epoch: int) -> float:
        step_rate = rate(self.solver, self.iteration, epoch)
        clock = self._clock(epoch)
        kl = settle(self.weights, clock, self.solver, step_rate)
        if self.problem.fit_intercept:
            kl += settle(self.intercepts, clock, self.solver, step_rate)
        self.now = 0
        return kl

    def posterior(self) -> WeightPosterior:
        if self.now:  # stopped between two passes over all weights
            self._settle(len(self.history) - 1)
        rows, w, b = self.problem.rows, self.weights, self.intercepts
        scale = 1.0 / np.sqrt(w.base + w.information, dtype=w.mean.dtype)
        return WeightPosterior(
            class_major(w.mean.reshape(self.shape), rows),
            class_major(scale.reshape(self.shape), rows),
            b.mean,
            1.0 / np.sqrt(b.base + b.information),
            self.history,
        )
