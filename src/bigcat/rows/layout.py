"""Memory layout of full-rank weights."""

from __future__ import annotations

import numpy as np

from bigcat.compile import kernel
from bigcat.rows.forms import Rows, is_sparse


def weights_shape(sparse: bool, n_features: int, n_classes: int) -> tuple[int, int]:
    """Return the shape of the weights for sparse or dense rows."""
    return (n_features, n_classes) if sparse else (n_classes, n_features)


def class_major(weights: np.ndarray, rows: Rows) -> np.ndarray:
    """Return a view of the weights as (n_classes, n_features) for either layout."""
    return weights.T if is_sparse(rows) else weights


@kernel
def gather_minors(weights, places):
    """Reorder the entries of each row in place."""
    before = np.empty(weights.shape[1], weights.dtype)
    for major in range(weights.shape[0]):
        w = weights[major]
        before[:] = w
        for j in range(w.shape[0]):
            w[j] = before[places[j]]


@kernel
def gather_majors(weights, places):
    """Set weights to ``weights[places]`` in place, cycle by cycle."""
    done = np.zeros(places.shape[0], np.bool_)
    kept = np.empty(weights.shape[1], weights.dtype)
    for start in range(places.shape[0]):
        if done[start]:
            continue
        kept[:] = weights[start]
        major = start
        while places[major] != start:
            weights[major, :] = weights[places[major]]
            done[major] = True
            major = places[major]
        weights[major, :] = kept
        done[major] = True
