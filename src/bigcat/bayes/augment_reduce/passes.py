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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bigcat.bayes.priors.binary import best_precision
from bigcat.combinations import Parts
from bigcat.kernels.posterior import (
    Clock,
    Gaussians,
    PosteriorArrays,
    PosteriorPlan,
    settle,
    train_posterior,
)
from bigcat.kernels.train_rows import MethodTags, Span, TrainingRows
from bigcat.numerics.random import new_state
from bigcat.probabilities import score_scale
from bigcat.rows import Problem, class_major, is_sparse, squared_columns, weights_shape
from bigcat.solvers import DivergedError
from bigcat.training import progress as _progress
from bigcat.training.history import History
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer, run_epochs
from bigcat.training.record import Record
from bigcat.training.snapshot import (
    Place,
    Snapshot,
    arrays_of,
    as_random_state,
    fill,
    of_random_state,
    position,
)
from bigcat.training.stopping import EarlyStopping
from bigcat.verbs import rate

__all__ = ["WeightPosterior", "fit_weight_posterior"]

#: Coordinates that one kernel call visits: a fraction of a second, for Ctrl-C.
CHUNK_COORDINATES = 1 << 23
#: Weights that are summed at a time.
BLOCK = 1 << 20
#: Stamps of visits are int32; after this many rows the pending steps of all weights are applied.
MAX_STAMPS = 1 << 30
#: Counters of a fit, kept in checkpoints.
_COUNTS = ("epochs_made", "epoch", "iteration", "now", "done", "value", "kl", "last_kl")

#: Says how good means of weights and intercepts are, by rows that are not in the problem.
ValidationScore = Callable[[np.ndarray, np.ndarray], float]


def bound_tag(parts: Parts) -> Any:
    """Return the augment-reduce bound as kernels see it."""
    # A Gaussian q(e) adds up with Gaussian scores; draws of either are not needed.
    options: dict[str, Any] = {"expectation": "quadrature", "variational": "gaussian"}
    return replace(parts.bound, **options).lower(parts.noise)


# Start of a fit


def _new_gaussians(
    mean: np.ndarray, information: np.ndarray, scale: float | None, has_state: bool
) -> Gaussians:
    """Return Gaussians of prior deviation `scale`; points where it is None."""
    mean, information = mean.ravel(), information.ravel()
    precision = 0.0 if scale is None else float(scale) ** -2.0
    base = math.inf if scale is None else precision
    state = np.zeros(len(mean) if has_state else 0, mean.dtype)
    seen = np.full(len(mean), -1, np.int32)
    return Gaussians(mean, information, state, seen, precision, base)


class Start:
    """Class frequencies, and q and the local parameters for them.

    At the frequencies f_k the softmax bound has the expected curvature sum_n 2 f_k (1 - f_k) x^2,
    half of it from the rows of class k: the information starts there, so that scores neither
    start with the variance of the prior, which may be huge, nor wait for the data to shrink it.
    """

    def __init__(
        self,
        problem: Problem,
        parts: Parts,
        prior_scale: float,
        intercept_scale: float,
    ) -> None:
        p, noise = problem, parts.noise
        dtype = p.rows.values.dtype
        sums = np.bincount(p.labels, p.row_weights, p.n_classes) + 0.5
        frequencies = sums / sums.sum()
        scale = score_scale(noise, p.n_classes)
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
            gaussian: dict[str, Any] = {"variational": "gaussian"}
            return replace(bound, **gaussian).initial_local(parts.noise, intercept)
        table = bound.initial_local(parts.noise, intercept + 0.5 * variance)
        table[:, 0] += variance
        return table


def _squared_scores(
    q: Gaussians, shape: tuple[int, int], feature_major: bool, squares: np.ndarray
) -> np.ndarray:
    """sum_j squares_j V_kj for every class, one major row at a time."""
    information = q.information.reshape(shape)
    if not feature_major:
        return np.array([squares @ (1.0 / (q.base + h)) for h in information])
    total = np.zeros(shape[1])
    for square, h in zip(squares, information):
        total += square / (q.base + h)
    return total


