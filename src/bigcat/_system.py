"""System information and threads: cores, memory, optional libraries."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def require(library: str, what: str, extra: str) -> Any:
    """Import an optional library; ImportError names the extra that brings it."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ImportError(
            f"{what} {library.partition('.')[0]}, which is not installed; "
            f'pip install "bigcat[{extra}]"'
        ) from error


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Return the available memory in bytes; None if the system does not report it."""
    try:
        with Path("/proc/meminfo").open() as lines:
            of_free = next((line for line in lines if line.startswith("MemAvailable")), None)
    except OSError:
        return None
    free = int(of_free.split()[1]) * 1024 if of_free else None
    try:  # the limit of the container we may be in
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return min(free, limit - used) if free is not None else limit - used


def map_on_threads(
    task: Callable[[Item], Result], items: Sequence[Item], n_threads: int
) -> list[Result]:
    """Call `task` for each item on threads; return the results in order."""
    if n_threads == 1 or len(items) == 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        return list(pool.map(task, items))


class _OneBlasThread:
    """Context that limits BLAS to one thread until its last user leaves.

    The number of threads belongs to the whole process. If each user restored what it found on
    entry, a second user that enters meanwhile would restore 1 for good.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = threading.Lock(), 0
        self._libraries: ThreadpoolController | None = None
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                if self._libraries is None:  # milliseconds: a search through all that is loaded
                    self._libraries = ThreadpoolController()
                self._let_this_thread_decide()
                self._limits = self._libraries.limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._let_this_thread_decide()
                self._limits.restore_original_limits()
                self._let_this_thread_decide()  # and the next one

    def _let_this_thread_decide(self) -> None:
        """Release the thread that set limits: another may restore them (threadpoolctl 3.8)."""
        for library in getattr(self._libraries, "lib_controllers", ()):
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


#: Context for work on threads of our own: ``with one_blas_thread:``.
one_blas_thread = _OneBlasThread()
