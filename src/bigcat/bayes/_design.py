"""The rows of a problem with their intercept column: the few products that the Bayes code needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.bayes._arrays import Floats

#: Numbers that a temporary of row-wise work may hold.
CHUNK = 1 << 21
#: Numbers that stay in a core's cache.
CACHED = 1 << 17


class Design:
    """Rows in float64, dense or CSR, with a column of ones (last) where there is an intercept.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, n_features)
    intercept : bool
    row_weights : array of shape (n,), optional
        How often each row counts, in the sums over all rows: `gram`, `squared_sums`.
    """

    def __init__(self, X: Any, intercept: bool, row_weights: Floats | None = None) -> None:
        self.intercept = intercept
        self.sparse = scipy.sparse.issparse(X)
        n = X.shape[0]
        self.row_weights = np.ones(n) if row_weights is None else row_weights
        self.weighted = bool((self.row_weights != 1.0).any())
        self.total_weight = float(self.row_weights.sum())
        if self.sparse:
            X = scipy.sparse.csr_array(X, dtype=np.float64)
            if intercept:
                X = _with_ones(X)
            self.rows: Any = X
        else:
            rows = np.empty((n, X.shape[1] + intercept))
            rows[:, : X.shape[1]] = X
            if intercept:
                rows[:, -1] = 1.0
            self.rows = rows
        self.n, self.n_columns = self.rows.shape

    def product(self, weights: Floats) -> Floats:
        """X W, (n, B), for W of shape (n_columns, B)."""
        product: Floats = self.rows @ np.ascontiguousarray(weights)
        return product

    def transposed(self, values: Floats) -> Floats:
        """X' R, (n_columns, B), for R of shape (n, B)."""
        product: Floats = self.rows.T @ values
        return product

    def curvature_product(self, weights: Floats, values: Floats) -> Floats:
        """Return X' (w * (X V)), (n_columns, B): in float32 for float32 weights."""
        if self.sparse:
            product: Floats = self.rows.T @ (weights * (self.rows @ np.ascontiguousarray(values)))
            return product
        rows_array = self._rough_rows() if weights.dtype == np.float32 else self.rows
        values = np.ascontiguousarray(values, rows_array.dtype)
        out = np.zeros(values.shape)
        # Few rows at a time: the factors stay in the cache.
        for rows in self.chunks(values.shape[1], CACHED):
            part = rows_array[rows]
            out += part.T @ (weights[rows] * (part @ values))
        return out

    def _rough_rows(self) -> Floats:
        if not hasattr(self, "_rough"):
            self._rough: Floats = self.rows.astype(np.float32)
        return self._rough

    def gram(self) -> Floats:
        """Return X' S X as a dense matrix, S being the weights of the rows."""
        weights = self.row_weights if self.weighted else None
        if self.sparse:
            left = self.rows if weights is None else self.rows.multiply(weights[:, None])
            return np.asarray((scipy.sparse.csr_array(left).T @ self.rows).todense())
        if weights is None:
            gram: Floats = self.rows.T @ self.rows
            return gram
        root: Floats = np.sqrt(weights)[:, None] * self.rows
        return root.T @ root  # one argument twice: BLAS computes half of it

    def squared_sums(self) -> Floats:
        """sum_i s_i x_im^2, (n_columns,): the diagonal of the Gram matrix without the matrix."""
        if self.sparse:
            squares = self.rows.data * self.rows.data
            if self.weighted:
                squares *= np.repeat(self.row_weights, np.diff(self.rows.indptr))
            sums: np.ndarray = np.bincount(self.rows.indices, squares, minlength=self.n_columns)
        elif self.weighted:
            sums = np.einsum("i,im,im->m", self.row_weights, self.rows, self.rows)
        else:
            sums = np.einsum("im,im->m", self.rows, self.rows)
        return sums

    def squares_product(self, weights: Floats) -> Floats:
        """(X * X) W, (n, B)."""
        if self.sparse:
            product: Floats = self._squares() @ np.ascontiguousarray(weights)
            return product
        out = np.empty((self.n, weights.shape[1]))
        for rows in self.chunks(self.n_columns):
            np.matmul(np.square(self.rows[rows]), weights, out=out[rows])
        return out

    def squares_transposed(self, values: Floats) -> Floats:
        """(X * X)' R, (n_columns, B)."""
        if self.sparse:
            product: Floats = self._squares().T @ values
            return product
        out = np.zeros((self.n_columns, values.shape[1]))
        for rows in self.chunks(self.n_columns):
            out += np.square(self.rows[rows]).T @ values[rows]
        return out

    def quadratic(self, matrix: Floats) -> Floats:
        """x_i' S x_i for each row, (n,)."""
        out = np.empty(self.n)
        for rows in self.chunks(self.n_columns):
            part = self.dense(rows)
            out[rows] = np.einsum("im,im->i", part @ matrix, part)
        return out

    def dense(self, rows: slice) -> Floats:
        """Return some of the rows as a dense array."""
        some: Floats = self.rows[rows].toarray() if self.sparse else self.rows[rows]
        return some

    def chunks(self, numbers_a_row: int, most: int = CHUNK) -> Iterator[slice]:
        """Slices of rows, so that a temporary of that width stays small."""
        step = max(1, most // max(1, numbers_a_row))
        for start in range(0, self.n, step):
            yield slice(start, min(start + step, self.n))

    def _squares(self) -> Any:
        if not hasattr(self, "_squared"):  # indices are shared: only the values are new
            parts = (np.square(self.rows.data), self.rows.indices, self.rows.indptr)
            self._squared = scipy.sparse.csr_array(parts, shape=self.rows.shape)
        return self._squared


def _with_ones(X: Any) -> Any:
    """Return a CSR matrix with a last column of ones."""
    n, m = X.shape
    ends = X.indptr[1:]
    indices = np.insert(X.indices, ends, m)
    values = np.insert(X.data, ends, 1.0)
    indptr = X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)
    return scipy.sparse.csr_array((values, indices, indptr), shape=(n, m + 1))
