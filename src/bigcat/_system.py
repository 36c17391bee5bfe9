"""What this machine has: cores, memory, threads to share work among."""

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
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
    """Bytes that can be had now, by the system's own estimate; None where it gives none."""
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
    """`task` of each item, in order."""
    if n_threads == 1 or len(items) == 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        return list(pool.map(task, items))


class _OneBlasThread:
    """Keeps BLAS to one thread while anybody is inside; the last one out restores what was.

    The number of threads belongs to the whole process.  If each caller restored what it found, a
    caller that came while another was inside would find one, and leave it at that for good.
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
        """threadpoolctl 3.8 on lets one thread set numbers, and the last one out may be another."""
        for library in getattr(self._libraries, "lib_controllers", ()):
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


#: For work on threads of our own: ``with one_blas_thread:``.
one_blas_thread = _OneBlasThread()
