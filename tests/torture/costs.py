"""What the checks cost, in seconds of a processor: `python -m tests.torture.costs`."""

from __future__ import annotations

import hashlib
import tempfile
import time
import timeit
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from bigcat.estimators.inputs import check_indices
from bigcat.files import load_model, save_model
from tests.torture.kills import model_of


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """The least of some runs: the first one waits for memory."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    content = np.random.default_rng(0).bytes(200_000_000)
    for name, digest in (
        ("SHA-256", lambda: hashlib.sha256(content).digest()),
        ("BLAKE2b", lambda: hashlib.blake2b(content).digest()),
        ("CRC-32", lambda: zlib.crc32(content)),
    ):
        print(f"{name}: {seconds(digest) / 0.2:.2f} s per GB")

    size = 10_000
    model, giga = model_of(1, size), 4 * size * size / 1e9
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        print(f"save: {seconds(lambda: save_model(model, path)) / giga:.2f} s per GB")
        print(f"load: {seconds(lambda: load_model(path)) / giga:.2f} s per GB")
        print(f"load, mapped: {seconds(lambda: load_model(path, mmap=True)):.4f} s")

    n = 20_000_000
    places = np.random.default_rng(0).integers(0, 50_000, n, dtype=np.int32)
    parts = (np.ones(n, np.float32), places, np.arange(0, n + 1, 100, dtype=np.int32))
    X = sp.csr_matrix(parts, shape=(n // 100, 50_000))
    print(f"indices: {seconds(lambda: check_indices(X)) / n * 1e9:.2f} ms per million non-zeros")
    row = X[:1]
    times = timeit.repeat(lambda: check_indices(row), timer=time.process_time, number=1000)
    print(f"indices of one row: {min(times) * 1000:.1f} microseconds")


if __name__ == "__main__":
    main()
