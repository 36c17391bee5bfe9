"""Sparse numeric text, svmlight and the extreme-classification form, by scikit-learn's parser."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, check_columns, error_at
from bigcat.data.reading import Chunk, Facts, LinesReader, Text, numbered

_INT32_MAX = np.iinfo(np.int32).max
_HEADER_BYTES = 4096  # three numbers are shorter
_SHOWN = 40  # characters of a message
_LABELS = re.compile(rb"[+-]?\d+(?:,[+-]?\d+)*")
_QUERY = re.compile(rb"qid:\d+")
#: Bytes of features.  Python's numbers take more, such as "1_0", "nan" and "inf".
_PLAIN = b"0123456789+-.:eE \t\r\n"


class SvmlightReader(LinesReader):
    """Reader of ``label index:value ... # comment``, with indices from 0 or from 1.

    Of several labels of a row the first one counts.
    """

    index_end, states_columns = _INT32_MAX, False

    def __init__(
        self,
        path: Path,
        *,
        zero_based: bool | Literal["auto"] = "auto",
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        if not (zero_based == "auto" or isinstance(zero_based, bool)):
            raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
        self.zero_based = zero_based

    def parse(self, piece: Text) -> Chunk:
        rows, labels, lines = [], [], []
        known: dict[bytes, list[int]] = {}  # most labels stand in many rows
        facts = {"multi_label_rows": 0, "rows_without_label": 0}
        for number, line in enumerate(piece.raw.removesuffix(b"\n").split(b"\n"), piece.first_line):
            row = self._row(line)
            if row is None:
                continue
            found, features = self._labels(number, row, known)
            facts["multi_label_rows"] += len(found) > 1
            if self.labelled and not found:
                facts["rows_without_label"] += 1
            else:
                rows.append(b"0 " + features)
                labels.append(found[0] if self.labelled else 0)
                lines.append(number)
        X = self._matrix(rows, lines)
        if X.nnz:
            facts["lowest"] = int(X.indices.min())
        facts["columns"] = int(X.indices.max(initial=-1)) + 1
        return Chunk(X, *numbered(labels), facts)

    def _row(self, line: bytes) -> bytes | None:
        """Return a row without its comment; None for a line that is none."""
        line = line.partition(b"#")[0]
        return line if line.strip() else None

    def _labels(
        self, number: int, line: bytes, known: dict[bytes, list[int]]
    ) -> tuple[list[int], bytes]:
        """Split a row into its labels, of which there may be none, and its features."""
        head, *rest = line.split(None, 1) or [b""]
        if line[:1].isspace() or not head or (b":" in head and not self.labelled):
            return [], line
        if head not in known:
            if not _LABELS.fullmatch(head):
                expected = "integer labels, separated by commas"
                raise error_at(self.path, number, expected, _shown(head))
            known[head] = [int(label) for label in head.split(b",")]
            self.check_labels(number, known[head])
        features = rest[0] if rest else b""
        if features.startswith(b"qid:"):
            query, *rest = features.split(None, 1)
            if not _QUERY.fullmatch(query):
                raise error_at(self.path, number, "qid:number", _shown(query))
            features = b"".join(rest)
        return known[head], features

    def check_labels(self, number: int, labels: list[int]) -> None:
        """Raise for a label that the form does not allow."""
        if not all(abs(label) < 1 << 63 for label in labels):
            raise error_at(self.path, number, "labels that fit int64", max(labels, key=abs))

    def _matrix(self, rows: list[bytes], lines: list[int]) -> sp.csr_matrix:
        """Parse features; DataError with the first line that cannot be parsed."""
        try:
            return self._parsed(rows)
        except (ValueError, OverflowError):
            pass
        for row, line in zip(rows, lines):
            try:
                self._parsed([row])
            except (ValueError, OverflowError) as error:
                expected = f"index:value with rising indices below {self.index_end} and float32"
                found = f"{_shown(row[2:])} ({error})"
                raise error_at(self.path, line, f"{expected} values", found) from error
        raise AssertionError("rows fail together, and none of them alone")

    def _parsed(self, rows: list[bytes]) -> sp.csr_matrix:
        from sklearn.datasets import load_svmlight_file

        if not rows:
            return sp.csr_matrix((0, self.index_end), dtype=np.float32)
        raw = b"\n".join(rows)
        if odd := raw.translate(None, _PLAIN):
            raise ValueError(f"unexpected {_shown(odd[:10])}")
        X, _ = load_svmlight_file(io.BytesIO(raw), dtype=np.float32, zero_based=True)
        if X.indices.max(initial=-1) >= self.index_end:
            raise ValueError(f"{X.indices.max()} is not below {self.index_end}")
        if not np.isfinite(X.data).all():
            raise ValueError("a value is beyond float32")
        parts = (X.data, X.indices.astype(np.int32, copy=False), X.indptr)
        return sp.csr_matrix(parts, shape=(len(rows), self.index_end))

    def columns(self, facts: Facts) -> tuple[int, int]:
        first = 0 if self.counts_from_zero(facts) else 1
        if facts.get("lowest", first) < first:
            raise DataError(f"{self.path}: expected indices from 1 (zero_based=False), found 0")
        n = max(facts["columns"] - first, 0)
        if self.n_features is not None and n > self.n_features:
            raise DataError(
                f"{self.path}: expected indices for n_features={self.n_features} columns, counted "
                f"from {first}, found {n - 1 + first}"
            )
        return first, n if self.n_features is None else self.n_features

    def counts_from_zero(self, facts: Facts) -> bool:
        """Return True if indices count from 0."""
        if self.zero_based == "auto":
            return facts.get("lowest", 1) == 0
        return self.zero_based

    def report(self, facts: Facts) -> dict[str, Any]:
        return {**super().report(facts), "zero_based": self.counts_from_zero(facts)}


class XcReader(SvmlightReader):
    """Reader of ``N D K`` (rows, features, labels), then ``label,label index:value ...``."""

    states_columns = True

    def head(self, file: IO[bytes]) -> None:
        line = file.readline(_HEADER_BYTES)
        fields = line.split()
        if len(fields) != 3 or not all(field.isdigit() for field in fields):
            expected = "the header 'N D K' (rows, features, labels)"
            raise error_at(self.path, 1, expected, _shown(line))
        self.n_rows, self.index_end, self.n_labels = (int(field) for field in fields)
        if self.index_end > _INT32_MAX:
            raise error_at(self.path, 1, f"at most {_INT32_MAX} features", self.index_end)
        check_columns(self.path, self.index_end, self.n_features)
        self.first_line = 2

    def _row(self, line: bytes) -> bytes:
        return line

    def check_labels(self, number: int, labels: list[int]) -> None:
        super().check_labels(number, labels)
        for label in labels:
            if not 0 <= label < self.n_labels:
                raise error_at(self.path, number, f"a label below {self.n_labels}", f"'{label}'")

    def columns(self, facts: Facts) -> tuple[int, int]:
        if not self.n_lines <= self.n_rows <= self.n_lines + self.n_blank_at_end:
            raise DataError(
                f"{self.path}: the header (line 1) announces {self.n_rows} rows, found "
                f"{self.n_lines}; is the file cut off, or the header wrong?"
            )
        return 0, self.index_end

    def report(self, facts: Facts) -> dict[str, Any]:
        found = super().report(facts)
        del found["zero_based"]
        found["rows_without_label"] += self.n_rows - self.n_lines
        return found


def _shown(token: bytes) -> str:
    text = token.decode("utf-8", "backslashreplace").strip()
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
