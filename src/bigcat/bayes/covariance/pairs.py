"""Products of all pairs of columns: Gram matrices of many classes by one product of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bigcat.bayes._arrays import Floats

#: Up to this many columns the Gram matrices of many classes are one product of pairs x_m x_l.
PAIRS_UP_TO = 256
#: Pairs held at a time.
PAIRS_CHUNK = 1 << 22


def pairs(rows: Floats, dtype: type = np.float64) -> Floats:
    """Return products x_m x_l, m <= l, of each row: (n, M (M + 1) / 2).

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
    """Return True if sparse rows have so few pairs that these are better kept sparse."""
    n, m = rows.shape
    squares = float(np.square(np.diff(rows.indptr).astype(float)).sum())
    return bool(squares <= SPARSE_PAIRS * n * m**2)


def sparse_pairs(rows: Any) -> Any:
    """Return `pairs` of CSR rows as a CSR matrix: r (r + 1) / 2 of a row with r values."""
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
    """Return coefficients of `pairs` for x' S_k x, (M (M + 1) / 2, B)."""
    m = matrices.shape[-1]
    first, second = np.triu_indices(m)
    coefficients = matrices[:, first, second].T
    return np.ascontiguousarray(coefficients * np.where(first == second, 1.0, 2.0)[:, None])


class BlockSums:
    """Sums over rows of w_nk x_n x_n' for some classes.

    Up to `PAIRS_UP_TO` columns they are products with all pairs of columns, above it one product of
    matrices per class.
    """

    def __init__(self, n_classes: int, n_columns: int, dtype: Any = np.float64) -> None:
        self.n_columns, self.dtype = n_columns, dtype
        self.of_pairs = n_columns <= PAIRS_UP_TO
        width = n_columns * (n_columns + 1) // 2 if self.of_pairs else n_columns**2
        self.sums = np.zeros((n_classes, width))

    def add(self, weights: Floats, rows: Any) -> None:
        """Add rows (n, M) with their weights (n, B)."""
        if scipy.sparse.issparse(rows):
            if self.of_pairs and few_pairs(rows):
                self.sums += np.asarray(sparse_pairs(rows).T.tocsr() @ weights).T
                return
            rows = rows.toarray()
        if not self.of_pairs:
            for total, own in zip(self.sums, np.sqrt(weights.T)):
                root = rows * own[:, None]
                total += (root.T @ root).ravel()
            return
        step = max(1, PAIRS_CHUNK // self.sums.shape[1])
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            products = pairs(rows[part], self.dtype)
            self.sums += weights[part].T.astype(self.dtype, copy=False) @ products

    def matrices(self, prior: Floats | float) -> Floats:
        """Return the sums with the precisions of a prior on their diagonals, (B, M, M)."""
        n = self.n_columns
        if self.of_pairs:
            out = np.empty((len(self.sums), n, n))
            first, second = np.triu_indices(n)
            out[:, first, second] = self.sums
            out[:, second, first] = self.sums
        else:
            out = self.sums.reshape(-1, n, n).copy()
        diagonal = np.arange(n)
        out[:, diagonal, diagonal] += prior
        return out
