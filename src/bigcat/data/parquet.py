"""Parquet tables, by row groups: numbers and a column of labels, or texts and their labels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bigcat.data.csv_tables import label_among, label_position
from bigcat.data.dataset import DataError, Dataset, check_columns
from bigcat.data.numbered import Numbered
from bigcat.data.parts import PART_BYTES, Block, Part, PartsReader, block_of_rows, block_of_texts
from bigcat.data.spans import Texts
from bigcat.data.tables import Request, check_names, table_dataset
from bigcat.data.text import check_label
from bigcat.data.unpack import too_large, unpacked_limit

_NUMBER_BYTES, _ROWS_TOGETHER = 8, 1024
#: Of each column, read at a time; without it pyarrow would hold all bytes of a row group.
_COLUMN_BYTES = 1 << 16


def require_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow; install bigcat[parquet]") from error
    return pyarrow


def read_parquet(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    max_bytes: int | None = None,
    **options: Any,
) -> Dataset:
    """A table; `options` are those of a `Request`."""
    request = Request.of(path, **options)
    file, labelled = _opened(path, unpacked_limit(len(raw), max_bytes), raw), request.labelled
    head = label_among(path, file.schema_arrow.names, request.label_column, optional=not labelled)
    names = request.features(path, head.names)
    not_used = check_names(path, names, request.columns)
    left_out = set(not_used)
    with _arrow_errors(path):
        found = file.read(columns=[name for name in head.header if name not in left_out])
        found.validate(full=True)
    if found.num_rows != file.metadata.num_rows:
        raise DataError(
            f"{path}: expected {file.metadata.num_rows} rows, found {found.num_rows}; is the file "
            "damaged?"
        )
    n_dropped, labels = 0, None
    if labelled:
        numbered = _labels(require_pyarrow(), path, found.column(head.label))
        kept, numbered = numbered.without_empty()
        n_dropped = len(kept) - len(numbered.numbers)
        if n_dropped:
            found = found.filter(require_pyarrow().array(kept))
        labels = numbered.spelled()
    table = _Table(path, found)
    encoder = request.encoder(path, names, head.label, table)
    X, unknown = encoder.transform(table)
    check_columns(path, X.shape[1], n_features)
    return table_dataset(
        "parquet",
        X,
        labels,
        encoder,
        request.groups(table),
        rows_without_label=n_dropped,
        columns_not_used=not_used,
        unknown_categories=unknown,
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """Columns of an Arrow table."""

    path: Path
    found: Any

    @property
    def n_rows(self) -> int:
        return int(self.found.num_rows)

    def numbers(self, name: str) -> np.ndarray:
        return _numbers(require_pyarrow(), self.path, name, self.found.column(name))

    def words(self, name: str) -> list[str]:
        values = self.found.column(name).to_pylist()
        return ["" if value is None else str(value).strip() for value in values]


@dataclass(frozen=True)
class ParquetParts(PartsReader):
    """Row groups, a few rows at a time."""

    label_column: str | int | None = None

    def has_text(self, path: Path) -> bool:
        """Is the one column beside the labels a column of texts?"""
        schema = _opened(path, None).schema_arrow
        at = label_position(path, schema.names, self.label_column)
        others = [i for i in range(len(schema.names)) if i != at]
        return len(others) == 1 and _is_text(require_pyarrow(), schema.types[others[0]])

    def column_names(self, head: list[str]) -> list[str]:
        return label_among(Path(), head, self.label_column).names

    def label_name(self, head: list[str]) -> str:
        return label_among(Path(), head, self.label_column).label

    def parts(self, path: Path, max_bytes: int | None, size: int = PART_BYTES) -> Iterator[Part]:
        file = _opened(path, unpacked_limit(path.stat().st_size, max_bytes))
        names = file.schema_arrow.names
        label_position(path, names, self.label_column)  # for its error, before any work
        batch = max(1, size // (_NUMBER_BYTES * len(names)))
        for group in range(file.metadata.num_row_groups):
            yield Part(path, names, group, batch)

    def blocks(self, part: Part) -> Iterator[Block]:
        names = part.head
        at = label_position(part.path, names, self.label_column)
        pa = require_pyarrow()
        for batch in _batches(part):
            labels = _labels(pa, part.path, batch.column(at))
            others = [i for i in range(len(names)) if i != at]
            if len(others) == 1 and _is_text(pa, batch.column(others[0]).type):
                texts = (text or "" for text in batch.column(others[0]).to_pylist())
                yield block_of_texts(labels, Texts.of(texts))
            else:
                columns = [_numbers(pa, part.path, names[i], batch.column(i)) for i in others]
                yield block_of_rows(_side_by_side(columns, batch.num_rows), labels)


def _side_by_side(columns: list[np.ndarray], n_rows: int) -> np.ndarray:
    """Columns as an array of rows, a few of these at a time: they stay in the processor's cache."""
    X = np.empty((n_rows, len(columns)), np.float32)
    for begin in range(0, n_rows, _ROWS_TOGETHER):
        rows = slice(begin, begin + _ROWS_TOGETHER)
        for j, column in enumerate(columns):
            X[rows, j] = column[rows]
    return X


