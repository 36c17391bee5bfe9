"""Fits to rows larger than memory beside fits in memory."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._report import save, show


@dataclass(frozen=True)
class Problem:
    """Rows, classes, and the parameters of fits to them: of a given number of passes, or none."""

    n_classes: int
    own: float  # share of a row's features that are of its class; the rest are anybody's
    fits: dict[str, dict[str, Any]]
    n_rows: int = 100_000
    n_features: int = 5_000
    per_row: int = 150


PASSES: dict[str, Any] = {"max_epochs": 4, "early_stopping": False}
PROBLEMS = {
    "30 classes": Problem(
        30,
        0.04,
        {
            "all classes": {"method": "exact", "solver": "damped", **PASSES},
            "the defaults": {},
        },
    ),
    "3,000 classes": Problem(
        3_000,
        0.12,
        {"low rank": {"method": "complementary", "sampler": "shared", "rank": 16, **PASSES}},
    ),
}
TEST_ROWS = 10_000
#: The rows are so many times the memory that a fit may take, of which this share is for arrays and
#: the rest for mapped pages; rows that are visited at a time take a part of those.
TIMES, SHARE_OF_ARRAYS, SHARE_OF_WINDOW = 4, 0.4, 0.1
#: In memory without a limit; from files whose order was random, or sorted by label, with a limit;
#: and in memory with a limit.  Where the system counts only what the process allocates, pages of
#: mapped files are limited, too, by taking them away.
HOW = ("arrays", "shuffled", "sorted", "arrays, limited")
SQUEEZED = "shuffled, squeezed"
#: Rows of a first fit, which compiles.
WARM_UP_ROWS = 6_000
#: Seconds between two looks at how many pages are mapped.
LOOK_EVERY = 0.05
#: Bytes of a thread's stack, which the system counts as allocated: usually 8 MiB.
STACK_BYTES = 1 << 19
_PAGE_OUT = 21  # MADV_PAGEOUT, which Python has no name for


def make_rows(name: str, n_rows: int, seed: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of unit length whose features are drawn around those of their class."""
    problem = PROBLEMS[name]
    n_features, per_row, n_classes = problem.n_features, problem.per_row, problem.n_classes
    rng = np.random.default_rng(0)
    typical = rng.integers(n_features, size=(n_classes, 2 * per_row), dtype=np.int32)
    rng = np.random.default_rng([seed, 1])
    frequencies = np.arange(1, n_classes + 1) ** -0.7
    labels = rng.choice(n_classes, n_rows, p=frequencies / frequencies.sum())
    own = rng.random((n_rows, per_row)) < problem.own
    places = rng.integers(2 * per_row, size=(n_rows, per_row))
    anybody = rng.integers(n_features, size=(n_rows, per_row), dtype=np.int32)
    indices = np.where(own, typical[labels[:, None], places], anybody)
    X = sp.csr_matrix(
        (
            np.full(n_rows * per_row, per_row**-0.5, np.float32),
            indices.ravel(),
            np.arange(0, n_rows * per_row + 1, per_row),
        ),
        shape=(n_rows, n_features),
    )
    X.sum_duplicates()
    return X, labels


def write_svmlight(path: Path, X: sp.csr_matrix, labels: np.ndarray) -> None:
    """Write the rows as text; all values are multiples of one number, so few digits suffice."""
    number = {value: f":{value:.4g}" for value in np.unique(X.data).tolist()}
    spelled = [number[value] for value in X.data.tolist()]
    columns = X.indices.tolist()
    with open(path, "w") as file:
        for i, (begin, end) in enumerate(zip(X.indptr.tolist(), X.indptr[1:].tolist())):
            entries = map("{}{}".format, columns[begin:end], spelled[begin:end])
            file.write(f"{labels[i]} {' '.join(entries)}\n")


# Fits


def streams(names: list[str], as_json: bool) -> None:
    """Fits in memory, and under a limit of it: rows shuffled and sorted by their labels."""
    rows = []
    for name in names or PROBLEMS:
        with tempfile.TemporaryDirectory() as folder:
            _write_problem(name, Path(folder))
            for fit in PROBLEMS[name].fits:
                hows = HOW if MemoryGroup.beside_us() else (*HOW, SQUEEZED)
                for how in hows:
                    row = _in_process(name, fit, Path(folder), how)
                    rows.append({"problem": name, "fit": fit, "rows": how, **row})
                    print(rows[-1], file=sys.stderr, flush=True)
    save("streams", rows)
    show(rows, as_json)


