"""Checks of an estimator's parameters, and where a fit starts."""

from __future__ import annotations

import math

import numpy as np

from bigcat.combinations import Parts
from bigcat.linear.weights import Factors, Weights
from bigcat.noise import Gumbel, Noise
from bigcat.probabilities import max_scale
from bigcat.rows import Problem, class_major, weights_shape

#: Length of a typical row's embedding at the start.
EMBEDDED_SIZE = 1.4


def initial_weights(
    init: str, problem: Problem, parts: Parts, random_state: np.random.RandomState
) -> tuple[Weights, np.ndarray]:
    """Weights for (n_classes, n_features), in the memory layout of the rows, and intercepts."""
    dtype = problem.rows.values.dtype
    n_columns = problem.n_features if problem.rank is None else problem.rank
    shape = (problem.n_classes, n_columns)
    weights: Weights
    if init == "random":  # A&R section 4: standard deviations 0.1 and 0.001
        weights = (0.1 * random_state.standard_normal(shape)).astype(dtype)
    elif problem.rank is None:
        layout = weights_shape(problem.rows, problem.n_features, problem.n_classes)
        weights = class_major(np.zeros(layout, dtype), problem.rows)
    else:
        weights = np.zeros(shape, dtype)
    if problem.rank is not None:
        weights = Factors(weights, _random_features(problem, random_state))
    if init == "random":
        intercepts = 0.001 * random_state.standard_normal(problem.n_classes)
        return weights, intercepts if problem.fit_intercept else np.zeros(problem.n_classes)
    intercepts = np.zeros(problem.n_classes)
    if init == "frequencies" and problem.fit_intercept:
        counts = np.bincount(problem.labels, problem.row_weights, problem.n_classes)
        # Half a row for a class without any, so that its score is finite.
        intercepts = log_frequencies(counts) * start_scale(parts.noise, problem.n_classes)
        if not parts.bound.wants_log_probabilities:
            intercepts -= intercepts.mean()
    return weights, intercepts


def _random_features(problem: Problem, random_state: np.random.RandomState) -> np.ndarray:
    """Vectors that keep the rows' angles, about, and make them `EMBEDDED_SIZE` long."""
    assert problem.rank is not None
    dtype = problem.rows.values.dtype
    vectors = random_state.standard_normal((problem.n_features, problem.rank)).astype(dtype)
    vectors *= dtype.type(EMBEDDED_SIZE * problem.unit / math.sqrt(problem.rank))
    return vectors


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(counts, 0.5 * counts[counts > 0].min()) / counts.sum())


def start_scale(noise: Noise, n_classes: int) -> float:
    """Scores that give probabilities p are about scale * log p.

    The largest of many noises is nearly Gumbel, of scale 1 / S'(t) where S(t) = -1; so with that
    scale every noise is nearly a softmax.  For Gumbel noise it is 1, and exact.
    """
    return 1.0 if isinstance(noise, Gumbel) else max_scale(noise, n_classes)
