"""Data files in parts, each of which any process can read by itself.

`bigcat.data.read` takes a file as a whole; `bigcat.data.convert` takes parts, so that memory is
bounded by a part and cores share the work.  The parsers are the same.
"""

from __future__ import annotations

import codecs
import gzip
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from bigcat.data.csv_tables import TableColumns, table_columns, table_rows
from bigcat.data.dataset import DataError, LineError, check_columns, error_at
from bigcat.data.numbered import Numbered
from bigcat.data.spans import Texts
from bigcat.data.sparse_text import (
    INDEX_LIMIT,
    LABEL_LIMIT,
    ScannedRows,
    blank_at_end,
    scan_lines,
    xc_header,
)
from bigcat.data.text import check_line_ends, labelled_texts, without_line_ends
from bigcat.data.unpack import GZIP_MAGIC, gzip_errors, too_large, unpacked_limit

#: Bytes of text in a part, and the longest line that one may end in.
PART_BYTES, LONGEST_LINE = 1 << 24, 1 << 28

Facts = dict[str, int]


class Part(NamedTuple):
    """Some rows of a file."""

    path: Path
    head: Any  # what the file says before its rows
    offset: int  # of the first byte; of Parquet, the row group
    length: int  # in bytes; of Parquet, rows to read at a time
    content: bytes | None = None  # of a packed file
    lines_before: int | None = None  # of a packed file

    @property
    def is_first(self) -> bool:
        return self.offset == 0

    def count_lines_before(self) -> int:
        """Only errors want to know, so that plain files are counted when there is one."""
        if self.lines_before is not None:
            return self.lines_before
        return _count_lines(self.path, self.offset)

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


class Block(NamedTuple):
    """What is in a part: rows of numbers or texts, and their labels."""

    X: Any  # CSR or dense float32, or `Texts`
    labels: Numbered  # integers, or as they are spelled
    facts: Facts


@dataclass(frozen=True)
class PartsReader(ABC):
    """How files of a form are cut, and how parts of them are read.

    `n_features` is the number of columns to insist on, or None.
    """

    n_features: int | None = None

    def has_text(self, path: Path) -> bool:
        """Are its rows texts, which a vectoriser turns into features?"""
        return False

    @abstractmethod
    def parts(self, path: Path, max_bytes: int | None, size: int = PART_BYTES) -> Iterator[Part]:
        """Parts of a file, in order, that can be read by themselves."""

    @abstractmethod
    def blocks(self, part: Part) -> Iterator[Block]:
        """Rows of a part, a block at a time."""

    def complete(self, path: Path, head: Any, facts: list[Facts]) -> Facts:
        """Facts of a whole file, from those of its parts; DataError where they do not agree."""
        counted = ("multi_label_rows", "rows_without_label")
        return {name: sum(fact.get(name, 0) for fact in facts) for name in counted}

    def column_names(self, head: Any) -> list[str] | None:
        """Of a table."""
        return None

    def label_name(self, head: Any) -> str | None:
        """Of the column of labels of a table."""
        return None

    def first_and_number(self, path: Path, lowest: int, widths: set[int]) -> tuple[int, int]:
        """The number of the first column, and how many columns there are."""
        n_columns = max(widths)
        if len(widths) > 1:
            raise DataError(
                f"{path}: expected {n_columns} columns in all files, found {min(widths)} in another"
            )
        check_columns(path, n_columns, self.n_features)
        return 0, n_columns


