"""Selection of the highest scores; of equal scores the first."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable

import numpy as np


def check_k(k: object, n_classes: int) -> None:
    """Raise ValueError unless `k` is between 1 and the number of classes."""
    if not isinstance(k, numbers.Integral) or not 1 <= int(k) <= n_classes:
        raise ValueError(f"k={k!r} must be a whole number between 1 and the {n_classes} classes")


#: Classes per group; maxima of groups are compared before single classes.
_GROUP = 32


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the `k` highest scores of each row, best first, then lowest column.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.linear.top_k import best_columns
    >>> best_columns(np.array([[1.0, 3.0, 3.0, 3.0, 2.0]]), 2).tolist()
    [[1, 2]]
    """
    n, n_classes = scores.shape
    if k == 1 and not np.isnan(scores).any():
        return np.asarray(scores.argmax(axis=1))[:, None]
    highest, n_groups = scores, n_classes // _GROUP
    if n_groups >= 4 * k:  # the k-th highest of some groups is not above the k-th of all
        grouped = scores[:, : n_groups * _GROUP].reshape(n, _GROUP, n_groups)
        highest = grouped.max(axis=1)
    if np.isnan(highest).any():
        return best_columns(np.where(np.isnan(scores), -np.inf, scores), k)
    least = np.partition(highest, -k, axis=1)[:, -k, None]
    rows, columns = np.nonzero(scores >= least)
    order = np.lexsort((columns, -scores[rows, columns], rows))
    first = np.searchsorted(rows, np.arange(n))
    best: np.ndarray = columns[order[first[:, None] + np.arange(k)]]
    return best


def top_k(
    blocks: Iterable[tuple[slice, np.ndarray]],
    log_probabilities: Callable[[np.ndarray], np.ndarray],
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the `k` best classes of each row and their log-probabilities, (n, k).

    `log_probabilities` turns a block of scores, which are in the same order, into those of all
    classes.
    """
    columns, values = [], []
    for _, scores in blocks:
        top = best_columns(scores, k)
        columns.append(top)
        values.append(np.take_along_axis(log_probabilities(scores), top, axis=1))
    return np.concatenate(columns), np.concatenate(values)
