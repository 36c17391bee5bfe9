"""One pass over the rows, wherever they are: classes, frequencies, sizes.

Surveys of some rows and of others add up to that of both, so that each worker looks at its own rows
and a class that only one of them has is a class like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.estimators.checkpoints import digest
from bigcat.rows import Problem, Sizes, as_rows, squared_norms
from bigcat.training.preprocess import MANY_CLASSES, by_frequency

#: Rows of each block whose lengths are measured.
MAX_LENGTHS = 4_096


@dataclass(frozen=True)
class Survey:
    """Facts about all rows that a fit needs.

    Parameters
    ----------
    classes : array
        Labels that occur, sorted.
    counts, weights : arrays
        Rows of each class, and the sum of their weights.
    sizes : Sizes
        `n_classes` is that of these rows.
    lengths : array of shape (2, n)
        Lengths of some rows, and the weight that each of them stands for.
    dtype : str
        Of X.
    digest : str
        Of the content, in this order; empty if not wanted.
    """

    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    sizes: Sizes
    lengths: np.ndarray
    dtype: str
    digest: str = ""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.sizes.n_rows

    @property
    def n_bytes(self) -> int:
        """Approximate bytes of the rows in memory."""
        per_value = np.dtype(self.dtype).itemsize + (4 if self.sizes.sparse else 0)
        return self.sizes.n_values * per_value + 24 * self.n_rows

    @cached_property
    def order(self) -> np.ndarray:
        """Classes in the order in which they are trained."""
        if len(self.classes) < MANY_CLASSES:
            return np.arange(len(self.classes))
        return by_frequency(self.weights)

    @cached_property
    def rows_like_these(self) -> Problem:
        """Rows of one column that are as long as the measured ones."""
        lengths, weights = self.lengths
        labels = np.zeros(len(lengths), np.int64)
        return Problem(as_rows(lengths[:, None], np.float64), labels, weights, 1, 1)

    def no_rows(self) -> Any:
        """Return X without any rows, of the form of those that were surveyed."""
        shape = (0, self.sizes.n_features)
        if self.sizes.sparse:
            return scipy.sparse.csr_matrix(shape, dtype=self.dtype)
        return np.empty(shape, self.dtype)


def survey_rows(X: Any, y: np.ndarray, weights: np.ndarray, with_digest: bool = False) -> Survey:
    """Survey checked rows, with labels of any kind."""
    classes, place = np.unique(y, return_inverse=True)
    step = 1 + len(y) // MAX_LENGTHS
    lengths = np.sqrt(squared_norms(as_rows(X[::step], X.dtype)), dtype=np.float64)
    return Survey(
        classes,
        np.bincount(place[weights > 0.0], minlength=len(classes)),
        np.bincount(place, weights, len(classes)),
        Sizes.of(X, len(classes)),
        np.stack([lengths, step * weights[::step]]),
        np.dtype(X.dtype).str,
        digest(X, y, weights) if with_digest else "",
    )


def merge_surveys(surveys: Sequence[Survey]) -> Survey:
    """Return the survey of the rows of all."""
    classes, place = np.unique(np.concatenate([s.classes for s in surveys]), return_inverse=True)
    n = len(classes)
    kinds = {(s.sizes.n_features, s.sizes.sparse) for s in surveys}
    if len(kinds) > 1:
        raise ValueError(
            "parts of X differ: "
            + " and ".join(
                f"{'sparse' if sparse else 'dense'} rows of {n_features:,} features"
                for n_features, sparse in sorted(kinds)
            )
            + "; give all parts the same columns and one form"
        )
    sizes = [s.sizes for s in surveys]
    return Survey(
        classes,
        np.bincount(place, np.concatenate([s.counts for s in surveys]), n).astype(np.int64),
        np.bincount(place, np.concatenate([s.weights for s in surveys]), n),
        sizes[0]._replace(
            n_rows=sum(s.n_rows for s in sizes),
            n_classes=n,
            n_values=sum(s.n_values for s in sizes),
            row_values=max(s.row_values for s in sizes),
        ),
        np.concatenate([s.lengths for s in surveys], axis=1),
        np.result_type(*(s.dtype for s in surveys)).str,
        digest(*(np.array(s.digest) for s in surveys)),
    )
