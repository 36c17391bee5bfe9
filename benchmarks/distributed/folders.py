"""Folders of made-up rows, written as arrays: quick, and of any size."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from bigcat.data import Shards, convert
from bigcat.data.conversion import write_shards
from bigcat.data.shards import Index


def written(X: Any, labels: np.ndarray, temporary: Path) -> Shards:
    """Rows as a folder."""
    text = temporary / "rows.svm"
    dump_svmlight_file(X, labels, str(text))
    return convert(text, temporary / "rows", n_features=X.shape[1], zero_based=True)


def made_up(
    folder: Path, n_rows: int, n_features: int, n_classes: int, per_row: int, n_shards: int = 16
) -> Shards:
    """Sparse rows in random order; a label is one of the classes that its features stand for."""
    rng = np.random.default_rng(0)
    arrays = folder / "arrays"
    arrays.mkdir(parents=True)
    label_count = rng.integers(n_classes, size=n_features)

    def shards() -> Iterator[tuple[Any, np.ndarray]]:
        for first, last in pairwise(n_rows * i // n_shards for i in range(n_shards + 1)):
            n = last - first
            step = n_features // per_row  # one feature of each run of so many: sorted, none twice
            indices = rng.integers(step, size=(n, per_row)) + step * np.arange(per_row)
            labels = label_count[indices[np.arange(n), rng.integers(per_row, size=n)]]
            values = np.full(n * per_row, per_row**-0.5, np.float32)
            ends = per_row * np.arange(n + 1)
            yield sp.csr_matrix((values, indices.ravel(), ends), (n, n_features)), labels

    report = {"form": "made up", "classes": n_classes}
    n_values, classes = n_rows * per_row, list(range(n_classes))
    index = Index("arrays", n_features, True, [n_rows], [n_values], [""], classes, report)
    write_shards(arrays, index, shards()).write(folder)
    return Shards(folder)
