"""What a fit needs in memory, said before it begins: at the moment when it needs most.

Weights that are mapped to files (`bigcat.storage`) need a disk instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from bigcat.machine import available_memory
from bigcat.rows import Sizes
from bigcat.rows.columns import LOOKED_AT
from bigcat.training import blend, lbfgs, rate_search, row_space
from bigcat.training.recipe import Recipe
from bigcat.training.routes import Journey, route_for

_GIB = 1 << 30
#: Fitted weights are float32, and so are scores of models with many of them.
SINGLE = 4
#: Labels, weights, the order of visits and the last one's.
NUMBERS_PER_ROW = 4
#: The same of rows that are held out and those that are left, and what tells copies of rows apart.
NUMBERS_PER_ROW_HELD_OUT = 10
#: A pair's class and weights, with and without held-out rows, and what finding it takes (30 where
#: all values differ).
PAIR_BYTES = 48
#: Arrays of the rows that are looked at to find how columns are scaled.
ARRAYS_OF_COLUMNS = 3
#: Arrays of the size of the weights that L-BFGS takes beside its own, for a look at all rows; and
#: arrays of the scores in that look.
LBFGS_ARRAYS, LBFGS_SCORES = 10, 3
#: Arrays of the rows while their basis is found.
BASIS_ARRAYS = 5


class Need(NamedTuple):
    """Bytes at the most."""

    memory: int
    disk: int = 0

    def beside(self, *others: Need) -> Need:
        """Together with what is there at the same time."""
        together = (self, *others)
        return Need(sum(need.memory for need in together), sum(need.disk for need in together))

    def or_if_more(self, *others: Need) -> Need:
        """Where others are needed at other times."""
        turns = (self, *others)
        return Need(max(need.memory for need in turns), max(need.disk for need in turns))


NOTHING = Need(0)


def needed(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> Need:
    """What a fit needs beside the data, which are of that type."""
    if not recipe.parts.solver.stochastic:
        return Need(_of_lbfgs(recipe, sizes, dtype))
    held_out = recipe.blends or recipe.early_stopping or recipe.searches_rate
    rows = Need(_of_rows(recipe, sizes, dtype, held_out))
    found = rows.beside(_of_fits(recipe, sizes, dtype))
    # Exact fits are made when passes are done.
    exact = [needed(exact, sizes, dtype) for exact in recipe.exact_fits]
    return found.or_if_more(Need(_of_scales(recipe, sizes)), *exact)


def _of_weights(recipe: Recipe, n_bytes: int) -> Need:
    """Arrays of the size of the weights, where the recipe has them."""
    return Need(0, n_bytes) if recipe.kind.storage.on_disk else Need(n_bytes)


def _of_rows(recipe: Recipe, sizes: Sizes, dtype: DTypeLike, held_out: bool) -> int:
    """Copies of the rows, and what there is of each row: all that stays as long as the fit."""
    parts, solver = recipe.parts, recipe.parts.solver
    of_value, item = np.dtype(dtype).itemsize, _working_bytes(recipe, sizes, dtype)
    index = SINGLE if sizes.sparse else 0
    copies = held_out + (recipe.scales_columns and not sizes.sparse)
    if recipe.window is not None:  # rows stay in their files
        copies = 0
    values = copies * sizes.n_values * (of_value + index)
    if item != of_value:
        values += item * sizes.n_values
    batch_size = min(recipe.batch_size, sizes.n_rows)
    per_row = NUMBERS_PER_ROW_HELD_OUT if held_out else NUMBERS_PER_ROW
    per_row += parts.bound.n_local + solver.damped
    per_row += solver.implicit * (1 if batch_size == 1 else batch_size)
    return values + 8 * sizes.n_rows * per_row


def _of_scales(recipe: Recipe, sizes: Sizes) -> int:
    """When some rows are looked at in double precision, before there are copies of them."""
    if sizes.sparse or not recipe.scales_columns:
        return 0
    step = -(-sizes.n_rows // LOOKED_AT)
    looked_at = -(-sizes.n_rows // step) * sizes.n_features
    return 8 * (ARRAYS_OF_COLUMNS * looked_at + NUMBERS_PER_ROW * sizes.n_rows)


def _of_trials(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> Need:
    """Short fits that find the rate, with the classes and features of some rows."""
    n = rate_search.n_trial_rows(sizes.n_rows)
    n_values = sizes.n_values * n // sizes.n_rows
    n_features = min(sizes.n_features, n_values) if sizes.sparse else sizes.n_features
    few = sizes._replace(
        n_rows=n, n_values=n_values, n_features=n_features, n_classes=min(sizes.n_classes, n)
    )
    trial = replace(recipe, early_stopping=False)
    of_rows = Need(_of_rows(trial, few, dtype, held_out=True))
    return _training(trial, few, dtype).beside(of_rows)


def _of_fits(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> Need:
    """All fits whose scores are added, one after the other, and their sum."""
    of_fit, of_sum = _training(recipe, sizes, dtype), NOTHING
    fitted = SINGLE * recipe.kind.n_weights(sizes.n_features, sizes.n_classes)
    kept = _of_weights(recipe, fitted * recipe.n_apart)  # when all are fitted
    # A fit that is slower is made beside the best one so far.
    others = max(recipe.n_apart - 1, int(recipe.slows_down and recipe.kind.rank is None))
    found = of_fit.beside(_of_weights(recipe, fitted * others))
    if recipe.searches_rate:
        found = found.or_if_more(_of_trials(recipe, sizes, dtype))
    if recipe.n_apart > 1:  # put side by side in the end
        of_sum = Need(fitted * recipe.n_apart)
    for member in recipe.beside:
        found = found.or_if_more(kept.beside(_of_fits(member, sizes, dtype)))
        of_member = SINGLE * member.kind.n_weights(sizes.n_features, sizes.n_classes)
        kept = kept.beside(_of_weights(member, of_member * member.n_apart))
        # The sum is of full rank: it, and two terms of it.
        of_sum = Need(3 * SINGLE * sizes.n_features * sizes.n_classes)
    if recipe.with_pairs:  # one at most for each value
        kept = kept.beside(Need(PAIR_BYTES * sizes.n_values))
        found = found.or_if_more(kept)
    if recipe.blends:
        of_sum = of_sum.beside(Need(_of_blend(recipe, sizes)))
    return found.or_if_more(kept.beside(of_sum))


def _of_blend(recipe: Recipe, sizes: Sizes) -> int:
    """Scores of held-out rows, by all that are added and while they are made."""
    scores = sizes.n_classes * min(blend.most_rows_scored(sizes.n_classes), sizes.n_rows)
    n_models = 1 + len(recipe.beside) + recipe.with_pairs
    if scores > 4 * blend.MOST_SCORES:  # they are made again for each look
        return SINGLE * blend.MOST_SCORES * (1 + n_models)
    return SINGLE * scores * (1 + n_models)


def _training(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> Need:
    """One fit: weights as they are put in order, as they move, and as they are handed over."""
    parts, solver, kind = recipe.parts, recipe.parts.solver, recipe.kind
    item = _working_bytes(recipe, sizes, dtype)
    n_weights = kind.n_weights(sizes.n_features, sizes.n_classes)
    batch_size = min(recipe.batch_size, sizes.n_rows)
    journey = Journey(parts, kind, sizes, batch_size, parts.sampler.n_exact)
    scratch = item * route_for(journey).scratch_numbers(journey) * recipe.n_threads
    remembers = solver.has_state and not solver.needs_vectors
    copies = 1 + remembers + recipe.early_stopping + solver.averages
    tables = parts.sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
    looked_at = kind.n_beside(sizes.n_features, sizes.n_classes, trained=True)
    moving = _of_weights(recipe, item * (n_weights * copies + looked_at))
    beside = kind.n_beside(sizes.n_features, sizes.n_classes, trained=False)
    made = item * (n_weights + beside)
    handed_over = item * n_weights + (SINGLE * n_weights if item != SINGLE else 0)
    if recipe.scales_columns and not sizes.sparse:  # turned back in float64
        handed_over = max(handed_over, (SINGLE + 8) * n_weights)
    return moving.beside(Need(scratch + tables)).or_if_more(
        _of_weights(recipe, made), _of_weights(recipe, handed_over)
    )


def _of_lbfgs(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> int:
    """In float64; rows too, all of them where their scores are one block."""
    solver, kind = recipe.parts.solver, recipe.kind
    n_weights = kind.n_weights(sizes.n_features, sizes.n_classes)
    arrays = solver.arrays_held + LBFGS_ARRAYS
    scores = min(sizes.n_rows * sizes.n_classes, lbfgs.BLOCK) * LBFGS_SCORES
    per_row = 8 * sizes.n_rows * NUMBERS_PER_ROW_HELD_OUT
    if row_space.pays(recipe, sizes):  # rows and their basis, and weights to turn back
        held = kind.n_weights(sizes.n_rows, sizes.n_classes) * arrays
        basis = BASIS_ARRAYS * sizes.n_rows * sizes.n_features
        return 8 * (held + basis + 2 * n_weights + scores) + per_row
    part = min(1.0, max(1, lbfgs.BLOCK // sizes.n_classes) / sizes.n_rows)
    values = 0 if np.dtype(dtype) == np.float64 else int(part * sizes.n_values)
    return 8 * (n_weights * arrays + values + scores) + per_row


def _working_bytes(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> int:
    """Of a number in training."""
    working = recipe.kind.working_dtype(np.dtype(dtype), sizes.n_features, sizes.n_classes)
    return np.dtype(working).itemsize


def check(needed: int, n_classes: int, n_features: int, remedy: str) -> None:
    """Raise before any work where the fit cannot have what it needs."""
    there = available_memory()
    if there is not None and needed > there:
        raise MemoryError(
            f"the fit needs {needed / _GIB:.2f} GiB for {n_classes:,} classes and {n_features:,} "
            f"features, and {there / _GIB:.2f} GiB are available; {remedy}"
        )


def check_fit(recipe: Recipe, sizes: Sizes, dtype: DTypeLike) -> None:
    """`check` for a linear fit, and a look at the disk where weights are mapped to files."""
    remedy = "drop rare features or classes, or take solver='sgd', which needs the weights only"
    if recipe.kind.rank is None:
        remedy += ", or a rank, with which a class has as many weights as that"
    if recipe.parts.solver.stochastic and not recipe.kind.storage.on_disk:
        remedy += ", or a weights_folder on a disk that has room for them"
    need = needed(recipe, sizes, dtype)
    check(need.memory, sizes.n_classes, sizes.n_features, remedy)
    recipe.kind.storage.check_room(need.disk)
