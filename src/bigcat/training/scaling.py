"""Columns before a fit and after it: how they are scaled, turned back, and warned of."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse

from bigcat.rows import Columns
from bigcat.training.fit import Outcome
from bigcat.training.sample import Sample
from bigcat.training.sparse_columns import SparseColumns

#: Rows that say how large columns are, and from which factor on one is told of it.
LOOKED_AT_FOR_SCALES, UNSCALED = 1_000, 30.0


def columns_of(data: Sample, centred: bool) -> Columns | SparseColumns | None:
    """How columns are scaled, if they are."""
    if scipy.sparse.issparse(data.X):
        return SparseColumns.of(data.X, data.row_weights)
    columns = Columns.of(data.X, data.row_weights, centred=centred)
    _warn_of_far_out(columns, data.X)
    return columns


def _warn_of_far_out(columns: Columns, X: np.ndarray) -> None:
    n, first = columns.far_out(X)
    if n:
        warnings.warn(
            f"{n:,} of {len(X):,} rows have values that are very far from all others of their "
            f"column, the first of them row {first}; in training they count as the farthest usual "
            "ones",
            UserWarning,
            stacklevel=5,
        )


def warn_of_unscaled(data: Sample) -> None:
    """One rate for all columns: where a few decide how long rows are, the others learn nothing."""
    some = slice(None, None, max(1, data.n_rows // LOOKED_AT_FOR_SCALES))
    columns = Columns.of(data.X[some], data.row_weights[some], centred=True)
    varies = columns.factors > 0.0
    sizes, centres = 1.0 / columns.factors[varies], columns.centres[varies]
    if not len(sizes):
        return
    largest = sizes.max() / np.median(sizes)
    off = np.linalg.norm(centres / sizes.max()) / np.linalg.norm(sizes / sizes.max())
    if max(largest, off) > UNSCALED:
        what = "one column is" if largest > off else "the columns' means are"
        warnings.warn(
            f"{what} {max(largest, off):,.0f} times as large as the columns' usual deviations, and "
            "what differs in the others is hardly learned; scale the columns, for example by "
            "scikit-learn's StandardScaler, or leave method, solver and l2 to 'auto'",
            UserWarning,
            stacklevel=4,
        )


def turn_back(outcome: Outcome, columns: Columns | SparseColumns) -> None:
    """From weights for scaled columns to weights for those of the user."""
    outcome.weights = outcome.weights.of_features(columns.factors)
    outcome.resume = None  # a solver's memory is of scaled columns
    if isinstance(columns, SparseColumns):
        return
    centres = columns.centres[None].astype(np.float64)
    taken_off = outcome.weights.astype(np.float64).products(False, np.float64)(centres)[0]
    outcome.intercept = (outcome.intercept - taken_off).astype(np.float32)
