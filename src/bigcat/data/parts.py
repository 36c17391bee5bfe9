"""Data files in parts, each of which any process can read by itself.

`bigcat.data.read` takes a file as a whole; `bigcat.data.convert` takes parts, so that memory is
bounded by a part and cores share the work.  The parsers are the same.
"""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from bigcat.data.csv_tables import TableColumns, table_columns, table_rows
from bigcat.data.dataset import DataError, LineError, check_columns, error_at
from bigcat.data.sparse_text import (
    INDEX_LIMIT,
    LABEL_LIMIT,
    ScannedRows,
    blank_at_end,
    scan_lines,
    xc_header,
)
from bigcat.data.text import check_line_ends, decode, split_rows
from bigcat.data.unpack import GZIP_MAGIC, gzip_errors, too_large, unpacked_limit

#: Bytes of text in a part, and the longest line that one may end in.
PART_BYTES, LONGEST_LINE = 1 << 24, 1 << 28

Facts = dict[str, int]


class Part(NamedTuple):
    """Some rows of a file."""

    path: Path
    head: Any  # what the file says before its rows
    first_line: int  # number of the first line in the file; of Parquet, the row group
    offset: int
    length: int
    content: bytes | None = None  # of a packed file

    @property
    def is_first(self) -> bool:
        return self.offset == 0

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


class Block(NamedTuple):
    """What is in a part: rows of numbers or texts, and their labels."""

    X: Any  # CSR or dense float32, or a list of texts
    labels: np.ndarray | list[str]  # int64, or as they are spelled
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
            line, offset, head = 1, 0, None
            if self.has_head:
                with gzip_errors(path):
                    first = file.readline(LONGEST_LINE)
                if not first.strip():
                    raise DataError(f"{path}: the file is empty")
                line, offset, head = 2, len(first), self.head(path, first)
            while raw_part := _whole_lines(path, file, line, size):
                content = raw_part if packed else None
                yield Part(path, head, line, offset, len(raw_part), content)
                line, offset = line + raw_part.count(b"\n"), offset + len(raw_part)
                if limit is not None and offset > limit:
                    raise too_large(path, limit)

    def blocks(self, part: Part) -> Iterator[Block]:
        try:
            yield self.block(part, part.read())
        except LineError as error:
            raise error.further_down(part.first_line - 1) from None


def _whole_lines(path: Path, file: IO[bytes], line: int, size: int) -> bytes:
    with gzip_errors(path):
        raw = file.read(size)
        if not raw or raw.endswith(b"\n"):
            return raw
        rest = file.readline(LONGEST_LINE)
    if len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
        line += raw.count(b"\n")
        raise error_at(path, line, f"lines of up to {LONGEST_LINE:,} bytes", "a longer one")
    return raw + rest


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
    return Block(rows.X, rows.y, facts)


@dataclass(frozen=True)
class TsvParts(LinesReader):
    """``label<TAB>text``."""

    def has_text(self, path: Path) -> bool:
        return True

    def block(self, part: Part, raw: bytes) -> Block:
        check_line_ends(part.path, raw)
        text = decode(part.path, raw, "utf-8-sig" if part.is_first else "utf-8")
        content = text.rstrip("\r\n")
        blank_at_end = text.count("\n", len(content)) > 1
        labels, texts = split_rows(part.path, text) if content else ([], [])
        block = labelled_texts(labels, texts)
        return block._replace(facts={**block.facts, "blank_at_end": blank_at_end or not content})

    def complete(self, path: Path, head: Any, facts: list[Facts]) -> Facts:
        blank = False
        for fact in facts:
            if blank and fact["lines"]:
                raise DataError(f"{path}: expected label<TAB>text, found blank lines between rows")
            blank = blank or bool(fact["blank_at_end"])
        return super().complete(path, head, facts)


def labelled_texts(labels: list[str], texts: list[str]) -> Block:
    """Texts without those that have no label."""
    kept = [text for label, text in zip(labels, texts) if label]
    facts = {"rows_without_label": len(texts) - len(kept), "lines": len(texts)}
    return Block(kept, [label for label in labels if label], facts)


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
        broken = next((label for label in labels if "\n" in label), None)
        if broken is not None:  # a part may end in the middle of such a label
            expected = "labels without newlines (`read` takes them)"
            line = raw[: raw.find(broken.encode())].count(b"\n") + 1
            raise error_at(part.path, line, expected, repr(broken[:40]))
        return labelled_rows(X, labels)


def labelled_rows(X: np.ndarray, labels: list[str]) -> Block:
    """Dense rows without those that have no label."""
    labelled = np.array([label != "" for label in labels], bool)
    facts = {"rows_without_label": int(len(labels) - labelled.sum()), "columns": X.shape[1]}
    return Block(X[labelled], [label for label in labels if label], facts)
