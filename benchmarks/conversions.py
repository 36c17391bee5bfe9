"""Speed of the conversion of data files to rows that are mapped to memory."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._report import save, show
from benchmarks.streams import make_rows, write_svmlight

#: A file in parts for both processes: a fresh process first imports scikit-learn and compiled
#: kernels, which takes seconds.
WARM_UP_MEGABYTES = 70


def conversions(megabytes: int, forms: list[str], as_json: bool) -> None:
    """Measure megabytes of text per second, on one core and on two.

    `forms` are prefixes of names in `FORMS`; all forms if empty.
    """
    from joblib.externals.loky import get_reusable_executor

    from bigcat.data import convert

    rows = []
    for form in FORMS:
        if forms and not form.startswith(tuple(forms)):
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            few, path = folder / "few", folder / "many"
            FORMS[form](few, WARM_UP_MEGABYTES)
            options = FORMS[form](path, megabytes)
            # Processes of its own for each form: joblib ends those that have grown by 300 MB.
            get_reusable_executor().shutdown(wait=True)
            for n_jobs in (1, 2):  # compiles, and starts processes
                convert(few, folder / "small", n_jobs=n_jobs, **options)
            size = path.stat().st_size / 1e6
            os.sync()  # else the system writes the file while its rows are written
            cpu = time.process_time()
            convert(path, folder / "one", n_jobs=1, **options)
            cpu = time.process_time() - cpu
            row = {"form": form, "MB": size, "one process, MB per CPU second": size / cpu}
            os.sync()
            began, cpu = time.perf_counter(), _cpu_of_all()
            convert(path, folder / "two", n_jobs=2, **options)
            seconds, cpu = time.perf_counter() - began, _cpu_of_all() - cpu
            row |= {"two processes, MB per CPU second": size / cpu, "MB per second": size / seconds}
            rows.append(row | {"load": os.getloadavg()[0]})
            print(rows[-1], file=sys.stderr, flush=True)
    save("conversions", rows)
    show(rows, as_json)


def _cpu_of_all() -> float:
    """Return the CPU seconds of this process and of its children, running and finished."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


# Files: a block that is repeated, and the options of their conversion


def _sparse(path: Path, megabytes: int, header: bytes = b"") -> None:
    """Repeat sparse rows after a header, in which N stands for their number."""
    X, y = make_rows("30 classes", 4_000, seed=0)
    X.data = np.random.default_rng(0).random(X.nnz).astype(np.float32).round(4)
    write_svmlight(path, X, y)
    block = path.read_bytes()
    times = max(1, round(megabytes * 1e6 / len(block)))
    path.write_bytes(header.replace(b"N", b"%d" % (4_000 * times)) + block * times)


def _xc(path: Path, megabytes: int) -> dict[str, Any]:
    _sparse(path, megabytes, b"N 5000 30\n")
    return {"form": "xc"}


def _svmlight(path: Path, megabytes: int) -> dict[str, Any]:
    _sparse(path, megabytes)
    return {"form": "svmlight"}


def _repeat(path: Path, lines: list[str], megabytes: int, header: str = "") -> None:
    block = "".join(lines).encode()
    path.write_bytes(header.encode() + block * max(1, round(megabytes * 1e6 / len(block))))


def _csv(path: Path, megabytes: int) -> dict[str, Any]:
    numbers = np.random.default_rng(0).standard_normal((4_000, 50))
    rows = [",".join([*(f"{x:.5f}" for x in row), f"k{i % 50}\n"]) for i, row in enumerate(numbers)]
    _repeat(path, rows, megabytes, ",".join([*(f"c{i}" for i in range(50)), "label\n"]))
    return {"form": "csv"}


def _parquet(path: Path, megabytes: int) -> dict[str, Any]:
    import pyarrow as pa
    from pyarrow import parquet

    rng, n = np.random.default_rng(0), int(megabytes * 1e6 / (8 * 51))
    columns = {f"c{i}": rng.standard_normal(n) for i in range(50)}
    parquet.write_table(pa.table({**columns, "label": rng.integers(50, size=n)}), path)
    return {"form": "parquet"}


def _tsv(path: Path, megabytes: int, stem: str = "word", every: int = 1) -> dict[str, Any]:
    """Texts of twelve words; each `every`-th has words with another stem."""
    rng = np.random.default_rng(0)
    drawn = np.minimum(rng.zipf(1.2, (20_000, 12)), 30_000) - 1
    rows = []
    for i, row in enumerate(drawn.tolist()):
        stem_here = "word" if i % every else stem
        rows.append(f"k{i % 50}\t{' '.join(f'{stem_here}{j}' for j in row)}\n")
    _repeat(path, rows, megabytes)
    return {"form": "tsv"}


def _rare_words(path: Path, megabytes: int) -> dict[str, Any]:
    """Texts of twelve words, uniform over 300,000; no text is repeated."""
    rows = np.random.default_rng(0).integers(300_000, size=(7_600 * megabytes, 12)).tolist()
    texts = (f"k{i % 50}\t{' '.join(f'word{j}' for j in row)}\n" for i, row in enumerate(rows))
    with open(path, "w") as file:
        file.writelines(texts)
    return {"form": "tsv"}


def _hashed(path: Path, megabytes: int) -> dict[str, Any]:
    from sklearn.feature_extraction.text import HashingVectorizer

    return {**_tsv(path, megabytes), "vectorizer": HashingVectorizer(dtype=np.float32)}


FORMS: dict[str, Callable[[Path, int], dict[str, Any]]] = {
    "xc": _xc,
    "svmlight": _svmlight,
    "csv": _csv,
    "parquet": _parquet,
    "tsv, counted": _tsv,
    "tsv, hashed": _hashed,
    "tsv, one text in twenty not ASCII": lambda path, n: _tsv(path, n, "wörd", 20),
    "tsv, rare words": _rare_words,
    "tsv, no text in ASCII": lambda path, n: _tsv(path, n, "слово"),
}
