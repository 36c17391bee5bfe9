"""Products of all pairs of columns: Gram matrices of many classes by one product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design

#: Up to this many columns the Gram matrices of many classes are one product of pairs x_m x_l.
PAIRS_UP_TO = 256
#: Pairs held at a time.
PAIRS_CHUNK = 1 << 22


def pairs(rows: Floats, dtype: type = np.float64) -> Floats:
    """Products x_m x_l, m <= l, of each row: (n, M (M + 1) / 2).

    X' diag(w_k) X for many k is then one matrix product pairs' W, and x' Sigma_k x another: half
    the operations of a product per class, and BLAS at full speed.
    """
    n, m = rows.shape
    rows = rows.astype(dtype, copy=False)
    out = np.empty((n, m * (m + 1) // 2), dtype)
    start = 0
    for i in range(m):
        stop = start + m - i
        np.multiply(rows[:, i : i + 1], rows[:, i:], out=out[:, start:stop])
        start = stop
    return out


#: Sparse rows are multiplied as such where they have at most this part of all pairs.
SPARSE_PAIRS = 0.1


def few_pairs(rows: Any) -> bool:
    """Do sparse rows have so few pairs that these are better kept sparse, too?"""
    n, m = rows.shape
    squares = float(np.square(np.diff(rows.indptr).astype(float)).sum())
    return bool(squares <= SPARSE_PAIRS * n * m**2)


def sparse_pairs(rows: Any) -> Any:
    """`pairs` of CSR rows, as a CSR matrix: a row with r values has r (r + 1) / 2 of them."""
    rows = scipy.sparse.csr_array(rows)
    rows.sort_indices()
    n, m = rows.shape
    lengths = np.diff(rows.indptr)
    columns, values = [], []
    for start, stop in zip(rows.indptr[:-1], rows.indptr[1:]):
        first, second = np.triu_indices(stop - start)
        left, right = rows.indices[start:stop][first].astype(np.int64), rows.indices[start:stop]
        columns.append(left * m - left * (left - 1) // 2 + right[second] - left)
        values.append(rows.data[start:stop][first] * rows.data[start:stop][second])
    starts = np.append(0, np.cumsum(lengths.astype(np.int64) * (lengths + 1) // 2))
    parts = (np.concatenate(values), np.concatenate(columns), starts)
    return scipy.sparse.csr_array(parts, shape=(n, m * (m + 1) // 2))


def packed(matrices: Floats) -> Floats:
    """Coefficients of `pairs` for x' S_k x: (M (M + 1) / 2, B); off-diagonal ones count twice."""
    m = matrices.shape[-1]
    first, second = np.triu_indices(m)
    coefficients = matrices[:, first, second].T
    return np.ascontiguousarray(coefficients * np.where(first == second, 1.0, 2.0)[:, None])


def sums_of_pairs(design: Design, weights: Floats, dtype: type) -> Floats:
    """X' diag(w_k) X of every column of `weights`, (B, M, M)."""
    m = design.n_columns
    sums = np.zeros((weights.shape[1], m * (m + 1) // 2))
    for rows in design.chunks(sums.shape[1], PAIRS_CHUNK):
        sums += weights[rows].T.astype(dtype, copy=False) @ pairs(design.dense(rows), dtype)
    out = np.empty((len(sums), m, m))
    start = 0
    for i in range(m):
        stop = start + m - i
        out[:, i, i:] = sums[:, start:stop]
        out[:, i:, i] = sums[:, start:stop]
        start = stop
    return out
