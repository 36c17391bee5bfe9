"""Columns before a fit and after it: how they are scaled, turned back, and warned of."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bigcat.caller import warn_caller
from bigcat.rows import Columns
from bigcat.solvers import Solver
from bigcat.storage import Storage
from bigcat.training.data import TrainingData
from bigcat.training.fit import FitResult
from bigcat.training.sparse_columns import SparseColumns

#: Rows that say how large columns are, and from which factor on one is told of it: where passes are
#: made, and where L-BFGS at its usual tolerance of 1e-4 is done before it has begun.
LOOKED_AT_FOR_SCALES, UNSCALED, UNSCALED_FOR_LBFGS = 1_000, 30.0, 1_000.0


def columns_of(data: TrainingData, centred: bool) -> Columns | SparseColumns | None:
    """How columns are scaled, if they are."""
    if scipy.sparse.issparse(data.X):
        return SparseColumns.of(data.X, data.row_weights)
    columns = Columns.of(data.X, data.row_weights, centred=centred)
    _warn_of_far_out(columns, data.X)
    return columns


def _warn_of_far_out(columns: Columns, X: np.ndarray) -> None:
    n, column, value = columns.far_out(X)
    if n:
        warn_caller(
            f"{n:,} of {len(X):,} rows have values that are very far from all others of their "
            f"column, such as {value:.3g} in column {column}; in training they count as the "
            "farthest usual ones"
        )


def warn_of_unscaled(data: TrainingData, solver: Solver, streams: bool = False) -> None:
    """Where a few columns decide how long rows are, the others learn nothing.

    A solver that makes passes has one rate for all columns; L-BFGS stops at a gradient that is
    small for rows of that length.  Rows that `streams` take from files are never scaled.
    """
    some = data.take(np.arange(0, data.n_rows, max(1, data.n_rows // LOOKED_AT_FOR_SCALES)))
    largest, off = _out_of_scale(some)
    if max(largest, off) > (UNSCALED if solver.stochastic else UNSCALED_FOR_LBFGS):
        what = "one column is" if largest >= off else "the columns' means are"
        remedy = (
            "scale the columns before the conversion, or open the folder with a window_bytes that "
            "holds all rows, which 'auto' can scale"
            if streams
            else "scale the columns, for example by scikit-learn's StandardScaler, or leave "
            "method, solver and l2 to 'auto'"
        )
        warn_caller(
            f"{what} {max(largest, off):,.0f} times as large as the columns' usual deviations, and "
            f"what differs in the others is hardly learned; {remedy}"
        )


def _out_of_scale(some: TrainingData) -> tuple[float, float]:
    """How many times the usual size one column has, and the means of all columns."""
    if scipy.sparse.issparse(some.X):
        found = SparseColumns.of(some.X, some.row_weights)
        return (1.0 if found is None else float(1.0 / found.factors.min())), 0.0
    columns = Columns.of(some.X, some.row_weights, centred=True)
    varies = columns.factors > 0.0
    sizes, centres = 1.0 / columns.factors[varies], columns.centres[varies]
    if not len(sizes):
        return 1.0, 0.0
    off = np.linalg.norm(centres / sizes.max()) / np.linalg.norm(sizes / sizes.max())
    return float(sizes.max() / np.median(sizes)), float(off)


def turn_back(result: FitResult, columns: Columns | SparseColumns, storage: Storage) -> None:
    """From weights for scaled columns to weights for those of the user."""
    result.weights = result.weights.of_features(columns.factors)
    result.resume = None  # a solver's memory is of scaled columns
    if isinstance(columns, SparseColumns):
        return
    centres = columns.centres[None].astype(np.float64)
    precise = result.weights.astype(np.float64, storage)
    taken_off = precise.products(False, np.float64)(centres)[0]
    result.intercept = (result.intercept - taken_off).astype(np.float32)
