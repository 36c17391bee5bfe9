"""One fit in its own process: start, watch, stop at the time limit, report the result."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.peers.configuration import Contender, Settings

_RUNNER = Path(__file__).parent / "adapters" / "run_adapter.py"
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)
#: A fit that knows its epochs stops by itself; what lasts this much longer is killed.
SLACK = 1.2
SLACK_SECONDS = 5.0
#: Loading and scoring may take this many times the limit of the fit, and this long at least.
WHOLE = 5.0
WHOLE_SECONDS = 600.0
_ERROR_LINES = 5


def run(
    contender: Contender,
    problem: Path,
    stage: str,
    settings: Settings,
    *,
    limit: float,
    threads: int,
) -> dict[str, Any]:
    """Fit and measure once.

    Parameters
    ----------
    contender : Contender
    problem : Path
        The folder of its matrices.
    stage : {"validation", "test"}
        Whether to fit nine training rows in ten and measure on the others, or all of them and
        measure on the test rows.
    settings : dict
    limit : float
        Seconds for the fit.
    threads : int

    Returns
    -------
    dict
        ``status``: "ok", "cut" (by the limit, with the curve so far) or "failed" (with ``error``);
        and all measures.
    """
    python: str | Path = sys.executable
    variables = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(threads))
    if contender.environment is not None:
        python = environments.python_of(contender.environment)
        variables.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {
            "adapter": str(contender.adapter),
            "variant": contender.variant,
            "problem": str(problem),
            "stage": stage,
            "settings": settings,
            "limit": limit,
            "threads": threads,
        }
        (folder / "job.json").write_text(json.dumps(job))
        load = os.getloadavg()[0]
        with (folder / "output.txt").open("w") as output:
            process = subprocess.Popen(
                [python, _RUNNER, folder], env=variables, stdout=output, stderr=output
            )
            cut = _wait(process, folder, limit)
        return {"load_average_before": load} | _outcome(process.returncode, folder, cut)


def _wait(process: subprocess.Popen, folder: Path, limit: float) -> str:
    """Wait for the process, or end it at the time limit; return the reason."""
    slack = (SLACK - 1) * limit + SLACK_SECONDS
    whole = time.monotonic() + WHOLE * limit + WHOLE_SECONDS
    try:
        while process.poll() is None:
            time.sleep(0.05)
            now = time.monotonic()
            if now > _deadline(folder) + slack:
                return f"the fit took longer than {limit:g} s"
            if now > whole:
                return "loading and scoring took too long"
        return ""
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _deadline(folder: Path) -> float:
    try:
        return float((folder / "deadline").read_text())
    except FileNotFoundError:  # no fit under way
        return float("inf")


def _outcome(code: int, folder: Path, cut: str) -> dict[str, Any]:
    result = folder / "result.json"
    if not cut and code == 0 and result.exists():
        measured = json.loads(result.read_text())
        if math.isfinite(measured["log_likelihood"]):
            return {"status": "ok"} | measured
        diverged = f"the log-likelihood is {measured['log_likelihood']}"
        return measured | {"status": "failed", "error": diverged}
    curve = folder / "curve.json"
    outcome: dict[str, Any] = {"curve": json.loads(curve.read_text()) if curve.exists() else []}
    if cut:
        return {"status": "cut", "error": cut} | outcome
    said = (folder / "output.txt").read_text(errors="replace").strip().splitlines()
    error = "\n".join([f"exit code {code}", *said[-_ERROR_LINES:]])
    return {"status": "failed", "error": error} | outcome
