"""Rows that stand beside each other in the data and depend on each other, as those of one person.

Of rows in an order that means nothing, the next row is no more like a row than any other row of
the next one's class.  Files are often written person by person, visit by visit or in time, and a
held-out row then has its own kind among the rows fitted to.  So stretches of neighbours are held
out together where neighbours are more alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bigcat.training.sample import Kinds, Sample

#: Pairs of neighbours that are looked at; and how much more alike they are, in cosines, and in
#: standard errors, where they depend on each other.
PAIRS, MORE_ALIKE, SURE = 2_000, 0.05, 4.0
#: Rows so far apart are compared until little is left of what neighbours have, which is this part.
DISTANCES, LITTLE_LEFT = (4, 16, 64, 256), 0.2
#: A stretch is so many times as long, so that few of its rows have neighbours outside; but there
#: are at least so many stretches.
TIMES, LEAST_STRETCHES = 2, 20
#: Rows below which nothing is searched.
LEAST_ROWS = 100


def with_neighbours(sample: Sample, copies: Kinds) -> Kinds:
    """Kinds of rows, as stretches of neighbours where these depend on each other.

    A copy of a row goes where the row is.
    """
    if sample.n_rows < LEAST_ROWS:
        return copies
    # Always the same pairs: whether rows depend on each other is no matter of a seed.
    random_state = np.random.RandomState(0)
    alike = _more_alike(sample, copies.of_row, 1, random_state)
    if alike is None:
        return copies
    for apart in DISTANCES:
        further = _more_alike(sample, copies.of_row, apart, random_state)
        if further is None or further < LITTLE_LEFT * alike:
            break
    length = min(TIMES * apart, max(sample.n_rows // LEAST_STRETCHES, 2))
    first = np.unique(copies.of_row, return_index=True)[1]
    told = {"neighbours": {"more_alike": alike, "rows_held_out_together": length}}
    return Kinds((first // length)[copies.of_row], told=told)


def _more_alike(
    sample: Sample, copies: np.ndarray, apart: int, random_state: np.random.RandomState
) -> float | None:
    """How much more alike rows are that stand so far apart; None where that may be chance.

    More than a row and another one of the second one's class, so that it is no matter of how
    classes follow each other.
    """
    n, labels = sample.n_rows, sample.labels
    if n <= 2 * apart:
        return None
    rows = np.arange(n - apart)
    if len(rows) > PAIRS:
        rows = np.sort(random_state.permutation(len(rows))[:PAIRS])
    beside = rows + apart
    by_class, counts = np.argsort(labels, kind="stable"), np.bincount(labels)
    first = counts.cumsum() - counts
    of_class = labels[beside]
    places = (random_state.random_sample(len(rows)) * counts[of_class]).astype(np.int64)
    others = by_class[first[of_class] + places]
    apart_from = (others != beside) & (others != rows) & (copies[rows] != copies[beside])
    if not apart_from.any():
        return None
    rows, beside, others = rows[apart_from], beside[apart_from], others[apart_from]
    mine, theirs, of_others = _directions(sample.X, rows, beside, others)
    more = _products(mine, theirs) - _products(mine, of_others)
    mean, error = float(more.mean()), float(more.std() / np.sqrt(len(more)))
    return mean if mean > MORE_ALIKE and mean > SURE * error else None


def _directions(X: Any, *of: np.ndarray) -> list[Any]:
    """Rows at some places as vectors of length 1; dense ones from the mean of those."""
    found = [X[places].astype(np.float64) for places in of]
    if scipy.sparse.issparse(X):
        lengths = [np.sqrt(np.asarray(part.multiply(part).sum(axis=1)).ravel()) for part in found]
        return [
            scipy.sparse.diags_array(1.0 / np.where(length > 0.0, length, 1.0)) @ part
            for part, length in zip(found, lengths)
        ]
    mean = found[0].mean(axis=0)
    found = [part - mean for part in found]
    sizes = [np.linalg.norm(part, axis=1, keepdims=True) for part in found]
    return [part / np.where(size > 0.0, size, 1.0) for part, size in zip(found, sizes)]


def _products(a: Any, b: Any) -> np.ndarray:
    if scipy.sparse.issparse(a):
        return np.asarray(a.multiply(b).sum(axis=1)).ravel()
    return np.asarray(np.einsum("nd,nd->n", a, b))
