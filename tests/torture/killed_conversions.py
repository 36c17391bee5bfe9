"""Conversions that are killed: the rows of before, or the new ones, and never anything between."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bigcat.data import convert, open_shards


class KilledConversions(NamedTuple):
    """Findings after all kills."""

    kills: int
    before: int  # times that the folder held what it held before the kill
    in_the_middle: int  # conversions that left arrays without an index
    left_behind: int  # after the conversion that followed


def tables(folder: Path, n_rows: int = 2_000) -> list[Path]:
    """Two tables, each of which says in every row which it is."""
    paths = []
    for number in (1, 2):
        lines = [f"{number},{i},{i % 7}" for i in range(number * n_rows)]
        path = folder / f"{number}.csv"
        path.write_text("\n".join(["number,row,label", *lines]) + "\n")
        paths.append(path)
    return paths


def number_of(folder: Path, n_rows: int = 2_000) -> int:
    """Return the table that a folder holds; AssertionError for a mixture of two."""
    shards = open_shards(folder)
    X = shards.X  # held to its digests
    number = int(X[0, 0])
    assert (X[:, 0] == number).all(), "rows of both tables"
    assert np.array_equal(np.sort(X[:, 1]), np.arange(number * n_rows)), "rows are missing"
    assert np.array_equal(shards.y, X[:, 1].astype(int) % 7), "labels of other rows"
    return number


def kill_conversions(n: int, folder: Path, seed: int = 0) -> KilledConversions:
    """Kill `n` processes that convert one table after the other, each at a random moment."""
    rng = np.random.default_rng(seed)
    paths, target = tables(folder), folder / "rows"
    how: dict[str, Any] = {"n_jobs": 1, "shard_bytes": 4_000}
    convert(paths[0], target, **how)
    began = time.perf_counter()
    convert(paths[1], target, **how)
    seconds = time.perf_counter() - began
    same = in_the_middle = 0
    for _ in range(n):
        before = number_of(target)
        child = os.fork()
        if child == 0:  # of the parent it shares all but time
            while True:
                convert(paths[2 - before], target, **how)
                convert(paths[before - 1], target, **how)
        time.sleep(rng.uniform(0.0, 1.5 * seconds))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        same += number_of(target) == before
        in_the_middle += len(list(target.glob("rows-*"))) > 1
        if rng.random() < 0.1:
            convert(paths[0], target, **how)
            assert len(os.listdir(target)) == 3, os.listdir(target)  # index, lock, arrays
    convert(paths[0], target, **how)
    return KilledConversions(n, same, in_the_middle, len(os.listdir(target)) - 3)
