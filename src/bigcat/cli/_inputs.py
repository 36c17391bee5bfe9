"""Data and models that the user names on the command line."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bigcat.cli import _estimators, _options, _output
from bigcat.data.forms import FORMS

if TYPE_CHECKING:
    import numpy as np

    from bigcat.data import Dataset, Shards

#: Labels are needed, used if there are some, or said to be missing.
Labels = Literal["needed", "optional", "none"]

STANDARD_INPUT = "standard input"


def text_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a vectoriser that were given."""
    values = {name: getattr(arguments, name) for name in ("analyzer", "ngram_range", "min_df")}
    return {name: value for name, value in values.items() if value is not None}


def vectorizer(arguments: argparse.Namespace) -> Any:
    """Return the vectoriser that the options describe; None if none was given."""
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
    #: The estimator, or the pipeline that ends in it.
    whole: Any = None

    @classmethod
    def load(cls, path: str, arguments: argparse.Namespace | None = None) -> StoredModel:
        """Return the model itself; with arguments, one that predicts accordingly."""
        from bigcat.files import load_model

        estimator, extra = load_model(path, with_extra=True)
        whole = estimator
        if hasattr(estimator, "steps"):
            estimator, extra["vectorizer"] = _apart(path, estimator)
        if arguments is not None:
            estimator = _estimators.predictor(estimator, path, arguments)
        return cls(estimator, extra, whole)

    def extra_of_file(self) -> dict[str, Any]:
        """Return what the file holds beside the model: a pipeline has its own vectoriser."""
        in_steps = ("vectorizer",) if hasattr(self.whole, "steps") else ()
        return {name: value for name, value in self.extra.items() if name not in in_steps}

    def read(
        self,
        name: str,
        arguments: argparse.Namespace,
        labels: Labels = "needed",
        new_classes: bool = False,
    ) -> Dataset | Shards:
        """Return data with the model's columns; `new_classes` says that labels may be new."""
        form = arguments.form or self._text_form()
        if labels == "none" and form is None:
            form = self.extra.get("form")
        dataset = read(
            name,
            arguments,
            form=form,
            like=self.extra,
            labels=labels,
        )
        _log_columns(name, dataset)
        classes = self.estimator.classes_
        labels_of = dataset.classes if hasattr(dataset, "classes") else dataset.y
        if new_classes and classes.dtype.kind in "biuf" and labels_of.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} has words for labels, such as {str(labels_of[0])!r}, and those of the "
                "model are numbers; give numbers, or fit again on all rows"
            )
        return as_model_has_it(name, dataset, self.estimator.n_features_in_, classes)

    def feature_names(self) -> Any:
        """Return the names of features of a table or of words; None if they have none."""
        made_by = self.extra.get("columns", self.extra.get("vectorizer"))
        try:
            return None if made_by is None else made_by.get_feature_names_out()
        except AttributeError:  # of a HashingVectorizer
            return None

    def _text_form(self) -> str | None:
        """Return the form of text that a model with a vectoriser was fitted on."""
        if self.extra.get("vectorizer") is None:
            return None
        form = FORMS.get(self.extra.get("form", ""))
        return form.name if form is not None and form.is_text else "tsv"


def _apart(path: str, pipeline: Any) -> tuple[Any, Any]:
    """Return classifier and vectoriser of a pipeline that has no other steps."""
    *before, (_, classifier) = pipeline.steps
    if len(before) != 1 or not hasattr(before[0][1], "build_analyzer"):
        raise ValueError(
            f"{path} is a pipeline of {', '.join(name for name, _ in pipeline.steps)}, and the "
            "command line takes a text vectoriser and a classifier; load it in Python with "
            "bigcat.load_model"
        )
    return classifier, before[0][1]


def read(
    name: str,
    arguments: argparse.Namespace,
    *,
    form: str | None = None,
    like: dict[str, Any] | None = None,
    vectorizer: Any = None,
    n_features: int | None = None,
    window_bytes: int | None = None,
    labels: Labels = "needed",
) -> Dataset | Shards:
    """Read the file or folder `name`, or standard input for ``-``.

    `like` is what the model file says of the training data: its vectoriser or its columns, and
    whether indices count from 0.  `labels` says whether rows have to have labels, may have some, or
    have none.
    """
    from bigcat import data
    from bigcat.data.files import read_file

    path, raw = Path(STANDARD_INPUT), None
    if name == _options.STDIN:
        raw = sys.stdin.buffer.read()
    else:
        path = _options.existing(name, may_be_folder=True)
    if raw is None and path.is_dir():
        window = {} if window_bytes is None else {"window_bytes": window_bytes}
        return data.open_shards(path, **window)
    form = form or arguments.form or form_of(path, raw)
    options = _reader_options(str(path), form, arguments, like, vectorizer, labels)
    return read_file(
        path, form, raw=raw, n_features=n_features, max_bytes=arguments.max_bytes, **options
    )


