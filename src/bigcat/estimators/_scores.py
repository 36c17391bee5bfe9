"""Scores of rows for all classes, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

#: Scores held at a time, in numbers.
BLOCK = 1 << 22
#: Below this many weights predictions run in float64; above it the copy would cost too much.
DOUBLE_BELOW = 1 << 22


def score_blocks(
    X: Any, coef: np.ndarray, intercept: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, scores of all classes) in blocks, so that no (n, n_classes) array exists."""
    dtype = np.float64 if coef.size < DOUBLE_BELOW else np.float32
    weights = coef.T.astype(dtype, copy=False)
    if scipy.sparse.issparse(X):  # scipy would copy weights of another order in each product
        weights = np.ascontiguousarray(weights)
    intercept = intercept.astype(dtype)
    block = max(1, BLOCK // len(coef))
    for start in range(0, X.shape[0], block):
        rows = slice(start, min(start + block, X.shape[0]))
        scores = np.asarray(X[rows].astype(dtype, copy=False) @ weights)
        scores += intercept
        yield rows, scores