def natural_rate(epoch: int) -> float:
    """Natural-gradient step per pass over the rows, of q(w)'s precisions and of local parameters.

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
        Standard deviations are 0 without intercepts.
    prior_scale, prior_intercept_scale : float
        Standard deviations of the prior, as given or learned.
    elbo : float
        In nats, of all rows together, as last estimated.
    history : History
        One row per epoch: ``epoch, seconds, compile_seconds, elbo, expected_bound, kl,
        validation_log_likelihood``, the last four per row of data.  `elbo` is unbiased over
        classes; `kl` and so `elbo` are NaN in epochs without a pass over all weights.
    """

    mean: np.ndarray
    scale: np.ndarray
    intercept_mean: np.ndarray
    intercept_scale: np.ndarray
    prior_scale: float = math.nan
    prior_intercept_scale: float = math.nan
    elbo: float = math.nan
    history: History = field(default_factory=History)

    def snapshot(self) -> Snapshot:
        """Means and standard deviations, of the prior too."""
        arrays = ("mean", "scale", "intercept_mean", "intercept_scale")
        numbers = ("prior_scale", "prior_intercept_scale")
        return Snapshot(
            {name: getattr(self, name) for name in numbers},
            {name: getattr(self, name) for name in arrays},
        )

    def with_own_means(self) -> WeightPosterior:
        """Return a copy that further training does not change."""
        means = self.mean.copy(order="K"), self.intercept_mean.copy()
        return replace(self, mean=means[0], intercept_mean=means[1])


