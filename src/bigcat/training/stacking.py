"""Stacking: weights for the scores of several models, by the log score of validation rows.

With the scores of the class frequencies as base, the stacked model has

    scores = w_0 base + sum_m w_m (scores_m - base),    w >= 0.

For the softmax the log-likelihood is concave in the weights.  A weak prior keeps the weights near
equal shares if there are few validation rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from bigcat.linear import LinearModel
from bigcat.metrics import reliability
from bigcat.noise import Noise
from bigcat.probabilities import log_probabilities_of
from bigcat.training.data import TrainingData
from bigcat.training.validation import MIN_VALIDATION_ROWS

#: Maximal number of scores, rows times classes; beyond it fewer rows are scored.
MAX_SCORES = 1 << 27
#: Cost of a score in multiplications, for noises whose probabilities are integrals.
PRODUCTS_OF_NODES = 64
#: Scores of all models computed at a time.
BLOCK = 1 << 21
#: Classes kept per row: half of them the best, half drawn from the others.
MAX_CLASSES = 1_024
#: Precision of the prior of the weights, beside a log-likelihood that is a sum over rows.
PRIOR_PRECISION = 1.0
#: Minimal stacking weight; models below it are dropped, as they cost more than they add.
MIN_WEIGHT = 0.05


class Stacked(NamedTuple):
    """Stacking weights and what they give on the validation rows."""

    weights: np.ndarray  # one per model
    frequency_weight: float
    alone: np.ndarray  # log-likelihood of each row by each model as it stands, (models, rows)
    log_likelihoods: np.ndarray  # of each row by the sum
    of_frequencies: np.ndarray
    calibration_errors: np.ndarray  # of each model as it stands, then of the sum


class ValidationScores(NamedTuple):
    """Scores of validation rows: departures of each model, then those of the class frequencies."""

    scores: np.ndarray  # (models + 1, rows, classes), a row's own class first
    log_counts: np.ndarray  # (rows, classes): logarithm of how many classes each stands for
    data: TrainingData

    @classmethod
    def of(
        cls,
        models: Sequence[LinearModel],
        base: np.ndarray,
        data: TrainingData,
        random_state: np.random.RandomState,
    ) -> Self:
        """Score rows by all models, a block of rows at a time."""
        n_classes, softmax = len(base), models[0].noise.softmax
        data = data.take(np.arange(min(data.n_rows, max_rows_scored(n_classes, softmax))))
        n_kept = min(n_classes, MAX_CLASSES) if softmax else n_classes
        kept = np.empty((len(models) + 1, data.n_rows, n_kept), np.float32)
        log_counts = np.empty((data.n_rows, n_kept), np.float32)
        base = base.astype(np.float32)
        for rows, scores in _blocks(models, data):
            scores -= base
            labels = data.labels[rows]
            columns, log_counts[rows] = _some_classes(scores, base, labels, random_state, softmax)
            kept[:-1, rows] = np.take_along_axis(scores, columns[None], axis=2)
            kept[-1, rows] = base[columns]
        return cls(kept, log_counts, data)

    def only(self, models: Sequence[int]) -> Self:
        """Return the scores of some models and of the class frequencies; no copy of all."""
        if len(models) == len(self.scores) - 1:
            return self
        return self._replace(scores=self.scores[[*models, -1]])

    @classmethod
    def joined(cls, folds: Sequence[ValidationScores]) -> Self:
        """Put the rows of several folds together."""
        if len(folds) == 1:
            return cls(*folds[0])
        groups = [fold.data.groups for fold in folds]
        data = TrainingData(
            None,
            np.concatenate([fold.data.labels for fold in folds]),
            np.concatenate([fold.data.row_weights for fold in folds]),
            None if groups[0] is None else np.concatenate([g for g in groups if g is not None]),
        )
        scores = np.concatenate([fold.scores for fold in folds], axis=1)
        return cls(scores, np.concatenate([fold.log_counts for fold in folds]), data)

    def log_likelihoods(self, weights: np.ndarray, noise: Noise) -> np.ndarray:
        """Return the log-likelihood of each row by a weighted sum."""
        total = np.tensordot(weights.astype(np.float32), self.scores, 1)
        if not noise.softmax:
            own = np.zeros(len(total), np.int64)
            scores = np.ascontiguousarray(total, np.float64)
            return np.asarray(log_probabilities_of(noise, scores, own, quick=True))
        return np.asarray(total[:, 0] - logsumexp(total + self.log_counts, axis=1), np.float64)

    def calibration_error(self, weights: np.ndarray, noise: Noise) -> float:
        """Return the expected calibration error of a weighted sum; NaN unless it is a softmax."""
        if not noise.softmax:
            return float("nan")
        total = np.tensordot(weights.astype(np.float32), self.scores, 1)
        log_sums = logsumexp(total + self.log_counts, axis=1)
        confidence = np.exp(np.minimum(total.max(axis=1) - log_sums, 0.0))
        return float(reliability(confidence, total.argmax(axis=1) == 0)["ece"])


def max_rows_scored(n_classes: int, softmax: bool = True) -> int:
    """Return the maximal number of validation rows that are scored."""
    if not softmax:
        return max(MAX_SCORES // PRODUCTS_OF_NODES // n_classes, MIN_VALIDATION_ROWS // 5)
    return max(MAX_SCORES // n_classes, MIN_VALIDATION_ROWS)


def _blocks(
    models: Sequence[LinearModel], data: TrainingData
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the scores of some rows by all models, (models, rows, classes)."""
    size = BLOCK // len(models)
    for blocks in zip(*(model.score_blocks(data.X, size) for model in models)):
        scores = [scores for _, scores in blocks]
        yield blocks[0][0], np.stack(scores, dtype=np.float32, casting="same_kind")