def _write_problem(name: str, folder: Path) -> None:
    """The same rows twice: in random order, and sorted by label."""
    from bigcat.data import convert

    problem = PROBLEMS[name]
    path = folder / "rows.svm"
    how: dict[str, Any] = {"n_features": problem.n_features, "zero_based": True}
    X, y = make_rows(name, problem.n_rows, seed=0)
    write_svmlight(path, X, y)
    convert(path, folder / "shuffled", **how)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in np.argsort(y, kind="stable")))
    convert(path, folder / "sorted", **how)
    path.unlink()
    X_test, y_test = make_rows(name, TEST_ROWS, seed=1)
    sp.save_npz(folder / "test.npz", X_test, compressed=False)
    np.save(folder / "test.npy", y_test)


def _in_process(name: str, fit: str, folder: Path, how: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.streams", name, fit, str(folder), how]
    # Arrays need a limit that refuses: in a group the system tries for minutes to make room.
    group = None if how.startswith("arrays") else MemoryGroup.beside_us()
    with group.made() if group else nullcontext():
        words.append(str(group.folder) if group else "")
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def classifier(name: str, fit: str) -> Any:
    """Return the classifier of a fit to a problem, on one thread."""
    from bigcat import LinearClassifier

    options: dict[str, Any] = {"random_state": 0, "n_threads": 1, "progress": False}
    return LinearClassifier(**options, **PROBLEMS[name].fits[fit])


def fit_here(
    name: str, fit: str, folder: Path, how: str, group: MemoryGroup | None = None
) -> dict[str, Any]:
    """Fit in this process, with limited memory unless the rows are arrays.

    A control group limits whatever it takes from then on, with the pages of files that it reads.
    """
    from bigcat import metrics
    from bigcat.data import open_shards

    problem = PROBLEMS[name]
    limited = how != "arrays"
    source = open_shards(folder / ("sorted" if how == "sorted" else "shuffled"))
    allowed = source.n_bytes // TIMES
    for_arrays = int(SHARE_OF_ARRAYS * allowed)
    X_warm, y_warm = make_rows(name, WARM_UP_ROWS, seed=2)
    y_warm[: problem.n_classes] = np.arange(problem.n_classes)  # as many classes: the same kernels
    with warnings.catch_warnings(), _few_rows(X_warm, y_warm, how) as warm:
        warnings.simplefilter("ignore")
        metrics.log_likelihood(classifier(name, fit).fit(*warm), X_warm, y_warm)
    found: dict[str, Any] = {"n_rows": len(source), "data_MB": source.n_bytes / 1e6}
    found["allowed_MB"] = allowed / 1e6 if limited else None
    threading.stack_size(STACK_BYTES)
    with Watched() as watched:  # its thread has a stack, which counts
        before = _memory()
        if group is not None:
            _forget(source)  # cached pages would not be counted
            trim()
            group.enter(allowed)
        elif limited:
            limit = before["VmData"] + for_arrays
            resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
        try:
            if how.startswith("arrays"):
                data: tuple[Any, ...] = (source.X.copy(), source.y)
            else:
                window = int(SHARE_OF_WINDOW * allowed)
                data = (open_shards(source.folder, window_bytes=window),)
                _forget(data[0])
                if how == SQUEEZED:
                    watched.squeeze(_maps(data[0]), allowed - for_arrays)
            began, (user, system) = time.perf_counter(), cpu()
            model = classifier(name, fit).fit(*data)
            seconds, now = time.perf_counter() - began, cpu()
            user, system = now[0] - user, now[1] - system
        except MemoryError as error:
            return found | {"error": f"MemoryError: {error}"}
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY,) * 2)
            if group is not None:
                found["peak_MB"] = group.most() / 1e6
                group.leave()
    X_test, y_test = sp.load_npz(folder / "test.npz"), np.load(folder / "test.npy")
    passes = problem.fits[fit].get("max_epochs")
    return found | {
        "arrays_MB": (watched.peak_anonymous - before["RssAnon"]) / 1e6,
        "mapped_MB": watched.peak_mapped / 1e6,
        "squeezed": watched.times,
        "user_seconds": user,
        "system_seconds": system,
        "seconds": seconds,
        "rows_per_cpu_second": passes and round(passes * len(source) / (user + system)),
        "rows_per_second": passes and round(passes * len(source) / seconds),
        "log_likelihood": metrics.log_likelihood(model, X_test, y_test),
    }


