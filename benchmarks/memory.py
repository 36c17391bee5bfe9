"""Measured memory of fits, beside their forecasts.

Each shape is fitted in a process of its own, twice: the first fit, of few rows where these do,
compiles and loads what there is to compile.  The growth of the process during the second one, at
its peak, is compared with `memory_forecast`, which is what `fit` itself goes by when it refuses to
begin.  What glibc would keep for later is given back at once (`MALLOC_MMAP_THRESHOLD_`), so that
the second fit does not find the first one's memory.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._peak import forget_peak, memory
from benchmarks._report import clock, save, show
from bigcat.solvers import LBFGS

#: Share of rows whose features show their class; the others show a wrong one, so that fits overfit.
TRUE = 0.5


@dataclass(frozen=True)
class Shape:
    """Size of the rows, and the model that is fitted to them."""

    n_rows: int
    n_features: int
    n_classes: int
    #: Non-zeros per row; None for dense rows.
    nonzeros: int | None
    #: Gives an estimator; called in the process that fits.
    model: Callable[[], Any]
    dtype: str = "float32"
    #: Fits once more from the weights of the last fit.
    goes_on: bool = False
    #: Rows that compile the same kernels; None where only all rows make the same choices.
    few: int | None = None


def _linear(**parameters: Any) -> Callable[[], Any]:
    def make() -> Any:
        from bigcat import LinearClassifier

        return LinearClassifier(random_state=0, progress=False, **parameters)

    return make


def _lbfgs(**parameters: Any) -> Callable[[], Any]:
    return _linear(method="exact", solver=LBFGS(tol=0.0), **parameters)


def _bayesian(name: str, prior: str = "auto", **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        from bigcat import BayesianClassifier
        from bigcat.bayes import METHODS

        method = METHODS[name](**options)
        return BayesianClassifier(method, prior, random_state=0, n_threads=1, progress=False)

    return make


_SHORT: dict[str, Any] = {"max_epochs": 2}

SHAPES: dict[str, Shape] = {
    "dense rows, named method": Shape(
        20_000, 1_000, 20_000, None, _linear(method="augment-reduce", **_SHORT), few=500
    ),
    "sparse rows, named method": Shape(
        20_000, 8_000, 8_000, 20, _linear(method="augment-reduce", **_SHORT), few=500
    ),
    "sparse rows, stops on held-out rows": Shape(
        10_000,
        5_000,
        5_000,
        20,
        _linear(method="augment-reduce", early_stopping=True, **_SHORT),
        few=500,
    ),
    "sparse rows, goes on from the last fit": Shape(
        10_000,
        8_000,
        5_000,
        20,
        _linear(method="augment-reduce", max_epochs=1, early_stopping=False),
        goes_on=True,
    ),
    "sparse rows, named method, low rank": Shape(
        10_000,
        300_000,
        10_000,
        20,
        _linear(method="complementary", rank=256, sampler="shared", solver="adagrad", **_SHORT),
        few=500,
    ),
    "sparse rows, auto: low rank and pairs": Shape(
        12_000, 200_000, 4_000, 20, _linear(max_epochs=1)
    ),
    "sparse rows, auto of rank 64": Shape(
        20_000, 500_000, 20_000, 10, _linear(rank=64, max_epochs=1)
    ),
    "sparse rows, auto of full rank": Shape(8_000, 10_000, 5_000, 10, _linear(rank=None)),
    # With ten rows of each class, held-out rows ask for another fit beside the first.
    "sparse rows, auto of full rank, two fits": Shape(
        20_000, 25_000, 2_000, 10, _linear(rank=None)
    ),
    "dense rows, auto: full rank": Shape(100_000, 250, 20, None, _linear(max_epochs=1)),
    "dense rows in float64, auto: full rank": Shape(
        50_000, 250, 20, None, _linear(max_epochs=1), dtype="float64"
    ),
    "dense rows, auto: low rank": Shape(10_000, 3_000, 4_000, None, _linear(max_epochs=1)),
    "dense rows, L-BFGS": Shape(200_000, 200, 10, None, _lbfgs(max_epochs=3), few=500),
    "dense rows, L-BFGS of many weights": Shape(
        400, 4_000, 400, None, _lbfgs(max_epochs=12), few=100
    ),
    "sparse rows, L-BFGS": Shape(20_000, 20_000, 100, 20, _lbfgs(max_epochs=12), few=500),
    "few rows of many features, L-BFGS": Shape(
        100, 40_000, 50, None, _lbfgs(max_epochs=12, l2=1.0)
    ),
    "posterior: draws": Shape(2_000, 60, 40, None, _bayesian("laplace"), "float64"),
    "posterior: of a class each": Shape(
        3_000, 300, 100, None, _bayesian("laplace", covariance="class"), "float64"
    ),
    "posterior: wide": Shape(20_000, 3_000, 3_000, 20, _bayesian("laplace")),
    "posterior: binary regressions": Shape(
        20_000,
        500,
        300,
        None,
        _bayesian("independent-binary", max_iter=3),
        "float64",
        few=500,
    ),
    "posterior: binary regressions, sparse": Shape(
        20_000,
        5_000,
        2_000,
        20,
        _bayesian("independent-binary", covariance="diagonal", max_iter=3),
        "float64",
        few=2_000,
    ),
    "posterior: augment and reduce": Shape(
        20_000, 3_000, 2_000, 20, _bayesian("augment-reduce", max_epochs=2), few=2_000
    ),
}


def forecasts(words: list[str], as_json: bool = False) -> None:
    """Print a row per shape whose name holds a word, or of all."""
    rows = []
    for name in SHAPES:
        if words and not any(word in name for word in words):
            continue
        rows.append(_in_own_process(name))
        print(rows[-1], file=sys.stderr, flush=True)
    save("memory", rows)
    show(rows, as_json)


def _in_own_process(name: str) -> dict[str, Any]:
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
    command = [sys.executable, "-m", "benchmarks", "memory", "--here", name]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def fit_here(name: str) -> None:
    """Fit a shape in this process, and print the measured memory."""
    shape = SHAPES[name]
    X, y = make_rows(shape)
    model = shape.model()
    model.fit(X[: shape.few], y[: shape.few])
    if not shape.goes_on:
        del model
        model = shape.model()
    forecast = _forecast(model, X, y)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = forget_peak()
    with clock() as times:
        model.fit(X, y, warm_start=shape.goes_on)
    needed = None if before is None else memory("VmHWM") - before
    row = {
        "what": name,
        "rows": X.shape[0],
        "features": X.shape[1],
        "classes": len(model.classes_),
        "forecast, MB": forecast / 1e6,
        "measured, MB": needed and needed / 1e6,
        "forecast / measured": needed and forecast / needed,
        "CPU s": times["cpu"],
    }
    print(json.dumps(row))


def _forecast(model: Any, X: Any, y: np.ndarray) -> int:
    sizes = (*X.shape, len(np.unique(y)))
    sparse = scipy.sparse.issparse(X)
    if not hasattr(model, "prior"):
        more: dict[str, int] = {}
        if sparse:
            more = {"max_row_nonzeros": int(np.diff(X.indptr).max()), "nnz": X.nnz}
        return model.memory_forecast(*sizes, sparse=sparse, dtype=X.dtype, **more)
    row_nonzeros = X.nnz / X.shape[0] if sparse else 0.0
    return model.memory_forecast(*sizes, sparse=sparse, row_nonzeros=row_nonzeros, dtype=X.dtype)


def make_rows(shape: Shape) -> tuple[Any, np.ndarray]:
    """Make rows whose features partly determine the class; every class has a row."""
    rng = np.random.default_rng(0)
    n, n_features = shape.n_rows, shape.n_features
    y = rng.permutation(np.arange(n) % shape.n_classes)
    shown = np.where(rng.random(n) < TRUE, y, rng.permutation(y))
    if shape.nonzeros is None:
        X = rng.standard_normal((n, n_features), dtype=np.float32).astype(shape.dtype, copy=False)
        X[np.arange(n), shown % n_features] += 2.0
        return X, y
    indices = rng.integers(0, n_features, (n, shape.nonzeros))
    indices[:, 0] = shown % n_features
    values = np.ones(indices.size, shape.dtype)
    starts = np.arange(n + 1) * shape.nonzeros
    X = scipy.sparse.csr_array((values, indices.ravel(), starts), shape=(n, n_features))
    X.sum_duplicates()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y
