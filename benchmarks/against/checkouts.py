"""Two checkouts of bigcat, and processes that use one of them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Kernels that were compiled, by the path of their source; and worktrees, so that one revision has
#: one path.
CACHE = ROOT / "benchmarks" / ".cache" / "against"
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB")
}


class ChildError(RuntimeError):
    """Error that ended a child process, with the last lines of its output."""


@dataclass(frozen=True)
class Checkout:
    """A folder with `src/bigcat`."""

    root: Path

    def __post_init__(self) -> None:
        if not (self.root / "src" / "bigcat" / "__init__.py").is_file():
            raise SystemExit(f"{self.root} holds no src/bigcat; give a checkout of bigcat")

    def run(self, task: str, *words: str, kernels: Path | None = None) -> list[dict[str, Any]]:
        """Return the lines of a child's output; `kernels` is its folder of compiled kernels."""
        command = [sys.executable, "-m", "benchmarks.against.child", task, *words]
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment(kernels), stdout=subprocess.PIPE, text=True
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        ours = str((self.root / "src" / "bigcat").resolve())
        others = {row["package"] for row in rows} - {ours}
        if others:
            raise ChildError(f"meant {ours}, and {others} was imported")
        if done.returncode != 0 and task not in ("answers", "save", "load"):
            raise ChildError(f"{' '.join(command)} ended with {done.returncode}")
        return rows

    def run_cases(
        self, task: str, folder: str = "", only: Sequence[str] = (), jobs: int = 1
    ) -> list[dict[str, Any]]:
        """Return the joint output of several children, each with a part of the cases."""
        with ThreadPoolExecutor(jobs) as pool:
            parts = [f"{number}/{jobs}" for number in range(jobs)]
            rows = pool.map(lambda part: self.run(task, part, folder, *only), parts)
            return list(itertools.chain(*rows))

    def _environment(self, kernels: Path | None) -> dict[str, str]:
        kernels = kernels or CACHE / "kernels"
        kernels.mkdir(parents=True, exist_ok=True)
        paths = [str(self.root / "src"), str(ROOT)]
        return {
            **os.environ,
            **ONE_THREAD,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONHASHSEED": "0",
            "NUMBA_CACHE_DIR": str(kernels),
        }


@contextmanager
def opened(base: str) -> Iterator[Checkout]:
    """Yield the checkout in a folder, or a temporary worktree of a revision."""
    if Path(base).is_dir():
        yield Checkout(Path(base).resolve())
        return
    found = _git("rev-parse", "--verify", "--quiet", f"{base}^{{commit}}", check=False)
    if found.returncode != 0:
        raise SystemExit(f"{base} is neither a folder nor a revision of {ROOT}")
    commit = found.stdout.strip()
    folder = CACHE / "worktrees" / commit[:12]
    if not folder.exists():
        _git("worktree", "prune")
        _git("worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield Checkout(folder)
    finally:
        _git("worktree", "remove", "--force", str(folder))


def _git(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=check)
