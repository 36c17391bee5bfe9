"""A posterior around the fit of `LinearClassifier`.

Where weights are many, what a fit of low rank, or a sum of several fits, has learnt of the features
predicts better than any mode with a prior of independent weights.  So such a fit is the mean, with
a factor, and the curvature of the likelihood there, of all weights, and a prior say how sure it is.
The prior's scale is what the fit implies: the scores' variance is that of the fitted scores and
what is unknown of them together.  Rows that a first fit has not seen say how much the scores vary,
what their factor is, and where a wider prior would predict worse.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import logsumexp

from bigcat.auto import Parameters, plan_for
from bigcat.bayes._arrays import Floats
from bigcat.bayes._column_sizes import ColumnSizes
from bigcat.bayes._design import Design
from bigcat.bayes._expected_softmax import log_expected_of, spread_normals
from bigcat.bayes._laplace_plan import ENTRIES_PER_ROW, Plan, Work, low_rank_bytes
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import Curvature
from bigcat.bayes._own_rows import curvature_of_own_rows
from bigcat.bayes.covariance import LowRank
from bigcat.bayes.method import Task
from bigcat.linear import LinearModel
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.training import memory
from bigcat.training.config import FitPlan
from bigcat.training.data import TrainingData, split, without_duplicates
from bigcat.training.ensemble import train
from bigcat.training.start import scores_of_frequencies

#: Held-out rows: a part of all, at the most, at the least, and so that these are all scores.
HELD_OUT_PART, MOST_HELD_OUT, LEAST_HELD_OUT, MOST_SCORES = 10, 1_000, 200, 1 << 21
#: Where they are at most one in so many, a fit without them is as good as one with them.
FEW_HELD_OUT = 100
#: Draws of their scores: so that these are all, but not too few or many.
DRAWN, LEAST_DRAWS, MOST_DRAWS = 1 << 23, 4, 32
#: Scales that are tried, standard deviations of scores under the prior, and steps of the factor.
SCALES = 2.0 ** np.arange(-2.0, 4.1, 0.5)
STEP = 1.08
#: What is believed of the factor's logarithm before: it is 0, with this standard deviation.
DEVIATION_OF_FACTOR = 0.3
#: How much of the held-out log-likelihood a wider prior may cost.
MAY_COST = 0.007
#: The scale where no row can be held out.
USUAL_SCALE = 1.0
#: Seconds that the curvature may take with all classes of all rows.
MOST_SECONDS_OF_CURVATURE = 30.0


class Chosen(NamedTuple):
    """What held-out rows say.

    Parameters
    ----------
    scale : float
        Standard deviation of scores under the prior.
    factor : float
        Of the scores' departure from class frequencies.
    averaged, plug_in : float
        Mean log-likelihoods of the rows.
    n_rows : int
    """

    scale: float
    factor: float
    averaged: float
    plug_in: float
    n_rows: int


class Tried(NamedTuple):
    """A scale of the prior, the best factor with it, and what comes of both.

    `implied` is the scale of a prior under which scores vary as they do in all: fitted, and
    unknown.
    """

    scale: float
    factor: float
    value: float
    implied: float


class Trial(NamedTuple):
    """A fit to a part of the rows, and what it makes of the others."""

    model: LinearModel
    kept: TrainingData
    held_out: TrainingData
    scores: Floats  # of the held-out rows

    def value(self) -> float:
        """The mean log-likelihood of the held-out rows, of single weights."""
        weights = self.held_out.row_weights
        return float(weights @ self._values(self.scores) / weights.sum())

    def is_ahead_of(self, scores: Floats) -> bool:
        """Is it better than other scores of the held-out rows, by more than a standard error?"""
        gains = self._values(self.scores) - self._values(scores)
        weights = self.held_out.row_weights / self.held_out.row_weights.sum()
        mean = float(weights @ gains)
        error = float(np.sqrt(np.square(weights) @ np.square(gains - mean)))
        return mean > error

    def _values(self, scores: Floats) -> Floats:
        own = scores[np.arange(len(scores)), self.held_out.labels]
        values: Floats = own - logsumexp(scores, axis=1)
        return values


class Found(NamedTuple):
    """Weights of all columns with the intercept, (K, M), their covariance, and what decided."""

    mean: Floats
    covariance: LowRank
    chosen: Chosen
    rank: int | None


@dataclass(frozen=True)
class AroundLinear:
    """A fit of `LinearClassifier`, and how sure it is.

    Parameters
    ----------
    task : bigcat.bayes.method.Task
    noise : Noise
    rank : int or "auto"
    n_directions : int
    """

    task: Task
    noise: Noise
    rank: int | Literal["auto"]
    n_directions: int

    def run(self, trial: Trial | None) -> Found:
        """The posterior from all rows, its scale and factor from the trial if there is one."""
        chosen, sample, curvature = Chosen(USUAL_SCALE, 1.0, np.nan, np.nan, 0), None, None
        if trial is not None:
            curvature = self.curvature(trial.model, trial.kept)
            chosen = self.choose(trial, curvature)
            if FEW_HELD_OUT * trial.held_out.n_rows <= self.task.sample.n_rows:
                model, sample = trial.model, trial.kept
        if sample is None or curvature is None:
            curvature = None  # before the next is made
            model, sample = self.fit(self.task.sample), self.task.sample
            curvature = self.curvature(model, sample)
        covariance = curvature.covariance(self.n_directions, chosen.scale**-2.0)
        mean = self.weights(model)
        self.multiply(mean, chosen.factor)
        return Found(mean, covariance, chosen, model.weights.kind.rank)

    def trial(self) -> Trial | None:
        """A fit without some rows; None where no row can be held out, a row per class or so."""
        sample, n_classes = self.task.sample, self.task.n_classes
        n = sample.n_rows
        wanted = min(max(1, n // HELD_OUT_PART), most_held_out(n_classes))
        folds = split(sample, self.task.random_state, wanted / n)
        if not folds:
            return None
        kept, held = sample.take(folds[0].kept), sample.take(folds[0].held_out)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the fit to all rows says it again
            model = self.fit(kept)
        scores = np.concatenate([some for _, some in model.score_blocks(held.X)])
        return Trial(model, kept, held, scores)

    def choose(self, trial: Trial, curvature: Curvature) -> Chosen:
        """The scale that the fit implies, or the widest below it that predicts well."""
        held = trial.held_out
        judge = _Judge(trial.scores, self.base(), held, self.task.random_state)
        rows, everyone = Design(held.X, self.task.fit_intercept), slice(0, self.task.n_classes)
        unit = curvature.prior_variances(rows).mean() - self.task.fit_intercept
        fitted = judge.fitted_variance()
        tried: list[Tried] = []
        for scale in SCALES:
            variances = curvature.covariance(0, scale**-2.0).row_variances(rows, everyone)
            factor, value = judge.best(tried[-1].factor if tried else 1.0, variances)
            implied = np.sqrt((fitted + variances.mean()) / unit)
            tried.append(Tried(scale, factor, value, float(implied)))
            best = max(one.value for one in tried)
            if implied <= scale or value < best * (1.0 + MAY_COST):
                break
        scale, factor, averaged = _between(tried)
        return Chosen(scale, factor, averaged, trial.value(), held.n_rows)

    # Parts

    def fit(self, sample: TrainingData) -> LinearModel:
        """The fit of `LinearClassifier` to some rows."""
        task = self.task
        parameters = Parameters(
            self.noise,
            rank=self.rank,
            fit_intercept=task.fit_intercept,
            n_threads=task.n_threads,
        )
        sample = without_duplicates(sample)
        plan = _plan(parameters, Sizes.of(sample.X, task.n_classes))
        result = train(plan, sample, task.classes, task.random_state)
        return LinearModel(result.weights, result.intercept, self.noise, task.n_threads)

    def weights(self, model: LinearModel) -> Floats:
        """Of all columns, the intercept last, (K, M)."""
        dense = model.weights.dense()
        out = np.empty((len(dense), dense.shape[1] + self.task.fit_intercept))
        out[:, : dense.shape[1]] = dense
        if self.task.fit_intercept:
            out[:, -1] = model.intercept
        return out

    def curvature(self, model: LinearModel, sample: TrainingData) -> Curvature:
        """At the fit, with a prior under which the scores of a class have deviation 1."""
        task = self.task
        design = Design(sample.X, task.fit_intercept, sample.row_weights)
        likelihood = Likelihood(design, sample.labels, self.noise, task.n_classes, task.n_threads)
        columns = ColumnSizes.of(design)
        prior = columns.sizes * columns.squared_length
        prior = np.append(prior, 1.0)[None] if task.fit_intercept else prior[None]
        work = Work.of(Sizes.of(sample.X, task.n_classes), task.fit_intercept, self.noise)
        if work.curvature_seconds() > MOST_SECONDS_OF_CURVATURE:
            return curvature_of_own_rows(likelihood, self.weights(model), prior, task.random_state)
        return Curvature.at(likelihood, self.weights(model), prior)

    def multiply(self, weights: Floats, factor: float) -> None:
        """Make the departure from the class frequencies so many times as large."""
        weights *= factor
        if self.task.fit_intercept:
            weights[:, -1] += (1.0 - factor) * self.base()

    def base(self) -> Floats:
        """Scores of a model that knows the class frequencies only."""
        _, labels, row_weights = self.task.sample[:3]
        if not self.task.fit_intercept:
            return np.zeros(self.task.n_classes)
        counts = np.bincount(labels, row_weights, self.task.n_classes)
        return scores_of_frequencies(counts, self.noise)


def _plan(parameters: Parameters, sizes: Sizes) -> FitPlan:
    """Return the plan of low rank alone where there are many weights: pairs would add more."""
    plan = plan_for(parameters, sizes)
    low = tuple(c for c in plan.candidates if not c.in_pairs)
    return replace(plan, candidates=low or plan.candidates)


def most_held_out(n_classes: int) -> int:
    """Rows that are held out, at the most."""
    return min(MOST_HELD_OUT, max(MOST_SCORES // n_classes, LEAST_HELD_OUT))


def memory_around_linear(
    parameters: Parameters, sizes: Sizes, dtype: DTypeLike, work: Work, plan: Plan
) -> int:
    """Bytes beside the data: those of the fit, or of what is made of it, which come in turn."""
    held = min(sizes.n_rows, most_held_out(sizes.n_classes)) * sizes.n_classes
    after = low_rank_bytes(work, plan.n_directions) + 40 * held
    own_rows = work.curvature_seconds() > MOST_SECONDS_OF_CURVATURE
    after += work.n_rows * (32 if own_rows else 16 * min(work.n_classes, ENTRIES_PER_ROW))
    return int(max(memory.needed(_plan(parameters, sizes), sizes, dtype).memory, after))


def _between(tried: list[Tried]) -> tuple[float, float, float]:
    """Scale, factor and log-likelihood where the first of two limits is met, between those tried.

    One is that scores vary as the scale says, the other what held-out rows may lose.
    """
    scales, factors, values, implied = np.array(tried).T
    steps = np.arange(len(tried), dtype=float)
    at = steps[-1]
    if len(tried) > 1:
        before, after = (values - values.max() * (1.0 + MAY_COST))[-2:]
        if after < 0.0:
            at = min(at, steps[-2] + before / (before - after))
        before, after = np.log(implied / scales)[-2:]
        if after < 0.0:
            at = min(at, steps[-2] + before / (before - after))
    scale = float(np.exp(np.interp(at, steps, np.log(scales))))
    return scale, float(np.interp(at, steps, factors)), float(np.interp(at, steps, values))


class _Judge:
    """Averaged log-likelihood of held-out rows, with the same draws at every look."""

    def __init__(
        self,
        scores: Floats,
        base: Floats,
        held_out: TrainingData,
        random_state: np.random.RandomState,
    ) -> None:
        self.base = base.astype(np.float32)
        self.departures = scores.astype(np.float32) - self.base
        self.labels, self.row_weights = held_out.labels, held_out.row_weights
        n_draws = int(np.clip(DRAWN // scores.size, LEAST_DRAWS, MOST_DRAWS))
        rng = np.random.default_rng(random_state.randint(np.iinfo(np.int32).max))
        self.normals = spread_normals(n_draws, scores.shape[1], rng).astype(np.float32)

    def fitted_variance(self) -> float:
        """Of the departures of a class among rows, its mean over classes."""
        return float(self.departures.var(axis=0).mean())

    def __call__(self, factor: float, variances: Floats) -> float:
        middle = self.base + np.float32(factor) * self.departures
        deviations = np.sqrt(variances).astype(np.float32)
        values = log_expected_of(middle, deviations, self.labels, self.normals)
        return float(self.row_weights @ values / self.row_weights.sum())

    def best(self, factor: float, variances: Floats) -> tuple[float, float]:
        """The most probable factor, near a first one, and its log-likelihood."""
        total = self.row_weights.sum()

        def judged(power: int) -> tuple[float, float, float]:
            one = factor * STEP**power
            value = self(one, variances)
            prior = -0.5 * (np.log(one) / DEVIATION_OF_FACTOR) ** 2 / total
            return value + prior, one, value

        found = judged(0)
        for direction in (1, -1):
            power = direction
            while (more := judged(power)) > found:
                found, power = more, power + direction
            if power != direction:
                break
        return found[1], found[2]
