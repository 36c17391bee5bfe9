"""Reading and writing, beside another version of bigcat: seconds and peak memory.

``python -m benchmarks reading BASE`` reads data files, converts a file of four times the allowed
memory, and saves and loads a model of 10^5 classes, by turns with BASE's package and with this one,
each time in a process of its own.  Imports and compilation are not counted: every process first
does the same with a small file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._report import save, show
from benchmarks.against.checkouts import ONE_THREAD, ROOT, Checkout, opened
from benchmarks.conversions import FORMS

READ = ("csv", "tsv", "svmlight", "parquet")
CASES = (*(f"read {form}" for form in READ), "convert svmlight", "save", "load", "load mapped")
WARM_UP_MEGABYTES = 2
#: Memory that a conversion may allocate, as part of the file.
PART_OF_FILE = 0.25

CHILD = """
import json, resource, sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
case, folder, allowed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
import numpy as np
import bigcat
from bigcat import data

def field(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

def model(n_classes, width=256):
    rng = np.random.default_rng(0)
    found = bigcat.LinearClassifier()
    found.coef_ = rng.standard_normal((n_classes, width), np.float32)
    found.intercept_ = rng.standard_normal(n_classes, np.float32)
    found.classes_ = np.array([f"class {k:06d}" for k in range(n_classes)])
    found.class_count_ = np.ones(n_classes, int)
    found.n_features_in_, found.n_iter_, found.history_ = width, 0, []
    return found

def run(size):
    kind, _, form = case.partition(" ")
    if kind == "read":
        found = data.read(folder / f"{size}.{form}", form)
        return (*found.X.shape, len(np.unique(found.y)))
    if kind == "convert":
        found = data.convert(folder / f"{size}.{form}", Path(sys.argv[4]) / size, form, n_jobs=1)
        return (*found.shape, len(found.classes))
    path = folder / f"{size}.safetensors"
    if kind == "save":
        bigcat.save_model(made[size], path)
        return path.stat().st_size
    found = bigcat.load_model(path, mmap=form == "mapped")
    return (*found.coef_.shape, len(found.classes_))

made = {"small": model(100), "large": model(100_000)} if case == "save" else {}
if case.startswith("load"):
    for size, n in (("small", 100), ("large", 100_000)):
        bigcat.save_model(model(n), folder / f"{size}.safetensors")
run("small")
before = field("VmRSS")
if allowed:
    limit = field("VmData") + allowed
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
Path("/proc/self/clear_refs").write_text("5")
began = time.perf_counter()
found = run("large")
seconds = time.perf_counter() - began
print(json.dumps([seconds, field("VmHWM") - before, found, bigcat.__file__]))
"""


def reading(base: str, megabytes: int, cases: Sequence[str], rounds: int, as_json: bool) -> None:
    """Print one row per case; `cases` are prefixes of names in `CASES`."""
    chosen = [case for case in CASES if not cases or case.startswith(tuple(cases))]
    rows = []
    with opened(base) as other, tempfile.TemporaryDirectory() as name:
        folder, both = Path(name), {"base": other, "head": Checkout(ROOT)}
        for case in chosen:
            kind, _, form = case.partition(" ")
            allowed = 0
            if kind in ("read", "convert"):
                n = megabytes * (4 if kind == "convert" else 1)
                FORMS[_generator(form)](folder / f"small.{form}", WARM_UP_MEGABYTES)
                FORMS[_generator(form)](folder / f"large.{form}", n)
                allowed = round(PART_OF_FILE * n * 1e6) if kind == "convert" else 0
            found: dict[str, list[Any]] = {"base": [], "head": []}
            for _ in range(rounds):
                for version, checkout in both.items():
                    found[version].append(_measure(checkout, case, folder, allowed))
            row: dict[str, Any] = {"case": case}
            for version, runs in found.items():
                failed = [run for run in runs if isinstance(run, str)]
                row[f"{version} s"] = failed[0] if failed else min(run[0] for run in runs)
                if not failed:
                    row[f"{version} peak MB"] = min(run[1] for run in runs) / 1e6
            answers = {str(run[2]) for runs in found.values() for run in runs if run[2:]}
            row["same"] = len(answers) == 1 or kind == "save"  # files differ in their headers
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
            for path in folder.glob("*.*"):
                path.unlink()
    save("reading", rows)
    show(rows, as_json)


def _generator(form: str) -> str:
    return next(name for name in FORMS if name.startswith(form))


def _measure(checkout: Checkout, case: str, folder: Path, allowed: int) -> list[Any] | str:
    """Return seconds, peak bytes and a summary of the result; the last line of an error."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout.root / "src")}
    with tempfile.TemporaryDirectory(dir=folder) as out:
        command = [sys.executable, "-c", CHILD, case, str(folder), str(allowed), out]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "killed"
    seconds, peak, answer, package = json.loads(done.stdout)
    assert Path(package).is_relative_to(checkout.root), package
    return [seconds, peak, answer]
