"""The steps of a conversion, each cut into tasks that any process can do.

1. `write_blocks`: a part of a file is parsed and written down, its rows in random order.
2. `settle`: when all parts have been seen it is known which classes and features there are.  A
   block gets their numbers, and each of its rows a shard at random.
3. `gather`: a shard takes its rows from all blocks and puts them in random order.

So each order of all rows is as likely as any other, whatever the order of the file, and a fit may
visit shard after shard.  A process holds one part or one shard at a time.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.data import vectorizers
from bigcat.data.dataset import DataError
from bigcat.data.manifest import Shard
from bigcat.data.parts import Part, PartsReader
from bigcat.data.shards import shard_digest
from bigcat.data.spans import Texts, WordTable
from bigcat.data.spill import Slice, Spilled, as_bytes, as_matrix, read_json, write_json
from bigcat.data.words import Words, hashed, words_of

_OF_ROWS, _OF_SHARDS, _IN_SHARDS = range(3)  # streams of random numbers
CLASSES = "classes.json"


class Task(NamedTuple):
    """What all tasks of a conversion know."""

    folder: Path
    reader: PartsReader
    vectorizer: dict[str, Any] | None  # as in a manifest
    seed: int

    def random(self, what: int, *which: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, what, *which])

    def unpacked_vectorizer(self) -> Any:
        return _unpacked(json.dumps(self.vectorizer), self.folder)

    def table(self) -> WordTable:
        """The words of a fitted vectoriser."""
        return _table(json.dumps(self.vectorizer), self.folder)


class Layout(NamedTuple):
    """How rows lie in the arrays."""

    sparse: bool
    n_features: int
    first_column: int  # in the file
    index_dtype: Any


class Place(NamedTuple):
    """Where a shard goes."""

    number: int
    first_row: int
    first_value: int
    n_rows: int
    n_values: int


def write_blocks(task: Task, part: Part, number: int) -> list[Spilled]:
    """The blocks of a part of a file."""
    written = []
    for i, block in enumerate(task.reader.blocks(part)):
        labels, names = block.labels
        order = task.random(_OF_ROWS, number, i).permutation(len(labels))
        words = None
        if task.vectorizer is None:
            X = block.X[order]
        else:
            X, words = _features(task, block.X.take(order))
        path = task.folder / f"block-{number:06d}-{i:04d}.rows"
        facts = {"columns": X.shape[1], **block.facts}
        spilled = Spilled.write(path, X, labels[order], facts)
        write_json(spilled.names_path, names)
        if words is not None:
            vectorizers.write_words(spilled.words_path, words)
        written.append(spilled)
    return written


def _features(task: Task, texts: Texts) -> tuple[sp.csr_matrix, Words | None]:
    """Features of texts; or counts of words, and these words, where it is too early for that."""
    vectorizer = task.unpacked_vectorizer()
    if not vectorizers.is_known(vectorizer):
        words = words_of(vectorizers.counter_of(vectorizer), texts)
        return words.counts, words
    if not hasattr(vectorizer, "vocabulary_"):
        return hashed(vectorizer, texts), None
    return vectorizers.weigh(vectorizer, task.table(), words_of(vectorizer, texts)), None


def settle(task: Task, block: Spilled, number: int, n_shards: int) -> tuple[Spilled, np.ndarray]:
    """The block with classes and features numbered as in the end, and its values by shard."""
    number_of = _numbers_of_classes(task.folder / CLASSES)
    labels = read_json(block.names_path)
    block.renumber(np.array([number_of[label] for label in labels], np.int32))
    if block.words_path.exists():
        names, *_ = vectorizers.read_words(block.words_path)
        rows = block.rows()
        counts = as_matrix(rows._replace(values=rows.values.astype(np.int32)), len(names))
        X = vectorizers.weigh(task.unpacked_vectorizer(), task.table(), Words(counts, names))
        block = Spilled.write(block.path, X, rows.labels, block.facts)
    shard = task.random(_OF_SHARDS, number).integers(n_shards, size=block.n_rows)
    sizes = np.bincount(shard, minlength=n_shards)
    cuts = np.concatenate([[0], np.cumsum(sizes)])  # the rows are in random order already
    cuts.astype(np.int64).tofile(block.cuts_path)
    return block, np.diff(block.ends(cuts))


@functools.lru_cache(maxsize=1)
def _numbers_of_classes(path: Path) -> dict[Any, int]:
    return {name: i for i, name in enumerate(read_json(path))}


@functools.lru_cache(maxsize=1)
def _unpacked(packed: str, folder: Path) -> Any:
    return vectorizers.unpack(json.loads(packed), folder)


@functools.lru_cache(maxsize=1)
def _table(packed: str, folder: Path) -> WordTable:
    return vectorizers.table_of(_unpacked(packed, folder))


def gather(task: Task, blocks: list[Spilled], layout: Layout, place: Place) -> Shard:
    """Write a shard to its place in the arrays."""
    rows = Slice.empty(place.n_rows, place.n_values, layout.sparse)
    row = value = 0
    for block in blocks:
        row, value = block.read_into(rows, row, value, *block.cuts(place.number))
    if (row, value) != (place.n_rows, place.n_values):
        raise DataError(f"{task.folder}: a block changed while it was read; convert again")
    order = task.random(_IN_SHARDS, place.number).permutation(place.n_rows)
    written: dict[str, np.ndarray] = {"labels": rows.labels[order]}
    begin, index = place.first_value, layout.index_dtype
    offsets = {"labels": place.first_row, "values": begin}
    if layout.sparse:
        X = as_matrix(rows, layout.first_column + layout.n_features)[order]
        if layout.first_column:
            X.indices -= layout.first_column
        written["indptr"] = (X.indptr[1:].astype(np.int64) + begin).astype(index, copy=False)
        written["indices"] = X.indices.astype(index, copy=False)
        written["values"] = X.data
        offsets |= {"indptr": place.first_row + 1, "indices": begin}
    else:
        written["values"] = rows.values.reshape(place.n_rows, layout.n_features)[order]
    for name, array in written.items():
        with open(task.folder / name, "r+b") as file:
            file.seek(offsets[name] * array.itemsize)
            file.write(as_bytes(array))
    return Shard(place.n_rows, place.n_values, shard_digest(written))
