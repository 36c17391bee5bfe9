"""Where a fit starts."""

from __future__ import annotations

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import Weights, WeightsKind
from bigcat.noise import Noise
from bigcat.probabilities import score_scale
from bigcat.rows import Problem

#: Numbers that may be added to every class's count, as tens.
LOWEST_ADDED, HIGHEST_ADDED, PER_TEN = -3, 6, 4
_ONE = -LOWEST_ADDED * PER_TEN
#: What a number that is as good as another gains on it by chance, in nats of all rows (Akaike).
CHANCE = 1.0


def initial_weights(
    init: str,
    problem: Problem,
    parts: Parts,
    kind: WeightsKind,
    random_state: np.random.RandomState,
) -> tuple[Weights, np.ndarray]:
    """Weights in the memory layout of the rows, and intercepts."""
    weights = kind.start(problem, init == "random", random_state)
    if init == "random":  # A&R section 4: standard deviations 0.1 and 0.001
        intercepts = 0.001 * random_state.standard_normal(problem.n_classes)
        return weights, intercepts if problem.fit_intercept else np.zeros(problem.n_classes)
    intercepts = np.zeros(problem.n_classes)
    if init == "frequencies" and problem.fit_intercept:
        intercepts = scores_of_frequencies(problem.class_weights(), parts.noise)
        if not parts.bound.wants_log_probabilities:
            intercepts -= intercepts.mean()
    return weights, intercepts


def scores_of_frequencies(counts: np.ndarray, noise: Noise) -> np.ndarray:
    """Intercepts of a model that knows nothing else."""
    scores: np.ndarray = log_frequencies(counts) * score_scale(noise, len(counts))
    return scores


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """Half the rows of the rarest class for a class without any, so that its score is finite."""
    at_least = 0.5 * counts[counts > 0].min()
    logs: np.ndarray = np.log(np.maximum(counts, at_least) / counts.sum())
    return logs


def smoothed(counts: np.ndarray) -> np.ndarray:
    """Counts with the number added to each of them that predicts every row best by all others.

    Next to nothing where some classes are far more frequent than others, and much where all are
    about as frequent, so that differences between them are mostly chance.  A row that is the only
    one of its class says nothing: rows to come are of classes that are known.  It is one, as usual,
    unless another is better by more than chance gives.
    """
    added = np.logspace(LOWEST_ADDED, HIGHEST_ADDED, PER_TEN * (HIGHEST_ADDED - LOWEST_ADDED) + 1)
    values, times = np.unique(counts[counts > 1.0], return_counts=True)
    of_others = np.log(values[:, None] - 1.0 + added) - np.log(
        counts.sum() - 1.0 + len(counts) * added
    )
    found = (values * times) @ of_others
    best = found.argmax()
    smooth: np.ndarray = counts + (added[best] if found[best] > found[_ONE] + CHANCE else 1.0)
    return smooth
