"""Where a fit starts."""

from __future__ import annotations

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear import Weights, WeightsKind
from bigcat.noise import Noise
from bigcat.probabilities import score_scale
from bigcat.rows import Problem


def initial_weights(
    problem: Problem,
    parts: Parts,
    kind: WeightsKind,
    random_state: np.random.RandomState,
) -> tuple[Weights, np.ndarray]:
    """Weights in the memory layout of the rows, and intercepts."""
    init = parts.solver.init
    weights = kind.start(problem, init == "random", random_state)
    if init == "random":  # A&R section 4: standard deviations 0.1 and 0.001
        intercepts = 0.001 * random_state.standard_normal(problem.n_classes)
        return weights, intercepts if problem.fit_intercept else np.zeros(problem.n_classes)
    intercepts = np.zeros(problem.n_classes)
    if init == "frequencies" and problem.fit_intercept:
        intercepts = scores_of_frequencies(problem.class_weights(), parts.noise)
        if not parts.bound.needs_log_probabilities:
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
