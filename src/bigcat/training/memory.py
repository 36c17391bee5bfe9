"""Forecast of the peak memory of a fit, before it begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from bigcat._system import available_memory
from bigcat.rows import Sizes
from bigcat.rows.columns import MAX_ROWS
from bigcat.training import lbfgs, stacking
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.data import MAX_ROWS_OF_FOLDS
from bigcat.training.strategies import Workload, strategy_for
from bigcat.training.validation import n_validation_rows

_GIB = 1 << 30
#: Fitted weights are float32, and so are scores of models with many of them.
SINGLE = 4
#: Labels, weights, and the order of visits of this epoch and of the last one.
NUMBERS_PER_ROW = 4
#: The same with validation rows.
NUMBERS_PER_ROW_HELD_OUT = 10
#: A pair's class and weight, and what finding it takes.
PAIR_BYTES = 40
#: Number of arrays of the sampled rows that the search for column scales takes.
ARRAYS_OF_COLUMNS = 3
#: Arrays of the size of the weights that an evaluation of L-BFGS takes beside its own, and
#: arrays of the size of the scores.
LBFGS_ARRAYS, LBFGS_SCORES = 10, 3


def needed(plan: FitPlan, sizes: Sizes, dtype: DTypeLike) -> int:
    """Return the bytes that a fit needs beside the data, which are of that type."""
    passes = [c.config for c in plan.candidates if c.config.parts.solver.stochastic]
    held_out = plan.stacks or plan.first.validation_fraction is not None
    kept = found = 0
    fits_in_folds = plan.stacks and sizes.n_rows <= MAX_ROWS_OF_FOLDS
    for candidate in plan.candidates:
        found = max(found, kept + _of_fit(candidate, sizes, dtype, plan))
        kept += _kept(candidate, sizes)
    if len(plan.candidates) > 1:  # vectors side by side, or a matrix of all weights
        ranks = [c.config.kind.rank or 0 for c in plan.candidates]
        total = SINGLE * sum(ranks) * max(sizes.n_features, sizes.n_classes)
        if any(c.in_pairs for c in plan.candidates):
            total += SINGLE * sizes.n_values
        elif 0 in ranks:
            total = 3 * SINGLE * sizes.n_features * sizes.n_classes
        found = max(found, kept + total)
    if plan.stacks and (passes or not fits_in_folds):
        found = max(found, kept + _of_stacking(plan, sizes))
    if passes:
        found += _of_rows(passes[0], sizes, dtype, held_out, plan.scales_columns)
    return max(found, _of_scales(plan, sizes))


def _of_fit(candidate: Candidate, sizes: Sizes, dtype: DTypeLike, plan: FitPlan) -> int:
    config = candidate.config
    if not config.parts.solver.stochastic:
        return _of_lbfgs(config, sizes, dtype)
    if candidate.in_pairs:
        sampler = config.parts.sampler
        tables = sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
        return PAIR_BYTES * sizes.n_values + tables
    return _training(config, sizes, dtype, plan.scales_columns)


def _kept(candidate: Candidate, sizes: Sizes) -> int:
    """Return the bytes of a candidate's fitted weights."""
    if candidate.in_pairs:  # one at most for each value
        return 2 * SINGLE * sizes.n_values
    kind = candidate.config.kind
    return SINGLE * kind.n_weights(sizes.n_features, sizes.n_classes)


def _of_rows(
    config: FitConfig, sizes: Sizes, dtype: DTypeLike, held_out: bool, scales_columns: bool
) -> int:
    """Return the bytes of copies of the rows and of values per row."""
    parts, solver = config.parts, config.parts.solver
    of_value, item = np.dtype(dtype).itemsize, _working_bytes(config, sizes, dtype)
    index = SINGLE if sizes.sparse else 0
    copies = held_out + (scales_columns and not sizes.sparse)
    if config.window is not None:  # rows stay in their files
        copies = 0
    values = copies * sizes.n_values * (of_value + index)
    if item != of_value:
        values += item * sizes.n_values
    batch_size = min(config.batch_size, sizes.n_rows)
    per_row = NUMBERS_PER_ROW_HELD_OUT if held_out else NUMBERS_PER_ROW
    per_row += parts.bound.n_local + solver.damped
    per_row += solver.implicit * (1 if batch_size == 1 else batch_size)
    return values + 8 * sizes.n_rows * per_row


