"""Seconds of a fit to 10^9 rows of 10^6 classes on 8 to 512 workers, from measured constants.

``python -m benchmarks.distributed simulation``

What is measured here: steps over rows with 10^6 classes, what it takes to combine changes, and what
the scheduler takes for a task, all in CPU seconds.  What is assumed: a network of 10 Gbit, of which
80 % are used, and workers of one lane each whose core is this machine's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from distributed import Client

from bigcat import LinearClassifier
from bigcat.auto import Parameters, plan_for_rounds
from bigcat.dask.fit import MOST_SLICES, ROUNDS
from bigcat.dask.lanes import Turn, Whole, begin, combine, train_lane
from bigcat.rows import Sizes
from bigcat.training.data import TrainingData

N_ROWS, N_PASSES = 10**9, 3
NETWORK = 0.8 * 10e9 / 8  # bytes per second
PER_ROW = 20


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--classes", type=int, default=10**6)
    parser.add_argument("--features", type=int, default=10**5)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--rows", type=int, default=20_000, help="to measure with")


@dataclass(frozen=True)
class Constants:
    """Measured: seconds of one core."""

    per_row: float
    copy_of_state: float  # what a lane does in each round beside its steps
    combine_change: float  # of all weights
    task: float  # of the scheduler
    state_bytes: float


def measure(arguments: argparse.Namespace) -> Constants:
    n, n_classes, n_features = arguments.rows, arguments.classes, arguments.features
    rng = np.random.RandomState(0)
    indices = np.sort(rng.randint(n_features, size=(n, PER_ROW)), axis=1).ravel()
    X = scipy.sparse.csr_matrix(
        (np.full(n * PER_ROW, PER_ROW**-0.5, np.float32), indices, PER_ROW * np.arange(n + 1)),
        shape=(n, n_features),
    )
    X.sum_duplicates()
    labels = np.minimum((rng.pareto(1.0, n) * 50).astype(np.int64), n_classes - 1)
    sizes = Sizes(N_ROWS, n_features, n_classes, PER_ROW * N_ROWS, True, PER_ROW)
    estimator = LinearClassifier(rank=arguments.rank, max_epochs=N_PASSES, random_state=0)
    config = plan_for_rounds(Parameters.of(estimator.get_params()), sizes).first
    counts = np.bincount(labels, minlength=n_classes) + 1.0
    none = np.empty(0, np.int64)
    whole = Whole(N_ROWS, float(N_ROWS), n_features, True, counts, 1.0, 1.0, 1.0, 8, none)
    sample = TrainingData(X, labels, np.ones(n))
    before = begin(config, whole, sample.take(np.arange(0)), 0)
    few = sample.take(np.arange(256))
    turn = Turn(1, 1, 0)
    train_lane(config, whole, few, [before], turn)  # compiles
    started = time.process_time()
    train_lane(config, whole, few, [before], turn)
    beside = time.process_time() - started
    started = time.process_time()
    (change,) = train_lane(config, whole, sample, [before], turn).slices
    per_row = (time.process_time() - started - beside) / (n - 256)
    share = change.nbytes / before.nbytes
    few_changes, more = (_cpu_of(lambda n=n: combine(before, [change] * n)) for n in (1, 5))  # type: ignore[misc]
    of_change = (more - few_changes) / 4.0 / share
    task = _task()
    print(
        f"measured: {1.0 / per_row:,.0f} rows per second and core; {beside:.2f} s of a lane for "
        f"each round; {of_change:.2f} s to combine a change of all weights; {1e3 * task:.2f} ms "
        f"of the scheduler for a task; weights of "
        f"{before.nbytes / 2**20:,.0f} MiB; {n:,} rows change {share:.0%} of them"
    )
    return Constants(per_row, beside, of_change, task, float(before.nbytes))


def _cpu_of(call: Callable[[], object]) -> float:
    """CPU seconds, the least of three."""
    found = []
    for _ in range(3):
        started = time.process_time()
        call()
        found.append(time.process_time() - started)
    return min(found)


def _task() -> float:
    """CPU seconds of a task that does nothing: client, scheduler and worker in this process."""
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as client:
        return _cpu_of(lambda: client.gather(client.map(abs, range(1000), pure=False))) / 1000


def seconds(known: Constants, n_workers: int, n_slices: int) -> dict[str, float]:
    """Of a fit: steps, copies, the network, combining, and what the scheduler does for all tasks.

    In rounds that long every change is of all weights.  A worker that combines a slice receives
    that of every change; and each worker receives all slices of the next weights.
    """
    there, slices = known.state_bytes / NETWORK, min(n_slices, n_workers)
    return {
        "steps": N_ROWS * N_PASSES * known.per_row / n_workers,
        "copies": ROUNDS * known.copy_of_state,
        "network": ROUNDS * there * (n_workers / slices + 1),
        "combining": ROUNDS * known.combine_change * n_workers / slices,
        "scheduler": ROUNDS * known.task * (n_workers * (1 + slices) + 2 * slices),
    }


def run(arguments: argparse.Namespace) -> None:
    known = measure(arguments)
    alone = N_ROWS * N_PASSES * known.per_row
    print(f"one core: {alone / 3600:,.1f} hours of steps; {ROUNDS} rounds")
    for n_slices in (1, MOST_SLICES):
        print(f"combined by {'one worker' if n_slices == 1 else f'up to {n_slices} workers'}")
        for n_workers in (8, 16, 32, 64, 128, 512):
            parts = seconds(known, n_workers, n_slices)
            total = sum(parts.values())
            told = ", ".join(f"{name} {value / 3600:.2f}" for name, value in parts.items())
            print(
                f"  {n_workers:4} workers: {total / 3600:6.2f} hours ({told}); "
                f"{alone / total:5.1f} times one core"
            )
