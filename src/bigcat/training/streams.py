"""Fits to rows that are mapped to files, in random order, and need not fit into memory.

Kernels take arrays that are mapped to files as any others.  What is left to do is to visit rows
that lie together, window after window, and to leave out what would copy all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bigcat.training.config import FitConfig

#: Runs of rows that make a window: taken from all over the rows, anew in each epoch.
RUNS = 8


def in_windows(n: int, window: int, random_state: np.random.RandomState) -> np.ndarray:
    """The numbers below `n` in an order whose next `window` numbers lie in a few runs.

    The runs are drawn anew, and cut elsewhere, each time.
    """
    run = max(1, window // RUNS)
    first = random_state.randint(1, run + 1)
    starts = np.concatenate([[0], np.arange(first, n, run)])
    ends = np.append(starts[1:], n)
    order = np.concatenate(
        [np.arange(starts[i], ends[i]) for i in random_state.permutation(len(starts))]
    )
    for begin in range(0, n, window):
        random_state.shuffle(order[begin : begin + window])
    return order


def for_streams(config: FitConfig, window: int) -> FitConfig:
    """Return the settings without what would hold all rows in memory."""
    parts = config.parts
    if not parts.solver.stochastic:
        raise ValueError(
            f"solver={parts.solver.name!r} needs all rows in every step, and these are more than "
            "window_bytes; take solver='auto', or open the folder with as large a window as the "
            "rows"
        )
    return replace(config, window=window)
