"""Bytes per second of training, beside those of a plain copy.

A row of a training step has to read every weight of its features once and to write it once, which
is what is counted: 2 x 4 bytes a (feature, class) pair of the row.  Reading the weights again for
the update is not counted, nor are scores and data, so the share is one of useful work.  A copy
reads and writes each byte once too.  With sampled classes a weight is alone in its cache line, so
there whole lines are counted, 2 x 64 bytes a pair; "random lines" adds 1 to weights at random
places and does nothing else, which is as fast as such steps could be.  What a processor fetches in
order to overwrite it is counted for none.  Features are drawn evenly, so that caches help as little
as they can.

Runs are short and many, and the fastest counts, so that a machine with other work on it finds a
quiet moment for some of them.  "Cores at work" is processor time over time in that run: below the
number of threads the threads had to take turns, and their speed says nothing.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._passes import make_passes, new_state, run_passes
from benchmarks._report import clock, save, show
from bigcat.bounds import Complementary, Exact
from bigcat.combinations import Parts
from bigcat.compile import kernel
from bigcat.noise import Gumbel
from bigcat.rows import Problem, as_rows
from bigcat.samplers import Everything, Uniform
from bigcat.solvers import SGD, Damped

#: Trained models; for the sampled one also the number of drawn classes per row.
EXACT = Parts(Gumbel(), Exact(), Everything(), SGD(0.1))
N_NEGATIVES = 16
SAMPLED = Parts(Gumbel(), Complementary(), Uniform(N_NEGATIVES), Damped(0.1))
THREADS = sorted({1, min(2, os.cpu_count() or 1)})
SECONDS = 6.0  # of repeated runs
COPIED = 1 << 25  # float32 numbers: far beyond any cache
TRAINED = 2_000_000  # scores of one run


@dataclass(frozen=True)
class Workload:
    """Workload that moves a known number of bytes on a number of threads."""

    name: str
    n_bytes: float
    run: Callable[[int], Any]


def copy() -> Workload:
    source, target = np.ones(COPIED, np.float32), np.ones(COPIED, np.float32)

    def run(n_threads: int) -> None:
        edges = np.linspace(0, COPIED, n_threads + 1).astype(int)
        with ThreadPoolExecutor(n_threads) as pool:
            parts = [slice(a, b) for a, b in itertools.pairwise(edges)]
            list(pool.map(lambda s: np.copyto(target[s], source[s]), parts))

    return Workload("copy", 2.0 * source.nbytes, run)


def sparse_problem(n_classes: int, n_features: int, nonzeros: int, n_rows: int) -> Problem:
    rng = np.random.default_rng(0)
    indices = np.sort([rng.choice(n_features, nonzeros, replace=False) for _ in range(n_rows)])
    X = scipy.sparse.csr_array(
        (
            rng.random(n_rows * nonzeros, dtype=np.float32),
            indices.ravel().astype(np.int32),
            np.arange(n_rows + 1, dtype=np.int32) * nonzeros,
        ),
        shape=(n_rows, n_features),
    )
    labels = rng.integers(0, n_classes, n_rows)
    return Problem(as_rows(X, np.float32), labels, np.ones(n_rows), n_features, n_classes)


def exact(n_classes: int, n_features: int = 26_000, nonzeros: int = 11) -> Workload:
    """The exact softmax, row by row; sizes as those of the WordNet data with many classes."""
    a_run = max(2, TRAINED // n_classes)
    n_rows = 20 * a_run
    problem = sparse_problem(n_classes, n_features, nonzeros, n_rows)
    state = new_state(problem, EXACT)
    passes = {n: make_passes(problem, EXACT, state, n) for n in THREADS}
    starts = itertools.cycle(range(0, n_rows, a_run))  # other rows each time

    def run(n_threads: int) -> None:
        start = next(starts)
        passes[n_threads].train(start, start + a_run)

    return Workload(f"exact, K = {n_classes:,}", 2.0 * 4.0 * nonzeros * n_classes * a_run, run)


@kernel
def add_one(weights, places):
    for place in places:
        weights[place] += 1.0


def random_lines(n_weights: int = 26_000 * 19_000) -> Workload:
    weights = np.zeros(n_weights, np.float32)
    weights += 0.0
    places = np.random.default_rng(0).integers(n_weights, size=1 << 21)

    def run(n_threads: int) -> None:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda part: add_one(weights, part), np.array_split(places, n_threads)))

    return Workload("random lines", 2.0 * 64.0 * len(places), run)


def sampled(n_classes: int, n_features: int = 26_000, nonzeros: int = 11) -> Workload:
    """Sixteen sampled classes a row.  A weight comes and goes with its cache line of 64 bytes."""
    n_rows, n_negatives = 100_000, N_NEGATIVES
    problem = sparse_problem(n_classes, n_features, nonzeros, n_rows)
    state = new_state(problem, SAMPLED)

    def run(n_threads: int) -> None:
        run_passes(problem, SAMPLED, state, n_threads)

    lines = n_rows * nonzeros * (n_negatives + 1)
    return Workload(f"sampled, K = {n_classes:,}", 2.0 * 64.0 * lines, run)


#: Measurements beside the copy; each is made when its turn comes, to save memory.
WORKLOADS: tuple[Callable[[], Workload], ...] = (
    partial(exact, 1_000),
    partial(exact, 19_000),
    random_lines,
    partial(sampled, 19_000),
)


def fastest(workload: Workload, n_threads: int) -> tuple[float, float]:
    """Gigabytes per second of the fastest run, and the cores at work in it."""
    workload.run(n_threads)
    best, cores = np.inf, 0.0
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        with clock() as times:
            workload.run(n_threads)
        if times["wall"] < best:
            best, cores = times["wall"], times["cpu"] / times["wall"]
    return 1e-9 * workload.n_bytes / best, cores


def roofline() -> None:
    """Print a table of gigabytes per second, and the part of a copy's."""
    rows = []
    copied: dict[int, float] = {}
    for make in (copy, *WORKLOADS):
        workload = make()
        for n in THREADS:
            speed, cores = fastest(workload, n)
            copied.setdefault(n, speed)
            rows.append(
                {
                    "what": workload.name,
                    "threads": n,
                    "GB/s": speed,
                    "of a copy": speed / copied[n],
                    "cores at work": cores,
                }
            )
        del workload
    show(rows)
    save("roofline", rows)
