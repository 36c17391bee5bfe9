"""What a fit needs in memory, and what there is."""

from __future__ import annotations

from pathlib import Path

_GIB = 1 << 30


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
