"""A posterior around the fit of `LinearClassifier`: its last layer, or all of its weights.

Where weights are many, what a fit of low rank, or a sum of several fits, has learnt of the features
predicts better than any mode with a prior of independent weights.  So such a fit is taken as it is:
scores are vectors of classes times an embedding of the rows, which counts as known, and the
curvature of the likelihood says how sure the class vectors are.  The embedding was fitted to the
same labels, so neither evidence nor chains can tell the prior's scale from them; rows that a first
fit has not seen do, and with it a factor of the scores, which averaging makes less sure.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike
from scipy.special import logsumexp

from bigcat.auto import Parameters, recipe_for
from bigcat.bayes._arrays import Floats
from bigcat.bayes._column_sizes import ColumnSizes
from bigcat.bayes._design import Design
from bigcat.bayes._laplace_plan import Plan, Work, low_rank_numbers
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import Curvature
from bigcat.bayes.covariance import LowRank
from bigcat.bayes.method import Task
from bigcat.linear import LinearModel, LowRankWeights
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.training import memory
from bigcat.training.recipe import Recipe
from bigcat.training.run import train
from bigcat.training.sample import Sample, hold_out
from bigcat.training.start import scores_of_frequencies

#: Held-out rows: a part of all, at the most, at the least, and so that these are all scores.
HELD_OUT_PART, MOST_HELD_OUT, LEAST_HELD_OUT, MOST_SCORES = 10, 1_000, 200, 1 << 21
#: Draws of their scores: so that these are all, but not too few or many.
DRAWN, LEAST_DRAWS, MOST_DRAWS = 1 << 25, 16, 64
#: Scales that are tried, standard deviations of scores under the prior, and steps of the factor.
SCALES = 2.0 ** np.arange(-1.0, 3.1, 0.5)
STEP = 1.08
#: How much of the held-out log-likelihood a wider prior may cost.  It hardly depends on the scale
#: until intervals are as wide as they should be, and falls beyond: what it tells is a limit.
MAY_COST = 0.003
#: From so many weights on a posterior is that of class vectors alone.
MANY_WEIGHTS = 1 << 24
#: The scale where no row can be held out.
USUAL_SCALE = 1.0
#: Multiplications and additions that may be spent on the curvature: of more rows some are taken.
MOST_PRODUCTS, LEAST_CURVATURE_ROWS = 2e12, 1_000
TINY = 1e-30


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


class Layer(NamedTuple):
    """Fitted scores as class vectors times an embedding of rows with their intercept.

    Parameters
    ----------
    model : LinearModel
    turn : array of shape (D + 1, R) or None
        From columns with the intercept to the embedding, which is the columns where it is None.
    vectors : array of shape (n_classes, R)
    """

    model: LinearModel
    turn: Floats | None
    vectors: Floats

    @classmethod
    def of(cls, model: LinearModel, intercept: bool) -> Layer:
        weights = model.weights
        ones = [model.intercept] if intercept else []
        low = weights if isinstance(weights, LowRankWeights) else None
        if low is None or low.features.shape[1] >= len(low.features):
            dense = np.asarray(weights.dense(), np.float64)
            return cls(model, None, np.column_stack([dense, *ones]))
        n_features, rank = low.features.shape
        turn = np.zeros((n_features + intercept, rank + intercept))
        turn[:n_features, :rank] = low.features
        if intercept:
            turn[-1, -1] = 1.0
        return cls(model, turn, np.column_stack([low.classes, *ones]).astype(np.float64))

    def embedded(self, X: Any, intercept: bool, row_weights: Floats | None = None) -> Design:
        """Rows that meet the class vectors."""
        if self.turn is None:
            return Design(X, intercept, row_weights)
        features = self.turn[: X.shape[1], : self.turn.shape[1] - intercept]
        return Design(np.asarray(X @ features), intercept, row_weights)


class Trial(NamedTuple):
    """A fit to a part of the rows, and what it makes of the others."""

    layer: Layer
    kept: Sample
    held_out: Sample
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
    n_curvature_rows: int


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
        chosen = Chosen(USUAL_SCALE, 1.0, np.nan, np.nan, 0)
        if trial is not None:
            chosen = self.choose(trial)
        layer = self.fit(self.task.sample)
        curvature = self.curvature(layer, self.task.sample)
        found = curvature.covariance(self.n_directions, chosen.scale**-2.0)
        basis = found.basis if layer.turn is None else layer.turn @ found.basis
        covariance = LowRank(found.scales, found.directions, found.shrinkage, basis)
        vectors = self.multiplied(layer.vectors, chosen.factor)
        mean = vectors if layer.turn is None else vectors @ layer.turn.T
        rank = layer.model.weights.kind.rank
        return Found(mean, covariance, chosen, rank, curvature.likelihood.design.n)

    def trial(self) -> Trial | None:
        """A fit without some rows; None where no row can be held out, a row per class or so."""
        sample, n_classes = self.task.sample, self.task.n_classes
        n = sample.n_rows
        most = min(MOST_HELD_OUT, max(MOST_SCORES // n_classes, LEAST_HELD_OUT))
        wanted = min(max(1, n // HELD_OUT_PART), most)
        try:
            kept, held = hold_out(sample, n_classes, wanted / n, self.task.random_state, "")
        except ValueError:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the fit to all rows says it again
            layer = self.fit(kept)
        scores = np.concatenate([some for _, some in layer.model.score_blocks(held.X)])
        return Trial(layer, kept, held, scores)

    def choose(self, trial: Trial) -> Chosen:
        """The widest prior with which held-out rows are predicted well, and the scores' factor."""
        layer, held = trial.layer, trial.held_out
        curvature = self.curvature(layer, trial.kept)
        rows = layer.embedded(held.X, self.task.fit_intercept)
        judge = _Judge(trial.scores, self.base(), held, self.task.random_state)
        everyone = slice(0, self.task.n_classes)
        values, factors = [], [1.0]
        for scale in SCALES:
            spread = curvature.covariance(0, scale**-2.0).row_variances(rows, everyone)
            value, factor = judge(factors[-1], spread), factors[-1]
            while (more := judge(STEP * factor, spread)) > value:  # wider priors want larger ones
                value, factor = more, STEP * factor
            values.append(value)
            factors.append(factor)
            if value < max(values) * (1.0 + MAY_COST):
                break
        scale, factor = _widest(np.array(values), np.array(factors[1:]))
        spread = curvature.covariance(0, scale**-2.0).row_variances(rows, everyone)
        return Chosen(scale, factor, judge(factor, spread), trial.value(), held.n_rows)

    # Parts

    def fit(self, sample: Sample) -> Layer:
        """The fit of `LinearClassifier` to some rows."""
        task = self.task
        parameters = Parameters.chosen(self.noise, self.rank, task.fit_intercept, task.n_threads)
        recipe = _recipe(parameters, Sizes.of(sample.X, task.n_classes))
        outcome = train(recipe, sample, task.classes, task.random_state)
        model = LinearModel(outcome.weights, outcome.intercept, self.noise, self.task.n_threads)
        return Layer.of(model, self.task.fit_intercept)

    def curvature(self, layer: Layer, sample: Sample) -> Curvature:
        """At the fit, with a prior under which the scores of a class have deviation 1."""
        n_columns = layer.vectors.shape[1]
        affordable = rows_of_curvature(self.task.n_classes, n_columns)
        if sample.n_rows > affordable:
            share = sample.n_rows / affordable
            rows = self.task.random_state.choice(sample.n_rows, affordable, replace=False)
            sample = sample.take(np.sort(rows))
            sample = sample._replace(row_weights=sample.row_weights * share)
        design = layer.embedded(sample.X, self.task.fit_intercept, sample.row_weights)
        likelihood = Likelihood(
            design, sample.labels, self.noise, self.task.n_classes, self.task.n_threads
        )
        columns = ColumnSizes.of(design)
        prior = columns.sizes * columns.squared_length
        prior = np.append(prior, 1.0) if self.task.fit_intercept else prior
        return Curvature.at(likelihood, layer.vectors, prior[None])

    def multiplied(self, vectors: Floats, factor: float) -> Floats:
        """With a departure from the class frequencies that is so many times as large."""
        out = factor * vectors
        if self.task.fit_intercept:
            out[:, -1] += (1.0 - factor) * self.base()
        return out

    def base(self) -> Floats:
        """Scores of a model that knows the class frequencies only."""
        _, labels, row_weights = self.task.sample
        if not self.task.fit_intercept:
            return np.zeros(self.task.n_classes)
        counts = np.bincount(labels, row_weights, self.task.n_classes)
        return scores_of_frequencies(counts, self.noise)


