"""Tables in ``.csv``: a header, numbers, a column of labels, and words that are encoded.

Tables of numbers are scanned by a compiled kernel; where a table has other columns, whether they
are encoded or left out, Python's own reader takes it.
"""

from __future__ import annotations

import codecs
import csv
import functools
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bigcat.data.dataset import (
    DataError,
    Dataset,
    check_columns,
    error_at,
)
from bigcat.data.numbered import Numbered
from bigcat.data.tables import (
    BLANKS,
    LABEL,
    Request,
    TableEncoder,
    check_names,
    not_a_number,
    numbers_of,
    table_dataset,
)
from bigcat.data.text import check_label, check_line_ends, check_utf8, count_of, decode

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
#: Where the labels of a table without labels are.
NOWHERE = -1


def read_csv(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    **options: Any,
) -> Dataset:
    """A table with a header; `options` are those of a `Request`."""
    start = raw.find(b"\n") + 1 or len(raw)
    request = Request.of(path, **options)
    labelled = request.labelled
    head = table_columns(path, raw[:start], request.label_column, optional=not labelled)
    names = request.features(path, head.names)
    not_used = check_names(path, names, request.columns)
    unknown: dict[str, int] = {}
    groups = None
    if request.encodes or not_used or request.group_column is not None:
        table = _Table.of(path, raw, head, labelled)
        encoder = request.encoder(path, names, head.label, table)
        X, unknown = encoder.transform(table)
        labels, n_dropped, groups = table.labels, table.n_dropped, request.groups(table)
    else:
        encoder = request.columns or TableEncoder(head.label, tuple(head.names))
        X, numbered = table_rows(path, raw, start, head)
        if encoder.numbers != tuple(head.names):
            place = {name: j for j, name in enumerate(head.names)}
            X = np.ascontiguousarray(X[:, [place[name] for name in encoder.numbers]])
        n_dropped = 0
        if labelled:
            kept, numbered = numbered.without_empty()
            n_dropped = int((~kept).sum())
            X = X[kept] if n_dropped else X
        labels = numbered.spelled()
    check_columns(path, X.shape[1], n_features)
    return table_dataset(
        "csv",
        X,
        labels if labelled else None,
        encoder,
        groups,
        rows_without_label=n_dropped,
        columns_not_used=not_used,
        unknown_categories=unknown,
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """Fields of a table as they are spelled, without rows that have no label."""

    path: Path
    columns: dict[str, tuple[str, ...]]
    labels: list[str]
    lines: list[int]
    n_dropped: int

    @classmethod
    def of(cls, path: Path, raw: bytes, head: TableColumns, labelled: bool) -> _Table:
        check_line_ends(path, raw)
        reader = _reader(io.StringIO(decode(path, raw), newline=""))
        rows, labels, lines, n_dropped, line = [], [], [], 0, 1
        try:
            for row in reader:
                number, line = line, reader.line_num + 1
                if number == 1 or not row or row == [""]:
                    continue
                if len(row) != len(head.header):
                    raise error_at(path, number, f"{len(head.header)} fields", len(row))
                field = "" if head.label_at == NOWHERE else row[head.label_at]
                label = field.strip()
                check_label(path, number, label)
                _check_quote(path, number, field)
                if labelled and not label:
                    n_dropped += 1
                    continue
                rows.append(row)
                labels.append(label)
                lines.append(number)
        except csv.Error as error:
            raise error_at(path, line, "comma-separated fields", error) from error
        columns: dict[str, tuple[str, ...]] = dict.fromkeys(head.header, ())
        columns |= zip(head.header, zip(*rows))
        return cls(path, columns, labels, lines, n_dropped)

    @property
    def n_rows(self) -> int:
        return len(self.lines)

    def numbers(self, name: str) -> np.ndarray:
        return numbers_of(self.path, name, self.columns[name], self.lines)

    def words(self, name: str) -> list[str]:
        for line, word in zip(self.lines, self.columns[name]):
            _check_quote(self.path, line, word)
        return [word.strip() for word in self.columns[name]]


class TableColumns(NamedTuple):
    """The columns of a table, and which of them holds the labels: `NOWHERE` for none."""

    header: list[str]
    label_at: int

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return [name for i, name in enumerate(self.header) if i != self.label_at]

    @property
    def label(self) -> str:
        return LABEL if self.label_at == NOWHERE else self.header[self.label_at]


def table_columns(
    path: Path, line: bytes, label_column: str | int | None, optional: bool = False
) -> TableColumns:
    """What the first line of a table says; `optional` where there need be no labels."""
    decode(path, line)  # for its error
    check_line_ends(path, line)
    header = _fields(path, 1, line.removeprefix(codecs.BOM_UTF8))
    return label_among(path, header, label_column, optional)


def table_rows(
    path: Path, raw: bytes, start: int, columns: TableColumns
) -> tuple[np.ndarray, Numbered]:
    """Numbers and labels of the rows from byte `start` on; lines are counted from the first."""
    from bigcat.kernels import scan_text

    check_utf8(path, raw)
    check_line_ends(path, raw)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    (header, at), names = columns, columns.names
    n_lines = count_of(b"\n", raw, start)
    # A row has its commas, so that few long rows among many blank lines ask for little memory.
    n_full = n_lines
    if len(header) > 1:
        n_full = min(n_lines, count_of(b",", raw, start) // (len(header) - 1) + 1)
    values = np.empty(n_full * len(names), np.float32)
    spans = np.empty((n_lines, 2), np.int64)
    n, error, position, line, column = scan_text.scan_table(
        np.frombuffer(raw, np.uint8), start, len(header), at, values, spans
    )
    if error:
        line += 1 + (start > 0)
        raise _table_error(path, raw, header, error, position, line, column)
    labels = Numbered(np.zeros(n, np.int64), [""])
    if at != NOWHERE:
        labels = Numbered.of_spans(raw, spans[:n], functools.partial(_label, path, raw))
    return values[: n * len(names)].reshape(n, len(names)), labels


def _label(path: Path, raw: bytes, begin: int, end: int) -> str:
    text = raw[begin:end].decode().strip()
    label = text
    if text.startswith('"'):
        if not _QUOTED.fullmatch(text):
            line = raw.count(b"\n", 0, begin) + 1
            raise error_at(path, line, "a comma after the closing quote", repr(text[:40]))
        label = text[1:-1].replace('""', '"').strip()
    if "\0" in label:
        check_label(path, raw.count(b"\n", 0, begin) + 1, label)
    return label


def _check_quote(path: Path, line: int, field: str) -> None:
    """Raise for a quote after a tab or another blank, which to Python's reader is a letter."""
    if '"' in field and field.lstrip().startswith('"') and not field.startswith('"'):
        raise error_at(path, line, "a quote at the beginning of its field", repr(field[:40]))


def _reader(lines: Iterable[str]) -> Any:
    """Python's own, which leaves out spaces before a quote, as the compiled scanner does."""
    return csv.reader(lines, strict=True, skipinitialspace=True)


def _fields(path: Path, line: int, raw: bytes, blanks: str | None = None) -> list[str]:
    """Fields of a line without the blanks around them, by default all that Python takes as such."""
    try:
        return [name.strip(blanks) for name in next(_reader([raw.decode()]))] or [""]
    except csv.Error as error:
        raise error_at(path, line, "comma-separated fields", error) from error


def _table_error(
    path: Path, raw: bytes, header: list[str], error: int, position: int, line: int, column: int
) -> DataError:
    from bigcat.kernels import scan_text

    end = raw.index(b"\n", position)
    if error == scan_text.OPEN_QUOTE:
        return error_at(path, line, "a closing quote", repr(raw[position:end].decode()[:40]))
    if error == scan_text.WRONG_WIDTH:
        begin = raw.rfind(b"\n", 0, position) + 1
        return error_at(
            path, line, f"{len(header)} fields", len(_fields(path, line, raw[begin:end]))
        )
    field = _fields(path, line, raw[position:end], BLANKS)[0]
    return not_a_number(path, line, header[column], field)


def label_among(
    path: Path, header: list[str], label_column: str | int | None, optional: bool = False
) -> TableColumns:
    """The columns of a table; where labels are optional, a name that is not there says so."""
    name = LABEL if label_column is None else label_column
    if optional and isinstance(name, str) and name not in header:
        return TableColumns(header, NOWHERE)
    return TableColumns(header, label_position(path, header, label_column))


def label_position(path: Path, header: list[str], label_column: str | int | None) -> int:
    if isinstance(label_column, int):
        if not -len(header) <= label_column < len(header):
            raise error_at(path, 1, f"more than {label_column} columns", len(header))
        return label_column % len(header)
    name = LABEL if label_column is None else label_column
    if header.count(name) != 1:
        shown = ", ".join(header[:5] + ["..."] * (len(header) > 5))
        raise error_at(
            path, 1, f"one column {name!r} (label_column= names another)", f"the header {shown}"
        )
    return header.index(name)
