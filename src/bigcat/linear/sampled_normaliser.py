"""Softmax probabilities with a normaliser estimated by importance sampling.

The normaliser of a row is the exact sum over the requested classes plus an unbiased estimate of the
sum over all others, from classes drawn from one fixed distribution. No step visits all classes, and
no array of weights is copied: rows take the format that goes with the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat._system import available_cores, map_on_threads
from bigcat.kernels.sampled_normaliser import fill_log_probs
from bigcat.linear.weights import Weights
from bigcat.numerics.random import new_state
from bigcat.rows import as_rows, read_only
from bigcat.samplers._alias import Alias, alias_table, mixture

#: Share of uniform draws, so that every class can be drawn.
UNIFORM_SHARE = 0.25
#: Numbers that a task holds for its rows.
_TASK = 1 << 20


def proposal(intercept: np.ndarray) -> Alias:
    """Return the proposal distribution: the softmax of the intercepts, mixed with uniform.

    The intercepts approximate the logarithms of the class frequencies. Building the table takes
    time proportional to the number of classes, once per model.
    """
    frequencies = np.exp(intercept - intercept.max(), dtype=np.float64)
    return alias_table(mixture(frequencies, 1.0, UNIFORM_SHARE, np.empty(0, np.int64)))


def sampled_log_probs(
    weights: Weights,
    intercept: np.ndarray,
    table: Alias,
    X: Any,
    known: np.ndarray,
    n_samples: int,
    random_state: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probabilities of the `known` classes, (n, k), and their standard errors, (n,).

    The k classes of a row are distinct.  An error is that of the row's normaliser, and so the same
    for all of them.
    """
    n, n_features = X.shape
    operands = weights.operands_in_place()
    intercepts = read_only(intercept)
    known = np.ascontiguousarray(known, np.int64)
    log_probs, std = np.empty(known.shape), np.empty(n)
    state = new_state(random_state)

    def task(rows: slice) -> None:
        x = as_rows(operands.as_rows(X[rows]), operands.weights.dtype)
        draws = (table, state.copy(), rows.start, n_samples)
        out = (log_probs[rows], std[rows])
        fill_log_probs(x, operands.weights, intercepts, *draws, known[rows], *out)

    size = max(1, _TASK // max(n_features, n_samples))
    tasks = [slice(a, min(a + size, n)) for a in range(0, n, size)]
    map_on_threads(task, tasks, available_cores())
    return log_probs, std
