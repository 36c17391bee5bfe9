"""Rows per second of two workers beside one process with one thread and with two.

``python -m benchmarks.distributed speed SET [--rank 128] [--rows N] [--passes 1]``

Wall time means little where others use the machine, so CPU seconds are told, too: those of this
process and, of the cluster, of all its processes.
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

from benchmarks.distributed.folders import written
from benchmarks.distributed.sets import read
from bigcat import LinearClassifier, dask
from bigcat.dask import rounds
from bigcat.dask.cluster import connected
from bigcat.solvers import AdaGrad


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set")
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=43, help="per pass: a third of 128")
    parser.add_argument("--ways", nargs="*", default=["one thread", "two threads", "two workers"])


def run(arguments: argparse.Namespace) -> None:
    rows = read(arguments.set, arguments.rows)
    labels = np.unique(rows.y, return_inverse=True)[1]
    n = len(labels)
    settings: dict[str, Any] = {
        "method": "complementary",
        "sampler": "shared",
        "n_negatives": 512,
        "batch_size": 128,
        "solver": AdaGrad(0.065, schedule="linear", per="vector"),
        "rank": arguments.rank,
        "max_epochs": arguments.passes,
        "progress": False,
    }

    def tell(what: str, fit: Callable[[], Any]) -> None:
        fit()  # compiles, or loads what was compiled
        cpu, started = _cpu_seconds(), time.perf_counter()
        model = fit()
        wall, cpu = time.perf_counter() - started, _cpu_seconds() - cpu
        inside = model.history_[-1]["seconds"]
        visited = n * arguments.passes
        print(
            f"{arguments.set} {what:12} {visited / inside:9,.0f} rows/s by the clock in passes, "
            f"{wall:6.1f} s in all; {1e6 * cpu / visited:6.1f} CPU s per million rows",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as temporary:
        n_features = rows.X.shape[1]
        folder = written(rows.X, labels, Path(temporary))
        for threads, what in ((1, "one thread"), (2, "two threads")):
            if what in arguments.ways:
                local = LinearClassifier(n_threads=threads, random_state=0, **settings)
                tell(what, lambda local=local: local.fit(folder))  # type: ignore[misc]
        if "two workers" not in arguments.ways:
            return
        moved: list[int] = []
        submit = rounds.Rounds.train

        def train(self: rounds.Rounds, first: int, last: int) -> float:
            value = submit(self, first, last)
            moved[:] = self.bytes_moved
            return value

        rounds.Rounds.train = train  # type: ignore[method-assign]
        with connected("local:2") as client:
            model = dask.LinearClassifier(
                client=client,
                rows_per_round=n // (2 * arguments.rounds),
                random_state=0,
                **settings,
            )
            tell("two workers", lambda: model.fit(folder))
        state = (len(model.classes_) + n_features) * (arguments.rank + 1) * 4
        print(
            f"a round: {np.mean(moved) / 2**20:.1f} MiB of changes of two lanes; all weights are "
            f"{state / 2**20:.1f} MiB"
        )


def _cpu_seconds() -> float:
    """Of this process and those it has started."""
    here = psutil.Process()
    total = 0.0
    for process in [here, *here.children(recursive=True)]:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total