@dataclass(frozen=True)
class LinesReader(PartsReader):
    """Text that is cut between lines."""

    has_head: ClassVar[bool] = False

    def head(self, path: Path, line: bytes) -> Any:
        """What the first line says, where it is no row."""
        return None

    @abstractmethod
    def block(self, part: Part, raw: bytes) -> Block:
        """Rows of lines that are counted from 1."""

    def parts(self, path: Path, max_bytes: int | None, size: int = PART_BYTES) -> Iterator[Part]:
        with open(path, "rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC or path.suffix == ".gz"
        limit = unpacked_limit(path.stat().st_size, max_bytes) if packed else None
        with gzip.open(path) if packed else open(path, "rb") as opened:
            file = cast(IO[bytes], opened)
            offset, head = 0, None
            if self.has_head:
                with gzip_errors(path):
                    first = file.readline(LONGEST_LINE)
                if not first.strip():
                    raise DataError(f"{path}: the file is empty")
                offset, head = len(first), self.head(path, first)
            cut = _unpacked_parts if packed else _plain_parts
            for part in cut(Part(path, head, offset, size), file):
                yield part
                if limit is not None and part.offset + part.length > limit:
                    raise too_large(path, limit)

    def blocks(self, part: Part) -> Iterator[Block]:
        try:
            yield self.block(part, part.read())
        except LineError as error:
            raise error.further_down(part.count_lines_before()) from None


def _plain_parts(first: Part, file: IO[bytes]) -> Iterator[Part]:
    """Parts as long as the first one, or a little longer, to the end of a line.

    Nothing is read but these ends: whoever parses a part reads it.
    """
    path, _, offset, size = first[:4]
    end = path.stat().st_size
    while offset < end:
        length = end - offset
        if length > size:
            file.seek(offset + size - 1)  # where the line ends here, nothing is added
            rest = _to_line_end(file)
            if rest is None:
                raise _line_too_long(path, _count_lines(path, offset + size))
            length = size - 1 + len(rest)
        yield first._replace(offset=offset, length=length)
        offset += length


def _unpacked_parts(first: Part, file: IO[bytes]) -> Iterator[Part]:
    """The same of a packed file, with their content, since it is read in order only."""
    path, head, offset, size = first[:4]
    lines = 0 if offset == 0 else 1
    while True:
        with gzip_errors(path):
            raw = file.read(size)
            if not raw:
                return
            rest = b"" if raw.endswith(b"\n") else _to_line_end(file)
        if rest is None:
            raise _line_too_long(path, lines + raw.count(b"\n"))
        raw += rest
        yield Part(path, head, offset, len(raw), raw, lines)
        offset, lines = offset + len(raw), lines + raw.count(b"\n")


def _to_line_end(file: IO[bytes]) -> bytes | None:
    """What is left of a line; None if that is too much."""
    rest = file.readline(LONGEST_LINE)
    return None if len(rest) == LONGEST_LINE and not rest.endswith(b"\n") else rest


def _line_too_long(path: Path, lines_before: int) -> DataError:
    expected = f"lines of up to {LONGEST_LINE:,} bytes"
    return error_at(path, lines_before + 1, expected, "a longer one")


def _count_lines(path: Path, end: int) -> int:
    """Newlines before a place in a file."""
    lines = 0
    with open(path, "rb") as file:
        while end > 0 and (raw := file.read(min(end, PART_BYTES))):
            lines, end = lines + raw.count(b"\n"), end - len(raw)
    return lines


@dataclass(frozen=True)
class XcParts(LinesReader):
    """``label,label index:value ...`` after a line ``N D K``."""

    has_head: ClassVar[bool] = True
    label: str = "first"

    def head(self, path: Path, line: bytes) -> list[int]:
        sizes = xc_header(path, line)
        check_columns(path, sizes[1], self.n_features)
        return sizes

    def block(self, part: Part, raw: bytes) -> Block:
        _, n_columns, n_labels = part.head
        n_labels = min(n_labels, LABEL_LIMIT)
        rows = scan_lines(part.path, raw, 0, 1, "xc", self.label, n_labels, n_columns)
        return _sparse_block(rows, n_columns)

    def complete(self, path: Path, head: list[int], facts: list[Facts]) -> Facts:
        found = super().complete(path, head, facts)
        total = to_content = 0
        for fact in facts:
            if fact["total_to_content"]:
                to_content = total + fact["total_to_content"]
            total += fact["total"]
        found["rows_without_label"] -= blank_at_end(path, head[0], total, to_content)
        return found


@dataclass(frozen=True)
class SvmlightParts(LinesReader):
    """``label index:value ... # comment``; whether indices count from 0 is known in the end."""

    label: str = "first"
    zero_based: bool | Literal["auto"] = "auto"

    def block(self, part: Part, raw: bytes) -> Block:
        rows = scan_lines(part.path, raw, 0, 1, "svmlight", self.label, LABEL_LIMIT, INDEX_LIMIT)
        return _sparse_block(rows, None)

    def first_and_number(self, path: Path, lowest: int, widths: set[int]) -> tuple[int, int]:
        zero_based = lowest == 0 if self.zero_based == "auto" else self.zero_based
        first = 0 if zero_based else 1
        if lowest < first:
            raise DataError(f"{path}: expected indices from 1 (zero_based=False), found 0")
        found = max(max(widths) - first, 0)
        if self.n_features is not None and found > self.n_features:
            raise DataError(
                f"{path}: expected indices for n_features={self.n_features} columns, counted from "
                f"{first}, found {found - 1 + first}"
            )
        return first, found if self.n_features is None else self.n_features


def _sparse_block(rows: ScannedRows, n_columns: int | None) -> Block:
    indices = rows.X.indices
    facts = {
        **rows.facts,
        "total": rows.total,
        "total_to_content": rows.total_to_content,
        "lowest": int(indices.min(initial=INDEX_LIMIT)),
        "columns": int(indices.max(initial=-1)) + 1 if n_columns is None else n_columns,
    }
    names, numbers = np.unique(rows.y, return_inverse=True)
    return Block(rows.X, Numbered(numbers.reshape(-1), names.tolist()), facts)


@dataclass(frozen=True)
class TsvParts(LinesReader):
    """``label<TAB>text``."""

    def has_text(self, path: Path) -> bool:
        return True

    def block(self, part: Part, raw: bytes) -> Block:
        if part.is_first:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        length = without_line_ends(raw)
        blank_at_end = raw.count(b"\n", length) > 1 or not length
        if not length:
            check_line_ends(part.path, raw)
        labels, texts = (
            labelled_texts(part.path, raw) if length else (Numbered.of([]), Texts.of([]))
        )
        block = block_of_texts(labels, texts)
        return block._replace(facts={**block.facts, "blank_at_end": blank_at_end})

    def complete(self, path: Path, head: Any, facts: list[Facts]) -> Facts:
        blank = False
        for fact in facts:
            if blank and fact["lines"]:
                raise DataError(f"{path}: expected label<TAB>text, found blank lines between rows")
            blank = blank or bool(fact["blank_at_end"])
        return super().complete(path, head, facts)


def block_of_texts(labels: Numbered, texts: Texts) -> Block:
    """Texts without those that have no label."""
    labelled, labels = labels.without_empty()
    kept = texts if labelled.all() else texts.take(labelled)
    facts = {"rows_without_label": len(texts) - len(kept), "lines": len(texts)}
    return Block(kept, labels, facts)


@dataclass(frozen=True)
class CsvParts(LinesReader):
    """A table with a header; labels hold no newlines, so that a newline ends a row."""

    has_head: ClassVar[bool] = True
    label_column: str | int | None = None

    def head(self, path: Path, line: bytes) -> TableColumns:
        columns = table_columns(path, line, self.label_column)
        check_columns(path, len(columns.names), self.n_features)
        return columns

    def column_names(self, head: TableColumns) -> list[str]:
        return head.names

    def label_name(self, head: TableColumns) -> str:
        return head.label

    def block(self, part: Part, raw: bytes) -> Block:
        X, labels = table_rows(part.path, raw, 0, part.head)
        broken = next((label for label in labels.names if "\n" in label), None)
        if broken is not None:  # a part may end in the middle of such a label
            expected = "labels without newlines (`read` takes them)"
            line = raw[: raw.find(broken.encode())].count(b"\n") + 1
            raise error_at(part.path, line, expected, repr(broken[:40]))
        return block_of_rows(X, labels)


def block_of_rows(X: np.ndarray, labels: Numbered) -> Block:
    """Dense rows without those that have no label."""
    labelled, labels = labels.without_empty()
    n_without = len(labelled) - len(labels.numbers)
    facts = {"rows_without_label": n_without, "columns": X.shape[1]}
    return Block(X[labelled] if n_without else X, labels, facts)
