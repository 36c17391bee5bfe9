"""A first fit of the defaults in a fresh process, compilation included: import and fit, on bibtex.

A first prediction is shown beside it.  Cold is with an empty folder for compiled kernels, warm the
next process with the same folder.  Starting the interpreter and reading the data are not counted.
Where a cold start exceeds its limit one more process tells which kernels it compiled.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMITS = {"cold": 12.0, "warm": 3.0}  # seconds
REPEATS = 3
PROBLEM = "bibtex"
N_KERNELS = 25  # shown, the slowest


def first_fit(as_json: bool = False, kernels: bool = False) -> None:
    """Print seconds of both, and with `kernels` or above the limit those of the kernels."""
    from benchmarks._report import save, show
    from benchmarks.peers import configuration, problems

    folder = problems.folder_of(configuration.read().problems[PROBLEM])
    runs: dict[str, list[dict]] = {"cold": [], "warm": []}
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            for state in runs:  # cold first
                runs[state].append(_run(folder, cache))
    rows = [summary(state, runs[state]) for state in runs]
    save("first_fit", rows)
    show(rows, as_json)
    if kernels or not rows[0]["within"]:
        with tempfile.TemporaryDirectory() as cache:
            compiled = _run(folder, cache, "kernels")["kernels"]
        save("first_fit_kernels", compiled)
        show(compiled if as_json else compiled[:N_KERNELS], as_json)


def summary(state: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table: the runs' best and median seconds, the parts of the best run."""
    total = [run["seconds"]["import"] + run["seconds"]["fit"] for run in runs]
    best = runs[total.index(min(total))]
    return {
        "start": state,
        "best": min(total),
        "median": statistics.median(total),
        "limit": LIMITS[state],
        "within": statistics.median(total) <= LIMITS[state],
        **best["seconds"],
        "processor seconds": best["processor seconds"],
    }


def _run(folder: Path, cache: str, *options: str) -> dict[str, Any]:
    command = [sys.executable, __file__, str(folder), *options]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def classifier() -> Any:
    """The defaults."""
    from bigcat import LinearClassifier

    return LinearClassifier(progress=False)


def _child(folder: Path, tells_kernels: bool) -> dict[str, Any]:
    """What the fresh process does; nothing is imported before the clock starts."""
    started = time.perf_counter()
    from bigcat import LinearClassifier  # noqa: F401

    seconds = {"import": time.perf_counter() - started}
    import numpy as np
    import scipy.sparse

    X = scipy.sparse.load_npz(folder / "X_train.npz")
    y = np.load(folder / "labels.npz")["y_train"]
    compiled = _listen() if tells_kernels else []
    started = time.perf_counter()
    model = classifier().fit(X, y)
    seconds["fit"] = time.perf_counter() - started
    started = time.perf_counter()
    model.predict(X[:100])
    seconds["predict"] = time.perf_counter() - started
    compiled.sort(key=lambda row: -row["seconds"])
    return {
        "seconds": seconds,
        "processor seconds": time.process_time(),
        "kernels": compiled,
    }


def _listen() -> list[dict[str, Any]]:
    """A list that grows by every function that numba compiles, but for those that it inlines."""
    from numba.core import event

    compiled: list[dict[str, Any]] = []
    begun: list[tuple[float, float]] = []

    class Listener(event.Listener):
        def on_start(self, what: Any) -> None:
            begun.append((time.perf_counter(), time.thread_time()))

        def on_end(self, what: Any) -> None:
            wall, busy = begun.pop()
            wall, busy = time.perf_counter() - wall, time.thread_time() - busy
            if not begun:  # not in the middle of another
                function = what.data["dispatcher"].py_func
                types = ", ".join(str(t) for t in what.data["args"])
                compiled.append(
                    {
                        "kernel": f"{function.__module__}.{function.__name__}",
                        "seconds": wall,
                        "processor seconds": busy,
                        "arguments": types if len(types) < 120 else types[:117] + "...",
                    }
                )

    event.register("numba:compile", Listener())
    return compiled


if __name__ == "__main__":
    print(json.dumps(_child(Path(sys.argv[1]), "kernels" in sys.argv[2:])))
