"""The forms of data files, one entry each: which class reads it, and how to recognise it.

`read`, `convert`, the guess of a form and the command line know no more than this table;
``docs/extending/data-form.md`` shows how to add to it.  Nothing heavy is imported here, since
``bigcat --help`` lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.data.reading import Reader


@dataclass(frozen=True)
class Form:
    r"""Form of data files.

    Parameters
    ----------
    name : str
    reader : str or callable
        A `bigcat.data.reading.Reader`, or ``"module:class"``, which is imported when first used.
        It is called with the path and keyword arguments: ``n_features``, the number of columns to
        insist on or None, and `options`.
    suffixes : tuple of str
        Endings of file names.
    first_line : str
        Regular expression for a whole first line, used if the name says nothing; the empty one
        fits none.
    options : tuple of str
        Parameters of `bigcat.data.read` that the reader takes.  ``columns`` marks tables,
        ``vectorizer`` alone marks text, ``labelled`` forms that can lack labels.
    in_parts : bool
        Whether `bigcat.data.convert` takes the form.

    Examples
    --------
    >>> from bigcat.data.forms import FORMS
    >>> FORMS["svmlight"].suffixes
    ('.svm', '.svmlight', '.libsvm')
    >>> [name for name, form in FORMS.items() if form.is_text]
    ['tsv']
    """

    name: str
    reader: str | Callable[..., Reader]
    suffixes: tuple[str, ...] = ()
    first_line: str = ""
    options: tuple[str, ...] = ()
    in_parts: bool = True

    @property
    def is_text(self) -> bool:
        """True if a row is one text, which a vectoriser turns into features."""
        return "vectorizer" in self.options and not self.is_table

    @property
    def is_table(self) -> bool:
        """True if a row has columns with names."""
        return "columns" in self.options

    def open_reader(self, path: Path, **options: Any) -> Reader:
        """Return a reader of a file."""
        reader = self.reader
        if isinstance(reader, str):
            module, _, name = reader.partition(":")
            reader = getattr(import_module(module), name)
        return reader(path, **options)

    def fits(self, line: bytes) -> bool:
        """Return True if it could be the first line of such a file."""
        pattern = self.first_line.encode()
        return bool(pattern) and re.fullmatch(pattern, line, re.DOTALL) is not None


_WORDS = ("categorical", "text_columns", "vectorizer", "columns")
_OF_TABLES = ("label_column", "group_column", *_WORDS, "labelled")
_SPARSE = ("labelled", "zero_based")
_SVMLIGHT = r"\s*[+-]?\d+(,[+-]?\d+)*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?"
_HERE = "bigcat.data."
_ALL = (
    Form("xc", _HERE + "sparse_text:XcReader", (".xc",), r"\s*\d+\s+\d+\s+\d+\s*", _SPARSE[:1]),
    Form(
        "svmlight",
        _HERE + "sparse_text:SvmlightReader",
        (".svm", ".svmlight", ".libsvm"),
        _SVMLIGHT,
        _SPARSE,
    ),
    Form("tsv", _HERE + "text:TsvReader", (".tsv",), r"[^\t]+\t.+", ("vectorizer", "labelled")),
    Form("npz", _HERE + "arrays:NpzReader", (".npz",), r"PK\x03\x04.*", ("labelled",), False),
    Form("csv", _HERE + "tables:CsvReader", (".csv",), r"[^\t:]+,[^\t:]*", _OF_TABLES),
    Form("parquet", _HERE + "tables:ParquetReader", (".parquet",), r"PAR1.*", _OF_TABLES),
)
#: Forms by name; if several fit a first line, `bigcat.data.read` asks.
FORMS: dict[str, Form] = {form.name: form for form in _ALL}
