"""Rows per second of two workers beside one process with one thread and with two.

``python -m benchmarks.distributed speed SET [--rank 128] [--rows N] [--passes 1]``

Wall time means little on a shared machine, so CPU seconds of all processes are printed too.  The
set "made-up" is a folder of any size.  With `--of-rows`, rounds are as long as those of a fit to
that many rows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.distributed.folders import made_up, written
from benchmarks.distributed.local import local_cluster
from benchmarks.distributed.sets import read
from bigcat import LinearClassifier, dask
from bigcat.data import Shards
from bigcat.samplers import Shared
from bigcat.solvers import AdaGrad


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set")
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=43, help="per pass: a third of 128")
    parser.add_argument("--of-rows", type=int, help="rows of a fit whose rounds are made here")
    parser.add_argument("--classes", type=int, default=100_000, help="of made-up rows")
    parser.add_argument("--features", type=int, default=100_000, help="of made-up rows")
    parser.add_argument("--ways", nargs="*", default=["one thread", "two threads", "two workers"])


def run(arguments: argparse.Namespace) -> None:
    settings: dict[str, Any] = {
        "method": "complementary",
        "sampler": Shared(512),
        "solver": AdaGrad(0.065, schedule="linear", per="vector", batch_size=128),
        "rank": arguments.rank,
        "max_epochs": arguments.passes,
        "progress": False,
    }

    def report(what: str, fit: Callable[[Shards], Any]) -> None:
        fit(few)  # compiles, or loads what was compiled
        cpu, started = cpu_seconds(), time.perf_counter()
        model = fit(folder)
        wall, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        inside = model.history_[-1]["seconds"]
        visited = n * arguments.passes
        print(
            f"{arguments.set} {what:12} {visited / inside:9,.0f} rows/s by the clock in passes, "
            f"{wall:6.1f} s in all; {1e6 * cpu / visited:6.1f} CPU s per million rows",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as temporary:
        few, folder = folders(arguments, Path(temporary))
        n = len(folder)
        per_round = -(-(arguments.of_rows or n) // (2 * arguments.rounds))
        for threads, what in ((1, "one thread"), (2, "two threads")):
            if what in arguments.ways:
                local = LinearClassifier(n_threads=threads, random_state=0, **settings)
                report(what, local.fit)
        if "two workers" not in arguments.ways:
            return
        with local_cluster(2) as client:
            model = dask.LinearClassifier(
                client=client,
                rows_per_round=per_round,
                random_state=0,
                **settings,
            )
            report("two workers", model.fit)


def folders(arguments: argparse.Namespace, temporary: Path) -> tuple[Shards, Shards]:
    """A few rows, and all of them."""
    if arguments.set == "made-up":
        shape = (arguments.features, arguments.classes, 20)
        sizes = {"few": 5_000, "all": arguments.rows}
        few, all_rows = (made_up(temporary / name, n, *shape) for name, n in sizes.items())
        return few, all_rows
    rows = read(arguments.set, arguments.rows)
    labels = np.unique(rows.y, return_inverse=True)[1]
    (temporary / "few").mkdir()
    return written(rows.X[:5_000], labels[:5_000], temporary / "few"), written(
        rows.X, labels, temporary
    )


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of those it has started."""
    here = psutil.Process()
    total = 0.0
    for process in [here, *here.children(recursive=True)]:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total
