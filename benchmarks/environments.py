"""Virtual environments of programs to measure against, each made on demand from pinned versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path(__file__).parent / ".envs"


def is_ready(requirements: Path) -> bool:
    """Return True if the environment of a requirements file exists in its present versions."""
    stamp = _stamp(requirements)
    return stamp.exists() and stamp.read_text() == requirements.read_text()


def python_of(requirements: Path) -> Path:
    """Return the Python of a requirements file's environment; make it if it is missing.

    Parameters
    ----------
    requirements : Path
        Its name without ending is the environment's.
    """
    python = ENVIRONMENTS / requirements.stem / "bin" / "python"
    if not is_ready(requirements):
        print(f"making the environment of {requirements.name} ...", file=sys.stderr, flush=True)
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", str(python.parents[1])], check=True
        )
        pip = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        _stamp(requirements).write_text(requirements.read_text())
    return python


def _stamp(requirements: Path) -> Path:
    return ENVIRONMENTS / requirements.stem / "made_of.txt"
