"""One entry point for every file form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset, check_columns, labels_of_rows, make_dataset
from bigcat.data.forms import FORMS
from bigcat.data.opening import opened
from bigcat.data.reading import Labels, total
from bigcat.data.shards import Shards, open_shards

#: Bytes of a file that its form is told by.
_HEAD_BYTES = 100_000


def read(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    n_features: int | None = None,
    vectorizer: Any = None,
    zero_based: bool | Literal["auto"] = "auto",
    label_column: str | int | None = None,
    group_column: str | None = None,
    categorical: Iterable[str] = (),
    text_columns: Iterable[str] = (),
    columns: Any = None,
    labelled: bool = True,
    max_bytes: int | None = None,
) -> Dataset | Shards:
    r"""Read a labelled data file, plain or gzipped, or open a folder of converted rows.

    Parameters
    ----------
    path : path
        The file, of which gzip is recognised by its first bytes; or a folder that
        `bigcat.data.convert` made.
    form : {"xc", "svmlight", "tsv", "npz", "csv", "parquet"}, optional
        Guessed from the name, then from the first line, unless given.
    n_features : int, optional
        How many columns the file must have. svmlight does not say how many there are, so that a
        test file needs the training file's number here.
    vectorizer : scikit-learn vectoriser, optional
        tsv, and `text_columns` of tables.  tsv uses a fitted one as it is (for a test file:
        ``train.vectorizer``); others are copied and fitted.  Default: tf-idf of lower-case words
        ``\w+`` that occur in at least two rows, rows of unit length.
    zero_based : bool or "auto"
        svmlight: whether indices count from 0. "auto" takes a file without any index 0 to count
        from 1.
    label_column : str or int, optional
        csv and Parquet: name or position of the column of labels, by default ``label``.
    group_column : str, optional
        csv and Parquet: the column of groups, such as persons.  It is not a feature;
        ``fit(..., groups=dataset.groups)`` holds out whole groups.
    categorical, text_columns : sequence of str
        csv and Parquet: columns of words, by name.  A categorical one becomes a feature per value,
        a text one becomes the features of the vectoriser.  The rows are then sparse, and columns
        of numbers are scaled.
    columns : sklearn.compose.ColumnTransformer, optional
        csv and Parquet: the fitted transformer of another table (for a test file:
        ``train.columns``).  Columns are matched by name, in any order.  A missing one is an error;
        others are left out and named in ``report["columns_not_used"]``.
    labelled : bool
        False for a file that may lack labels: every row has the label 0, and a line of tsv is all
        text.
    max_bytes : int, optional
        Largest size to which a gzipped file, an ``.npz`` archive or a Parquet table may unpack.
        Default: 100 times its size, or 256 MiB if that is more.

    Returns
    -------
    Dataset, or Shards for a folder
        Rows without a label are dropped and counted in ``report``.

    Raises
    ------
    DataError
        A ValueError with file, line, and what was expected against what was found.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bigcat.data import read
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.txt"
    >>> _ = path.write_text("3 4 2\n1 0:1 3:0.5\n0,1 2:1\n 1:1\n")
    >>> pets = read(path)
    >>> pets
    Dataset(2 rows, 4 features (1.5 per row), 2 classes)
    >>> pets.report["multi_label_rows"], pets.report["rows_without_label"]
    (1, 1)
    """
    path = Path(path)
    check_form(form)
    if path.is_dir():
        return open_shards(path)
    options = {
        "vectorizer": (vectorizer, None),
        "zero_based": (zero_based, "auto"),
        "label_column": (label_column, None),
        "group_column": (group_column, None),
        "categorical": (categorical, ()),
        "text_columns": (text_columns, ()),
        "columns": (columns, None),
        "labelled": (labelled, True),
    }
    return read_file(
        path, form, n_features=n_features, max_bytes=max_bytes, **given_options(options)
    )


def given_options(options: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Return the options whose value is not the default, from pairs of value and default."""
    return {
        name: value
        for name, (value, default) in options.items()
        if value is not default and not (isinstance(value, type(default)) and value == default)
    }


