"""Many damaged variants of valid files, each of them read."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bigcat.data import DataError
from bigcat.files import ModelFileError, load_model
from tests.torture.subjects import Subject


class Count(NamedTuple):
    """What became of the variants of a subject."""

    verdicts: Counter[str]
    slowest: float  # seconds for one


class FoundError(AssertionError):
    """A variant that was read wrongly, or crashed the reader."""


def try_variants(subject: Subject, n: int, folder: Path, seed: int = 0) -> Count:
    """Read `n` damaged variants; FoundError with the way to have the same one again."""
    verdicts: Counter[str] = Counter()
    slowest = 0.0
    path = folder / f"damaged{subject.suffix}"
    for number in range(n):
        content = variant(subject, seed, number)
        path.write_bytes(content)
        start = time.perf_counter()
        try:
            verdicts[subject.verdict(path, content)] += 1
        except Exception as error:
            raise FoundError(
                f"{subject.name}: variant {number} of seed {seed}: {error!r}"
            ) from error
        slowest = max(slowest, time.perf_counter() - start)
    return Count(verdicts, slowest)


def most_memory(subject: Subject, n: int, folder: Path, seed: int = 0) -> tuple[int, int]:
    """Bytes that reading takes at most: of the valid file, and of `n` damaged variants."""
    path = folder / f"damaged{subject.suffix}"

    def taken(content: bytes) -> int:
        path.write_bytes(content)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        with contextlib.suppress(DataError, ModelFileError):
            subject.read(path)
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    taken(subject.content)  # what is imported or remembered for the next time
    valid = taken(subject.content)
    most = max(taken(variant(subject, seed, number)) for number in range(n))
    tracemalloc.stop()
    return valid, most


def unnoticed_flips(model: Path, n: int, folder: Path, seed: int = 0) -> int:
    """How many of `n` model files with one bit of an array flipped load as if all were well."""
    content = model.read_bytes()
    arrays = 8 + int.from_bytes(content[:8], "little")
    path = folder / "flipped"
    rng = np.random.default_rng(seed)
    unnoticed = 0
    for _ in range(n):
        place = int(rng.integers(arrays, len(content)))
        flipped = bytes([content[place] ^ 1 << rng.integers(8)])
        path.write_bytes(content[:place] + flipped + content[place + 1 :])
        with contextlib.suppress(ModelFileError):
            load_model(path, with_extra=True)
            unnoticed += 1
    return unnoticed


def variant(subject: Subject, seed: int, number: int) -> bytes:
    """The content of one variant, which is the same each time."""
    return subject.damage(subject.content, np.random.default_rng([seed, number]))
