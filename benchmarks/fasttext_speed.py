"""Low rank beside fastText's fastest losses: rows per second, seconds to its log-likelihood.

Both have vectors of the same length and the same cores; fastText starts twelve threads on them, for
the reason that its adapter gives.  Its settings are the best known ones of the campaign, ours are
the defaults.  Rows a second are those of training: fastText's with the reading of its file, which
is little beside its epochs, but without the writing; ours those of the epochs after the first.
Seconds to its log-likelihood count everything but compilation, as do those of its fits; ours are
read off the curve, a straight line between epochs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._curves import seconds_to_reach
from benchmarks._report import save, show
from benchmarks.peers import configuration, jobs, problems
from benchmarks.peers.campaign import Record
from benchmarks.peers.configuration import Campaign, Contender, Settings
from benchmarks.peers.problems import Problem
from bigcat.data import DataError

PROBLEMS = ("wordnet20k", "beauty")
LOSSES = ("fastText hs", "fastText ns")
OURS = "bigcat low rank"
DIMENSION, THREADS = 64, 2
LIMIT = 300.0


def fasttext_speed(
    names: list[str],
    dimension: int = DIMENSION,
    n_threads: int = THREADS,
    as_json: bool = False,
) -> None:
    """Print a table."""
    campaign = configuration.read()
    rows: list[dict] = []
    for name in names:
        problem = campaign.problems[name]
        try:
            n_rows = problems.facts_of(problem)["rows_train"]
        except DataError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        with cores(n_threads):
            records = {
                contender.name: _run(contender, problem, settings, n_threads)
                for contender, settings in contenders(campaign, name, dimension, n_threads)
            }
        rows += [{"problem": name, **row} for row in table(records, n_rows)]
        save("fasttext_speed", rows)
    if rows:
        show(rows, as_json)


def contenders(
    campaign: Campaign, problem: str, dimension: int, n_threads: int
) -> Iterator[tuple[Contender, Settings]]:
    """Return the runs and their settings."""
    for loss in LOSSES:
        peer = campaign.contenders[loss]
        yield peer, peer.settings_for(problem)[0] | {"dim": dimension}
    defaults = campaign.contenders["bigcat defaults"]
    yield replace(defaults, name=OURS), {"rank": dimension, "n_threads": n_threads}


def _run(contender: Contender, problem: Problem, settings: Settings, n_threads: int) -> Record:
    folder = problems.folder_of(problem)
    record = jobs.run(contender, folder, "test", settings, limit=LIMIT, threads=n_threads)
    if record["status"] != "ok":
        raise RuntimeError(f"{contender.name} on {problem.name}: {record['error']}")
    return record | {"settings": settings}


def table(records: dict[str, Record], n_rows: int) -> list[dict[str, Any]]:
    """Return one row per method; ours have the seconds to the log-likelihoods of the others."""
    rows = []
    for method, record in records.items():
        if method == OURS:
            epochs, seconds, values = zip(*record["curve"])
            n_epochs, n_timed, timed = epochs[-1], epochs[-1] - 1, seconds[-1] - seconds[0]
            since_call = np.array(seconds) + record["fit_seconds"] - seconds[-1]
            reached = {
                loss: seconds_to_reach(records[loss]["log_likelihood"], since_call, values)
                for loss in records.keys() - {OURS}
            }
        else:
            n_epochs = n_timed = record["settings"]["epoch"]
            timed, reached = record["train_seconds"], {method: record["fit_seconds"]}
        row = {
            "method": method,
            "epochs": n_epochs,
            "rows per second": n_timed * n_rows / timed if n_timed else None,
            "fit, s": record["fit_seconds"],
            "fit, CPU s": record["fit_cpu_seconds"],
            "log-likelihood": record["log_likelihood"],
        }
        rows.append(row | {f"s to {loss}'s": reached.get(loss) for loss in LOSSES})
    return rows


@contextmanager
def cores(n: int) -> Iterator[None]:
    """Keep this process, and those that it starts, to `n` cores, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
