"""Arrays in ``.npz`` and tables in ``.csv``."""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import (
    DataError,
    Dataset,
    array_of_strings,
    check_columns,
    error_at,
    integers_or_strings,
    make_dataset,
)
from bigcat.data.text import check_label, check_line_ends, decode
from bigcat.data.unpack import read_archive

_CSR_PARTS = ("data", "indices", "indptr", "shape")
_NUMBERS = "biuf"  # kinds of NumPy's types, without complex numbers
_INT64_END = 1 << 63
_EXACT_END = 1 << 53  # from here on a double does not tell a whole number from the next
_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def read_npz(
    path: Path, raw: bytes, *, n_features: int | None = None, max_bytes: int | None = None
) -> Dataset:
    """Arrays ``X`` and ``y``, or SciPy's CSR parts and ``y``."""
    parts = read_archive(path, raw, max_bytes)
    names = ", ".join(sorted(parts)) or "none"
    sparse = "X" not in parts and all(part in parts for part in _CSR_PARTS)
    if "y" not in parts or not ("X" in parts or sparse):
        raise DataError(
            f"{path}: expected arrays X and y (or {', '.join(_CSR_PARTS)} and y), found {names}"
        )
    X: Any = _csr(path, parts) if sparse else _dense(path, parts["X"])
    y = _labels(path, parts["y"])
    if len(y) != X.shape[0]:
        raise DataError(f"{path}: expected a label for each of {X.shape[0]} rows, found {len(y)}")
    values = X.data if sparse else X
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(values))[0, 0]
        row = np.searchsorted(X.indptr, where, side="right") - 1 if sparse else where
        raise DataError(
            f"{path}: expected finite numbers in X, found NaN, infinity or a value "
            f"beyond float32 in row {row}"
        )
    check_columns(path, X.shape[1], n_features)
    return make_dataset(X, y, "npz")


def _dense(path: Path, X: np.ndarray) -> np.ndarray:
    if X.ndim < 2 or X.dtype.kind not in _NUMBERS or not X.size:
        raise DataError(
            f"{path}: expected X of numbers with a row for each example, "
            f"found shape {X.shape} of {X.dtype}"
        )
    with np.errstate(over="ignore"):  # becomes infinite, and is reported as such
        return np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)


def _csr(path: Path, parts: dict[str, np.ndarray]) -> Any:
    layout = parts.get("format", np.array("csr")).tolist()
    if isinstance(layout, bytes):
        layout = layout.decode("ascii", "backslashreplace")
    if layout != "csr":
        raise DataError(f"{path}: expected a matrix in format 'csr', found {layout!r}")
    for name in _CSR_PARTS:
        kinds, noun = (_NUMBERS, "numbers") if name == "data" else ("iu", "integers")
        found = parts[name]
        if found.dtype.kind not in kinds or found.ndim != 1:
            raise DataError(
                f"{path}: expected {name} with one axis of {noun}, found shape {found.shape} of "
                f"{found.dtype}"
            )
    try:
        with np.errstate(over="ignore"):
            values = parts["data"].astype(np.float32)
        indices, indptr, shape = (_signed(name, parts[name]) for name in _CSR_PARTS[1:])
        X = sp.csr_matrix((values, indices, indptr), shape=tuple(shape.tolist()))
        X.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise DataError(f"{path}: expected the parts of a CSR matrix: {error}") from error
    entries = X.nnz
    X.sum_duplicates()
    if X.nnz < entries:
        raise DataError(
            f"{path}: expected each feature at most once per row, found {entries - X.nnz} twice"
        )
    return X


def _signed(name: str, array: np.ndarray) -> np.ndarray:
    """A copy of integers that can be written to; SciPy would let large unsigned ones wrap."""
    if array.dtype.kind == "u" and array.max(initial=0) >= _INT64_END:
        raise ValueError(f"{name} holds {array.max()}, which no int64 holds")
    signed = array.dtype if array.dtype.kind == "i" else np.int64
    return np.array(array, np.dtype(signed).newbyteorder("="))


