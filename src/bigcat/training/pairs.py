"""Weights of single pairs of class and feature: a fit of the softmax in the memory of the data.

What low rank cannot say, that a rare word goes with one class, is a single weight here.  Features
that go with very many classes are left out: they cost most, and low rank knows about them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from bigcat.kernels.train_pairs import train_pairs
from bigcat.linear import LowRankWeights, PairedWeights
from bigcat.machine import map_on_threads
from bigcat.rows import as_rows
from bigcat.training.sample import Sample
from bigcat.training.start import log_frequencies

#: Classes that a row may visit in the mean.
MOST_VISITS = 1_000
#: Passes, over which the rate falls to zero, and the rates, by the rows' squared length: the
#: second where the first learns rows by heart.
PASSES = 4
RATES = (9.0, 3.0)
#: A row with a large weight is visited no more often than this in a pass.
MOST_REPEATS = 10


class Pairs(NamedTuple):
    """Classes and features that occur together, by feature."""

    offsets: np.ndarray
    classes: np.ndarray

    @classmethod
    def of(cls, X: scipy.sparse.csr_array, labels: np.ndarray, n_classes: int) -> Pairs:
        """Of rows in CSR form, but for features whose pairs would be visited too often."""
        occurs = scipy.sparse.csr_array((np.ones(X.nnz, bool), X.indices, X.indptr), shape=X.shape)
        n = X.shape[0]
        places = (np.ones(n, bool), labels, np.arange(n + 1))
        of_label = scipy.sparse.csr_array(places, shape=(n, n_classes))
        together = (occurs.T.tocsr() @ of_label).tocsr()
        together.sort_indices()
        n_pairs = np.diff(together.indptr)
        visits = n_pairs * np.bincount(X.indices, minlength=X.shape[1])
        # From the feature with the fewest pairs up, as far as rows can pay for.
        order = np.argsort(n_pairs, kind="stable")
        affordable = np.zeros(X.shape[1], bool)
        affordable[order] = np.cumsum(visits[order]) <= MOST_VISITS * n
        kept = np.repeat(affordable, n_pairs)
        offsets = np.concatenate([[0], np.cumsum(np.where(affordable, n_pairs, 0))])
        return cls(offsets.astype(np.int64), together.indices[kept].astype(np.int32))


def fit_pairs(
    data: Sample,
    n_classes: int,
    rate: float,
    n_threads: int,
    random_state: np.random.RandomState,
    n_passes: int = PASSES,
) -> PairedWeights:
    """Weights for pairs, beside those of no vectors at all."""
    X, labels, row_weights, _ = data
    rows = as_rows(X, np.float32)
    pairs = Pairs.of(X, labels, n_classes)
    counts = np.bincount(labels, row_weights, n_classes)
    base = log_frequencies(counts)
    base = (base - np.log(np.exp(base).sum())).astype(np.float32)
    weights = np.zeros(len(pairs.classes), np.float32)
    relative = row_weights / np.median(row_weights)
    # A row that counts for several is visited as often, since a step must not be longer than usual.
    n_visits = np.clip(np.ceil(relative), 1, MOST_REPEATS).astype(np.int64)
    visits = np.repeat(np.arange(len(labels)), n_visits)
    relative = np.minimum(relative / n_visits, 1.0)
    size = np.median(np.asarray((X.multiply(X)).sum(axis=1))) or 1.0
    for epoch in range(n_passes):
        order = random_state.permutation(visits)
        now = rate / size * (1.0 - epoch / n_passes)

        def task(part: np.ndarray, now: float = now) -> None:
            train_pairs(rows, labels, relative, part, *pairs, weights, base, now)

        map_on_threads(task, np.array_split(order, n_threads), n_threads)
    none = LowRankWeights(
        np.zeros((n_classes, 0), np.float32), np.zeros((X.shape[1], 0), np.float32)
    )
    return PairedWeights(none, *pairs, weights)
