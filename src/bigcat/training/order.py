"""Order of visits to rows, and of windows of rows in files."""

from __future__ import annotations

import numpy as np

from bigcat.kernels.train_rows import KernelPlan, RowNorms
from bigcat.rows import Problem, batch_grams, squared_norms

#: Number of runs of adjacent rows in a window, drawn from all rows again in each epoch.
RUNS = 8


class Order:
    """Order of the rows, a new one for each epoch.

    An implicit step of several rows needs their inner products, which are worked out once: the
    batches stay the same and only their order changes (unbiased softmax, appendix F.3).

    Where rows are mapped to files, whose order is random, they are visited window by window.
    """

    def __init__(
        self,
        problem: Problem,
        plan: KernelPlan,
        shuffle: bool,
        random_state: np.random.RandomState,
        window: int | None = None,
    ) -> None:
        self.shuffle, self.random_state, self.window = shuffle, random_state, window
        self.rows = np.arange(problem.n_rows)
        self.batch_size = plan.batch_size
        self.fixed = plan.implicit and self.batch_size > 1
        norms = plan.implicit or plan.damped or plan.weight_bound < np.inf
        grams, slots = np.empty((0, 0, 0)), 0
        if self.fixed:
            if self.shuffle and window is None:
                self.rows = random_state.permutation(problem.n_rows)
            grams = batch_grams(problem.rows, problem.n_features, self.rows, self.batch_size)
            slots = problem.n_classes
        self.members = self.rows
        self.geometry = RowNorms(
            squared_norms(problem.rows) if norms else np.empty(0),
            grams,
            np.arange(len(grams)),
            np.full(slots, -1, np.int64),
        )

    def next_epoch(self) -> None:
        """Draw the order of the rows of the next epoch."""
        if not self.shuffle:
            return
        if not self.fixed:
            self.rows = self._permutation(len(self.rows), self.window)
            return
        # Whole batches change places; a smaller one stays last.
        whole = len(self.members) // self.batch_size
        window = self.window and max(1, self.window // self.batch_size)
        batches = self._permutation(whole, window)
        cut = whole * self.batch_size
        self.geometry.batch_order[:whole] = batches
        shuffled = self.members[:cut].reshape(whole, self.batch_size)[batches].ravel()
        self.rows = np.concatenate([shuffled, self.members[cut:]])

    def _permutation(self, n: int, window: int | None) -> np.ndarray:
        if window is None or window >= n:
            return self.random_state.permutation(n)
        return in_windows(n, window, self.random_state)


def in_windows(n: int, window: int, random_state: np.random.RandomState) -> np.ndarray:
    """Return the numbers below `n` in an order whose next `window` numbers lie in a few runs.

    Each call draws other runs, with other ends.
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