def read_file(
    path: Path,
    form: str | None = None,
    *,
    raw: bytes | None = None,
    n_features: int | None = None,
    max_bytes: int | None = None,
    **options: Any,
) -> Dataset:
    """Read a file, or the bytes `raw` of one, with the options of `read` that differ from theirs.

    ValueError for an option of another form.
    """
    form = form or form_of_file(path, raw, max_bytes)
    check_options(form, path, options)
    vectorizer = options.pop("vectorizer", None) if FORMS[form].is_text else None
    reader = FORMS[form].open_reader(path, n_features=n_features, **options)
    with opened(path, raw, max_bytes) as file:
        chunks = [reader.parse(piece) for piece in reader.pieces(file, max_bytes)]
    facts = total(chunk.facts for chunk in chunks)
    labels = Labels(reader)
    codes = [labels.codes(chunk.codes, chunk.names) for chunk in chunks]
    first, n_columns = reader.columns(facts) if chunks and not reader.is_text else (0, 0)
    y = labels_of_rows(labels.values(), np.concatenate([np.zeros(0, np.int64), *codes]))
    parts = [chunk.X for chunk in chunks]
    report = {**reader.report(facts), "file": str(path)}
    if reader.is_text:
        from bigcat.data.text import vectorize

        X, vectorizer = vectorize(path, [text for texts in parts for text in texts], vectorizer)
        check_columns(path, X.shape[1], n_features)
        return make_dataset(X, y, form, vectorizer, **report)
    if FORMS[form].is_table:
        return _of_table(form, reader, parts, y, report)
    if not sp.issparse(parts[0]):
        return make_dataset(stacked(parts), y, form, **report)
    X = sp.csr_matrix(stacked(parts))
    X = sp.csr_matrix((X.data, X.indices - first, X.indptr), shape=(X.shape[0], n_columns))
    X.has_canonical_format = True  # as readers check
    return make_dataset(X, y, form, **report)


def _of_table(
    form: str, reader: Any, parts: list[Any], y: np.ndarray, report: dict[str, Any]
) -> Dataset:
    """Return the data set of a table, whose words are encoded here."""
    from bigcat.data.tables import numbers_only

    if isinstance(parts[0], np.ndarray):
        transformer = reader.transformer or numbers_only(reader.features)
        return replace(make_dataset(stacked(parts), y, form, **report), columns=transformer)
    X, transformer, groups, unknown = reader.encode(parts)
    if unknown:
        report["unknown_categories"] = unknown
    return replace(make_dataset(X, y, form, **report), columns=transformer, groups=groups)


def stacked(parts: Sequence[Any]) -> Any:
    """Put rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def check_form(form: str | None) -> None:
    """Raise for an unknown form."""
    if form is not None and form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def check_options(form: str, path: Path, options: Iterable[str]) -> None:
    """Raise for options of other forms."""
    for name in options:
        if name not in FORMS[form].options:
            takers = [taker.name for taker in FORMS.values() if name in taker.options]
            raise ValueError(
                f"{name}= is an option of {' and '.join(takers)}, "
                f"and {path} was read as {form}; form= says otherwise"
            )


def form_of_file(path: Path, raw: bytes | None = None, max_bytes: int | None = None) -> str:
    """Return the form that the file's name states, else the one that its first line fits."""
    with opened(path, raw, max_bytes) as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        raise DataError(f"{path}: the file is empty")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    for form in FORMS.values():
        if suffix in form.suffixes:
            return form.name
    first = head.lstrip(b"\r\n").partition(b"\n")[0].rstrip(b"\r")
    fitting = [form.name for form in FORMS.values() if form.fits(first)]
    if len(fitting) == 1:
        return fitting[0]
    could_be = " or ".join(fitting) if fitting else "no known form"
    shown = first[:40].decode("utf-8", "backslashreplace")
    raise DataError(
        f"{path}: cannot tell its form: the name does not say and the first line {shown!r} "
        f"fits {could_be}; pass form= (one of {', '.join(FORMS)})"
    )
