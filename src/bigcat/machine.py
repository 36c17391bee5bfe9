"""What this machine has: cores, memory, threads to share work among."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int | None:
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


def map_on_threads(
    task: Callable[[Item], Result], items: Sequence[Item], n_threads: int
) -> list[Result]:
    """`task` of each item, in order."""
    if n_threads == 1 or len(items) == 1:
        return [task(item) for item in items]
    with ThreadPoolExecutor(min(n_threads, len(items))) as pool:
        return list(pool.map(task, items))
