"""Scaling of the columns for posteriors: the centre and the size of each column.

Fits use scaled columns, and the posterior stores their weights.  Weights for the columns as given,
w = w_s / sizes and b = b_s - w . centres, are computed only for display: with a centre of 1e8 sizes
this difference would lose all digits in single precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bigcat.bayes._arrays import Floats
from bigcat.rows import MIN_COLUMN_SIZE, varies

#: Share of non-zeros up to which a column counts as mostly zero.
MOSTLY_ZERO = 0.5
#: Maximal columns, and numbers with zeros (128 MB), of sparse rows that become dense and centred.
MAX_DENSE_COLUMNS, MAX_DENSE_NUMBERS = 1_024, 1 << 24


class PosteriorColumns(NamedTuple):
    """The map from columns as given to the scaled columns of a fit.

    Parameters
    ----------
    sizes : array of shape (n_features,)
        Deviations where columns are centred, else root mean squares.  A column that is mostly zero
        has the root mean square of the rest: else a word would count for more the rarer it is.
    centres : array of shape (n_features,) or None
        Means; None for sparse columns, and without an intercept to make up for them.
    embedding : array of shape (n_given, n_features) or None
        Of a low-rank model: the columns are those of ``X @ embedding``.
    squared_length : float
        Mean squared length of a scaled row: the variance of a score whose weights have variance 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.bayes.columns import PosteriorColumns
    >>> X = np.array([[1e8, 0.1], [1e8 + 2.0, 0.1]])
    >>> columns = PosteriorColumns.of(X, np.ones(2), centred=True)
    >>> columns.apply(X).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    sizes: Floats
    centres: Floats | None
    squared_length: float
    embedding: Floats | None = None

    @classmethod
    def of(
        cls, X: Any, row_weights: Floats, centred: bool, embedding: Floats | None = None
    ) -> PosteriorColumns:
        """Return the scaling of some rows, whose weights may be fractions.

        Sparse rows of few numbers are treated as dense ones, so that both have one posterior.  A
        column that varies by the rounding of its type alone is constant: its scaled values are zero
        to rounding, and its unit is its own value.
        """
        if embedding is not None:
            inner = cls.of(np.asarray(X @ embedding), row_weights, centred)
            return inner._replace(embedding=embedding)
        centres = None
        few = X.shape[1] <= MAX_DENSE_COLUMNS and X.shape[0] * X.shape[1] <= MAX_DENSE_NUMBERS
        if scipy.sparse.issparse(X) and few:
            X = X.toarray()
        if centred and not scipy.sparse.issparse(X):
            sums = ColumnSums.of(X, row_weights)
            centres = sums.means
            # The mean of the residues takes the rounding of the first sum off.
            centres = centres + ColumnSums.of(X, row_weights, centres).means
        sums = ColumnSums.of(X, row_weights, centres)
        squares, share = sums.squares / sums.weight, sums.counts / sums.weight
        if centres is None:
            rare = (share < MOSTLY_ZERO) & (share > 0.0)
            squares = np.where(rare, squares / np.where(rare, share, 1.0), squares)
            sizes, own = np.sqrt(squares), np.ones(len(squares))
        else:
            sizes = np.sqrt(squares)
            sizes = np.where(varies(sizes, centres, X.dtype), sizes, 0.0)
            own = np.abs(centres)
        kept = sizes > MIN_COLUMN_SIZE
        length = max(float((sums.squares / sums.weight)[kept] @ sizes[kept] ** -2.0), 1e-12)
        return cls(
            np.where(kept, sizes, np.where(own > MIN_COLUMN_SIZE, own, 1.0)), centres, length
        )

    def apply(self, X: Any) -> Any:
        """Return the scaled columns of some rows, in double precision."""
        if self.embedding is not None:
            X = np.asarray(X @ self.embedding)
        if scipy.sparse.issparse(X) and self.centres is not None:
            X = X.toarray()
        if scipy.sparse.issparse(X):
            scaled = scipy.sparse.csr_array(X, dtype=np.float64, copy=True)
            scaled.data /= self.sizes[scaled.indices]
            return scaled
        X = np.asarray(X, np.float64)
        return (X if self.centres is None else X - self.centres) / self.sizes

    def turn(self, intercept: bool) -> Any:
        """Return T such that T w_s are the weights for columns as given, a CSR matrix."""
        upper: Any = scipy.sparse.diags_array(1.0 / self.sizes)
        if self.embedding is not None:
            upper = scipy.sparse.csr_array(self.embedding / self.sizes)
        if not intercept:
            return upper.tocsr()
        last = np.zeros((1, len(self.sizes)))
        if self.centres is not None:
            last -= self.centres / self.sizes
        last, one = scipy.sparse.csr_array(last), scipy.sparse.csr_array([[1.0]])
        return scipy.sparse.block_array([[upper, None], [last, one]], format="csr")

    def restore(self, weights: Floats, intercept: bool) -> Floats:
        """Return weights (..., M) for columns as given from those for scaled columns."""
        turn, flat = self.turn(intercept), weights.reshape(-1, weights.shape[-1])
        found: Floats = np.ascontiguousarray((turn @ flat.T.astype(np.float64)).T)
        return found.reshape(*weights.shape[:-1], turn.shape[0])


class ColumnSums(NamedTuple):
    """Sums over rows.

    Parameters
    ----------
    sums, squares, counts : arrays of shape (n_features,)
        Of values, squared values, and values that are not zero.
    weight : float
        Of the rows.
    """

    sums: Floats
    squares: Floats
    counts: Floats
    weight: float

    @classmethod
    def of(cls, X: Any, row_weights: Floats, centres: Floats | None = None) -> ColumnSums:
        """Return the sums of some rows, less the centres."""
        weight = float(row_weights.sum())
        if scipy.sparse.issparse(X):
            data = X.data.astype(np.float64)
            of_values = np.repeat(row_weights, np.diff(X.indptr))
            found: list[Any] = [
                np.bincount(X.indices, of_values * values, minlength=X.shape[1])
                for values in (data, data * data, data != 0.0)
            ]
            return cls(found[0], found[1], found[2], weight)
        rows = np.asarray(X, np.float64)
        rows = rows if centres is None else rows - centres
        return cls(
            row_weights @ rows,
            np.einsum("n,nm,nm->m", row_weights, rows, rows),
            row_weights @ (rows != 0.0),
            weight,
        )

    @property
    def means(self) -> Floats:
        """Means, (n_features,)."""
        return self.sums / self.weight
