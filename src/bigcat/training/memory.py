"""What a fit needs in memory, said before it begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from bigcat.machine import available_memory
from bigcat.rows import Sizes
from bigcat.training import row_space
from bigcat.training.recipe import Recipe
from bigcat.training.routes import Journey, route_for

_GIB = 1 << 30
#: Labels, weights, the order of visits and the last one's.
NUMBERS_PER_ROW = 4
#: A pair's class and weights, with and without held-out rows, and what finding it takes (30 where
#: all values differ).
PAIR_BYTES = 48
#: Numbers of the scores that L-BFGS holds at a time.
LBFGS_BLOCK = 1 << 23


def needed(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> int:
    """Bytes that a fit needs beside the data."""
    parts, solver, kind = recipe.parts, recipe.parts.solver, recipe.kind
    n_weights = kind.n_weights(sizes.n_features, sizes.n_classes)
    if not solver.stochastic:  # in float64
        if row_space.pays(recipe, sizes):  # rows and their basis, and weights to turn back
            held = kind.n_weights(sizes.n_rows, sizes.n_classes) * solver.arrays_held
            return 8 * (held + 2 * sizes.n_rows * sizes.n_features + n_weights + LBFGS_BLOCK)
        return 8 * (n_weights * solver.arrays_held + LBFGS_BLOCK)
    item = np.dtype(kind.working_dtype(dtype, sizes.n_features, sizes.n_classes)).itemsize
    batch_size = min(recipe.batch_size, sizes.n_rows)
    journey = Journey(parts, kind, sizes, batch_size, parts.sampler.n_exact)
    scratch = item * route_for(journey).scratch_numbers(journey) * recipe.n_threads
    remembers = solver.has_state and not solver.needs_vectors
    copies = 1 + remembers + recipe.early_stopping + solver.averages
    if recipe.n_apart > 1:  # put side by side in the end
        copies += recipe.n_apart
    per_row = NUMBERS_PER_ROW + parts.bound.n_local + solver.damped
    per_row += solver.implicit * (1 if batch_size == 1 else batch_size)
    if recipe.scales_columns:
        scratch += item * sizes.n_values
    if recipe.with_pairs:  # one at most for each value
        scratch += PAIR_BYTES * sizes.n_values
    scratch += sum(needed(member, sizes, dtype) for member in recipe.beside)
    tables = parts.sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
    of_passes = item * n_weights * copies + scratch + 8 * sizes.n_rows * per_row + tables
    instead = recipe.otherwise  # made when the passes are done
    return max(of_passes, needed(instead, sizes, dtype)) if instead else of_passes


def check(needed: int, n_classes: int, n_features: int, remedy: str) -> None:
    """Raise before any work where the fit cannot have what it needs."""
    there = available_memory()
    if there is not None and needed > there:
        raise MemoryError(
            f"the fit needs {needed / _GIB:.2f} GiB for {n_classes:,} classes and {n_features:,} "
            f"features, and {there / _GIB:.2f} GiB are available; {remedy}"
        )


def check_fit(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> None:
    """`check` for a linear fit."""
    remedy = "drop rare features or classes, or take solver='sgd', which needs the weights only"
    if recipe.kind.rank is None:
        remedy += ", or a rank, with which a class has as many weights as that"
    check(needed(recipe, sizes, dtype), sizes.n_classes, sizes.n_features, remedy)
