"""Data and models that the user names on the command line."""

from __future__ import annotations

import argparse
import contextlib
import errno
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigcat.cli import _bayesian
from bigcat.data.forms import FORMS

if TYPE_CHECKING:
    import numpy as np

    from bigcat.data import Dataset, Shards

CATALOGUE = "data:"
MANIFEST = "manifest.json"  # as in bigcat.data.manifest, which is slow to import


def add_data_options(parser: argparse.ArgumentParser) -> None:
    add_form_options(parser)
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        help="folder of the sets named data:NAME (default: the environment variable BIGCAT_DATA)",
    )


def add_form_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--form",
        choices=FORMS,
        help="form of the data files; by default told from their names or first lines",
    )
    parser.add_argument(
        "--label-column",
        metavar="NAME",
        help="csv and parquet: the column with the labels (default: label)",
    )
    parser.add_argument(
        "--max-bytes",
        type=int,
        metavar="N",
        help="how large a gzipped file or an npz archive may become when it is unpacked (default: "
        "100 times its size, or 256 MiB if that is more)",
    )


def add_features_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--features",
        type=int,
        metavar="N",
        help="svmlight: how many features there are, where the training file lacks the last ones",
    )


def add_text_options(parser: argparse.ArgumentParser) -> None:
    text = parser.add_argument_group("text (label<TAB>text)")
    text.add_argument(
        "--analyzer", choices=("word", "char", "char_wb"), help="features: words or characters"
    )
    text.add_argument("--ngrams", type=_range, metavar="LOW-HIGH", help="such as 1-2")
    text.add_argument("--min-df", type=int, metavar="N", help="rows a feature has to occur in")


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not low.isdigit() or not (high or low).isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no range such as 1-2")
    from bigcat.files.vectorizers import LONGEST_NGRAM

    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1] <= LONGEST_NGRAM:  # what a model file would not give back
        raise argparse.ArgumentTypeError(f"{text!r} does not rise within 1 to {LONGEST_NGRAM}")
    return found


def text_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Options of a vectoriser that were given."""
    options = {
        "analyzer": arguments.analyzer,
        "ngram_range": arguments.ngrams,
        "min_df": arguments.min_df,
    }
    return {name: value for name, value in options.items() if value is not None}


def vectorizer(arguments: argparse.Namespace) -> Any:
    """The one that the options describe; None where there are none."""
    options = text_options(arguments)
    if not options:
        return None
    from bigcat.data.text import default_vectorizer

    return default_vectorizer(**options)


@dataclass(frozen=True)
class StoredModel:
    """A model from a file, with what is needed to read data for it."""

    estimator: Any
    extra: dict[str, Any]

    @classmethod
    def load(cls, path: str, arguments: argparse.Namespace | None = None) -> StoredModel:
        """The model itself; with arguments, one that predicts as these say."""
        from bigcat.files import load_model

        estimator, extra = load_model(path, with_extra=True)
        if arguments is not None:
            estimator = _bayesian.predictor(estimator, path, arguments)
        return cls(estimator, extra)

    def read(
        self, name: str, arguments: argparse.Namespace, labels: bool = True
    ) -> Dataset | Shards:
        """Data with the model's columns; `labels=False` for files that have none."""
        form = arguments.form or self._text_form()
        if labels:
            dataset = read(name, arguments, part="test", form=form, like=self.extra)
        else:
            form = form or self.extra.get("form")
            dataset = read_unlabelled(name, form, self.extra, arguments.max_bytes)
        return as_model_has_it(
            name, dataset, self.estimator.n_features_in_, self.estimator.classes_
        )

    def feature_names(self) -> Any:
        """Names of the columns: those of the vectoriser, if there is one."""
        vectorizer = self.extra.get("vectorizer")
        return None if vectorizer is None else vectorizer.get_feature_names_out()

    def _text_form(self) -> str | None:
        """The form of text that a model with a vectoriser was fitted on."""
        if self.extra.get("vectorizer") is None:
            return None
        form = FORMS.get(self.extra.get("form", ""))
        return form.name if form is not None and form.is_text else "tsv"


def read(
    name: str,
    arguments: argparse.Namespace,
    *,
    part: str,
    form: str | None = None,
    like: dict[str, Any] | None = None,
    vectorizer: Any = None,
    n_features: int | None = None,
    window_bytes: int | None = None,
) -> Dataset | Shards:
    """The file or folder `name`, or a part of a set: ``data:NAME`` or ``data:NAME:PART``.

    `like` is what the model file says of the training data: its vectoriser, and whether indices
    count from 0.
    """
    from bigcat import data

    if name.startswith(CATALOGUE):
        set_name, _, chosen = name.removeprefix(CATALOGUE).partition(":")
        chosen = chosen or part
        if chosen not in ("train", "test", "validation"):
            raise ValueError(
                f"{name}: a set has the parts train, test and sometimes validation, not {chosen!r}"
            )
        if like is not None and like.get("vectorizer") is not None:
            vectorizer = like["vectorizer"]
        split = data.load(
            set_name, data_home=arguments.data_home, unseen="keep", vectorizer=vectorizer
        )
        dataset: data.Dataset | None = getattr(split, chosen)
        if dataset is None:
            raise ValueError(f"{name}: this set has no part {chosen!r}; it has train and test")
        return dataset
    path = existing(name, may_be_folder=True)
    if path.is_dir():
        window = {} if window_bytes is None else {"window_bytes": window_bytes}
        return data.open_shards(path, **window)
    form = form or arguments.form or form_of(path)
    for_a_model = like is not None
    like = like or {}
    options: dict[str, Any] = {"n_features": n_features}
    takes = FORMS[form].options if form is not None else ()
    if "vectorizer" in takes:
        if for_a_model and like.get("vectorizer") is None:
            raise ValueError(_text_for_numbers(name))
        options["vectorizer"] = like.get("vectorizer", vectorizer)
    elif like.get("vectorizer") is not None:
        raise ValueError(f"the model was fitted on text, but {name} is {form}; give label<TAB>text")
    if "zero_based" in takes and "zero_based" in like:
        options["zero_based"] = like["zero_based"]
    if arguments.label_column is not None:
        options["label_column"] = arguments.label_column
    return data.read(path, form, max_bytes=arguments.max_bytes, **options)


