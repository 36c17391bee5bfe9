"""Posteriors of many weights: quality on real sets, time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._models import laplace
from benchmarks._report import clock, save, show
from benchmarks.peers import configuration
from benchmarks.peers.problems import folder_of
from bigcat import LinearClassifier

#: Real sets of many weights, as the peers' campaign has them.
REAL = ("bibtex", "delicious", "omniglot")
MAX_TEST_ROWS = 3_000


def real_quality(names: list[str] | None = None) -> None:
    """The default posterior beside `LinearClassifier()`, nothing set; paired standard errors."""
    rows = []
    for name in names or REAL:
        X, y, X_test, y_test = _real(name)
        linear = LinearClassifier(random_state=0, n_threads=1, progress=False)
        with clock() as linear_times:
            linear.fit(X, y)
        model = laplace()
        with clock() as times:
            model.fit(X, y)
        averaged = model.log_proba_of(X_test, y_test)
        difference = averaged - linear.log_proba_of(X_test, y_test)
        selection = model.history_.selection or {}
        rows.append(
            {
                "data": name,
                "averaged": float(averaged.mean()),
                "LinearClassifier": float((averaged - difference).mean()),
                "difference": float(difference.mean()),
                "standard error": float(difference.std() / np.sqrt(len(difference))),
                "CPU seconds": times["cpu"],
                "of LinearClassifier": linear_times["cpu"],
                "form": selection["covariance"],
                "rank": selection.get("rank"),
            }
        )
        show(rows[-1:])
        save("wide_quality", rows)


def _real(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    folder = folder_of(configuration.read().problems[name])
    X, X_test = (
        scipy.sparse.load_npz(folder / f"X_{part}.npz").tocsr() for part in ("train", "test")
    )
    labels = np.load(folder / "labels.npz")
    some = np.random.default_rng(0).permutation(X_test.shape[0])[:MAX_TEST_ROWS]
    return X, labels["y_train"], X_test[some], labels["y_test"][some]


#: Classes, features, rows: what is fitted, in a process of its own, for time and memory.  Rows of
#: the first are dense.
SIZES = {
    "dense": (1_000, 100, 10_000),
    "wide": (10_000, 5_000, 50_000),
    "many": (105_000, 1_000, 400_000),
}


def size(names: list[str] | None = None) -> None:
    """Peak memory beside the forecast, and seconds, each in a process of its own."""
    for name in names or SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks", "posterior-size", name, "--here"])


def _dense_rows(n_classes: int, n_features: int, n_rows: int) -> tuple[Any, np.ndarray]:
    """Softmax labels with weights and intercepts N(0, 0.3^2)."""
    rng = np.random.default_rng(7)
    weights, intercepts = np.split(0.3 * rng.standard_normal((n_features + 1, n_classes)), [-1])
    X = rng.standard_normal((n_rows, n_features))
    scores = X @ weights + intercepts
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def _sparse_rows(n_classes: int, n_features: int, n_rows: int) -> tuple[Any, np.ndarray]:
    """Rows with 20 values each; a label is the best of 256 classes drawn for its row.

    Scores are products of vectors of length 10: what matters here are sizes, not what is learned.
    """
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, n_features, (n_rows, 20)), axis=1).ravel().astype(np.int32)
    values = rng.standard_normal(n_rows * 20).astype(np.float32)
    starts = np.arange(n_rows + 1, dtype=np.int32) * 20
    X = scipy.sparse.csr_array((values, indices, starts), shape=(n_rows, n_features))
    X.sum_duplicates()
    vectors = rng.standard_normal((n_features, 10)).astype(np.float32)
    classes = rng.standard_normal((n_classes, 10)).astype(np.float32)
    embedded = X @ vectors / np.sqrt(200.0)
    y = np.empty(n_rows, np.int64)
    for start in range(0, n_rows, 1_000):
        some = embedded[start : start + 1_000]
        drawn = rng.integers(0, n_classes, (len(some), 256))
        scores = 3.0 * np.einsum("nr,ncr->nc", some, classes[drawn])
        best = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
        y[start : start + 1_000] = drawn[np.arange(len(some)), best]
    return X, y


def size_here(name: str) -> None:
    """Fit rows of that size in this process."""
    n_classes, n_features, n_rows = SIZES[name]
    dense = name == "dense"
    X, y = (_dense_rows if dense else _sparse_rows)(n_classes, n_features, n_rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    model = laplace()
    kinds = len(np.unique(y))
    filled: dict[str, Any] = {} if dense else {"row_nonzeros": 20}
    forecast = model.memory_forecast(n_rows, n_features, kinds, dtype=X.dtype, **filled)
    with clock() as times:
        model.fit(X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    selection = model.history_.selection or {}
    row = {
        "classes": kinds,
        "features": n_features,
        "rows": n_rows,
        "forecast, GiB": forecast / 2**30,
        "process before, GiB": before / 2**30,
        "peak of the process, GiB": peak / 2**30,
        "CPU seconds": times["cpu"],
        "form": selection["covariance"],
        "rank": selection.get("rank"),
    }
    with clock() as times:
        low, high = model.predict_interval(X[:5])
    row |= {"CPU seconds of 5 intervals": times["cpu"], "mean width": float((high - low).mean())}
    show([row])
    save(f"posterior_size_{name}", [row])
