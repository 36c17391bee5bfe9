"""Tables in csv and Parquet: numbers as they are, words by a scikit-learn ColumnTransformer.

Columns go by their names.  A table that is read for a fitted model has to have the columns that the
model's transformer was fitted on, in any order.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from bigcat._system import require
from bigcat.data.dataset import DataError, check_columns, error_at
from bigcat.data.opening import too_large, unpacked_limit
from bigcat.data.reading import Chunk, Facts, LinesReader, Reader, Text
from bigcat.data.text import as_float32, default_vectorizer, nothing_left

#: Default name of the column of labels.
LABEL = "label"
#: Names of transformers of a ColumnTransformer.
NUMBERS, CATEGORIES = "numbers", "categories"
_REMEDY = "; add what is missing, or fit a model without"
_NUMBER_BYTES, _BATCH_ROWS, _MAX_HEADER_BYTES = 8, 1 << 16, 1 << 24
_BAD_VALUE = re.compile(
    r"In CSV column #(\d+): Row #(\d+): CSV conversion error to \w+: invalid value '(.*)'",
    re.DOTALL,
)
_BAD_ROW = re.compile(r"Row #(\d+): (.*)", re.DOTALL)

#: Describes where a row of a table is.
Place = Callable[[int], str]


def require_pyarrow() -> Any:
    """Return pyarrow; ImportError names the extra that brings it."""
    for library in ("pandas", "pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        require(library, "csv and Parquet files need", "tables")
    return sys.modules["pyarrow"]


class TableReader(Reader):
    """Reader of rows with named columns.

    Parameters
    ----------
    label_column : str or int, optional
    group_column : str, optional
    categorical, text_columns : sequence of str
    vectorizer : scikit-learn vectoriser, optional
    columns : ColumnTransformer, optional
        As in `bigcat.data.read`.
    in_parts : bool
        True if the table is never in memory as a whole, so that words cannot be encoded, but for
        one column of text alone.
    """

    def __init__(
        self,
        path: Path,
        *,
        label_column: str | int | None = None,
        group_column: str | None = None,
        categorical: Iterable[str] = (),
        text_columns: Iterable[str] = (),
        vectorizer: Any = None,
        columns: Any = None,
        in_parts: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(path, **options)
        self.pa = require_pyarrow()
        self.label_column, self.group_column, self.in_parts = label_column, group_column, in_parts
        self.categorical, self.text_columns = _names(categorical), _names(text_columns)
        self.vectorizer, self.transformer = vectorizer, columns
        if both := {*self.categorical} & {*self.text_columns}:
            raise ValueError(
                f"{path}: categorical= and text_columns= both name {_some(sorted(both))}; leave "
                "it out of one of them"
            )
        if vectorizer is not None and not self.text_columns:
            raise ValueError(
                f"{path}: vectorizer= is for text, and text_columns= names no column of the table; "
                "name one, or leave vectorizer= out"
            )
        self.is_text = in_parts and bool(self.text_columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "pa": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, pa=require_pyarrow())

    def choose(self, header: Sequence[str]) -> None:
        """Choose the treatment of each column."""
        if twice := [name for name, times in Counter(header).items() if times > 1]:
            found = f"{_some(twice)} more than once; rename one of them"
            raise self.wrong("each name of a column once", found)
        if odd := [name for name in header if "\0" in name]:  # which pandas does not find
            raise self.wrong("names of columns without NUL characters", _some(odd))
        self.label = self._label_among(header)
        if self.group_column is not None and self.group_column not in header:
            raise self._missing("the column that group_column= names", [self.group_column], header)
        features = [name for name in header if name not in (self.label, self.group_column)]
        self.words = (*self.categorical, *self.text_columns)
        self.not_used: list[str] = []
        if self.transformer is not None:
            known, wanted = set(features), self.transformer.feature_names_in_.tolist()
            if missing := [name for name in wanted if name not in known]:
                raise self._missing("the columns of the training data", missing, header, _REMEDY)
            known = set(wanted)
            self.not_used = [name for name in features if name not in known]
            features, self.words = wanted, tuple(words_of(self.transformer))
        if missing := [name for name in self.words if name not in features]:
            what = "the columns that categorical= and text_columns= name"
            raise self._missing(what, missing, header)
        self.features = features
        self.numbers = [name for name in features if name not in self.words]
        if not features:
            raise self.wrong("columns beside the labels", "none")
        if self.in_parts and self.words and (self.categorical or features != [*self.words]):
            found = f"{_some(features)}; only `read` encodes words among numbers"
            raise self.wrong("numbers, or one column of text, beside the labels", found)

    def _label_among(self, header: Sequence[str]) -> str | None:
        """Return the name of the column of labels; None for a table that may lack one."""
        given = self.label_column
        if isinstance(given, int):
            if not -len(header) <= given < len(header):
                raise error_at(self.path, 1, f"more than {given} columns", len(header))
            return header[given]
        name = LABEL if given is None else given
        if name in header:
            return name
        if not self.labelled:
            return None
        expected = f"one column {name!r} (label_column= names another)"
        raise error_at(self.path, 1, expected, f"the header {_some(header)}")

    def _missing(
        self, what: str, names: Sequence[str], header: Sequence[str], remedy: str = ""
    ) -> DataError:
        return self.wrong(what, f"no {_some(names)} in the header {_some(header)}{remedy}")

    @property
    def read_columns(self) -> list[str]:
        """Names of the columns that are read at all."""
        others = [name for name in (self.label, self.group_column) if name is not None]
        return [*self.features, *others]

    def chunk(self, table: Any, place: Place) -> Chunk:
        """Return rows of an Arrow table, without those that have no label."""
        n_rows = table.num_rows
        codes: np.ndarray = np.zeros(n_rows, np.int64)
        names: list[Any] = [0]
        facts = {"columns": len(self.numbers)}
        numbers = [self._as_numbers(name, table.column(name), place) for name in self.numbers]
        if self.labelled:
            codes, names = self._labels(table.column(self.label))
            if "" in names:
                empty = names.index("")
                kept = codes != empty
                facts["rows_without_label"] = int((~kept).sum())
                table, codes = table.filter(self.pa.array(kept)), codes[kept]
                numbers = [values[kept] for values in numbers]
                codes = codes - (codes > empty)
                del names[empty]
        if self.is_text:
            return Chunk(_words(self.pa, table.column(self.words[0])), codes, names, facts)
        if self.words or self.group_column is not None:
            return Chunk(table, codes, names, facts)
        return Chunk(np.column_stack(numbers), codes, names, facts)

    def _as_numbers(self, name: str, column: Any, place: Place) -> np.ndarray:
        """Return a column as finite float32."""
        types, kind = self.pa.types, column.type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            found = f"{kind}; categorical= or text_columns= encode words"
            raise self.wrong(f"numbers in column {name!r}", found)
        if kind != self.pa.float32():
            column = column.cast(self.pa.float64(), safe=False)
        values = column.to_numpy()
        with np.errstate(over="ignore"):
            numbers: np.ndarray = values.astype(np.float32, copy=False)
        if not np.isfinite(numbers).all():
            row = int(np.isfinite(numbers).argmin())
            expected = f"a finite number that fits a float32 in column {name!r}"
            raise self.wrong(expected, values[row], place(row))
        return numbers

    def _labels(self, column: Any) -> tuple[np.ndarray, list[str]]:
        types, kind = self.pa.types, column.type
        if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
            raise self.wrong("labels of text or numbers", kind)
        words = column.cast(self.pa.string()).fill_null("").combine_chunks().dictionary_encode()
        return words.indices.to_numpy(), words.dictionary.to_pylist()

    def encode(self, tables: Sequence[Any]) -> tuple[Any, Any, np.ndarray | None, dict[str, int]]:
        """Return features, the fitted transformer, groups, and rows with unknown categories."""
        X, transformer, groups, unknown = self._encoded(tables)
        check_columns(self.path, X.shape[1], self.n_features)
        return as_float32(X), transformer, groups, unknown

    def _encoded(self, tables: Sequence[Any]) -> tuple[Any, Any, Any, dict[str, int]]:
        table = self.pa.concat_tables(tables)
        for name in (*self.words, *filter(None, [self.group_column])):
            words = self.pa.array(_words(self.pa, table.column(name)), self.pa.string())
            table = table.set_column(table.column_names.index(name), name, words)
        frame = table.select(self.features).to_pandas()
        frame = frame.astype(dict.fromkeys(self.numbers, np.float32))
        groups = None
        if self.group_column is not None:
            groups = np.array(table.column(self.group_column).to_pylist(), object)
        unknown = {}
        if self.transformer is not None:
            for name, values in categories_of(self.transformer).items():
                if n := int((~frame[name].isin(values)).sum()):
                    unknown[name] = n
            return self.transformer.transform(frame), self.transformer, groups, unknown
        transformer = column_transformer(
            self.numbers, self.categorical, self.text_columns, self.vectorizer
        )
        try:
            X = transformer.fit_transform(frame)
        except ValueError as error:
            raise nothing_left(self.path, len(frame), error) from error
        return X, transformer, groups, unknown

    def report(self, facts: Facts) -> dict[str, Any]:
        found = {**super().report(facts), "label_column": self.label or LABEL}
        return found | ({"columns_not_used": self.not_used} if self.not_used else {})

    def columns(self, facts: Facts) -> tuple[int, int]:
        if not self.words:
            check_columns(self.path, len(self.features), self.n_features)
        return 0, len(self.features)


class CsvReader(TableReader, LinesReader):
    """Reader of csv with a header, by `pyarrow.csv`."""

    def head(self, file: IO[bytes]) -> None:
        lines, n_quotes, n_bytes = [], 1, 0
        while n_quotes % 2 and n_bytes < _MAX_HEADER_BYTES:
            line = file.readline(_MAX_HEADER_BYTES)
            lines.append(line)
            n_quotes += line.count(b'"') + (not n_bytes)
            n_bytes += len(line) or _MAX_HEADER_BYTES
        raw = b"".join(lines)
        piece = Text(raw, 1)
        self._check(piece)
        try:
            self.header = next(csv.reader([self.decoded(piece)], strict=True))
        except csv.Error as error:
            raise error_at(self.path, 1, "comma-separated names of columns", error) from error
        self.choose(self.header)
        self.first_line = 1 + raw.count(b"\n")

    def is_whole(self, raw: bytes) -> bool:
        return raw.count(b'"') % 2 == 0

    def parse(self, piece: Text) -> Chunk:
        arrow, words = self.pa.csv, {*self.words, self.label, self.group_column}
        if not self.is_whole(piece.raw):
            line = piece.first_line
            raise error_at(self.path, line, "quotes in pairs from here on", "an odd number of them")
        types = {
            name: self.pa.string() if name in words else self.pa.float32() for name in self.header
        }
        try:
            table = arrow.read_csv(
                self.pa.BufferReader(piece.raw),
                read_options=arrow.ReadOptions(
                    column_names=self.header, use_threads=False, block_size=len(piece.raw) + 1
                ),
                parse_options=arrow.ParseOptions(newlines_in_values=True),
                convert_options=arrow.ConvertOptions(
                    column_types=types,
                    include_columns=self.read_columns,
                    null_values=[],
                    strings_can_be_null=False,
                ),
            )
        except self.pa.ArrowInvalid as error:
            raise self._as_data_error(piece, str(error)) from error
        return self.chunk(table, lambda row: f", line {_line_of(piece, row)}")

    def _as_data_error(self, piece: Text, message: str) -> DataError:
        if found := _BAD_VALUE.search(message):
            name, value = self.header[int(found[1])], found[3]
            remedy = f"; categorical= or text_columns= encode {name!r}" if value.strip() else ""
            line = _line_of(piece, int(found[2]) - 1)
            return error_at(
                self.path, line, f"a number in column {name!r}", f"{value[:40]!r}{remedy}"
            )
        if found := _BAD_ROW.search(message):
            line = _line_of(piece, int(found[1]) - 1)
            return DataError(f"{self.path}, line {line}: {found[2][:200]}")
        return DataError(f"{self.path}: expected a table in csv: {message[:200]}")


def _line_of(piece: Text, row: int) -> int:
    """Return the line of the file in which a row of a piece begins; blank lines are no rows."""
    lines = io.StringIO(piece.raw.decode("utf-8", "replace"), newline="")
    reader = csv.reader(lines)
    before = 0
    for fields in reader:
        row -= bool(fields)
        if row < 0:
            break
        before = reader.line_num
    return piece.first_line + before


class ParquetReader(TableReader):
    """Reader of Parquet, by `pyarrow.parquet`."""

    def pieces(self, file: IO[Any], max_bytes: int | None = None) -> Iterator[Any]:
        source = getattr(file, "name", None) or io.BytesIO(file.read())
        size = Path(source).stat().st_size if isinstance(source, str) else len(source.getbuffer())
        with self._errors():
            table = self.pa.parquet.ParquetFile(
                source, page_checksum_verification=True, pre_buffer=False
            )
            header, metadata = table.schema_arrow.names, table.metadata
        # pyarrow allocates for the rows that a row group claims.  What it knows of their columns
        # must not be looked at: if that is damaged, it ends the process.
        claimed = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if sum(claimed) != metadata.num_rows or min(claimed, default=0) < 0:
            some = ", ".join(map(str, claimed[:10])) + ", ..." * (len(claimed) > 10)
            found = f"row groups of {some}; is the file damaged?"
            raise self.wrong(f"{metadata.num_rows} rows", found)
        limit = unpacked_limit(size, max_bytes)
        if _NUMBER_BYTES * metadata.num_rows * len(header) > limit:
            raise too_large(self.path, limit)
        self.choose(header)
        first = 0
        with self._errors():
            for batch in table.iter_batches(
                _BATCH_ROWS, columns=self.read_columns, use_threads=False
            ):
                batch.validate(full=True)
                yield first, batch
                first += batch.num_rows
        if first != metadata.num_rows:
            raise self.wrong(f"{metadata.num_rows} rows", first)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn pyarrow's errors into one that names the file."""
        try:
            yield
        except (self.pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{self.path}: expected a Parquet file: {error}") from error

    def parse(self, piece: Any) -> Chunk:
        first, batch = piece
        table = self.pa.Table.from_batches([batch])
        return self.chunk(table, lambda row: f", row {first + row + 1}")


def column_transformer(
    numbers: Sequence[str],
    categorical: Sequence[str] = (),
    text_columns: Sequence[str] = (),
    vectorizer: Any = None,
) -> Any:
    """Return a ColumnTransformer that turns columns of a data frame into features.

    Numbers alone pass as they are.  Beside words they are scaled, so that they count like words.
    """
    from sklearn.base import clone
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    words = bool(categorical or text_columns)
    parts: list[Any] = [(NUMBERS, StandardScaler() if words else "passthrough", list(numbers))]
    if categorical:
        one_hot = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
        parts.append((CATEGORIES, one_hot, list(categorical)))
    vectorizer = default_vectorizer() if vectorizer is None else vectorizer
    for name in text_columns:
        parts.append((f"text {name}".replace("__", "_"), clone(vectorizer), name))
    return ColumnTransformer(parts, sparse_threshold=1.0, verbose_feature_names_out=words)


def numbers_only(names: Sequence[str]) -> Any:
    """Return the fitted ColumnTransformer of a table of numbers."""
    import pandas

    one_row = pandas.DataFrame(np.zeros((1, len(names)), np.float32), columns=list(names))
    return column_transformer(names).fit(one_row)


def words_of(transformer: Any) -> list[str]:
    """Return the columns of words of a ColumnTransformer."""
    found: list[str] = []
    for name, _, columns in transformer.transformers:
        if name != NUMBERS:
            found += _names(columns)
    return found


def categories_of(transformer: Any) -> dict[str, np.ndarray]:
    """Return the known values of each categorical column."""
    encoder = transformer.named_transformers_.get(CATEGORIES)
    return {} if encoder is None else dict(zip(encoder.feature_names_in_, encoder.categories_))


def _words(pa: Any, column: Any) -> list[str]:
    return column.cast(pa.string()).fill_null("").to_pylist()  # type: ignore[no-any-return]


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *["..."] * (len(names) > 5)])
