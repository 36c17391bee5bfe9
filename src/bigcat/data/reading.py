"""Readers of data files: one process cuts a file into pieces, and any process parses a piece.

`bigcat.data.read` puts parsed chunks together; `bigcat.data.convert` writes each to a folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from bigcat.data.dataset import DataError, array_of_strings, check_columns, error_at

#: Bytes of text in a piece, and of the longest line.
PIECE_BYTES, MAX_LINE_BYTES = 1 << 24, 1 << 28

Facts = dict[str, int]
#: Facts that are counted; of the others, the largest of all chunks is the one of the file.
COUNTED = ("multi_label_rows", "rows_without_label")


class Chunk(NamedTuple):
    """Some labelled rows of a file.

    Attributes
    ----------
    X : CSR matrix, array, list of str or pyarrow.Table
        Features, texts, or columns of a table that are still to be encoded.
    codes : ndarray
        For each row, the place of its label in `names`.
    names : list of str or int
    facts : dict
        Numbers that the file's report or its columns depend on.
    """

    X: Any
    codes: np.ndarray
    names: list[Any]
    facts: Facts


class Reader(ABC):
    """Reader of one form of files.

    Parameters
    ----------
    path : Path
        For messages.
    n_features : int or None
        Number of columns to insist on.
    labelled : bool
        False if rows may lack labels; every row then has the label 0.
    """

    #: True if rows are texts, which a vectoriser turns into features.
    is_text = False
    #: True if labels are text, so that their spelling shows which are integers.
    spells_labels = True
    #: True if each file states its number of columns.
    states_columns = True

    def __init__(self, path: Path, *, n_features: int | None = None, labelled: bool = True) -> None:
        self.path, self.n_features, self.labelled = path, n_features, labelled

    @abstractmethod
    def pieces(self, file: IO[Any], max_bytes: int | None = None) -> Iterator[Any]:
        """Cut a file into pieces, in order."""

    @abstractmethod
    def parse(self, piece: Any) -> Chunk:
        """Parse a piece."""

    def wrong(self, expected: str, found: object, place: str = "") -> DataError:
        """Return the error of a file, or of a place in it such as ``", line 3"``."""
        return DataError(f"{self.path}{place}: expected {expected}, found {found}")

    def columns(self, facts: Facts) -> tuple[int, int]:
        """Return the number of the first column and how many columns there are."""
        check_columns(self.path, facts["columns"], self.n_features)
        return 0, facts["columns"]

    def report(self, facts: Facts) -> dict[str, Any]:
        """Return entries of the file's report."""
        return {name: facts.get(name, 0) for name in COUNTED}


class Text(NamedTuple):
    """Whole lines of a text file."""

    raw: bytes
    first_line: int  # its number, counted from 1

    def line_at(self, position: int) -> int:
        """Return the number of the line that holds a byte."""
        return self.first_line + self.raw.count(b"\n", 0, position)


class LinesReader(Reader):
    """Reader of a form whose rows end with lines."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        #: Number of the line that the rows begin with, and of lines of rows, once all are read.
        self.first_line, self.n_lines, self.n_blank_at_end = 1, 0, 0

    def head(self, file: IO[bytes]) -> None:
        """Read what stands before the rows."""

    def is_whole(self, raw: bytes) -> bool:
        """Return True unless the last row continues in the next line."""
        return True

    def pieces(self, file: IO[bytes], max_bytes: int | None = None) -> Iterator[Text]:
        self.head(file)
        line, blank = self.first_line, b""
        while raw := file.read(PIECE_BYTES):
            raw = blank + raw + self._to_line_end(file, raw, line)
            while not self.is_whole(raw) and len(raw) < MAX_LINE_BYTES:
                more = file.read(PIECE_BYTES)
                if not more:
                    break
                raw += more + self._to_line_end(file, more, line)
            # Blank lines are rows of some forms, but not at the end of the file.
            length = len(raw.rstrip(b"\r\n"))
            end = (raw.find(b"\n", length) + 1 or len(raw)) if length else 0
            raw, blank = raw[:end], raw[end:]
            if raw:
                piece = Text(raw, line)
                self._check(piece)
                yield piece
                line += raw.count(b"\n") + (not raw.endswith(b"\n"))
        self.n_lines, self.n_blank_at_end = line - self.first_line, blank.count(b"\n")

    def _to_line_end(self, file: IO[bytes], raw: bytes, line: int) -> bytes:
        if raw.endswith(b"\n"):
            return b""
        rest = file.readline(MAX_LINE_BYTES)
        if len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
            at = line + raw.count(b"\n")
            raise error_at(self.path, at, f"lines of up to {MAX_LINE_BYTES:,} bytes", "more")
        return rest

    def _check(self, piece: Text) -> None:
        """Raise for a carriage return without a newline: it would join two rows."""
        raw = piece.raw
        if raw.count(b"\r") != raw.count(b"\r\n"):
            line = raw[: raw.replace(b"\r\n", b" \n").index(b"\r")].count(b"\n")
            expected = "lines that end in a newline, alone or after a carriage return"
            raise error_at(self.path, piece.first_line + line, expected, "a carriage return alone")

    def decoded(self, piece: Text) -> str:
        """Decode UTF-8 text; an error names the line of a stray byte."""
        try:
            return piece.raw.decode("utf-8-sig" if piece.first_line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            line = piece.line_at(error.start)
            raise error_at(
                self.path, line, "UTF-8 text", f"byte 0x{error.object[error.start]:02x}"
            ) from None


def numbered(labels: Iterable[Any]) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each label and the labels by code, in the order of their first row."""
    code: dict[Any, int] = {}
    codes = np.array([code.setdefault(label, len(code)) for label in labels], np.int64)
    return codes, list(code)


class Labels:
    """Labels of all chunks, numbered in the order in which they come."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.code: dict[Any, int] = {}

    def codes(self, codes: np.ndarray, names: list[Any]) -> np.ndarray:
        """Return the codes of a chunk's rows among all labels so far."""
        of_chunk = [self.code.setdefault(name, len(self.code)) for name in names]
        found: np.ndarray = np.array(of_chunk, np.int64)[codes]
        return found

    def values(self) -> np.ndarray:
        """Return all labels by code: int64 if every one is a plain integer, else str."""
        names = list(self.code)
        if not names:
            raise DataError(f"{self.reader.path}: expected labelled rows, found none")
        if isinstance(names[0], int):
            return np.array(names, np.int64)
        odd = next((name for name in names if "\0" in name), None)
        if odd is not None:  # NumPy drops NULs at the end of a string: two labels would be one
            raise DataError(
                f"{self.reader.path}: expected labels without NUL characters, found {odd[:40]!r}"
            )
        return integers_or_strings(names) if self.reader.spells_labels else array_of_strings(names)


def integers_or_strings(labels: list[str]) -> np.ndarray:
    """Return int64 if every label is a plainly spelled integer ("7", not "007"), else str."""
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        return array_of_strings(labels)
    if all(str(number) == label for number, label in zip(numbers, labels)):
        try:
            return np.array(numbers, dtype=np.int64)
        except OverflowError:
            pass
    return array_of_strings(labels)


def total(facts: Iterable[Facts]) -> Facts:
    """Put the facts of all chunks together."""
    found: Facts = {}
    for fact in facts:
        for name, value in fact.items():
            if name in COUNTED:
                found[name] = found.get(name, 0) + value
            elif name == "lowest":
                found[name] = min(found.get(name, value), value)
            else:
                found[name] = max(found.get(name, value), value)
    return found