def fit_weight_posterior(
    problem: Problem,
    parts: Parts,
    *,
    prior_scale: float = 1.0,
    intercept_scale: float = 1.0,
    learns_scales: bool = False,
    max_epochs: int = 50,
    shuffle: bool = True,
    random_state: np.random.RandomState | None = None,
    stop: EarlyStopping | None = None,
    validation_score: ValidationScore | None = None,
    progress: bool | str = False,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
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
    intercept_scale : float
        Standard deviation of the intercepts' prior.
    learns_scales : bool
        Both scales are where the fit begins; after each pass over all weights they become what
        maximises the ELBO.
    stop : EarlyStopping, optional
        Stopping rule for the ELBO of each epoch, or for its `validation_score`; None makes all
        epochs.
    validation_score : callable
        Score of the means of weights and intercepts on validation rows, after each epoch. The
        posterior of the best epoch is returned.
    progress : {"auto", True, False}
        A progress bar.
    checkpointer : Checkpointer
        Writes down how far the fit has come.

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

    Memory: means, information and the solver's state in the precision of X, and a 4-byte stamp
    per weight.
    """
    passes = PosteriorPasses(
        problem,
        parts,
        prior_scale,
        intercept_scale,
        shuffle=shuffle,
        random_state=random_state or np.random.RandomState(0),
        learns_scales=learns_scales,
        settles_always=validation_score is not None,
    )
    with _progress.reporter(progress, max_epochs, parts.bound.name, "ELBO") as report:
        record = Record(stop, report, max_epochs)
        run_epochs(passes, max_epochs, _Watched(passes, record, validation_score), checkpointer)
    return _result(passes, record, validation_score is not None)


def _result(passes: PosteriorPasses, record: Record, validated: bool) -> WeightPosterior:
    """Return the last epoch's posterior, or the best one's; DivergedError unless finite."""
    best: WeightPosterior | None = record.best.kept
    found = passes.posterior() if best is None else best
    elbos = record.history["elbo"][: record.best.epoch if validated else None]
    finite = elbos[np.isfinite(elbos)]
    if not len(finite) or not np.isfinite(found.mean.sum() + found.intercept_mean.sum()):
        raise DivergedError(
            "the posterior is not finite; lower learning_rate or the prior's scale, or scale "
            "the columns of X to similar size"
        )
    elbo = float(finite[-1] * passes.total_weight)
    return replace(found, elbo=elbo, history=record.history)


class _Watched:
    """Listener that passes the ELBO or the validation score of each epoch to a record."""

    def __init__(
        self, passes: PosteriorPasses, record: Record, validation_score: ValidationScore | None
    ) -> None:
        self.passes, self.record, self.validation_score = passes, record, validation_score
        self.compiled = record.compiled

    def chunk_done(self, part: float, value: float) -> None:
        self.record.chunk_done(part, value - self.passes.last_kl / self.passes.total_weight)

    def epoch_done(self, value: float, seconds: float) -> bool:
        """Record the epoch, each figure from its sums: (a - b) / n is not a / n - b / n."""
        p = self.passes
        columns = {
            "elbo": (p.value - p.kl) / p.total_weight,
            "expected_bound": p.value / p.total_weight,
            "kl": p.kl / p.total_weight,
            "validation_log_likelihood": math.nan,
        }
        if self.validation_score is None:
            return self.record.add(seconds, columns, watched=columns["elbo"])
        now = p.posterior()
        score = self.validation_score(now.mean, now.intercept_mean)
        columns["validation_log_likelihood"] = score
        return self.record.add(seconds, columns, watched=score, keep=now.with_own_means)

    def snapshot(self) -> Snapshot:
        kept = self.record.snapshot()
        if self.record.best.kept is not None:
            kept.put("best", self.record.best.kept.snapshot())
        return kept

    def restore(self, kept: Snapshot) -> None:
        best = kept.part("best")
        arrays = {name: array.copy() for name, array in best.arrays.items()}
        known: dict[str, Any] = {**arrays, **best.numbers}
        self.record.restore(kept, WeightPosterior(**known) if known else None)


class PosteriorPasses:
    """Stochastic passes over the rows of a problem: what the loop drives.

    Parameters
    ----------
    settles_always : bool
        A pass over all weights after each epoch, whatever it costs.

    Attributes
    ----------
    value, kl : float
        Of the last epoch: the expected bound, and the KL, NaN without a pass over all weights.
    last_kl : float
        The KL when it was last known; 0 before.
    """

    def __init__(
        self,
        problem: Problem,
        parts: Parts,
        prior_scale: float,
        intercept_scale: float,
        *,
        shuffle: bool,
        random_state: np.random.RandomState,
        learns_scales: bool = False,
        settles_always: bool = False,
    ) -> None:
        self.problem, self.shuffle, self.random_state = problem, shuffle, random_state
        self.learns_scales, self.remembers = learns_scales, False
        self.bound, self.solver = bound_tag(parts), parts.solver.lower()
        self.sampler = parts.sampler.lower(problem)
        self.scratch = parts.sampler.scratch
        self.width = parts.sampler.width(problem.n_classes, problem.head)
        start = Start(problem, parts, prior_scale, intercept_scale)
        self.weights, self.intercepts, self.local = start.weights, start.intercepts, start.local
        self.shape = weights_shape(is_sparse(problem.rows), problem.n_features, problem.n_classes)
        self.rng = new_state(random_state)
        self.n_rows, self.total_weight = problem.n_rows, float(problem.row_weights.sum())
        self.objective_scale = self.total_weight if parts.solver.gradient == "mean" else 1.0
        self.order = np.arange(self.n_rows)
        self.epochs_made, self.epoch, self.n_epochs = 0, 0, 1
        self.iteration, self.now, self.done = 0, 0, 0
        self.value, self.kl, self.last_kl = 0.0, math.nan, 0.0
        visited = problem.rows.values.size * (self.width + 1)
        self.chunk_rows = max(1, int(CHUNK_COORDINATES * self.n_rows / max(visited, 1)))
        # A pass over all weights, for the KL, as often as it is no dearer than the data.
        often = max(1, round(start.weights.mean.size / max(visited, 1)))
        self.settle_every = 1 if settles_always else often

    # Interface for the loop

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Reset the sums of an epoch and shuffle the rows."""
        self.epoch, self.n_epochs = epoch, n_epochs
        self.value, self.kl, self.done = 0.0, math.nan, 0
        if self.remembers:
            self.before_epoch = position(self.random_state)
        if self.shuffle:
            self.order = self.random_state.permutation(self.n_rows)

    def chunk(self, first: int, seconds: float | None) -> int:
        """Return the end of the next chunk of rows."""
        return first + self.chunk_rows

    def train(self, first: int, last: int) -> float:
        """Visit some rows, and return their expected bound."""
        if last == 0:  # the call that compiles: the pass over all weights too
            arrays = ("mean", "information", "state", "seen")
            nothing = {name: getattr(self.weights, name)[:0] for name in arrays}
            settle(self.weights._replace(**nothing), self._clock(), self.solver, 1.0)
        p, epoch, clock = self.problem, self.epoch, self._clock()
        plan = PosteriorPlan(
            n_minors=self.shape[1],
            width=self.width,
            fit_intercept=p.fit_intercept,
            gradient_scale=self.n_rows / self.objective_scale,
            # One row's share of the flow's decay, so that a constant stays constant.
            information_gain=-self.n_rows * math.expm1(-clock.information_share),
        )
        value = train_posterior(
            TrainingRows(p.rows, p.labels, p.row_weights, self.order),
            Span(first, last, self.iteration, epoch, 1),
            plan,
            MethodTags(self.bound, self.sampler, self.solver),
            self.rng,
            PosteriorArrays(self.weights, self.intercepts, self.local),
            clock,
            natural_rate(epoch),
        )
        self.iteration += last - first
        self.now += last - first
        self.done = last
        self.value += value
        return float(value)

    def end_epoch(self) -> None:
        """Make a pass over all weights where one is due; none after an interruption."""
        if self.done < self.n_rows:
            return
        due = self.epoch + 1 == self.n_epochs or (self.epoch + 1) % self.settle_every == 0
        # The flow's rates change with the epoch, and stamps are int32.
        if due or self.now > MAX_STAMPS:
            self.kl = self.last_kl = self._settle()

    def snapshot(self, ended: bool) -> Snapshot:
        """Return the solver state."""
        numbers = {name: getattr(self, name) for name in _COUNTS}
        numbers["precisions"] = [
            [q.prior_precision, q.base] for q in (self.weights, self.intercepts)
        ]
        now = position(self.random_state)
        kept = Snapshot(numbers, self._arrays())
        # An epoch that is under way is begun again, and then draws the same order of rows.
        return kept.put("random", of_random_state(now if ended else self.before_epoch))

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        """Continue from a solver state."""
        self.random_state.set_state(as_random_state(kept.part("random")))
        if place.epoch < n_epochs:
            self.begin_epoch(place.epoch, n_epochs)
        for name in _COUNTS:
            setattr(self, name, kept.numbers[name])
        of_weights, of_intercepts = kept.numbers["precisions"]
        self.weights = self.weights._replace(prior_precision=of_weights[0], base=of_weights[1])
        self.intercepts = self.intercepts._replace(
            prior_precision=of_intercepts[0], base=of_intercepts[1]
        )
        for name, array in self._arrays().items():
            fill(array, kept.arrays[name])

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays that a row changes."""
        found = {"local": self.local, "rng": self.rng}
        for of, q in (("weights", self.weights), ("intercepts", self.intercepts)):
            for name in ("mean", "information", "state", "seen"):
                found[f"{of}.{name}"] = getattr(q, name)
        found |= dict(arrays_of(self.sampler, self.scratch, "sampler"))
        return found

    def diverged(self, value: float) -> str:
        """Return the message for a bound that is not finite."""
        return (
            f"the expected bound became {value} in epoch {self.epoch + 1}; lower learning_rate or "
            "prior_scale, or scale the columns of X to similar size"
        )

    # Results

    def posterior(self) -> WeightPosterior:
        """Return the present posterior; its means change with further training."""
        if self.now:  # stopped between two passes over all weights
            self._settle()
        rows, w, b = self.problem.rows, self.weights, self.intercepts
        scale = 1.0 / np.sqrt(w.base + w.information, dtype=w.mean.dtype)
        return WeightPosterior(
            class_major(w.mean.reshape(self.shape), rows),
            class_major(scale.reshape(self.shape), rows),
            b.mean,
            1.0 / np.sqrt(b.base + b.information),
            w.prior_precision**-0.5,
            b.prior_precision**-0.5 if b.prior_precision > 0.0 else math.inf,
        )

    def _clock(self) -> Clock:
        return Clock(self.now, 1.0 / self.objective_scale, natural_rate(self.epoch) / self.n_rows)

    def _settle(self) -> float:
        """Apply the pending KL steps to all weights; return the KL divergence."""
        step_rate = rate(self.solver, self.iteration, self.epoch)
        clock = self._clock()
        kl = settle(self.weights, clock, self.solver, step_rate)
        if self.problem.fit_intercept:
            kl += settle(self.intercepts, clock, self.solver, step_rate)
        self.now = 0
        if self.learns_scales:  # the KL is that of the scales so far
            self.weights = _with_best_scale(self.weights)
            if self.problem.fit_intercept:
                self.intercepts = _with_best_scale(self.intercepts)
        return float(kl)


def _with_best_scale(q: Gaussians) -> Gaussians:
    """Return copies with the prior's precision that maximises the ELBO; points stay as they are."""
    if not q.base < math.inf:
        return q
    squares = 0.0
    for start in range(0, q.mean.size, BLOCK):  # no copy of all weights
        part = slice(start, start + BLOCK)
        squares += float(np.square(q.mean[part], dtype=np.float64).sum())
        squares += float((1.0 / (q.base + q.information[part].astype(np.float64))).sum())
    precision = best_precision(q.mean.size, squares)
    return q._replace(prior_precision=precision, base=precision)
