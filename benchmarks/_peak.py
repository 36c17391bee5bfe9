"""Present and peak memory of this process."""

from __future__ import annotations

from pathlib import Path


def forget_peak() -> int | None:
    """Reset the peak of memory; return the present memory, or None where it is not available."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return memory("VmRSS")


def memory(field: str) -> int:
    """Bytes, by a field of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
