"""One entry point for every file form."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bigcat.data.dataset import DataError, Dataset
from bigcat.data.forms import FORMS
from bigcat.data.shards import Shards, open_shards
from bigcat.data.unpack import GZIP_MAGIC, gunzip, gzip_errors

if TYPE_CHECKING:
    from bigcat.data.tables import TableEncoder

#: Bytes that tell the form of a file.
_HEAD_BYTES = 100_000


def read(
    path: str | PathLike[str],
    form: str | None = None,
    *,
    label: Literal["first", "single"] = "first",
    n_features: int | None = None,
    vectorizer: Any = None,
    zero_based: bool | Literal["auto"] = "auto",
    label_column: str | int | None = None,
    group_column: str | None = None,
    categorical: Iterable[str] = (),
    text_columns: Iterable[str] = (),
    columns: TableEncoder | None = None,
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
    label : {"first", "single"}
        xc and svmlight rows with several labels: take the first one, or drop such rows.
        Either way the report counts them.
    n_features : int, optional
        How many columns the file must have. svmlight does not say how many there are, so that a
        test file needs the training file's number here.
    vectorizer : scikit-learn vectoriser, optional
        tsv, and `text_columns` of tables: a fitted one is used as it is (for a test file of tsv:
        ``train.vectorizer``), one that is not fitted is copied and fitted. Default: tf-idf of
        lower-case words ``\w+`` that occur in at least two rows, rows of unit length.
    zero_based : bool or "auto"
        svmlight: whether indices count from 0. "auto" takes a file without any index 0 to count
        from 1.
    label_column : str or int, optional
        csv and Parquet: the column that holds the labels, by default the one named ``label``, or
        that of `columns`.
    group_column : str, optional
        csv and Parquet: a column that says which rows belong together, such as those of one person.
        It is no feature; ``fit(..., groups=dataset.groups)`` holds out whole groups.
    categorical, text_columns : sequence of str
        csv and Parquet: columns of words, by name.  A categorical one becomes a feature per value,
        one of text what the vectoriser makes of it.  The rows are then sparse, and columns of
        numbers are scaled.
    columns : TableEncoder, optional
        csv and Parquet: how the columns of another table became features (for a test file:
        ``train.columns``).  Columns are matched by name, in any order.  One that is missing is an
        error; others are left out, and named in ``report["columns_not_used"]``.
    labelled : bool
        csv and Parquet: False for a table that may have no labels: each row has the label 0.
    max_bytes : int, optional
        How large a gzipped file, an ``.npz`` archive or a Parquet table may become when it is
        unpacked.  Default: 100 times its size, or 256 MiB if that is more.

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
        "label": (label, "first"),
        "vectorizer": (vectorizer, None),
        "zero_based": (zero_based, "auto"),
        "label_column": (label_column, None),
        "group_column": (group_column, None),
        "categorical": (categorical, ()),
        "text_columns": (text_columns, ()),
        "columns": (columns, None),
        "labelled": (labelled, True),
    }
    return read_file(path, form, options, n_features=n_features, max_bytes=max_bytes)


def read_file(
    path: Path,
    form: str | None = None,
    options: dict[str, tuple[Any, Any]] | None = None,
    *,
    n_features: int | None = None,
    max_bytes: int | None = None,
    raw: bytes | None = None,
) -> Dataset:
    """`read` for a file, with values and defaults of options by name; or for its bytes."""
    raw = read_bytes(path, max_bytes) if raw is None else unpacked(path, raw, max_bytes)
    form = form or guess_form(path, raw)
    used = {"n_features": n_features, **used_options(form, path, options or {})}
    if "max_bytes" in FORMS[form].options:
        used["max_bytes"] = max_bytes
    dataset = FORMS[form].read(path, raw, **used)
    if not len(dataset):
        raise DataError(f"{path}: expected labelled rows, found none")
    dataset.report["file"] = str(path)
    return dataset


def check_form(form: str | None) -> None:
    """Raise for the name of no form."""
    if form is not None and form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")


def used_options(form: str, path: Path, options: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Those that the form takes, of values and defaults by name; ValueError for others."""
    used = {}
    for name, (value, default) in options.items():
        if name in FORMS[form].options:
            used[name] = value
        elif value is not default and value != default:
            takers = [taker.name for taker in FORMS.values() if name in taker.options]
            raise ValueError(
                f"{name}= is an option of {' and '.join(takers)}, "
                f"and {path} was read as {form}; form= says otherwise"
            )
    return used


def form_of_file(path: Path) -> str:
    """The form that name or first line tell, of a file that need not fit into memory."""
    with open(path, "rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    with gzip_errors(path), gzip.open(path) if packed else open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        raise DataError(f"{path}: the file is empty")
    return guess_form(path, head)


def read_bytes(path: Path, max_bytes: int | None = None) -> bytes:
    """The file's bytes, unzipped; never empty."""
    return unpacked(path, path.read_bytes(), max_bytes)


def unpacked(path: Path, raw: bytes, max_bytes: int | None = None) -> bytes:
    """Bytes that were read, unzipped; never empty."""
    if path.suffix == ".gz" or raw.startswith(GZIP_MAGIC):
        raw = gunzip(path, raw, max_bytes)
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    return raw


def guess_form(path: Path, raw: bytes) -> str:
    """The form that the file's name states, else the one that its first line fits."""
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    for form in FORMS.values():
        if suffix in form.suffixes:
            return form.name
    first = raw[:_HEAD_BYTES].lstrip(b"\r\n").partition(b"\n")[0].rstrip(b"\r")
    fitting = [form.name for form in FORMS.values() if form.fits(first)]
    if len(fitting) == 1:
        return fitting[0]
    could_be = " or ".join(fitting) if fitting else "no known form"
    shown = first[:40].decode("utf-8", "backslashreplace")
    raise DataError(
        f"{path}: cannot tell its form: the name does not say and the first line {shown!r} "
        f"fits {could_be}; pass form= (one of {', '.join(FORMS)})"
    )