def read_unlabelled(
    name: str, form: str | None, like: dict[str, Any], max_bytes: int | None = None
) -> Dataset:
    """A file without labels: each row gets the label 0, so that the usual reader takes it."""
    from bigcat.data.files import read_bytes

    if name.startswith(CATALOGUE):
        raise ValueError(f"{name} has labels; leave out --no-labels")
    path = existing(name)
    if form not in FORMS:
        raise ValueError(f"--no-labels: the form of {name} is unknown; give --form")
    takes = FORMS[form].options
    options: dict[str, Any] = {}
    raw = FORMS[form].with_labels(read_bytes(path, max_bytes))
    if "vectorizer" in takes:
        if like.get("vectorizer") is None:
            raise ValueError(_text_for_numbers(name))
        options["vectorizer"] = like["vectorizer"]
    if "zero_based" in takes and "zero_based" in like:
        options["zero_based"] = like["zero_based"]
    return FORMS[form].read(path, raw, **options)


def _text_for_numbers(name: str) -> str:
    return (
        f"{name} holds text, but the model was fitted on numbers and has no vectoriser; "
        "give a file with the columns that it was fitted on"
    )


def existing(name: str, may_be_folder: bool = False) -> Path:
    """The file; or a folder of converted rows, where that may be."""
    path = Path(name)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such file; check the name", name)
    if path.is_dir() and not (may_be_folder and (path / MANIFEST).exists()):
        raise IsADirectoryError(
            errno.EISDIR, "is a folder; give a file, or data:NAME of the catalogue", name
        )
    return path


def form_of(path: Path) -> str | None:
    """The form that name or first line tell; None for a file that no reader takes, and says so."""
    from bigcat.data import DataError
    from bigcat.data.files import form_of_file

    with contextlib.suppress(DataError):
        return form_of_file(path)
    return None


def rows_and_labels(dataset: Dataset | Shards) -> tuple[Any, ...]:
    """What `fit` and `evaluate` take of it: X and y, or the folder that has both."""
    return (dataset,) if hasattr(dataset, "labels") else (dataset.X, dataset.y)


def as_model_has_it(
    name: str, dataset: Dataset | Shards, n_features: int, classes: np.ndarray
) -> Dataset | Shards:
    """The data with as many columns, and labels of the same kind."""
    from bigcat.data import Dataset

    if isinstance(dataset, Dataset):
        X = with_columns(name, dataset.X, n_features)
        y = like_classes(dataset.y, classes)
        return Dataset(X, y, dataset.report, dataset.vectorizer)
    if dataset.shape[1] != n_features:
        raise ValueError(
            f"{name} has {dataset.shape[1]} features, the model was fitted on {n_features}; "
            "convert the data with --like FOLDER, the folder of the training data"
        )
    return dataset.with_classes(like_classes(dataset.classes, classes))


def with_columns(name: str, X: Any, n_features: int) -> Any:
    """X with the model's number of columns: a sparse one may have fewer, or empty ones more."""
    if X.shape[1] == n_features:
        return X
    import scipy.sparse as sp

    if not sp.issparse(X):
        raise ValueError(
            f"{name} has {X.shape[1]} features, the model was fitted on {n_features}; "
            "give a file with the same columns"
        )
    largest = int(X.indices.max()) if X.nnz else -1
    if largest >= n_features:
        entry = int((X.indices >= n_features).argmax())
        row = int((X.indptr[1:] > entry).argmax())
        raise ValueError(
            f"{name} has feature {X.indices[entry]} in row {row} (both counted from 0), but the "
            f"model was fitted on {n_features} features; give a file with the same columns"
        )
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))


def like_classes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels of the classes' kind: a file whose labels all look like numbers was read as numbers.

    A label that cannot be one of the classes becomes a value that none of them has.
    """
    import numpy as np

    if (y.dtype.kind in "biuf") == (classes.dtype.kind in "biuf"):
        return y
    if y.dtype.kind in "biuf":
        return y.astype(str)
    spelled = classes.astype(str)
    order = np.argsort(spelled)
    position = np.minimum(np.searchsorted(spelled, y, sorter=order), len(classes) - 1)
    found = spelled[order[position]] == y
    return np.where(found, classes[order[position]], classes.max() + 1)
