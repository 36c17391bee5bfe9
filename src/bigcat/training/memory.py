"""What a fit needs in memory, and what there is."""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat.machine import available_memory
from bigcat.solvers import LBFGS
from bigcat.training.loop import is_buffered
from bigcat.training.recipe import Recipe, Sizes
from bigcat.training.routes import batches as _products

_GIB = 1 << 30
#: Labels, weights, the order of visits and the last one's.
NUMBERS_A_ROW = 4


#: Weights above which a fit runs in float32 whatever X is: of full rank, and of low rank, whose
#: products of matrices take twice as long in float64.
MANY_WEIGHTS, MANY_FACTORS = 1 << 24, 1 << 16


def working_dtype(dtype: Any, n_features: int, n_classes: int, rank: int | None = None) -> type:
    """float32 where X is or the weights are many; float64 otherwise. `coef_` is always float32."""
    many = MANY_WEIGHTS if rank is None else MANY_FACTORS
    few = n_weights(n_features, n_classes, rank) <= many
    return np.float64 if few and dtype != np.float32 else np.float32


def n_weights(n_features: int, n_classes: int, rank: int | None) -> int:
    """Weights of a model: one a feature and class, or a vector of `rank` for each of them."""
    if rank is None:
        return n_features * n_classes
    return (n_features + n_classes) * rank


def needed(recipe: Recipe, sizes: Sizes, max_row_nonzeros: int, dtype: Any) -> int:
    """Bytes that a fit needs beside the data."""
    parts, solver = recipe.parts, recipe.parts.solver
    weights = n_weights(sizes.n_features, sizes.n_classes, recipe.rank)
    kind = working_dtype(dtype, sizes.n_features, sizes.n_classes, recipe.rank)
    item = np.dtype(kind).itemsize
    if isinstance(solver, LBFGS):  # float64, its pairs of vectors, a few work arrays
        return 8 * weights * (2 * solver.memory + 8) + 8 * (1 << 23)
    batch_size = min(recipe.batch_size, sizes.n_rows)
    work = item * _work(recipe, sizes, max_row_nonzeros, batch_size, weights) * recipe.n_threads
    remembers = solver.has_state and not solver.needs_vectors
    copies = 1 + remembers + recipe.early_stopping + getattr(solver, "average", False)
    a_row = NUMBERS_A_ROW + parts.bound.n_local + solver.damped
    a_row += solver.implicit * (1 if batch_size == 1 else batch_size)
    sampler = parts.sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
    return item * weights * copies + work + 8 * sizes.n_rows * a_row + sampler


def _work(
    recipe: Recipe, sizes: Sizes, max_row_nonzeros: int, batch_size: int, weights: int
) -> int:
    """Numbers that a thread needs for a batch: mostly for its gradient."""
    solver, sampler, rank = recipe.parts.solver, recipe.parts.sampler, recipe.rank
    drawn = sampler.width(sizes.n_classes) + 1
    n_minors = rank or (sizes.n_classes if sizes.sparse else sizes.n_features)
    embedded = 0  # numbers for the vectors of features
    if rank is not None:
        embedded = rank * min(sizes.n_features, batch_size * max_row_nonzeros)
        if not sizes.sparse:
            embedded = sizes.n_features * (rank + batch_size)
    if _products.applies(rank is not None or not sizes.sparse, sampler, solver, batch_size):
        if rank is not None and sizes.sparse:
            n_entries = min(batch_size * max_row_nonzeros, sizes.n_values)
            embedded = _products.entry_numbers(sizes.n_features, n_entries)
        return _products.work_numbers(batch_size, drawn, n_minors) + embedded
    if not is_buffered(solver, batch_size, rank):
        return 0
    if rank is not None:
        return batch_size * drawn * rank + embedded
    a_row = max_row_nonzeros if sizes.sparse else drawn
    return min(weights, batch_size * a_row * n_minors)


def check(needed: int, shape: tuple[int, int], remedy: str) -> None:
    """Raise before any work where the fit cannot have what it needs."""
    there = available_memory()
    if there is not None and needed > there:
        raise MemoryError(
            f"the fit needs {needed / _GIB:.2f} GiB for {shape[0]:,} classes and {shape[1]:,} "
            f"features, and {there / _GIB:.2f} GiB are available; {remedy}"
        )
