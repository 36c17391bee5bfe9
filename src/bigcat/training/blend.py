"""How much to trust fitted models: one factor per model, from rows that none of them has seen.

A model is a departure from the class frequencies, and the sum of several is

    scores = base + sum_m factor_m (scores_m - base),

where `base` are the scores of the frequencies.  The factors maximise the log-likelihood of held-out
rows.  One factor below 1 takes back what a fit is too sure of, 0 leaves the class frequencies, and
models that err in different places share what there is to know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from bigcat.linear import LinearModel
from bigcat.probabilities import log_probabilities_of
from bigcat.training.sample import Sample

#: Scores that the factors are found from: so many rows by all classes, but not too few rows.
MOST_SCORES, LEAST_ROWS = 1 << 22, 200
#: The same for noises whose probabilities are integrals.
MOST_SCORES_BY_NODES = 1 << 20
#: Scores that are looked at together: as many as stay in a core's own cache.
SCORES_AT_A_TIME = 1 << 16
#: Nobody is trusted more than this.
LARGEST_FACTOR = 4.0
#: That the factors add up to more than 1 has this standard deviation before any row was seen: a
#: handful of rows cannot say that a fit should be three times as sure of itself.
LOUDER = 1.0
#: From so many standard errors of its gain on, a fit is followed as it is; up to so many it is not.
SURE, DOUBTFUL = 3.0, 1.0
_ITERATIONS, _TOLERANCE = 30, 1e-5


class Blend(NamedTuple):
    """Factors, and what they gain over class frequencies on the rows they come from."""

    factors: np.ndarray
    gain: float  # nats per row
    gain_error: float  # its standard error
    left: float  # nats per row that nobody knows yet
    n_rows: int

    @property
    def pays(self) -> bool:
        """Is the gain more than chance gives, of that many factors (Akaike) and of these rows?

        A departure that means nothing has a factor of 0 for half of all held-out rows, and a gain
        above its standard error for one in forty.
        """
        n_factors = np.count_nonzero(self.factors)
        return bool(self.gain * self.n_rows > n_factors > 0 and self.gain > self.gain_error)


def part_to_trust(gain: float, error: float, n_rows: int) -> float:
    """How far to follow a fit away from class frequencies, of which it is the best of several.

    A gain of a standard error, which chance gives one time in six, is not followed, nor one of less
    than a nat for all rows (Akaike); one of two standard errors for four fifths of the way.
    """
    if gain <= DOUBTFUL * error or gain * n_rows <= 1.0:
        return 0.0
    if gain >= SURE * error:
        return 1.0
    evidence = (gain / error) ** 2
    return float(evidence / (1.0 + evidence))


def gain_at(
    factors: Sequence[float], models: Sequence[LinearModel], base: np.ndarray, held_out: Sample
) -> tuple[float, float]:
    """What a sum gains over class frequencies on rows that had no part in it; standard error."""
    noise = models[0].noise
    sample = held_out.take(np.arange(min(held_out.n_rows, most_rows_scored(len(base)))))
    gains = np.empty(sample.n_rows)
    for rows, departures in _blocks(models, base, sample):
        labels = sample.labels[rows]
        at = np.zeros(departures[0].shape)
        of_base = log_probabilities_of(noise, at + base, labels, how="quick")
        for factor, departure in zip(factors, departures):
            at += factor * departure
        gains[rows] = log_probabilities_of(noise, at + base, labels, how="quick") - of_base
    return float(np.average(gains, weights=sample.row_weights)), sample.standard_error(gains)


def most_rows_scored(n_classes: int, softmax: bool = True) -> int:
    """How many rows the factors are found from, if there are so many."""
    return max((MOST_SCORES if softmax else MOST_SCORES_BY_NODES) // n_classes, LEAST_ROWS)


def find_factors(models: Sequence[LinearModel], base: np.ndarray, held_out: Sample) -> Blend:
    """The factors of the models that predict held-out rows best.

    Parameters
    ----------
    models : sequence of LinearModel
        Of one noise; several only of the softmax.
    base : array of shape (n_classes,)
        Scores of the class frequencies.
    held_out : Sample
    """
    softmax = models[0].noise.softmax
    most = most_rows_scored(len(base), softmax)
    sample = held_out.take(np.arange(min(held_out.n_rows, most)))
    if softmax:
        factors, logs, of_base = _by_newton(models, base, sample)
    else:
        assert len(models) == 1
        factors, logs, of_base = _by_search(models[0], base, sample)
    shares = sample.row_weights / sample.row_weights.sum()
    gains = logs - of_base
    gain = float(shares @ gains)
    error = sample.standard_error(gains)
    return Blend(factors, gain, error, -float(shares @ logs), sample.n_rows)


def _blocks(
    models: Sequence[LinearModel], base: np.ndarray, sample: Sample
) -> Iterator[tuple[slice, list[np.ndarray]]]:
    """Some rows at a time, and how far each model departs from the base there."""
    at_a_time = max(SCORES_AT_A_TIME // len(base), 1)
    for blocks in zip(*(model.score_blocks(sample.X) for model in models)):
        rows = blocks[0][0]
        departures = [scores - base.astype(scores.dtype) for _, scores in blocks]
        for start in range(0, rows.stop - rows.start, at_a_time):
            stop = min(start + at_a_time, rows.stop - rows.start)
            few = slice(rows.start + start, rows.start + stop)
            yield few, [departure[start:stop] for departure in departures]


def _by_newton(
    models: Sequence[LinearModel], base: np.ndarray, sample: Sample
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton's steps within factors of at least 0; the log-likelihood is concave in them.

    Also the log-likelihood of each row, and that by the base.
    """
    few = sample.n_rows * len(base) <= 4 * MOST_SCORES
    kept = list(_blocks(models, base, sample)) if few else None  # else scored again for each step

    def look(factors: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Mean log-likelihood, slopes and curvatures, and the log-likelihood of each row."""
        n = len(factors)
        slopes, curvatures = np.zeros(n), np.zeros((n, n))
        logs = np.empty(sample.n_rows)
        for rows, departures in kept or _blocks(models, base, sample):
            labels, weights = sample.labels[rows], sample.row_weights[rows]
            places = np.arange(len(labels))
            numbers = departures[0].dtype.type  # single precision stays so
            scores = numbers(factors[0]) * departures[0]
            for factor, more in zip(factors[1:], departures[1:]):
                scores += numbers(factor) * more
            scores += base.astype(numbers)
            scores -= scores.max(axis=1, keepdims=True)
            of_labels = scores[places, labels].astype(np.float64)
            p = np.exp(scores, out=scores)
            totals = p.sum(axis=1, keepdims=True)
            p /= totals
            logs[rows] = of_labels - np.log(totals[:, 0])
            means = np.array([np.einsum("nk,nk->n", p, d) for d in departures], np.float64)
            found = np.array([d[places, labels] for d in departures], np.float64)
            slopes += (found - means) @ weights
            for a in range(n):
                weighted = p * departures[a]
                for b in range(a + 1):
                    second = np.einsum("nk,nk->n", weighted, departures[b])
                    curvatures[a, b] += weights @ (second - means[a] * means[b])
                    curvatures[b, a] = curvatures[a, b]
        total = sample.row_weights.sum()
        louder = max(factors.sum() - 1.0, 0.0)
        doubt = 1.0 / (LOUDER**2 * sample.n_rows)
        value = sample.row_weights @ logs / total - 0.5 * doubt * louder**2
        slopes = slopes / total - doubt * louder
        return value, slopes, curvatures / total + doubt * (louder > 0.0), logs

    factors = np.full(len(models), 1.0 / len(models))
    value, slopes, curvatures, logs = look(factors)
    for _ in range(_ITERATIONS):
        free = (factors > 0.0) | (slopes > 0.0)
        if not free.any():
            break
        ridge = 1e-9 * np.trace(curvatures) * np.eye(free.sum()) + 1e-30 * np.eye(free.sum())
        step = np.zeros(len(factors))
        step[free] = np.linalg.solve(curvatures[np.ix_(free, free)] + ridge, slopes[free])
        size = 1.0
        while size > 1e-6:
            trial = np.clip(factors + size * step, 0.0, LARGEST_FACTOR)
            found = look(trial)
            if found[0] >= value:
                break
            size *= 0.5
        gained = found[0] - value
        if not gained >= 0.0:
            break
        factors, (value, slopes, curvatures, logs) = trial, found
        if gained < _TOLERANCE:
            break
    log_frequencies = base - logsumexp(base)
    return factors, logs, log_frequencies[sample.labels]


def _by_search(
    model: LinearModel, base: np.ndarray, sample: Sample
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One factor by golden sections: for noises whose slopes are no matter of a few sums."""
    departures = np.concatenate([d[0] for _, d in _blocks([model], base, sample)])

    def logs(factor: float) -> np.ndarray:
        scores = np.ascontiguousarray(base + factor * departures, np.float64)
        return np.asarray(log_probabilities_of(model.noise, scores, sample.labels, how="quick"))

    def loss(factor: float) -> float:
        return -float(sample.row_weights @ logs(factor) / sample.row_weights.sum())

    found = minimize_scalar(loss, bounds=(0.0, 2.0), method="bounded", options={"xatol": 0.02})
    return np.array([found.x]), logs(found.x), logs(0.0)
