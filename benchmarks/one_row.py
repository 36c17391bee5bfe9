"""Milliseconds of a prediction for a single row: median and 99th percentile.

Weights are random: how long a prediction takes depends on their sizes only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks import _report
from bigcat import LinearClassifier
from bigcat.estimators import History
from bigcat.linear import FullRankWeights, LowRankWeights, Weights

N_CALLS = 1_000


def fitted(weights: Weights) -> LinearClassifier:
    """An estimator with these weights."""
    model = LinearClassifier()
    intercept = np.zeros(len(weights), np.float32)
    model.restore(weights, intercept, np.arange(len(weights)), History([]))
    model.n_features_in_ = weights.shape[1]
    return model


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def models() -> dict[str, tuple[LinearClassifier, Any]]:
    """Return a model and one row, by description."""
    words = scipy.sparse.random_array((1, 2_000), density=0.02, format="csr", dtype=np.float32)
    full = FullRankWeights(random(2_000, 20_000).T)  # as it lies after a fit to sparse rows
    return {
        "20,000 classes, sparse row, full rank": (fitted(full), words),
        "20,000 classes, sparse row, low rank": (
            fitted(LowRankWeights(random(20_000, 64), random(2_000, 64))),
            words,
        ),
        "20,000 classes, 100 features, full rank": (
            fitted(FullRankWeights(random(20_000, 100))),
            random(1, 100),
        ),
        "20,000 classes, 100 features, low rank": (
            fitted(LowRankWeights(random(20_000, 64), random(100, 64))),
            random(1, 100),
        ),
        "20,000 classes, 300 features, full rank": (
            fitted(FullRankWeights(random(20_000, 300))),
            random(1, 300),
        ),
        "10 classes, 20 features": (fitted(FullRankWeights(random(10, 20))), random(1, 20)),
    }


def milliseconds(call: Callable[[Any], object], row: Any) -> list[float]:
    call(row)
    times = []
    for _ in range(N_CALLS):
        start = time.perf_counter()
        call(row)
        times.append(time.perf_counter() - start)
    return [round(1e3 * float(t), 2) for t in np.quantile(times, (0.5, 0.99))]


def one_row() -> None:
    """Print a line per model."""
    rows = []
    for name, (model, row) in models().items():
        calls: dict[str, Callable[[Any], object]] = {
            "predict": model.predict,
            "predict_proba": model.predict_proba,
            "predict_top_k": model.predict_top_k,
        }
        found = {}
        for call in calls:
            found[call], found[f"{call} p99"] = milliseconds(calls[call], row)
        rows.append({"model": name, **found})
    _report.show(rows)
