"""Announce compilations to waiting users, and exclude them from measured times.

Kernels that come from the cache are not compiled.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

#: Called with the name of a kernel when its compilation begins, and with None when it ends.
Watcher = Callable[[str | None], None]

_PACKAGE = __name__.partition(".")[0]
_logger = logging.getLogger(_PACKAGE)
_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Announce compilations of all threads to `watcher` within this block."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


class Compilations:
    """Numba's listener for bigcat's kernels; numba compiles one at a time."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self.began, self.seconds, self.n_kernels, self.n_left = 0.0, 0.0, 0, 0

    def on_start(self, event: Any) -> None:
        """Announce the kernel, unless another one calls it."""
        function = event.data["dispatcher"].py_func
        ours = (function.__module__ or "").partition(".")[0] == _PACKAGE
        self.names.append(function.__name__ if ours else None)
        if len(self.names) == 1 and ours:
            self.began, self.n_kernels = time.perf_counter(), self.n_kernels + 1
            words = "compiling kernel %d of this process, %s, %d more expected: first run only"
            _logger.info(words, self.n_kernels, function.__name__, self.n_left)
            self.announce(function.__name__)

    def on_end(self, event: Any) -> None:
        """Count the seconds of the outermost compilation."""
        name = self.names.pop()
        if not self.names and name is not None:
            seconds = time.perf_counter() - self.began
            self.seconds += seconds
            _logger.info("compiled %s in %.1f s", name, seconds)
            self.announce(None)

    def announce(self, name: str | None) -> None:
        """Call all watchers."""
        for watcher in list(_watchers):
            watcher(name)


_compilations = Compilations()


def clock() -> float:
    """Return seconds, as ``time.perf_counter`` counts them, without those of compilation."""
    return time.perf_counter() - _compilations.seconds


def expect_kernels(n_left: int) -> None:
    """Set how many kernels a fit may still need after the present one."""
    _compilations.n_left = n_left


def kernels_left() -> int:
    """Return what `expect_kernels` set; 0 outside of fits."""
    return _compilations.n_left


@functools.cache
def register() -> None:
    """Listen to numba from here on."""
    from numba.core import event

    class Listener(event.Listener):
        on_start, on_end = _compilations.on_start, _compilations.on_end

    event.register("numba:compile", Listener())
