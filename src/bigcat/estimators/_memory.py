"""What a fit needs in memory, and what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bigcat.estimators._recipe import Recipe, Sizes
from bigcat.solvers import LBFGS
from bigcat.solvers._loop import gradient_slots

_GIB = 1 << 30


def working_dtype(dtype: Any, n_weights: int) -> type:
    """float32 where X is or the weights are many; float64 otherwise. `coef_` is always float32."""
    return np.float32 if dtype == np.float32 or n_weights > 1 << 24 else np.float64


def needed(recipe: Recipe, sizes: Sizes, max_row_nonzeros: int, dtype: Any) -> int:
    """Bytes that a fit needs beside the data."""
    parts, solver = recipe.parts, recipe.parts.solver
    weights = sizes.n_features * sizes.n_classes
    item = np.dtype(working_dtype(dtype, weights)).itemsize
    if isinstance(solver, LBFGS):  # float64, its pairs of vectors, a few work arrays
        return 8 * weights * (2 * solver.memory + 8) + 8 * (1 << 23)
    shape = (sizes.n_features, sizes.n_classes)
    n_majors, n_minors = shape if sizes.sparse else shape[::-1]
    width = parts.sampler.width(sizes.n_classes) + 1
    majors_a_row = max_row_nonzeros if sizes.sparse else width
    batch_size = min(recipe.batch_size, sizes.n_rows)
    slots = gradient_slots(solver, batch_size, majors_a_row, n_majors)
    copies = 1 + solver.has_state + recipe.early_stopping + getattr(solver, "average", False)
    a_row = parts.bound.n_local + solver.damped
    a_row += solver.implicit * (1 if batch_size == 1 else batch_size)
    sampler = parts.sampler.memory(sizes.n_rows, sizes.n_classes, sizes.n_values)
    work = item * slots * n_minors * recipe.n_threads
    return item * weights * copies + work + 8 * sizes.n_rows * a_row + sampler


def available() -> int | None:
    """Bytes that can be had now, by the system's own estimate; None where it gives none."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next((int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable")), None)
    try:  # the limit of the container we may be in
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return min(free, limit - used) if free is not None else limit - used


def check(needed: int, shape: tuple[int, int], remedy: str) -> None:
    """Raise before any work where the fit cannot have what it needs."""
    there = available()
    if there is not None and needed > there:
        raise MemoryError(
            f"the fit needs {needed / _GIB:.2f} GiB for {shape[0]:,} classes and {shape[1]:,} "
            f"features, and {there / _GIB:.2f} GiB are available; {remedy}"
        )
