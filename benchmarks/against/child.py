"""The process that runs cases with the version of bigcat that its PYTHONPATH names.

It prints a line of JSON a case.  Nothing heavy is imported before a clock
starts that is to count imports.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def main(task: str, *words: str) -> None:
    if task == "import":
        return print_row(timed_import() | here())
    if task == "first-fit":
        return print_row(first_fit() | here())
    import warnings

    warnings.simplefilter("ignore")
    if task == "speed":
        return print_row(speed(words[0]) | here())
    from benchmarks.against import cases, file_cases

    part, folder, *some = words
    if task == "answers":
        chosen = cases.all_cases()
    else:
        make = {"save": file_cases.saving, "load": file_cases.loading}[task]
        chosen = make(Path(folder))
    number, n_parts = map(int, part.split("/"))
    for name in [name for name in chosen if wanted(name, some)][number::n_parts]:
        print_row({"name": name, **answer(chosen[name]), **here()})


def here() -> dict[str, str]:
    """Return the version in use, for the parent to check."""
    import bigcat

    return {"package": str(Path(bigcat.__file__).resolve().parent)}


def wanted(name: str, words: Sequence[str]) -> bool:
    """Return True if the name of a case contains one of the words, or if there are no words."""
    return not words or any(word in name for word in words)


def answer(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        found = run()
    except Exception:
        found = {"error": traceback.format_exc(limit=-3)}
    return {**found, "seconds": round(time.perf_counter() - started, 3)}


def speed(name: str) -> dict[str, Any]:
    """Seconds of each function of a case, and how many kernels had to be compiled."""
    from numba.core import event

    from benchmarks.against.speed_cases import CASES

    recorder = event.RecordingListener()
    event.register("numba:compile", recorder)
    case = CASES[name]
    functions = case.make()
    for function in functions.values():
        function()
    compiled = len(recorder.buffer)
    seconds: dict[str, dict[str, list[float]]] = {}
    for label, function in functions.items():
        wall, cpu = [], []
        for _ in range(case.repeats):
            begun, busy = time.perf_counter(), time.process_time()
            function()
            cpu.append(time.process_time() - busy)
            wall.append(time.perf_counter() - begun)
        seconds[label] = {"wall": wall, "cpu": cpu}
    return {"seconds": seconds, "compiled": compiled}


def timed_import() -> dict[str, Any]:
    """Seconds of the package alone, and with an estimator."""
    started, busy = time.perf_counter(), time.process_time()

    def now() -> dict[str, list[float]]:
        return {"wall": [time.perf_counter() - started], "cpu": [time.process_time() - busy]}

    import bigcat

    package = now()
    bigcat.LinearClassifier  # noqa: B018  (imports it)
    return {"seconds": {"package": package, "estimator": now()}}


def first_fit() -> dict[str, Any]:
    """Seconds of import, fit and prediction in a fresh process."""
    from benchmarks.against.problems import made_up

    X, y = made_up("csr32", 4_000, 1_800, 150)
    started, busy = time.perf_counter(), time.process_time()
    from bigcat import LinearClassifier

    LinearClassifier(random_state=0, progress=False, max_epochs=3).fit(X, y).predict(X[:100])
    wall, cpu = time.perf_counter() - started, time.process_time() - busy
    return {"seconds": {"import, fit, predict": {"wall": [wall], "cpu": [cpu]}}}


def print_row(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
