"""A cluster of two processes on this machine, beside one process: ``make cluster-demo``.

The embedded corpus is written as a folder of rows, which both workers read by themselves.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.distributed.folders import written
from benchmarks.distributed.local import local_cluster
from benchmarks.distributed.sets import read
from bigcat import LinearClassifier, dask


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rank", type=int, default=64)


def run(arguments: argparse.Namespace) -> None:
    rows = read("corpus", arguments.rows)
    names, labels = np.unique(rows.y, return_inverse=True)
    test = np.searchsorted(names, rows.y_test)
    settings: dict[str, Any] = {"rank": arguments.rank, "random_state": 0}

    def report(what: str, model: Any, started: float) -> None:
        seconds = time.perf_counter() - started
        value = model.log_proba_of(rows.X_test, test).mean()
        print(
            f"{what:16} {seconds:7.1f} s   log-likelihood of {len(test):,} test rows {value:.4f}   "
            f"accuracy {model.score(rows.X_test, test):.4f}",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as temporary:
        folder = written(rows.X, labels, Path(temporary))
        print(f"{folder!r}: {len(names):,} identifiers of Python's standard library")
        started = time.perf_counter()
        report("one process", LinearClassifier(**settings).fit(folder), started)
        with local_cluster(arguments.workers) as client:
            started = time.perf_counter()
            model = dask.LinearClassifier(client=client, **settings).fit(folder)
            report(f"{arguments.workers} workers", model.to_local(), started)
    print("the workers have ended, and the folder is gone")
