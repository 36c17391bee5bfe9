"""Few rows with many features: a fit in the space that the rows span, which is as small as they.

The gradient of a row's value in a class's weights is a multiple of the row, and that of the ridge
one of the weights.  So L-BFGS that starts from zeros never leaves the span of the rows, and in
coordinates of an orthonormal basis of it, where lengths are what they were, it takes the same
steps: on n weights per class, not one per feature.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from bigcat.linear import FullRankWeights, Weights
from bigcat.machine import one_blas_thread
from bigcat.rows import Sizes
from bigcat.training.recipe import Recipe
from bigcat.training.sample import row_factors, row_sums

#: Numbers of the basis at most.
MOST_NUMBERS = 1 << 22
#: What one look at all rows costs per class, in multiplications of dense matrices: per dense value
#: of the rows, per sparse one, and per feature, by what L-BFGS does with the weights.
PER_DENSE_VALUE, PER_SPARSE_VALUE, PER_FEATURE = 4, 40, 400
#: The basis, per value of it and row.
PER_BASIS_VALUE = 8
#: Looks of one fit and of a search for the ridge, the fewest that are usual.
LOOKS, LOOKS_OF_SEARCH = 50, 500
#: The cost must fall by this factor.
LEAST_GAIN = 2.0


class RowSpace(NamedTuple):
    """The span of some rows: an orthonormal basis, (n_features, n_rows)."""

    basis: np.ndarray

    @classmethod
    def of(cls, X: Any) -> Self:
        """Rows that depend on others leave columns which no row meets, and weights there zero.

        So no tolerance has to say which ones do.  In whatever order rows come, the basis is one.
        """
        sums = row_sums(X, row_factors(X.shape[1]))
        rows = X[np.unique(sums, return_index=True)[1]]
        used: Any = slice(None)
        if scipy.sparse.issparse(X):
            used = np.unique(rows.indices)
            rows = rows[:, used].toarray()
        basis = np.zeros((X.shape[1], min(rows.shape)))
        with one_blas_thread:
            basis[used] = np.linalg.qr(rows.T.astype(np.float64))[0]
        return cls(basis)

    def turned(self, X: Any) -> np.ndarray:
        """Coordinates of rows; of a row outside the span, of the part that the weights meet."""
        return np.asarray(X @ self.basis)

    def turned_back(self, weights: Weights) -> FullRankWeights:
        """Weights for rows as they were, from those for their coordinates."""
        return FullRankWeights((weights.dense() @ self.basis.T).astype(np.float32))


def pays(recipe: Recipe, sizes: Sizes) -> bool:
    """Is a fit from zeros the same in the row space, and cheaper?"""
    kind = recipe.kind
    return (
        not recipe.parts.solver.stochastic
        and kind.linear_scores
        and kind.sees_problem_rows
        and (recipe.searches_ridge or recipe.l2 > 0.0)
        and recipe.init != "random"
        and sizes.n_rows * sizes.n_features <= MOST_NUMBERS
        and _gain(sizes, LOOKS_OF_SEARCH if recipe.searches_ridge else LOOKS) >= LEAST_GAIN
    )


def _gain(sizes: Sizes, looks: int) -> float:
    """The cost of a fit as it is, in costs of one in the row space."""
    n, n_features = sizes.n_rows, sizes.n_features
    per_value = PER_SPARSE_VALUE if sizes.sparse else PER_DENSE_VALUE
    as_it_is = per_value * sizes.n_values + PER_FEATURE * n_features
    in_space = PER_DENSE_VALUE * n * n + PER_FEATURE * n
    basis = PER_BASIS_VALUE * n_features * n * n
    return looks * sizes.n_classes * as_it_is / (looks * sizes.n_classes * in_space + basis)
