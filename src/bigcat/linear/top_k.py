"""The best of many scores; of equal ones the first."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable

import numpy as np


def check_k(k: object, n_classes: int) -> None:
    if not isinstance(k, numbers.Integral) or not 1 <= int(k) <= n_classes:
        raise ValueError(f"k={k!r} must be a whole number between 1 and the {n_classes} classes")


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the `k` highest scores of each row, the best and then the first in front.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.linear.top_k import best_columns
    >>> best_columns(np.array([[1.0, 3.0, 3.0, 3.0, 2.0]]), 2).tolist()
    [[1, 2]]
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    last = np.partition(scores, -k, axis=1)[:, -k, None]
    above, level = scores > last, scores == last
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (level & (np.cumsum(level, axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def top_k(
    blocks: Iterable[tuple[slice, np.ndarray]],
    log_probabilities: Callable[[np.ndarray], np.ndarray],
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the `k` best classes of each row and their log-probabilities, both (n, k).

    `log_probabilities` turns a block of scores, which are in the same order, into those of all
    classes.
    """
    columns, values = [], []
    for _, scores in blocks:
        top = best_columns(scores, k)
        columns.append(top)
        values.append(np.take_along_axis(log_probabilities(scores), top, axis=1))
    return np.concatenate(columns), np.concatenate(values)