def _recipe(parameters: Parameters, sizes: Sizes) -> Recipe:
    """Of a low rank alone where there are many weights: a sum with others would be of full rank."""
    recipe = recipe_for(parameters, sizes)
    if recipe.kind.rank is None or sizes.n_classes * sizes.n_features <= MANY_WEIGHTS:
        return recipe
    return replace(recipe, with_pairs=False, beside=())


def rows_of_curvature(n_classes: int, width: int) -> int:
    """The most rows whose scores of all classes are looked at."""
    return max(LEAST_CURVATURE_ROWS, int(MOST_PRODUCTS / (4 * n_classes * width)))


def memory_around_linear(
    parameters: Parameters, sizes: Sizes, dtype: DTypeLike, work: Work, plan: Plan
) -> int:
    """Bytes beside the data: the fit, then its embedded rows and what is kept of each class."""
    recipe = _recipe(parameters, sizes)
    rank = recipe.kind.rank
    width = work.n_columns
    if rank is not None and not recipe.with_pairs and not recipe.beside:
        width = min(width, rank * recipe.n_apart + 1)
    rows = min(sizes.n_rows, rows_of_curvature(sizes.n_classes, width))
    held = min(MOST_HELD_OUT, max(MOST_SCORES // sizes.n_classes, LEAST_HELD_OUT))
    numbers = low_rank_numbers(work._replace(n_rows=rows), width, plan.n_directions)
    numbers += 3 * work.n_weights + 2 * rows * width + 4 * held * sizes.n_classes
    return int(memory.needed(recipe, sizes, dtype) + 8 * numbers)


def _widest(values: Floats, factors: Floats) -> tuple[float, float]:
    """Scale and factor up to which log-likelihoods stay near the best, between those tried."""
    limit = values.max() * (1.0 + MAY_COST)
    last = int(np.flatnonzero(values >= limit)[-1])
    part = 0.0
    if last + 1 < len(values):
        part = (values[last] - limit) / (values[last] - values[last + 1])
    steps = np.arange(len(values))
    scale = np.exp(np.interp(last + part, steps, np.log(SCALES[: len(values)])))
    return float(scale), float(np.interp(last + part, steps, factors))


class _Judge:
    """Averaged log-likelihood of held-out rows, with the same draws at every look."""

    def __init__(
        self, scores: Floats, base: Floats, held_out: Sample, random_state: np.random.RandomState
    ) -> None:
        self.base = base.astype(np.float32)
        self.departures = scores.astype(np.float32) - self.base
        self.labels, self.row_weights = held_out.labels, held_out.row_weights
        n, n_classes = scores.shape
        n_draws = int(np.clip(DRAWN // scores.size, LEAST_DRAWS, MOST_DRAWS))
        normals = random_state.standard_normal((n_draws, n + n_classes)).astype(np.float32)
        # Row i has the numbers from i on: others than the rows around it for every class.
        self.normals = sliding_window_view(normals, n_classes, axis=1)[:, :n]

    def __call__(self, factor: float, variances: Floats) -> float:
        middle = self.base + np.float32(factor) * self.departures
        deviations = np.sqrt(variances).astype(np.float32)
        draws = np.array([self._probabilities(middle + deviations * u) for u in self.normals])
        mean = draws.mean(axis=0)
        # The logarithm of a mean of draws is too low by half of its relative variance.
        relative = draws.var(axis=0, ddof=1) / (mean**2 * len(draws))
        values = np.log(mean) + 0.5 * relative
        return float(self.row_weights @ values / self.row_weights.sum())

    def _probabilities(self, scores: Floats) -> Floats:
        """Of the labels; scores are overwritten."""
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        own = scores[np.arange(len(scores)), self.labels].astype(np.float64)
        found: Floats = np.maximum(own, TINY) / scores.sum(axis=1, dtype=np.float64)
        return found
