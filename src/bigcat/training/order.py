"""In which order rows are visited, and rows of files that are read shortly before."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from bigcat.kernels.train_rows import KernelPlan, RowNorms
from bigcat.rows import Problem, Rows, batch_grams, is_sparse, squared_norms

#: Runs of rows that make a window: taken from all over the rows, anew in each epoch.
RUNS = 8
#: Bytes that are asked for at a time: the system ignores what is beyond its own limit.
ASKED_BYTES = 1 << 17
_IN_ORDER, _RANDOM, _WILL_NEED = (
    getattr(mmap, name, None) for name in ("MADV_SEQUENTIAL", "MADV_RANDOM", "MADV_WILLNEED")
)


class Order:
    """The rows' order, a new one for each epoch.

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


class ReadAhead:
    """Asks the system for the rows of the next window while those of this one are visited.

    Rows of a window are visited in random order.  Left to itself the system reads what is around
    each of them, 8 MB on some machines, and in a small memory little of that is left by the time it
    is wanted.  So it is told to read what it is asked for, and nothing else.  There should be room
    for two windows.
    What is not mapped to a file is left alone.
    """

    def __init__(self, rows: Rows, window: int) -> None:
        self.window = window
        self.order, self.asked = np.zeros(0, np.int64), 0
        self.ends = rows.indptr if is_sparse(rows) else None
        arrays = (rows.indices, rows.values) if is_sparse(rows) else (rows.values,)
        found = ((array, _map_of(array)) for array in arrays)
        self.maps = [(array.strides[0], *at) for array, at in found if at is not None]

    def begin(self, order: np.ndarray) -> None:
        """With the rows of an epoch, in the order of visits."""
        self.order, self.asked = order, 0
        self._advise(_RANDOM)

    def ask_until(self, last: int) -> None:
        """Before visits up to the `last`: it and a window more should be read."""
        while self.asked < min(last + self.window, len(self.order)):
            rows = np.sort(self.order[self.asked : self.asked + self.window])
            self.asked += len(rows)
            for first, end in _runs(rows):
                self._ask(first, end)

    def end(self) -> None:
        """After an epoch: others may read row after row."""
        self._advise(_IN_ORDER)

    def _ask(self, first: int, last: int) -> None:
        if self.ends is not None:
            first, last = int(self.ends[first]), int(self.ends[last])
        for size, pages, at in self.maps:
            begin, end = at + size * first, at + size * last
            begin -= begin % mmap.PAGESIZE
            for start in range(begin, end, ASKED_BYTES):
                _advise(pages, _WILL_NEED, start, min(ASKED_BYTES, end - start))

    def _advise(self, what: int | None) -> None:
        for _, pages, _ in self.maps:
            _advise(pages, what, 0, len(pages))


def _advise(pages: mmap.mmap, what: int | None, start: int, length: int) -> None:
    if what is not None:
        with suppress(OSError):  # it is advice
            pages.madvise(what, start, length)


def _map_of(array: np.ndarray) -> tuple[mmap.mmap, int] | None:
    """The map that an array lies in, and where in it the array begins."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    pages = root.base
    if not isinstance(pages, mmap.mmap):
        return None
    return pages, array.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data


def _runs(rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """Numbers in order as runs: from the first of each to behind its last."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    edges = [0, *cuts.tolist(), len(rows)]
    for begin, end in itertools.pairwise(edges):
        yield int(rows[begin]), int(rows[end - 1]) + 1
