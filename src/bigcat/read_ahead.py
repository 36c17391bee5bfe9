"""Requests for rows that are mapped to files, shortly before they are used."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from bigcat.rows import Rows, is_sparse

#: Bytes per request: the system ignores what is beyond its own limit.
ASKED_BYTES = 1 << 17
_IN_ORDER, _RANDOM, _WILL_NEED = (
    getattr(mmap, name, None) for name in ("MADV_SEQUENTIAL", "MADV_RANDOM", "MADV_WILLNEED")
)


class ReadAhead:
    """Request for the rows of the next window while those of this one are visited.

    Rows of a window are visited in random order.  By default the system also reads the bytes
    around each row, 8 MB on some machines, and a small memory drops most of them before they are
    used.  With these requests it reads the rows of the window only.  Memory should have room
    for two windows.  Arrays that are not mapped to a file are left alone.
    """

    def __init__(self, rows: Rows, window: int) -> None:
        self.window = window
        self.order, self.asked = np.zeros(0, np.int64), 0
        self.ends = rows.indptr if is_sparse(rows) else None
        arrays = (rows.indices, rows.values) if is_sparse(rows) else (rows.values,)
        found = ((array, _map_of(array)) for array in arrays)
        self.maps = [(array.strides[0], *at) for array, at in found if at is not None]

    def begin(self, order: np.ndarray) -> None:
        """Take the rows of an epoch, in the order of visits."""
        self.order, self.asked = order, 0
        self._advise(_RANDOM)

    def ask_until(self, last: int) -> None:
        """Request the rows up to `last` and a window more."""
        while self.asked < min(last + self.window, len(self.order)):
            rows = np.sort(self.order[self.asked : self.asked + self.window])
            self.asked += len(rows)
            for first, end in _runs(rows):
                self._ask(first, end)

    def end(self) -> None:
        """Let others read row after row."""
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
    """Return the map that an array lies in, and the place where the array begins."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    pages = root.base
    if not isinstance(pages, mmap.mmap):
        return None
    return pages, array.ctypes.data - np.frombuffer(pages, np.uint8).ctypes.data


def _runs(rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield the runs of ascending numbers: the first, and one more than the last."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    edges = [0, *cuts.tolist(), len(rows)]
    for begin, end in itertools.pairwise(edges):
        yield int(rows[begin]), int(rows[end - 1]) + 1