def _some_classes(
    departures: np.ndarray,
    base: np.ndarray,
    labels: np.ndarray,
    random_state: np.random.RandomState,
    softmax: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of the classes, the label first, and the log of their importance weights.

    The best classes by the mean over models have weight 1.  Draws from the others stand for the
    rest, so the normaliser is unbiased.
    """
    _, n_rows, n_classes = departures.shape
    if n_classes <= MAX_CLASSES or not softmax:
        columns = np.tile(np.arange(n_classes), (n_rows, 1))
        columns[np.arange(n_rows), labels] = 0
        columns[:, 0] = labels
        return columns, np.zeros((n_rows, n_classes), np.float32)
    n_best = MAX_CLASSES // 2
    mean = departures.mean(axis=0) + base
    mean[np.arange(n_rows), labels] = np.inf
    order = np.argpartition(-mean, n_best - 1, axis=1)
    best, others = order[:, :n_best], order[:, n_best:]
    at = np.argmax(best == labels[:, None], axis=1)
    best[np.arange(n_rows), at] = best[:, 0]
    best[:, 0] = labels
    drawn = random_state.randint(others.shape[1], size=(n_rows, MAX_CLASSES - n_best))
    columns = np.concatenate([best, np.take_along_axis(others, drawn, axis=1)], axis=1)
    log_counts = np.zeros(columns.shape, np.float32)
    log_counts[:, n_best:] = np.log(others.shape[1] / drawn.shape[1])
    return columns, log_counts


def stack(found: ValidationScores, noise: Noise) -> Stacked:
    """Find the weights that maximise the log-likelihood of the validation rows."""
    n_models = len(found.scores) - 1
    active = np.arange(n_models)
    while True:
        weights = np.zeros(n_models + 1)
        places = np.append(active, n_models)
        weights[places] = _best_weights(found.only(active.tolist()), noise)
        small = weights[active] < MIN_WEIGHT
        if not small.any():
            break
        active = active[~small]
    alone = np.eye(n_models + 1)
    alone[:, -1] = 1.0
    return Stacked(
        weights[:-1],
        float(weights[-1]),
        np.stack([found.log_likelihoods(w, noise) for w in alone[:-1]]),
        found.log_likelihoods(weights, noise),
        found.log_likelihoods(alone[-1], noise),
        np.array([found.calibration_error(w, noise) for w in (*alone[:-1], weights)]),
    )


def _best_weights(found: ValidationScores, noise: Noise) -> np.ndarray:
    n_models = len(found.scores) - 1
    prior = np.full(n_models + 1, 1.0 / max(n_models, 1))
    prior[-1] = 1.0
    total = found.data.row_weights.sum()
    row_weights, precision = found.data.row_weights / total, PRIOR_PRECISION / total

    def loss(weights: np.ndarray) -> float:
        deviation = weights - prior
        value = row_weights @ found.log_likelihoods(weights, noise)
        return float(0.5 * precision * deviation @ deviation - value)

    def loss_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        total = np.tensordot(weights.astype(np.float32), found.scores, 1)
        own = total[:, 0].astype(np.float64)
        total += found.log_counts
        top = total.max(axis=1)
        p = np.exp(total - top[:, None], out=total)
        sums = p.sum(axis=1)
        p *= (row_weights / sums).astype(np.float32)[:, None]
        expected = [np.einsum("nk,nk->n", p, s).sum(dtype=np.float64) for s in found.scores]
        gradients = found.scores[:, :, 0] @ row_weights - expected
        deviation = weights - prior
        value = row_weights @ (own - top - np.log(sums))
        return float(
            0.5 * precision * deviation @ deviation - value
        ), precision * deviation - gradients

    bounds = [(0.0, None)] * len(prior)
    if noise.softmax:
        result = minimize(loss_and_gradient, prior, jac=True, bounds=bounds, method="L-BFGS-B")
    else:
        options = {"eps": 1e-3, "maxiter": 15}
        result = minimize(loss, prior, bounds=bounds, method="L-BFGS-B", options=options)
    return np.asarray(result.x)
