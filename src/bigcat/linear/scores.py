"""Scores of rows for all classes, a block of rows at a time."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.linear.weights import Factors, Weights

#: Scores held at a time, in numbers.
BLOCK = 1 << 22
#: Below this many weights predictions run in float64; above it the copy would cost too much.
DOUBLE_BELOW = 1 << 22


def precision(coef: Weights) -> Any:
    """In which numbers scores are computed."""
    return np.float64 if coef.size < DOUBLE_BELOW else np.float32


def check_k(k: Any, n_classes: int) -> None:
    if not isinstance(k, numbers.Integral) or not 1 <= int(k) <= n_classes:
        raise ValueError(f"k={k!r} must be a whole number between 1 and the {n_classes} classes")


def score_blocks(
    X: Any, coef: Weights, intercept: np.ndarray
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, scores of all classes) in blocks, so that no (n, n_classes) array exists."""
    dtype = precision(coef)
    embedding = None
    if isinstance(coef, Factors):
        embedding, coef = coef.features.astype(dtype, copy=False), coef.classes
    weights = coef.T.astype(dtype, copy=False)
    if embedding is None and scipy.sparse.issparse(X):
        # scipy would copy weights of another order in each product.
        weights = np.ascontiguousarray(weights)
    intercept = intercept.astype(dtype)
    block = max(1, BLOCK // len(coef))
    for start in range(0, X.shape[0], block):
        rows = slice(start, min(start + block, X.shape[0]))
        x = X[rows].astype(dtype, copy=False)
        scores = np.asarray((x if embedding is None else x @ embedding) @ weights)
        scores += intercept
        yield rows, scores


def top_k(
    blocks: Iterable[tuple[slice, np.ndarray]],
    log_probabilities: Callable[[np.ndarray], np.ndarray],
    classes: np.ndarray,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The `k` best classes of each row, best first, and their log-probabilities.

    `log_probabilities` turns a block of scores, which are in the same order, into those of all
    classes.
    """
    check_k(k, len(classes))
    columns, values = [], []
    for _, scores in blocks:
        top = np.argpartition(scores, -k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
        top = np.take_along_axis(top, order, axis=1)
        columns.append(top)
        values.append(np.take_along_axis(log_probabilities(scores), top, axis=1))
    return classes[np.concatenate(columns)], np.concatenate(values)
