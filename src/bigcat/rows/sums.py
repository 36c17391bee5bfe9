"""Sums over rows that solvers need before they start."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bigcat.rows.forms import Rows, is_sparse

#: Approximate number of squares held at a time: rows may be mapped from files larger than memory.
_VALUES_AT_A_TIME = 1 << 18


def squared_norms(rows: Rows) -> np.ndarray:
    """Return |x|^2 of each row."""
    if is_sparse(rows):
        n_rows = len(rows.indptr) - 1
        norms = np.empty(n_rows)
        step = max(1, n_rows * _VALUES_AT_A_TIME // max(len(rows.values), _VALUES_AT_A_TIME))
        for first in range(0, n_rows, step):
            indptr = rows.indptr[first : first + step + 1]
            values = rows.values[indptr[0] : indptr[-1]]
            squares = np.append(np.square(values, dtype=np.float64), 0.0)  # for empty last rows
            sums = np.add.reduceat(squares, np.minimum(indptr[:-1] - indptr[0], len(values)))
            norms[first : first + step] = np.where(np.diff(indptr) > 0, sums, 0.0)
        return norms
    return np.einsum("ij,ij->i", rows.values, rows.values, dtype=np.float64)


def batch_grams(rows: Rows, n_features: int, members: np.ndarray, batch_size: int) -> np.ndarray:
    """Return inner products of the rows of each batch, (n_batches, batch_size, batch_size).

    `members` lists the rows, batch after batch; the last batch may be smaller.
    """
    n_batches = -(-len(members) // batch_size)
    grams = np.zeros((n_batches, batch_size, batch_size))
    X: Any = rows.values
    if is_sparse(rows):
        shape = (len(rows.indptr) - 1, n_features)
        X = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=shape)
    for batch in range(n_batches):
        x = X[members[batch * batch_size : (batch + 1) * batch_size]].astype(np.float64)
        product = x @ x.T
        n = product.shape[0]
        grams[batch, :n, :n] = product.toarray() if is_sparse(rows) else product
    return grams


def squared_columns(rows: Rows, n_features: int, row_weights: np.ndarray) -> np.ndarray:
    """Return the weighted sum of x_j^2 over the rows for each feature."""
    if is_sparse(rows):
        weights = np.repeat(row_weights, np.diff(rows.indptr))
        squares = weights * np.square(rows.values, dtype=np.float64)
        return np.bincount(rows.indices, squares, n_features)
    return np.einsum("i,ij,ij->j", row_weights, rows.values, rows.values)
