"""Arrays in ``.npz`` and tables in ``.csv``."""

from __future__ import annotations

import codecs
import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import (
    DataError,
    Dataset,
    check_columns,
    error_at,
    integers_or_strings,
    make_dataset,
)
from bigcat.data.text import decode

_CSR_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: Path, raw: bytes, *, n_features: int | None = None) -> Dataset:
    """Arrays ``X`` and ``y``, or SciPy's CSR parts and ``y``."""
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: expected a .npz archive of plain arrays ({error}); is the file cut off?"
        ) from error
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
    if X.ndim < 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{path}: expected X of numbers with a row for each example, "
            f"found shape {X.shape} of {X.dtype}"
        )
    with np.errstate(over="ignore"):  # becomes infinite, and is reported as such
        return np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)


def _csr(path: Path, parts: dict[str, np.ndarray]) -> Any:
    layout = str(parts.get("format", np.array("csr")).astype(str))
    if layout != "csr":
        raise DataError(f"{path}: expected a matrix in format 'csr', found {layout!r}")
    try:
        with np.errstate(over="ignore"):
            values = parts["data"].astype(np.float32)
        shape = tuple(int(size) for size in parts["shape"])
        X = sp.csr_matrix((values, parts["indices"], parts["indptr"]), shape=shape)
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: expected the parts of a CSR matrix: {error}") from error
    entries = X.nnz
    X.sum_duplicates()
    if X.nnz < entries:
        raise DataError(
            f"{path}: expected each feature at most once a row, found {entries - X.nnz} twice"
        )
    return X


def _labels(path: Path, y: np.ndarray) -> np.ndarray:
    if y.ndim == 1 and y.dtype.kind in "biu":
        return y.astype(np.int64)
    if y.ndim == 1 and y.dtype.kind == "f" and np.array_equal(y, np.floor(y)):
        return y.astype(np.int64)
    if y.ndim == 1 and y.dtype.kind in "US":
        return y.astype(str)
    raise DataError(
        f"{path}: expected y with one integer or string a row, found shape {y.shape} of {y.dtype}"
    )


def read_csv(
    path: Path,
    raw: bytes,
    *,
    n_features: int | None = None,
    label_column: str | int | None = None,
) -> Dataset:
    """A table with a header; the column ``label`` (or `label_column`) holds the labels."""
    from bigcat.kernels import scan_text

    decode(path, raw)  # for its error
    raw = raw.removeprefix(codecs.BOM_UTF8) + b"\n" * (not raw.endswith(b"\n"))
    start = raw.index(b"\n") + 1
    header = _fields(path, 1, raw[:start])
    at = _label_position(path, header, label_column)
    names = header[:at] + header[at + 1 :]
    check_columns(path, len(names), n_features)

    n_lines = raw.count(b"\n", start)
    values = np.empty(n_lines * len(names), np.float32)
    spans = np.empty((n_lines, 2), np.int64)
    n, error, position, line, column = scan_text.scan_table(
        np.frombuffer(raw, np.uint8), start, len(header), at, values, spans
    )
    if error:
        raise _table_error(path, raw, header, error, position, line + 2, column)
    labels = [_unquoted(raw[begin:end]) for begin, end in spans[:n].tolist()]
    labelled = np.array([label != "" for label in labels], bool)
    X = values[: n * len(names)].reshape(n, len(names))
    if not labelled.all():
        X = X[labelled]
    y = integers_or_strings([label for label in labels if label])
    return make_dataset(X, y, "csv", rows_without_label=int(n - labelled.sum()))


def _unquoted(field: bytes) -> str:
    text = field.decode().strip()
    return text[1:-1].replace('""', '"').strip() if text.startswith('"') else text


def _fields(path: Path, line: int, raw: bytes) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([raw.decode()], strict=True))]
    except csv.Error as error:
        raise error_at(path, line, "comma-separated fields", error) from error


def _table_error(
    path: Path, raw: bytes, header: list[str], error: int, position: int, line: int, column: int
) -> DataError:
    from bigcat.kernels import scan_text

    end = raw.index(b"\n", position)
    if error == scan_text.OPEN_QUOTE:
        return error_at(path, line, "a closing quote", repr(raw[position:end][:40].decode()))
    if error == scan_text.WRONG_WIDTH:
        begin = raw.rindex(b"\n", 0, position) + 1
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


def _label_position(path: Path, header: list[str], label_column: str | int | None) -> int:
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