def _labels(path: Path, y: np.ndarray) -> np.ndarray:
    if y.ndim == 1 and y.dtype.kind in "US":
        return _string_labels(path, y)
    whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and np.array_equal(y, np.floor(y)))
    if y.ndim != 1 or not whole:
        raise DataError(
            f"{path}: expected y with one integer or string per row, found shape {y.shape} of "
            f"{y.dtype}"
        )
    end = _EXACT_END if y.dtype.kind == "f" else _INT64_END
    if y.dtype.kind in "fu" and len(y) and not (beyond := _largest(y)) < end:
        raise DataError(
            f"{path}: expected labels of {y.dtype} below {end} in size, found {beyond}; store them "
            "as int64 or as strings"
        )
    return y.astype(np.int64)


def _largest(y: np.ndarray) -> Any:
    return max(y.max().item(), -y.min().item())


def _string_labels(path: Path, y: np.ndarray) -> np.ndarray:
    """NumPy drops NULs at the end of a string, so that a file cannot tell us of them."""
    if y.dtype.kind == "U":
        return y.astype(y.dtype.newbyteorder("="))
    try:
        return array_of_strings([label.decode() for label in y.tolist()])
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected y of strings in UTF-8, found {error.object!r}") from None


def read_csv(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    label_column: str | int | None = None,
) -> Dataset:
    """A table with a header; the column ``label`` (or `label_column`) holds the labels."""
    start = raw.find(b"\n") + 1 or len(raw)
    columns = table_columns(path, raw[:start], label_column)
    check_columns(path, len(columns.names), n_features)
    X, labels = table_rows(path, raw, start, columns)
    labelled = np.array([label != "" for label in labels], bool)
    if not labelled.all():
        X = X[labelled]
    y = integers_or_strings([label for label in labels if label])
    return make_dataset(X, y, "csv", rows_without_label=len(labels) - len(y))


class TableColumns(NamedTuple):
    """The columns of a table, and which of them holds the labels."""

    header: list[str]
    label_at: int

    @property
    def names(self) -> list[str]:
        """Of the features."""
        return self.header[: self.label_at] + self.header[self.label_at + 1 :]


def table_columns(path: Path, line: bytes, label_column: str | int | None) -> TableColumns:
    """What the first line of a table says."""
    decode(path, line)  # for its error
    check_line_ends(path, line)
    header = _fields(path, 1, line.removeprefix(codecs.BOM_UTF8))
    return TableColumns(header, label_position(path, header, label_column))


def table_rows(
    path: Path, raw: bytes, start: int, columns: TableColumns
) -> tuple[np.ndarray, list[str]]:
    """Numbers and labels of the rows from byte `start` on; lines are counted from the first."""
    from bigcat.kernels import scan_text

    decode(path, raw)
    check_line_ends(path, raw)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    (header, at), names = columns, columns.names
    n_lines = raw.count(b"\n", start)
    # A row has its commas, so that few long rows among many blank lines ask for little memory.
    n_full = min(n_lines, raw.count(b",", start) // max(len(names), 1) + 1)
    values = np.empty(n_full * len(names), np.float32)
    spans = np.empty((n_lines, 2), np.int64)
    n, error, position, line, column = scan_text.scan_table(
        np.frombuffer(raw, np.uint8), start, len(header), at, values, spans
    )
    if error:
        line += 1 + (start > 0)
        raise _table_error(path, raw, header, error, position, line, column)
    labels = [_label(path, raw, begin, end) for begin, end in spans[:n].tolist()]
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


def _fields(path: Path, line: int, raw: bytes) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([raw.decode()], strict=True))] or [""]
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
    field = _fields(path, line, raw[position:end])[0]
    try:
        float(field)
        expected = "a finite number that fits a float32"
    except ValueError:
        expected = "a number"
    return error_at(path, line, f"{expected} in column {header[column]!r}", repr(field))


def label_position(path: Path, header: list[str], label_column: str | int | None) -> int:
    if isinstance(label_column, int):
        if not -len(header) <= label_column < len(header):
            raise error_at(path, 1, f"more than {label_column} columns", len(header))
        return label_column % len(header)
    name = "label" if label_column is None else label_column
    if header.count(name) != 1:
        shown = ", ".join(header[:5] + ["..."] * (len(header) > 5))
        raise error_at(
            path, 1, f"one column {name!r} (label_column= names another)", f"the header {shown}"
        )
    return header.index(name)