@contextmanager
def _few_rows(X: sp.csr_matrix, y: np.ndarray, how: str) -> Iterator[tuple[Any, ...]]:
    """Return a few rows of the same form as those of the measured fit."""
    from bigcat.data import convert, open_shards

    if how.startswith("arrays"):
        yield X, y
        return
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "rows.svm"
        write_svmlight(path, X, y)
        rows = convert(path, Path(name) / "rows", n_features=X.shape[1], zero_based=True)
        yield (open_shards(Path(name) / "rows", window_bytes=rows.n_bytes // 3),)


def cpu() -> tuple[float, float]:
    """Return CPU seconds of this thread, without the watching thread."""
    found = resource.getrusage(resource.RUSAGE_THREAD)
    return found.ru_utime, found.ru_stime


def _memory() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split() for line in lines if line.startswith(("VmData", "RssAnon", "RssFile")))
    return {name.rstrip(":"): 1024 * int(number) for name, number, _ in pairs}


def _maps(source: Any) -> list[mmap.mmap]:
    return [array._mmap for array in source._arrays.values()]


def _forget(source: Any) -> None:
    """Drop the rows from the page cache."""
    for path in (source.folder / source.index.arrays).iterdir():
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def trim() -> None:
    """Return freed memory to the system, so that later use is counted."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True)
class MemoryGroup:
    """A control group of Linux: its processes share a limit of memory, cached files included."""

    folder: Path

    @property
    def _files(self) -> tuple[str, str, str]:
        """Return the names of the files of the limit and the peak, and the word for no limit."""
        if (self.folder / "memory.max").exists():
            return "memory.max", "max", "memory.peak"
        return "memory.limit_in_bytes", "-1", "memory.max_usage_in_bytes"

    @classmethod
    def beside_us(cls) -> MemoryGroup | None:
        """Return a control group below that of this process; None if not permitted."""
        with suppress(OSError):
            for line in Path("/proc/self/cgroup").read_text().splitlines():
                _, controllers, path = line.split(":", 2)
                if controllers in ("", "memory"):
                    above = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
                    group = cls(above / f"bigcat-streams-{os.getpid()}")
                    with suppress(OSError), group.made():
                        (group.folder / group._files[0]).write_text(group._files[1])
                        return group
        return None

    @contextmanager
    def made(self) -> Iterator[None]:
        self.folder.mkdir()
        try:
            yield
        finally:
            for _ in range(100):  # a process that was killed may take a moment to leave
                with suppress(OSError):
                    self.folder.rmdir()
                    break
                time.sleep(0.05)

    def enter(self, allowed: int) -> None:
        (self.folder / self._files[0]).write_text(str(allowed))
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def most(self) -> int:
        return int((self.folder / self._files[2]).read_text())

    def leave(self) -> None:
        (self.folder / self._files[0]).write_text(self._files[1])
        (self.folder.parent / "cgroup.procs").write_text(str(os.getpid()))


class Watched:
    """Memory limit by counting pages: unmaps file pages above the limit."""

    def __init__(self) -> None:
        self.maps: list[mmap.mmap] = []
        self.allowed = self.times = self.peak_anonymous = self.peak_mapped = 0
        self.at_first = _memory()["RssFile"]
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look)

    def squeeze(self, maps: list[mmap.mmap], allowed: int) -> None:
        self.maps, self.allowed = maps, allowed
        self.at_first = _memory()["RssFile"]

    def begin(self) -> dict[str, int]:
        """Reset the counters; return the present values."""
        now = _memory()
        self.at_first, self.peak_anonymous, self.peak_mapped = now["RssFile"], now["RssAnon"], 0
        return now

    def __enter__(self) -> Watched:
        self.thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.done.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.done.wait(LOOK_EVERY):
            now = _memory()
            mapped = now["RssFile"] - self.at_first
            self.peak_anonymous = max(self.peak_anonymous, now["RssAnon"])
            self.peak_mapped = max(self.peak_mapped, mapped)
            if self.maps and mapped > self.allowed:
                self.times += 1
                for pages in self.maps:
                    pages.madvise(_PAGE_OUT)


if __name__ == "__main__":
    name, fit, folder, how, group = sys.argv[1:]
    limit = MemoryGroup(Path(group)) if group else None
    print(json.dumps(fit_here(name, fit, Path(folder), how, limit)))