def _of_scales(plan: FitPlan, sizes: Sizes) -> int:
    """Return the bytes of some rows in double precision."""
    if sizes.sparse or not plan.scales_columns:
        return 0
    step = -(-sizes.n_rows // MAX_ROWS)
    looked_at = -(-sizes.n_rows // step) * sizes.n_features
    return 8 * (ARRAYS_OF_COLUMNS * looked_at + NUMBERS_PER_ROW * sizes.n_rows)


def _of_stacking(plan: FitPlan, sizes: Sizes) -> int:
    """Return the bytes of scores of validation rows by all candidates."""
    n_models = len(plan.candidates)
    n_rows = sizes.n_rows
    if n_rows > MAX_ROWS_OF_FOLDS:
        n_rows = n_validation_rows(n_rows)
    n_rows = min(n_rows, stacking.max_rows_scored(sizes.n_classes))
    n_kept = min(sizes.n_classes, stacking.MAX_CLASSES)
    block = min(n_rows * sizes.n_classes, lbfgs.BLOCK)
    return SINGLE * (n_rows * n_kept * (2 * n_models + 5) + block * (2 * n_models + 3))


def _training(config: FitConfig, sizes: Sizes, dtype: DTypeLike, scales_columns: bool) -> int:
    """Return the bytes of one fit: weights at the start, in training, and at the end."""
    parts, solver, kind = config.parts, config.parts.solver, config.kind
    item = _working_bytes(config, sizes, dtype)
    n_weights = kind.n_weights(sizes.n_features, sizes.n_classes)
    batch_size = min(config.batch_size, sizes.n_rows)
    workload = Workload(parts, kind, sizes, batch_size, parts.sampler.n_exact)
    scratch = item * strategy_for(workload).scratch_numbers(workload) * config.n_threads
    remembers = solver.has_state and not solver.needs_vectors
    keeps_best = config.validation_fraction is not None
    copies = 1 + remembers + keeps_best + solver.averages
    tables = parts.sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
    looked_at = kind.n_temporary(sizes.n_features, sizes.n_classes, trained=True)
    moving = item * (n_weights * copies + looked_at)
    beside = kind.n_temporary(sizes.n_features, sizes.n_classes, trained=False)
    made = item * (n_weights + beside)
    handed_over = item * n_weights + (SINGLE * n_weights if item != SINGLE else 0)
    if scales_columns and not sizes.sparse:  # turned back in float64
        handed_over = max(handed_over, (SINGLE + 8) * n_weights)
    return max(moving + scratch + tables, made, handed_over)


def _of_lbfgs(config: FitConfig, sizes: Sizes, dtype: DTypeLike) -> int:
    """Return the need of L-BFGS in float64, with all rows if their scores are one block."""
    solver, kind = config.parts.solver, config.kind
    n_weights = kind.n_weights(sizes.n_features, sizes.n_classes)
    arrays = solver.n_work_arrays + LBFGS_ARRAYS
    scores = min(sizes.n_rows * sizes.n_classes, lbfgs.BLOCK) * LBFGS_SCORES
    per_row = 8 * sizes.n_rows * NUMBERS_PER_ROW_HELD_OUT
    part = min(1.0, max(1, lbfgs.BLOCK // sizes.n_classes) / max(sizes.n_rows, 1))
    values = 0 if np.dtype(dtype) == np.float64 else int(part * sizes.n_values)
    return 8 * (n_weights * arrays + values + scores) + per_row


def _working_bytes(config: FitConfig, sizes: Sizes, dtype: DTypeLike) -> int:
    """Return the bytes of a number in training."""
    working = config.kind.working_dtype(np.dtype(dtype), sizes.n_features, sizes.n_classes)
    return np.dtype(working).itemsize


def check(needed: int, n_classes: int, n_features: int, remedy: str) -> None:
    """Raise MemoryError, before any work, if a fit needs more than the available memory."""
    there = available_memory()
    if there is not None and needed > there:
        raise MemoryError(
            f"the fit needs {needed / _GIB:.2f} GiB for {n_classes:,} classes and {n_features:,} "
            f"features, and {there / _GIB:.2f} GiB are available; {remedy}"
        )


def check_fit(plan: FitPlan, sizes: Sizes, dtype: DTypeLike) -> None:
    """Raise if a linear fit lacks memory."""
    config = plan.first
    remedy = "drop rare features or classes, or take solver='sgd', which needs the weights only"
    if config.kind.rank is None:
        remedy += ", or a rank, with which a class has as many weights as that"
    check(needed(plan, sizes, dtype), sizes.n_classes, sizes.n_features, remedy)
