"""The forms of data files, one entry each: who reads it, and how it is told from the others.

`read`, the guess of a form and the command line know no more than this table;
``docs/extending/data-form.md`` shows how to add to it.  Nothing heavy is imported here, since
``bigcat --help`` lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.data.dataset import Dataset
    from bigcat.data.parts import PartsReader

Reader = Callable[..., "Dataset"]


@dataclass(frozen=True)
class Form:
    r"""A form of data files.

    Parameters
    ----------
    name : str
    reader : str or callable
        The function that reads it, or ``"module:function"``, which is imported when first used.
        It is called with the path, for messages, the file's bytes, already unzipped, and keyword
        arguments: ``n_features``, the number of columns to insist on or None, and `options`.
    suffixes : tuple of str
        Endings of file names that say which form it is.
    first_line : str
        A regular expression that a whole first line fits, where the name says nothing; the empty
        one fits none.
    options : tuple of str
        Parameters of `bigcat.data.read` that it takes.  ``columns`` is one of tables,
        ``vectorizer`` alone of text.
    parts : str, callable or None
        A `bigcat.data.parts.PartsReader` for `bigcat.data.convert`; None for a form that cannot be
        read in parts.
    labelled : str, callable or None
        Turns the bytes of a file without labels into one whose rows all have the label 0, for
        ``bigcat predict --no-labels``; None where there is no such thing, and for tables, whose
        reader takes ``labelled=False``.

    Examples
    --------
    >>> from bigcat.data.forms import FORMS
    >>> FORMS["svmlight"].suffixes
    ('.svm', '.svmlight', '.libsvm')
    >>> [name for name, form in FORMS.items() if form.is_text]
    ['tsv']
    """

    name: str
    reader: str | Reader
    suffixes: tuple[str, ...] = ()
    first_line: str = ""
    options: tuple[str, ...] = ()
    labelled: str | Callable[[bytes], bytes] | None = None
    parts: str | Callable[..., PartsReader] | None = None

    @property
    def is_text(self) -> bool:
        """Is a row one text, which a vectoriser turns into features?"""
        return "vectorizer" in self.options and not self.is_table

    @property
    def is_table(self) -> bool:
        """Does a row have columns with names?"""
        return "columns" in self.options

    def read(self, path: Any, raw: bytes, **options: Any) -> Dataset:
        dataset: Dataset = _function(self.reader)(path, raw, **options)
        return dataset

    def parts_reader(self, **options: Any) -> PartsReader:
        """Reads files of the form in parts; ValueError where that cannot be done."""
        if self.parts is None:
            able = ", ".join(form.name for form in FORMS.values() if form.parts is not None)
            raise ValueError(f"files of the form {self.name} cannot be converted, but {able} can")
        reader: PartsReader = _function(self.parts)(**options)
        return reader

    def fits(self, line: bytes) -> bool:
        """Could it be the first line of such a file?"""
        pattern = self.first_line.encode()
        return bool(pattern) and re.fullmatch(pattern, line, re.DOTALL) is not None

    def with_labels(self, raw: bytes) -> bytes:
        """A file without labels as one that `read` takes; ValueError where there is none."""
        if self.labelled is None:
            raise ValueError(f"files of the form {self.name} always have labels")
        labelled: bytes = _function(self.labelled)(raw)
        return labelled


def _function(found: str | Callable[..., Any]) -> Callable[..., Any]:
    if callable(found):
        return found
    module, _, name = found.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


_OF_TABLES = (
    "label_column",
    "group_column",
    "categorical",
    "text_columns",
    "vectorizer",
    "columns",
    "labelled",
)
#: Forms by name; where several would fit a first line, `bigcat.data.read` asks.
FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form(
            "xc",
            reader="bigcat.data.sparse_text:read_xc",
            suffixes=(".xc",),
            first_line=r"\s*\d+\s+\d+\s+\d+\s*",
            options=("label",),
            labelled="bigcat.data.unlabelled:xc",
            parts="bigcat.data.parts:XcParts",
        ),
        Form(
            "svmlight",
            reader="bigcat.data.sparse_text:read_svmlight",
            suffixes=(".svm", ".svmlight", ".libsvm"),
            first_line=r"\s*[+-]?\d+(,[+-]?\d+)*(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?",
            options=("label", "zero_based"),
            labelled="bigcat.data.unlabelled:svmlight",
            parts="bigcat.data.parts:SvmlightParts",
        ),
        Form(
            "tsv",
            reader="bigcat.data.text:read_tsv",
            suffixes=(".tsv",),
            first_line=r"[^\t]+\t.+",
            options=("vectorizer",),
            labelled="bigcat.data.unlabelled:tsv",
            parts="bigcat.data.parts:TsvParts",
        ),
        Form(
            "npz",
            reader="bigcat.data.arrays:read_npz",
            suffixes=(".npz",),
            first_line=r"PK\x03\x04.*",
            options=("max_bytes",),
            labelled="bigcat.data.unlabelled:npz",
        ),
        Form(
            "csv",
            reader="bigcat.data.csv_tables:read_csv",
            suffixes=(".csv",),
            first_line=r"[^\t:]+,[^\t:]*",
            options=_OF_TABLES,
            parts="bigcat.data.parts:CsvParts",
        ),
        Form(
            "parquet",
            reader="bigcat.data.parquet:read_parquet",
            suffixes=(".parquet",),
            first_line=r"PAR1.*",
            options=(*_OF_TABLES, "max_bytes"),
            parts="bigcat.data.parquet:ParquetParts",
        ),
    )
}
