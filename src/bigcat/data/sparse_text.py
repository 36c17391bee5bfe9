"""Sparse numeric text: the extreme-classification form and svmlight."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset, check_columns, error_at, make_dataset
from bigcat.data.text import check_line_ends, count_of

INDEX_LIMIT = np.iinfo(np.int32).max
LABEL_LIMIT = 10**17  # the scanner's integers saturate here
_HEADER_LIMIT = 4096  # three numbers are shorter than this
_MESSAGE_LENGTH = 40


class ScannedRows(NamedTuple):
    """Rows of some lines, without those that have no label."""

    X: sp.csr_matrix
    y: np.ndarray
    lines: np.ndarray  # line of the file that holds each row
    total: int
    total_to_content: int
    facts: dict[str, int]


def read_xc(
    path: Path, raw: bytes, *, label: str = "first", n_features: int | None = None
) -> Dataset:
    """The extreme-classification form: ``N D K``, then ``label,label index:value ...``."""
    header, newline, _ = raw[:_HEADER_LIMIT].partition(b"\n")
    n_rows, n_columns, n_labels = xc_header(path, header)
    check_columns(path, n_columns, n_features)
    n_labels = min(n_labels, LABEL_LIMIT)
    rows = scan_lines(path, raw, len(header + newline), 2, "xc", label, n_labels, n_columns)
    facts = dict(rows.facts)
    facts["rows_without_label"] -= blank_at_end(path, n_rows, rows.total, rows.total_to_content)
    return make_dataset(rows.X, rows.y, "xc", **facts)


def read_svmlight(
    path: Path,
    raw: bytes,
    *,
    label: str = "first",
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
) -> Dataset:
    """svmlight / libsvm: ``label index:value ... # comment``, indices from 0 or from 1."""
    if not (zero_based == "auto" or isinstance(zero_based, bool)):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
    rows = scan_lines(path, raw, 0, 1, "svmlight", label, LABEL_LIMIT, INDEX_LIMIT)
    X, indices = rows.X, rows.X.indices
    lowest = indices.min() if len(indices) else 0
    if zero_based == "auto":
        zero_based = bool(lowest == 0)
    if not zero_based:
        if lowest == 0 and len(indices):
            raise error_at(
                path, _line_of(rows, int(indices.argmin())), "indices from 1 (zero_based=False)", 0
            )
        indices -= 1
    found = int(indices.max()) + 1 if len(indices) else 0
    if n_features is not None and found > n_features:
        counted = "0" if zero_based else "1"
        raise error_at(
            path,
            _line_of(rows, int(indices.argmax())),
            f"indices for n_features={n_features} columns, counted from {counted}",
            found - 1 + (not zero_based),
        )
    X = sp.csr_matrix(
        (X.data, indices, X.indptr), shape=(X.shape[0], found if n_features is None else n_features)
    )
    X.has_canonical_format = True
    return make_dataset(X, rows.y, "svmlight", zero_based=zero_based, **rows.facts)


def xc_header(path: Path, line: bytes) -> list[int]:
    """Rows, features and labels, as the first line announces them."""
    fields = line.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields):
        raise error_at(path, 1, "the header 'N D K' (rows, features, labels)", _shown(line))
    sizes = [int(field) for field in fields]
    if sizes[1] > INDEX_LIMIT:
        raise error_at(path, 1, f"at most {INDEX_LIMIT} features", _shown(fields[1]))
    return sizes


def blank_at_end(path: Path, announced: int, total: int, total_to_content: int) -> int:
    """How many blank lines at the end are no rows; DataError where the header is wrong.

    Blank lines are rows with nothing in them, except at the end, where they may be just that.
    """
    if not total_to_content <= announced <= total:
        raise DataError(
            f"{path}: the header (line 1) announces {announced} rows, found {total}; "
            "is the file cut off, or the header wrong?"
        )
    return total - announced


def scan_lines(
    path: Path,
    raw: bytes,
    start: int,
    first_line: int,
    form: str,
    label: str,
    n_classes: int,
    n_features: int,
) -> ScannedRows:
    """Scan the rows from byte `start`, whose line has number `first_line`."""
    from bigcat.kernels import scan_text

    if label not in ("first", "single"):
        raise ValueError(
            f"label must be 'first' (a row's first label) or 'single' (rows with one label only), "
            f"got {label!r}"
        )
    check_line_ends(path, raw)
    if not raw.endswith(b"\n"):
        raw += b"\n"
    n_lines, n_entries = count_of(b"\n", raw, start), count_of(b":", raw, start)
    labels = np.empty(n_lines, np.int64)
    lines = np.empty(n_lines, np.int64)
    indptr = np.zeros(n_lines + 1, np.int64)
    indices = np.empty(n_entries, np.int32)
    values = np.empty(n_entries, np.float32)
    (kept, entries, total, to_content, multi, unlabelled, ascending, error, position, line) = (
        scan_text.scan_rows(
            np.frombuffer(raw, np.uint8),
            start,
            form == "svmlight",
            label == "single",
            n_classes,
            n_features,
            labels,
            lines,
            indptr,
            indices,
            values,
        )
    )
    if error:
        expected = {
            scan_text.BAD_LABEL: "integer labels, separated by commas",
            scan_text.LABEL_TOO_LARGE: f"a label below {n_classes}",
            scan_text.BAD_INDEX: "index:value with an integer index from 0 up",
            scan_text.INDEX_TOO_LARGE: f"a feature index below {n_features}",
            scan_text.BAD_VALUE: "index:value with a finite number that fits a float32",
        }[error]
        token = raw[position : position + 10 * _MESSAGE_LENGTH].split(None, 1)
        raise error_at(path, first_line + line, expected, _shown(token[0] if token else b""))
    index_type: Any = np.int32 if entries < INDEX_LIMIT else np.int64
    X = sp.csr_matrix(
        (
            values[:entries],
            indices[:entries].astype(index_type, copy=False),
            indptr[: kept + 1].astype(index_type, copy=False),
        ),
        shape=(kept, n_features),
    )
    facts = {"multi_label_rows": multi, "rows_without_label": unlabelled}
    rows = ScannedRows(X, labels[:kept].copy(), lines[:kept] + first_line, total, to_content, facts)
    if not ascending:
        X.sort_indices()
        _refuse_duplicates(path, rows)
    X.has_canonical_format = True
    return rows


def _refuse_duplicates(path: Path, rows: ScannedRows) -> None:
    indices, indptr = rows.X.indices, rows.X.indptr
    same = indices[1:] == indices[:-1]
    starts = indptr[1:-1]
    same[starts[(starts > 0) & (starts < len(indices))] - 1] = False  # neighbours of two rows
    if same.any():
        where = int(same.argmax())
        raise error_at(
            path, _line_of(rows, where), "each feature at most once", f"{indices[where]} twice"
        )


def _line_of(rows: ScannedRows, entry: int) -> int:
    return int(rows.lines[np.searchsorted(rows.X.indptr, entry, side="right") - 1])


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace").strip()
    return repr(text if len(text) <= _MESSAGE_LENGTH else text[:_MESSAGE_LENGTH] + "...")
