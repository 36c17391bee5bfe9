"""One entry point for every file form."""

from __future__ import annotations

import gzip
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from bigcat.data.dataset import DataError, Dataset
from bigcat.data.forms import FORMS
from bigcat.data.shards import Shards, open_shards
from bigcat.data.unpack import GZIP_MAGIC, gunzip, gzip_errors

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
        tsv: a fitted one is used as it is (for a test file: ``train.vectorizer``), one that is
        not fitted is copied and fitted. Default: tf-idf of lower-case words ``\w+`` that occur in
        at least two rows, rows of unit length.
    zero_based : bool or "auto"
        svmlight: whether indices count from 0. "auto" takes a file without any index 0 to count
        from 1.
    label_column : str or int, optional
        csv: the column that holds the labels, by default the one named ``label``.
    max_bytes : int, optional
        How large a gzipped file or an ``.npz`` archive may become when it is unpacked.  Default:
        100 times its size, or 256 MiB if that is more.

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
    Dataset(2 rows, 4 features (1.5 a row), 2 classes)
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
    }
    return read_file(path, form, options, n_features=n_features, max_bytes=max_bytes)


def read_file(
    path: Path,
    form: str | None = None,
    options: dict[str, tuple[Any, Any]] | None = None,
    *,
    n_features: int | None = None,
    max_bytes: int | None = None,
) -> Dataset:
    """`read` for a file, with values and defaults of options by name."""
    raw = read_bytes(path, max_bytes)
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
    raw = path.read_bytes()
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
