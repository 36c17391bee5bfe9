"""Arrays in ``.npz``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import (
    DataError,
    Dataset,
    array_of_strings,
    check_columns,
    make_dataset,
)
from bigcat.data.unpack import read_archive

_CSR_PARTS = ("data", "indices", "indptr", "shape")
_NUMBERS = "biuf"  # kinds of NumPy's types, without complex numbers
_INT64_END = 1 << 63
_SURROGATES = range(0xD800, 0xE000)  # halves of characters
_EXACT_END = 1 << 53  # from here on a double does not tell a whole number from the next


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
        if (indptr[1:] < indptr[:-1]).any():  # SciPy looks only if the last is not 0
            raise ValueError("indptr falls, and has to rise")
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
        native = y.astype(y.dtype.newbyteorder("="))
        for code in np.unique(np.frombuffer(native, np.uint32)).tolist():
            if code > sys.maxunicode or code in _SURROGATES:
                raise DataError(f"{path}: expected y of Unicode strings, found character {code:#x}")
        return native
    try:
        return array_of_strings([label.decode() for label in y.tolist()])
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected y of strings in UTF-8, found {error.object!r}") from None
