"""Fits whose workers, or scheduler, are killed at many moments.

``python -m benchmarks.distributed faults [--kills 20]``
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client

from benchmarks.distributed.folders import made_up
from benchmarks.distributed.local import local_cluster
from bigcat import Checkpoint
from bigcat.dask import LinearClassifier
from bigcat.data import Shards, open_shards

SETTINGS: dict[str, Any] = {
    "rank": 16,
    "max_epochs": 2,
    "n_workers": 2,
    "rows_per_round": 1_250,
    "random_state": 0,
    "progress": False,
}


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--no-scheduler", action="store_true", help="workers alone")


def run(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = made_up(Path(name) / "rows", 20_000, 2_000, 200, 10)
        with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"):
            started = time.perf_counter()
            reference = LinearClassifier(**SETTINGS).fit(folder).to_local()
            print(f"in this process: {time.perf_counter() - started:.1f} s", flush=True)
        if not arguments.no_scheduler:
            kill_scheduler(folder, Path(name), reference)
        kill_workers(folder, arguments.kills, reference)


def same_bits(a: Any, b: Any) -> bool:
    names = ("class_embedding_", "embedding_", "intercept_")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def kill_workers(folder: Shards, kills: int, reference: Any) -> None:
    # Workers are copies of a process that has imported everything, so that they are soon back.
    multiprocessing.set_forkserver_preload(["distributed", "bigcat.dask.linear"])
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    done, same, seconds = 0, 0, 0.0
    while done < kills:
        with local_cluster(2) as client:
            for _ in range(2):  # the first loads what is compiled
                started = time.perf_counter()
                LinearClassifier(client=client, **SETTINGS).fit(folder)
            seconds = seconds or time.perf_counter() - started
            print(f"without a fault: {seconds:.1f} s", flush=True)
            while done < kills:
                try:  # where the machine is busy, Dask may give up a worker that starts too slowly
                    client.wait_for_workers(2, timeout=60)
                except TimeoutError:
                    break
                same += kill_one(client, folder, seconds * done / kills, done, reference)
                done += 1
    print(f"{same} of {kills} fits have the same bits")


def kill_one(client: Client, folder: Shards, delay: float, seed: int, reference: Any) -> bool:
    """Kill a worker during a fit, and compare its bits with those of an undisturbed fit."""
    pids = client.run(os.getpid, on_error="ignore").values()
    pid = random.Random(seed).choice(sorted(pids))
    killer = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
    killer.start()
    started = time.perf_counter()
    model = LinearClassifier(client=client, **SETTINGS).fit(folder)
    took = time.perf_counter() - started
    in_time = not killer.is_alive()
    killer.join()
    equal = same_bits(model, reference)
    when = f"after {delay:5.1f} s" if in_time else "when it had ended"
    print(f"killed {when}: ended after {took:5.1f} s, same bits: {equal}", flush=True)
    return equal


_FIT = """
import sys
from benchmarks.distributed.faults import SETTINGS
from bigcat import Checkpoint
from bigcat.dask import LinearClassifier
from bigcat.data import open_shards
from distributed import Client
with Client(sys.argv[1]) as client:
    client.wait_for_workers(2)
    model = LinearClassifier(
        client=client, checkpoint=Checkpoint(sys.argv[3], 0.0), **SETTINGS
    )
    model.fit(open_shards(sys.argv[2]), resume=True)
"""


def kill_scheduler(folder: Shards, temporary: Path, reference: Any) -> None:
    checkpoint = temporary / "checkpoint"
    first = _cluster(temporary / "first.json")
    address = _address(temporary / "first.json")
    with open(temporary / "log", "w+") as log:
        fit = subprocess.Popen(
            [sys.executable, "-c", _FIT, address, folder.folder, checkpoint], stderr=log
        )
        while len(list(checkpoint.glob("run-*.safetensors"))) < 2:
            time.sleep(0.2)
        first[0].kill()
        code = fit.wait(timeout=300)
        log.seek(0)
        last_words = log.read().strip().splitlines()[-1]
    print(f"scheduler killed: the fit ended with {code}: {last_words}", flush=True)
    _end(first)
    second = _cluster(temporary / "second.json")
    try:
        with Client(_address(temporary / "second.json")) as client:
            client.wait_for_workers(2)
            model = LinearClassifier(
                client=client, checkpoint=Checkpoint(checkpoint, 0.0), **SETTINGS
            ).fit(open_shards(folder.folder), resume=True)
    finally:
        _end(second)
    print(f"with another scheduler it went on: same bits: {same_bits(model, reference)}")


def _cluster(file: Path) -> list[subprocess.Popen[bytes]]:
    """Start a scheduler and two workers by their command lines."""
    where = ["--scheduler-file", str(file)]
    quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    processes = [
        subprocess.Popen([*dask, "scheduler", *where, "--port", "0", "--no-dashboard"], **quiet)
    ]
    worker = [*dask, "worker", *where, "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
    return processes + [subprocess.Popen(worker, **quiet) for _ in range(2)]


def _address(file: Path) -> str:
    import json

    while not file.exists() or not file.read_text().strip():
        time.sleep(0.1)
    return str(json.loads(file.read_text())["address"])


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        process.wait(timeout=60)
