"""Fit one peer with one setting and measure it: ``python run_adapter.py FOLDER``.

Runs in the peer's own environment, with NumPy, SciPy and the peer. FOLDER holds ``job.json``
(``adapter``, ``variant``, ``problem``: a folder of matrices, ``stage``: "validation" or "test",
``settings``, ``limit``, ``threads``) and gets ``result.json``.
"""

import json
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scoring import FLOOR, score
from watch import Watch, mean_log_likelihood, peak_megabytes

MANY_CLASSES = 5_000
VALIDATION_ROWS = {"few classes": 2_600, "many": 1_000, "many and costly": 400}


@dataclass
class Rows:
    """Training rows, with the facts that an adapter needs beside its settings."""

    X: sp.csr_matrix
    y: np.ndarray
    n_classes: int
    threads: int
    variant: str


def read(folder, stage):
    """Training rows and classes, held-out ones, and the places of the common ones."""
    folder = Path(folder)
    X = sp.csr_matrix(sp.load_npz(folder / "X_train.npz"))
    with np.load(folder / "labels.npz") as labels:
        y, validation = labels["y_train"], labels["is_validation"]
        y_test, common = labels["y_test"], labels["common_rows"]
    if stage == "test":
        return X, y, sp.csr_matrix(sp.load_npz(folder / "X_test.npz")), y_test, common
    classes, y_train = np.unique(y[~validation], return_inverse=True)
    held_out = np.flatnonzero(validation & np.isin(y, classes))
    y_held_out = np.searchsorted(classes, y[held_out])
    n = VALIDATION_ROWS["few classes" if len(classes) <= MANY_CLASSES else "many"]
    some = np.sort(np.random.default_rng(1).permutation(len(held_out))[:n])
    return X[~validation], y_train, X[held_out[some]], y_held_out[some], np.arange(len(some))


def main(folder):
    job = json.loads((folder / "job.json").read_text())
    sys.path.insert(0, str(Path(job["adapter"]).parent))
    adapter = import_module(Path(job["adapter"]).stem)
    X, y, X_held_out, y_held_out, common = read(job["problem"], job["stage"])
    n_classes = int(y.max()) + 1
    rows = Rows(X, y, n_classes, job["threads"], job["variant"])
    tuning = job["stage"] == "validation"
    watched = X_held_out[common], y_held_out[common]
    watch = Watch(*watched, n_classes, job["limit"], tuning, folder)
    result = {"compile_seconds": 0.0}
    if hasattr(adapter, "warm_up"):
        result |= adapter.warm_up(rows, job["settings"]) or {}
    watch.start()
    model = adapter.fit(rows, watch, **job["settings"])
    wall, cpu = watch.stop()
    result |= {
        "fit_seconds": wall,
        "fit_cpu_seconds": cpu,
        "peak_megabytes": peak_megabytes(),
        "stopped_by_limit": watch.stopped_by_limit,
        "curve": watch.curve,
    }
    result |= model.facts or {}
    if tuning and watch.curve:
        best = watch.best_epoch()
        result |= {"best_epoch": best, "log_likelihood": dict(watch.values())[best]}
    elif tuning:
        n = len(common)
        if model.top is not None and n_classes > MANY_CLASSES:
            n = min(n, VALIDATION_ROWS["many and costly"])
        held_out = X_held_out[:n], y_held_out[:n]
        result["log_likelihood"] = mean_log_likelihood(
            model.log_proba, *held_out, n_classes, floor=FLOOR
        )
    else:
        result |= score(model, X_held_out, y_held_out, common, n_classes)
    return result


if __name__ == "__main__":
    target = Path(sys.argv[1])
    text = json.dumps(main(target))
    (target / "result.json").write_text(text)
