"""Folders of made-up rows, written as arrays: quick, and of any size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import dump_svmlight_file

from bigcat.data import Shards, convert
from bigcat.data.manifest import Manifest, Shard
from bigcat.data.shards import shard_digest


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
    stands_for = rng.integers(n_classes, size=n_features)
    wide = np.int32 if n_rows * per_row < 1 << 31 else np.int64
    types = {"labels": np.int32, "indptr": wide, "indices": wide, "values": np.float32}
    (arrays / "indptr").write_bytes(np.zeros(1, wide).tobytes())
    shards = []
    for first, last in pairwise(n_rows * i // n_shards for i in range(n_shards + 1)):
        n = last - first
        step = n_features // per_row  # one feature of each run of so many: sorted, none twice
        indices = rng.integers(step, size=(n, per_row)) + step * np.arange(per_row)
        numbers = {
            "labels": stands_for[indices[np.arange(n), rng.integers(per_row, size=n)]],
            "indptr": per_row * np.arange(first + 1, last + 1),
            "indices": indices.ravel(),
            "values": np.full(n * per_row, per_row**-0.5),
        }
        parts = {name: np.asarray(part, types[name]) for name, part in numbers.items()}
        for name, part in parts.items():
            with open(arrays / name, "ab") as file:
                file.write(part.tobytes())
        shards.append(Shard(n, n * per_row, shard_digest(parts)))
    report = {"form": "made up", "classes": n_classes}
    Manifest("arrays", True, n_features, shards, list(range(n_classes)), report).write(folder)
    return Shards(folder)
