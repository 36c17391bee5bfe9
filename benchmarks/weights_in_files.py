"""Weights that are mapped to files: what a fit takes of memory and time, beside one in memory.

Rows have few values and classes are many, so that the weights are nearly all there is.  Each fit
has a process of its own, and a folder on the disk of the machine's temporary files.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._report import save, show
from benchmarks.streams import STACK_BYTES, MemoryGroup, Watched, cpu, trim


@dataclass(frozen=True)
class Problem:
    n_classes: int = 50_000
    n_features: int = 5_000
    n_rows: int = 50_000
    per_row: int = 10
    passes: int = 2


#: Classes and features are as frequent as words: the k-th by this power of k.
POWER = -1.0
PROBLEM = Problem()
#: Few rows of a first fit, which compiles.
WARM_UP = Problem(n_classes=3_000, n_features=500, n_rows=4_000)
#: Samplers, and places of the weights: in memory; in files, with all memory; and in files, with a
#: part of the memory that the arrays take, cached pages of files included.
SAMPLERS = ("frequency", "uniform")
LIMITS = (None, 0.75)
#: AdaGrad has two arrays of the size of the weights.
N_ARRAYS = 2


def make_rows(problem: Problem) -> tuple[sp.csr_matrix, np.ndarray]:
    """Make rows whose features partly determine the class; every class has a row."""
    rng = np.random.default_rng(0)
    n, d, k = problem.n_rows, problem.n_features, problem.n_classes
    labels = _frequent(rng, k, n)
    labels[:k] = rng.permutation(k)[:n]
    columns = _frequent(rng, d, (n, problem.per_row)).astype(np.int32)
    columns[:, 0] = labels % d
    starts = np.arange(0, n * problem.per_row + 1, problem.per_row, dtype=np.int32)
    values = np.full(n * problem.per_row, problem.per_row**-0.5, np.float32)
    X = sp.csr_matrix((values, columns.ravel(), starts), shape=(n, d))
    X.sum_duplicates()
    return X, labels


def _frequent(rng: np.random.Generator, n: int, shape: Any) -> np.ndarray:
    frequencies = np.arange(1, n + 1) ** POWER
    drawn: np.ndarray = rng.choice(n, shape, p=frequencies / frequencies.sum())
    return drawn


def classifier(sampler: str, passes: int, folder: str | None) -> Any:
    from bigcat import Checkpoint, LinearClassifier
    from bigcat.samplers import REGISTRY

    kind: Any = REGISTRY[sampler]

    return LinearClassifier(
        method="augment-reduce",
        solver="adagrad",
        sampler=kind(n_negatives=4),
        max_epochs=passes,
        random_state=0,
        progress=False,
        checkpoint=Checkpoint(weights_folder=folder),
        early_stopping=False,
    )


def weights_in_files(samplers: list[str], as_json: bool) -> None:
    """A row per sampler and place of the weights."""
    rows = []
    for sampler in samplers or SAMPLERS:
        for mapped in (False, True):
            for limit in LIMITS:
                rows.append(_in_process(sampler, mapped, limit))
                print(rows[-1], file=sys.stderr, flush=True)
    save("weights_in_files", rows)
    show(rows, as_json)


def _in_process(sampler: str, mapped: bool, limit: float | None) -> dict[str, Any]:
    # Arrays need a limit that refuses: in a group the system tries for minutes to make room.
    group = MemoryGroup.beside_us() if mapped and limit is not None else None
    words = [sys.executable, "-m", "benchmarks.weights_in_files", sampler, str(int(mapped))]
    with group.made() if group else nullcontext():
        words += [str(limit or ""), str(group.folder) if group else ""]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def fit_here(
    sampler: str, mapped: bool, limit: float | None, group: MemoryGroup | None
) -> dict[str, Any]:
    """A fit in this process."""
    arrays = N_ARRAYS * 4 * PROBLEM.n_classes * PROBLEM.n_features
    found: dict[str, Any] = {"sampler": sampler, "weights": "files" if mapped else "memory"}
    found |= {"arrays_MB": arrays / 1e6, "allowed_MB": limit and limit * arrays / 1e6}
    X, y = make_rows(PROBLEM)
    threading.stack_size(STACK_BYTES)
    with tempfile.TemporaryDirectory() as name, Watched() as watched:
        folder = name if mapped else None
        classifier(sampler, PROBLEM.passes, folder).fit(*make_rows(WARM_UP))
        trim()
        before = watched.begin()
        read, written = _disk()
        if limit is not None and mapped:
            if group is None:
                return found | {"error": "no control group can be made here"}
            group.enter(int(limit * arrays))
        elif limit is not None:
            most = before["VmData"] + int(limit * arrays)
            resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
        began, (user, system) = time.perf_counter(), cpu()
        try:
            model = classifier(sampler, PROBLEM.passes, folder).fit(X, y)
        except MemoryError:
            return found | {"error": "MemoryError"}
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
            if group is not None:
                found["peak_MB"] = group.most() / 1e6
                group.leave()
        seconds, now = time.perf_counter() - began, cpu()
        user, system = now[0] - user, now[1] - system
        epochs = np.diff(model.history_["seconds"], prepend=0.0)
        read, written = (then - before for then, before in zip(_disk(), (read, written)))
    return found | {
        "anonymous_MB": (watched.peak_anonymous - before["RssAnon"]) / 1e6,
        "mapped_MB": watched.peak_mapped / 1e6,
        "user_seconds": user,
        "system_seconds": system,
        "seconds": seconds,
        "epoch_seconds": [round(float(s), 2) for s in epochs],
        "read_MB": read / 1e6,
        "written_MB": written / 1e6,
        "rows_per_cpu_second": round(PROBLEM.passes * PROBLEM.n_rows / (user + system)),
        "rows_per_second": round(PROBLEM.passes * PROBLEM.n_rows / seconds),
        "sum": float(np.abs(model.coef_).sum(dtype=np.float64)),
    }


def _disk() -> tuple[int, int]:
    """Bytes that this process had read, and written, by the disk."""
    lines = Path("/proc/self/io").read_text().splitlines()
    of = dict(line.split(": ") for line in lines)
    return int(of["read_bytes"]), int(of["write_bytes"])


if __name__ == "__main__":
    _sampler, _mapped, _limit, _group = sys.argv[1:]
    _of = MemoryGroup(Path(_group)) if _group else None
    _found = fit_here(_sampler, _mapped == "1", float(_limit) if _limit else None, _of)
    print(json.dumps(_found))
