"""A fit to rows of four times the memory of all workers.

``python -m benchmarks.distributed larger-than-memory [--limit-mib 512] [--workers 1]``
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from distributed import Client, LocalCluster

from benchmarks.distributed.folders import made_up
from bigcat.dask import LinearClassifier

#: Non-zeros of a row, 8 bytes each, and its label and end.
PER_ROW = 250
TIMES = 4


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit-mib", type=int, default=512, help="of each worker")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", help="for the rows; default: that of temporary files")


def run(arguments: argparse.Namespace) -> None:
    limit = arguments.limit_mib << 20
    n_rows = TIMES * arguments.workers * limit // (8 * PER_ROW + 8)
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        LocalCluster(
            n_workers=arguments.workers,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):
        started = time.perf_counter()
        folder = made_up(Path(name) / "rows", n_rows, 20_000, 200, PER_ROW, n_shards=128)
        print(f"{folder!r}, {folder.n_bytes / 2**30:.2f} GiB, written in "
              f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
        started = time.perf_counter()
        model = LinearClassifier(
            client=client, rank=8, max_epochs=1, random_state=0, progress=False
        ).fit(folder)
        took = time.perf_counter() - started
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        memory = [worker["metrics"]["memory"] / 2**20 for worker in workers]
        test = folder[:2_000]
        baseline = 1.0 / 200
        print(
            f"fitted in {took:.0f} s; workers of {arguments.limit_mib} MiB hold "
            f"{', '.join(f'{m:.0f}' for m in memory)} MiB; accuracy of 2,000 rows "
            f"{model.to_local().score(test.X, test.y):.4f}, by chance {baseline:.4f}"
        )
