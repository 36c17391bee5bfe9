"""Data sets of the measurements, with a part of the test rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks import datasets
from bigcat import data

#: Test rows that are looked at.
N_TEST = 3_000


class Set(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def read(name: str, n_rows: int | None = None) -> Set:
    """A set in random order: "corpus", or one of the catalogue."""
    split = data.stdlib_corpus() if name == "corpus" else datasets.load(name)
    order = np.random.RandomState(0).permutation(len(split.train.y))[:n_rows]
    X, y = split.train.X.tocsr()[order].astype(np.float32), np.asarray(split.train.y)[order]
    test = np.asarray(split.test.y)
    known = np.flatnonzero(np.isin(test, y))[:N_TEST]
    return Set(X, y, split.test.X.tocsr()[known].astype(np.float32), test[known])
