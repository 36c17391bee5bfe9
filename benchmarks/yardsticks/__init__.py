"""Other Bayesian methods to measure against, each in a virtual environment of its own.

``advi`` and ``nuts`` run in the environment of numpyro.txt, ``gibbs`` in that of polyagamma.txt,
``laplace-torch`` in that of laplace_torch.txt.
An adapter is a program that reads ``input.npz`` and ``options.json`` from a folder and writes
``output.npz`` into it; neither imports bigcat, and bigcat imports neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environments

_HERE = Path(__file__).parent
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
_ENVIRONMENT_OF = {
    "advi": "numpyro",
    "nuts": "numpyro",
    "gibbs": "polyagamma",
    "laplace-torch": "laplace_torch",
}


def is_ready(method: str) -> bool:
    """Return True if the environment of `method` exists."""
    return environments.is_ready(_requirements(method))


def prepare(method: str) -> Path:
    """Return the Python of the environment of `method`; make the environment if it is missing."""
    return environments.python_of(_requirements(method))


def run(
    method: str,
    X_train: np.ndarray,
    y_train: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    n_classes: int,
    **options: Any,
) -> dict[str, np.ndarray]:
    """Run one method on one data set, or on several of one shape (with one more, first, axis).

    Parameters
    ----------
    method : {"advi", "nuts", "gibbs", "laplace-torch"}
        What to run.
    X_train, X_test : ndarray of shape (..., rows, features)
        Without a column of ones; every method has intercepts.
    y_train, y_test : ndarray of shape (..., rows)
        Classes 0 to `n_classes` - 1.
    options
        ``link``: "softmax" (default), "cbm-logit", "cbc-probit" or "cbm-probit" (advi, nuts);
        ``sigma``: the prior's standard deviation (1); ``scale_width`` (nuts): of a half-t
        distribution of that deviation, and of the intercepts', which are then learned;
        ``seed`` (0); ``n_warmup``, ``n_samples`` (advi: steps); ``max_seconds`` of CPU (none);
        ``thin``: keep every so manieth draw (0: none); ``learning_rate`` (advi); ``init_mean``,
        ``init_variance``: where nuts starts and its first scales, arrays of (classes,
        1 + features), the intercepts first;
        ``adapt_scales``: whether nuts adapts the latter in its warm-up (True);
        ``max_tree_depth`` (nuts, 10); ``last_class_zero`` (gibbs, True).  laplace-torch takes one
        data set, the mode as ``init_mean``, ``structure`` ("full", "kron" or "diag"), ``sigma``,
        ``intercept_sigma`` and ``n_samples``.

    Returns
    -------
    dict of ndarray
        A leading axis counts data sets. ``mean``: posterior means (classes, 1 + features);
        ``samples``: draws kept; ``compile_seconds``; ``seconds``: CPU seconds of all iterations
        with warm-up, without compiling or evaluation; nuts: ``leapfrogs``; and a trace at rising
        iterations of the test rows at the mean of the draws so far: ``trace_iteration``,
        ``trace_seconds``, ``trace_log_likelihood``, ``trace_accuracy``.  laplace-torch gives
        ``samples``, and as ``seconds`` those of the curvature and of the draws.
    """
    python = prepare(method)
    several = np.ndim(X_train) == 3
    arrays: dict[str, Any] = {
        "X_train": np.asarray(X_train, np.float64),
        "y_train": np.asarray(y_train, np.int64),
        "X_test": np.asarray(X_test, np.float64),
        "y_test": np.asarray(y_test, np.int64),
    }
    if not several:
        arrays = {name: array[None] for name, array in arrays.items()}
    for name in ("init_mean", "init_variance"):
        if name in options:
            arrays[name] = np.asarray(options.pop(name), np.float64)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "input.npz", **arrays)
        options |= {"method": method, "n_classes": int(n_classes)}
        (Path(folder) / "options.json").write_text(json.dumps(options))
        adapter = _HERE / f"{_ENVIRONMENT_OF[method]}_adapter.py"
        environment = os.environ | _ONE_THREAD
        environment.pop("PYTHONPATH", None)
        subprocess.run([python, adapter, folder], check=True, env=environment)
        with np.load(Path(folder) / "output.npz") as output:
            return {name: output[name] for name in output.files}


def _requirements(method: str) -> Path:
    return _HERE / f"{_ENVIRONMENT_OF[method]}.txt"
