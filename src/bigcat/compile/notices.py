"""Is a kernel being compiled?  Whoever waits for it may want to know.

numba tells of each compilation; a kernel that comes from the cache is none.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

#: Is told the name of a kernel when its compilation begins, and None when it ends.
Watcher = Callable[[str | None], None]

_PACKAGE = __name__.partition(".")[0]
_logger = logging.getLogger(_PACKAGE)
_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching(told: Watcher) -> Iterator[None]:
    """Tell of compilations in this block, in whatever thread they happen."""
    _watchers.append(told)
    try:
        yield
    finally:
        _watchers.remove(told)


class _Compilations:
    """A listener of numba's to bigcat's kernels; numba compiles one at a time."""

    def __init__(self) -> None:
        self.names: list[str | None] = []
        self.began = 0.0

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        ours = function.__module__.partition(".")[0] == _PACKAGE
        self.names.append(function.__name__ if ours else None)
        if len(self.names) == 1 and ours:
            self.began = time.perf_counter()
            _logger.info("compiling %s, first run only", function.__name__)
            self.tell(function.__name__)

    def on_end(self, event: Any) -> None:
        name = self.names.pop()
        if not self.names and name is not None:
            _logger.info("compiled %s in %.1f s", name, time.perf_counter() - self.began)
            self.tell(None)

    def tell(self, name: str | None) -> None:
        for told in list(_watchers):
            told(name)


@functools.cache
def register() -> None:
    """Listen to numba from here on."""
    from numba.core import event

    class Listener(_Compilations, event.Listener):
        pass

    event.register("numba:compile", Listener())
