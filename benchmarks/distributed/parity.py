"""Exact fits on two worker processes beside one process: differences and cost.

``python -m benchmarks.distributed parity [--rows 20000] [--classes 200] [--features 50]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np

from benchmarks.distributed.local import local_cluster
from benchmarks.distributed.speed import cpu_seconds
from bigcat import LinearClassifier
from bigcat import dask as on_dask
from bigcat.solvers import LBFGS


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)


def run(arguments: argparse.Namespace) -> None:
    n, n_classes, d = arguments.rows, arguments.classes, arguments.features
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    scores = X @ rng.standard_normal((d, n_classes)) + rng.gumbel(size=(n, n_classes))
    y = scores.argmax(axis=1)
    size = -(-n // (4 * arguments.workers))
    chunks = da.from_array(X, chunks=(size, d)), da.from_array(y, chunks=size)
    exact: dict[str, Any] = {"method": "exact", "l2": 1.0, "progress": False}
    exact |= {"solver": LBFGS(tol=1e-6), "max_epochs": 300}

    def timed(what: str, fit: Callable[[], Any]) -> Any:
        fit()  # compiles, or loads what was compiled
        cpu, started = cpu_seconds(), time.perf_counter()
        model = fit()
        wall, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        print(f"{what:34} {wall:6.1f} s, {cpu:6.1f} CPU s", flush=True)
        return model

    local_exact = timed(
        "exact fit, one process", lambda: LinearClassifier(n_threads=1, **exact).fit(X, y)
    )
    with local_cluster(arguments.workers) as client:
        workers = f"{arguments.workers} workers"
        exact_on_workers = timed(
            f"exact fit, {workers}",
            lambda: on_dask.LinearClassifier(client=client, **exact).fit(*chunks),
        )
    weights = np.abs(exact_on_workers.coef_ - local_exact.coef_).max()
    iterations = len(exact_on_workers.history_), len(local_exact.history_)
    print(
        f"exact fit: weights differ by {weights:.1e} at most (the largest is "
        f"{np.abs(local_exact.coef_).max():.2f}), after {iterations[0]} and {iterations[1]} "
        "iterations"
    )