def _opened(path: Path, limit: int | None, raw: bytes | None = None) -> Any:
    """The file, or what was read of it; DataError where its rows take more bytes than the limit."""
    pyarrow = require_pyarrow()
    with _arrow_errors(path):
        source = path if raw is None else pyarrow.BufferReader(raw)  # which threads can share
        file = pyarrow.parquet.ParquetFile(
            source, buffer_size=_COLUMN_BYTES, page_checksum_verification=True
        )
        names = file.schema_arrow.names
    _check_rows(path, file.metadata)
    if limit is not None and _NUMBER_BYTES * file.metadata.num_rows * len(names) > limit:
        raise too_large(path, limit)
    return file


def _check_rows(path: Path, metadata: Any) -> None:
    """pyarrow allocates for as many rows as a row group claims to have.

    What it knows of a group's columns cannot be looked at: where that is damaged, it ends the
    process.
    """
    claimed = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if sum(claimed) != metadata.num_rows or min(claimed, default=0) < 0:
        raise DataError(
            f"{path}: expected {metadata.num_rows} rows, found row groups of "
            f"{', '.join(map(str, claimed[:10]))}{', ...' * (len(claimed) > 10)}; is the file "
            "damaged?"
        )


def _batches(part: Part) -> Iterator[Any]:
    """The rows of a row group, all of them."""
    file = _opened(part.path, None)  # `parts` looked at its size
    n_rows = 0
    with _arrow_errors(part.path):
        expected = file.metadata.row_group(part.offset).num_rows
        # Processes share the work, and threads beside them take more time together than they save.
        batches = file.iter_batches(part.length, row_groups=[part.offset], use_threads=False)
        for batch in batches:
            batch.validate(full=True)
            n_rows += batch.num_rows
            yield batch
    require_pyarrow().default_memory_pool().release_unused()  # it would keep a row group
    if n_rows != expected:
        raise DataError(
            f"{part.path}: expected {expected} rows in row group {part.offset}, found {n_rows}"
        )


@contextlib.contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """pyarrow's errors as one that names the file."""
    pyarrow = require_pyarrow()
    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns, too
        raise DataError(f"{path}: expected a Parquet file: {error}") from error


def _is_text(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _labels(pa: Any, path: Path, column: Any) -> Numbered:
    """As they are spelled; a null is a row without a label."""
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise DataError(f"{path}: expected labels of text or numbers, found {kind}")
    numbers = None
    if isinstance(column, pa.Array) and (pa.types.is_integer(kind) or _is_text(pa, kind)):
        encoded = column.dictionary_encode(null_encoding="encode")
        numbers, column = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
    found = Numbered.of("" if value is None else str(value).strip() for value in column.to_pylist())
    for label in found.names:
        check_label(path, 0, label)
    return found if numbers is None else Numbered(found.numbers[numbers], found.names)


def _numbers(pa: Any, path: Path, name: str, column: Any) -> np.ndarray:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"{path}: expected numbers in column {name!r}, found {kind}; categorical= or "
            "text_columns= encode words"
        )
    with np.errstate(over="ignore"):
        values = (
            column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float32)
        )
    if not np.isfinite(values).all():
        raise DataError(
            f"{path}: expected finite numbers that fit a float32 in column {name!r}, found NaN, "
            "null, infinity or a larger one"
        )
    return np.asarray(values, np.float32)
