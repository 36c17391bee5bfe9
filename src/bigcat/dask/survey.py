"""One pass over the rows, wherever they are: classes, frequencies, sizes.

A survey of some rows and one of others add up to that of both, so that each machine looks at its
own rows, and a class that only one of them has is a class like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.rows import Sizes, as_rows, squared_norms
from bigcat.rows.problem import FAR_OUT, MOST, NEARLY_ALL
from bigcat.training.checkpoint import digest

#: Squared lengths of rows are counted in bins: so many for each doubling, from 2^LOWEST on.
PER_DOUBLING, LOWEST, HIGHEST = 32, -64, 64
N_BINS = PER_DOUBLING * (HIGHEST - LOWEST)


@dataclass(frozen=True)
class Lengths:
    """Squared lengths of rows as a histogram by weight; empty rows are in no bin."""

    weight: np.ndarray  # of the rows in each bin
    total: np.ndarray  # of weight times squared length in each bin

    @classmethod
    def of(cls, X: Any, weights: np.ndarray) -> Lengths:
        norms = squared_norms(as_rows(X, X.dtype)).astype(np.float64)
        some = norms > 0.0
        norms, weights = norms[some], weights[some]
        place = np.floor(PER_DOUBLING * (np.log2(norms) - LOWEST)).astype(np.int64)
        place = np.clip(place, 0, N_BINS - 1)
        return cls(np.bincount(place, weights, N_BINS), np.bincount(place, weights * norms, N_BINS))

    def below_which(self, part: float) -> float:
        """The squared length that this part of the rows stays below, to within a bin."""
        so_far = np.cumsum(self.weight)
        if so_far[-1] == 0.0:
            return 1.0
        place = int(np.searchsorted(so_far, part * so_far[-1]))
        return float(self.total[place] / self.weight[place])

    def mean(self, n: float) -> float:
        """Mean squared length of rows of the weight `n`; those far out count as far out."""
        far = FAR_OUT * self.below_which(0.5)
        in_bin = np.divide(self.total, self.weight, out=np.zeros(N_BINS), where=self.weight > 0.0)
        mean = float(self.weight @ np.minimum(in_bin, far)) / n
        return mean if mean > 0.0 else 1.0


@dataclass(frozen=True)
class Survey:
    """What some rows have, that a fit has to know of all.

    Parameters
    ----------
    classes : array
        Labels that occur, sorted.
    counts, weights : arrays
        Rows of each class, and the sum of their weights.
    sizes : Sizes
        `n_classes` is that of these rows.
    lengths : Lengths
    dtype : str
        Of X.
    digest : str
        Of the content, in this order; empty where nobody asked.
    """

    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    sizes: Sizes
    lengths: Lengths
    dtype: str
    digest: str = ""

    @property
    def n_rows(self) -> int:
        return self.sizes.n_rows

    @property
    def n_bytes(self) -> int:
        """Of the rows in memory, about."""
        per_value = np.dtype(self.dtype).itemsize + (4 if self.sizes.sparse else 0)
        return self.sizes.n_values * per_value + 24 * self.n_rows

    @property
    def usual_size(self) -> float:
        return self.lengths.below_which(MOST)

    @property
    def typical_size(self) -> float:
        return self.lengths.below_which(NEARLY_ALL)


def survey_rows(X: Any, y: np.ndarray, weights: np.ndarray, with_digest: bool = False) -> Survey:
    """Of checked rows; their labels are of any kind."""
    classes, place = np.unique(y, return_inverse=True)
    counted = weights > 0.0
    return Survey(
        classes,
        np.bincount(place[counted], minlength=len(classes)),
        np.bincount(place, weights, len(classes)),
        Sizes.of(X, len(classes)),
        Lengths.of(X, weights),
        np.dtype(X.dtype).str,
        digest(X, y, weights) if with_digest else "",
    )


def merge_surveys(surveys: Sequence[Survey]) -> Survey:
    """Of the rows of all."""
    classes, place = np.unique(np.concatenate([s.classes for s in surveys]), return_inverse=True)
    n = len(classes)

    def per_class(values: list[np.ndarray]) -> np.ndarray:
        return np.bincount(place, np.concatenate(values), n)

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
    first = surveys[0].sizes
    sizes = Sizes(
        sum(s.n_rows for s in surveys),
        first.n_features,
        n,
        sum(s.sizes.n_values for s in surveys),
        first.sparse,
        max(s.sizes.row_values for s in surveys),
    )
    return Survey(
        classes,
        per_class([s.counts for s in surveys]).astype(np.int64),
        per_class([s.weights for s in surveys]),
        sizes,
        Lengths(
            np.sum([s.lengths.weight for s in surveys], axis=0),
            np.sum([s.lengths.total for s in surveys], axis=0),
        ),
        np.result_type(*(s.dtype for s in surveys)).str,
        digest(*(np.array(s.digest) for s in surveys)),
    )


def no_rows(survey: Survey) -> Any:
    """X without any rows, of the form of those that were surveyed."""
    shape = (0, survey.sizes.n_features)
    if survey.sizes.sparse:
        return scipy.sparse.csr_matrix(shape, dtype=survey.dtype)
    return np.empty(shape, survey.dtype)