def _reader_options(
    name: str,
    form: str | None,
    arguments: argparse.Namespace,
    like: dict[str, Any] | None,
    vectorizer: Any,
    labels: Labels,
) -> dict[str, Any]:
    """Return the options of the reader that are given."""
    for_a_model = like is not None
    like = like or {}
    known = FORMS[form] if form is not None else None
    options: dict[str, Any] = {
        "vectorizer": vectorizer,
        "label_column": arguments.label_column,
        "group_column": getattr(arguments, "group_column", None),
        "categorical": getattr(arguments, "categorical", None),
        "text_columns": getattr(arguments, "text_columns", None),
    }
    if known and known.is_text:
        if for_a_model and like.get("vectorizer") is None:
            raise ValueError(_text_for_numbers(name))
        if for_a_model:
            options["vectorizer"] = like["vectorizer"]
    elif like.get("vectorizer") is not None:
        raise ValueError(f"the model was fitted on text, but {name} is {form}; give label<TAB>text")
    columns = like.get("columns")
    if known and known.is_table:
        if for_a_model:  # what to encode is known, if anything
            options = {
                "label_column": arguments.label_column or like.get("label_column"),
                "columns": columns,
            }
    elif columns is not None:
        from bigcat.data.tables import words_of

        if words := words_of(columns):
            raise ValueError(
                f"the model encodes columns of words ({', '.join(words)}), but {name} is {form}; "
                "give a table with these columns"
            )
    if known and "zero_based" in known.options:
        options["zero_based"] = like.get("zero_based")
    given = {option: value for option, value in options.items() if value is not None}
    if labels == "none" or (labels == "optional" and known and known.is_table):
        if known and "labelled" not in known.options:
            raise ValueError(f"files of the form {form} always have labels")
        given["labelled"] = False
    return given


def _log_columns(name: str, dataset: Dataset | Shards) -> None:
    """Log columns that the model does not use and categories that it does not know."""
    report = dataset.report
    if not_used := report.get("columns_not_used"):
        _output.log.info(f"{name} has columns that the model does not use: {', '.join(not_used)}")
    for column, n in report.get("unknown_categories", {}).items():
        _output.log.info(f"{name} has in {n:,} rows a {column} that no training row had")


def _text_for_numbers(name: str) -> str:
    return (
        f"{name} holds text, but the model was fitted on numbers and has no vectoriser; "
        "give a file with the columns that it was fitted on"
    )


def form_of(path: Path, raw: bytes | None = None) -> str | None:
    """Return the form that name or first line tell; None for a file that no reader takes."""
    from bigcat.data import DataError
    from bigcat.data.files import form_of_file

    with contextlib.suppress(DataError):
        return form_of_file(path, raw)
    return None


def rows_and_labels(dataset: Dataset | Shards) -> tuple[Any, ...]:
    """Return the arguments of `fit` and `evaluate`: X and y, or the folder that has both."""
    return (dataset,) if hasattr(dataset, "labels") else (dataset.X, dataset.y)


def as_model_has_it(
    name: str, dataset: Dataset | Shards, n_features: int, classes: np.ndarray
) -> Dataset | Shards:
    """Return the data with as many columns as the model, and labels of the same type."""
    from bigcat.data import Dataset

    if isinstance(dataset, Dataset):
        X = with_columns(name, dataset.X, n_features)
        y = like_classes(dataset.y, classes)
        return replace(dataset, X=X, y=y)
    if dataset.shape[1] != n_features:
        raise ValueError(
            f"{name} has {dataset.shape[1]} features, the model was fitted on {n_features}; "
            "convert the data with --like FOLDER, the folder of the training data"
        )
    return dataset.with_classes(like_classes(dataset.classes, classes))


def with_columns(name: str, X: Any, n_features: int) -> Any:
    """Return X with the model's number of columns; sparse rows may lack the last ones."""
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
    """Return labels of the classes' type: a file of nothing but numbers was read as numbers.

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
