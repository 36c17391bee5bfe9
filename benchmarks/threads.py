"""Training rows per second on one and on two threads, sparse rows.

Exact rows are as those of `roofline`; sampled ones have the sizes of the WordNet data, with Zipf's
class frequencies.  Threads take turns, several times over, and the fastest pass of each counts:
set-up and compilation are outside.  "Cores at work" is processor time over time in that pass; below
the number of threads the machine had other work, and the ratio says little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks._passes import Silent, make_passes, new_state
from benchmarks._report import save, show
from benchmarks.all_classes import SIZES
from benchmarks.datasets.synthetic import zipf_classes
from benchmarks.roofline import sparse_problem
from bigcat.bounds import Complementary
from bigcat.combinations import Parts, resolve
from bigcat.noise import Gaussian, Gumbel
from bigcat.rows import Problem, as_rows
from bigcat.samplers import REGISTRY as SAMPLERS
from bigcat.samplers import Uniform
from bigcat.solvers import Damped
from bigcat.training.loop import run_epochs

TURNS, PASSES = 4, 3  # of each number of threads
THREADS = (1, 2)
N_NEGATIVES = 20
RATE = 0.1  # small enough for all; it makes no difference to the speed
SCORES = 20_000_000  # of a pass over all classes
SAMPLED_ROWS = 100_000


@dataclass(frozen=True)
class Case:
    name: str
    make_problem: Callable[[], Problem]
    parts: Parts


def cases() -> list[Case]:
    """Return the measured fits: the exact softmax, then every sampler."""
    damped = Damped(RATE, schedule="constant")
    exact = resolve("exact", Gumbel(), solver=damped, sampler="everything")
    found = [
        Case(
            f"exact, K = {k:,}", partial(sparse_problem, k, 26_000, 11, max(SCORES // k, 64)), exact
        )
        for k in (1_600, 19_000)
    ]
    for name, kind in SAMPLERS.items():
        if name != "everything":
            sampler = kind().with_options(n_negatives=N_NEGATIVES)
            parts = resolve(Complementary.name, Gumbel(), solver=damped, sampler=sampler)
            found.append(Case(f"{name} sampler", _wordnet_like, parts))
    probit = resolve("augment-reduce", Gaussian(), solver=damped, sampler=Uniform(N_NEGATIVES))
    return [*found, Case("uniform sampler, probit", _wordnet_like, probit)]


def _wordnet_like() -> Problem:
    n_classes, n_features, nonzeros = SIZES["wordnet"]
    drawn = zipf_classes(SAMPLED_ROWS, n_classes, n_features, row_entries=nonzeros)
    rows = as_rows(drawn.X, np.float32)
    return Problem(rows, drawn.y, np.ones(SAMPLED_ROWS), n_features, n_classes)


def fastest_pass(problem: Problem, parts: Parts, n_threads: int) -> tuple[float, float]:
    """Seconds of the fastest of some passes, and the cores at work in it."""
    found = _Clock()
    state = new_state(problem, parts)
    run_epochs(make_passes(problem, parts, state, n_threads, PASSES), PASSES, found)
    return min(found.passes)


class _Clock(Silent):
    """Seconds of each pass, and the cores at work in it."""

    def __init__(self) -> None:
        self.passes: list[tuple[float, float]] = []
        self.busy = 0.0

    def compiled(self, seconds: float) -> None:
        self.busy = time.process_time()

    def epoch_done(self, value: float, seconds: float) -> bool:
        now = time.process_time()
        self.passes.append((seconds, (now - self.busy) / seconds))
        self.busy = now
        return False


def threads(names: list[str] | None = None, as_json: bool = False) -> None:
    """Print rows per second and the ratio to one thread, of the cases whose names begin so."""
    rows = []
    for case in cases():
        if names and not case.name.startswith(tuple(names)):
            continue
        problem = case.make_problem()
        best = {n: (np.inf, 0.0) for n in THREADS}
        for _ in range(TURNS):
            for n in THREADS:
                best[n] = min(best[n], fastest_pass(problem, case.parts, n))
        for n in THREADS:
            seconds, cores = best[n]
            rows.append(
                {
                    "what": case.name,
                    "threads": n,
                    "rows per second": problem.n_rows / seconds,
                    "of one thread's": best[1][0] / seconds,
                    "cores at work": cores,
                }
            )
        save("threads", rows)
        del problem
    if rows:
        show(rows, as_json)
