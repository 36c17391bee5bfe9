"""Checks of data, before any work: every error says cause, value and remedy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _get_feature_names,
    check_array,
    check_consistent_length,
    check_is_fitted,
    check_X_y,
    column_or_1d,
    validate_data,
)

from bigcat.data.shards import Shards
from bigcat.linear.labels import check_several, classes_of, encode
from bigcat.rows import MIN_COLUMN_SIZE
from bigcat.training.data import TrainingData

_X_OPTIONS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,  # `check_finite` says which rows
    "accept_large_sparse": True,
}
#: Types that are labels whatever their values: whole numbers, yes and no, texts.  To find that out
#: takes scikit-learn longer than a small batch is trained on.
LABEL_KINDS = "iubU"
#: Largest row weight, whose inverse is the smallest, and the largest ratio of two of them: with
#: 1e12 the curvature of a posterior is not positive definite any more.
MAX_WEIGHT, MAX_WEIGHT_RATIO = 1e9, 1e12
#: Items that an error lists.
MAX_LISTED = 5


def check_rows(X: Any, estimator: Any) -> Any:
    """X as a C-ordered array or canonical CSR of floats, finite; copied only where it must be."""
    check_kind(X)
    check_indices(X)
    names = _numeric_columns(X)
    X = check_array(X, estimator=estimator, input_name="X", **_X_OPTIONS)
    return _canonical(X, names)


def check_for_prediction(estimator: Any, X: Any) -> Any:
    """`check_rows` for a fitted estimator, with the features that it knows."""
    check_is_fitted(estimator)
    if isinstance(X, Shards):
        validate_data(estimator, X, skip_check_array=True, reset=False)
        return X.X
    if _is_ready(X, estimator):
        check_indices(X)
        return _canonical(X)
    checked = check_rows(X, estimator)
    validate_data(estimator, X, skip_check_array=True, reset=False)
    return checked


def _is_ready(X: Any, estimator: Any) -> bool:
    """Return True if slow checks can be skipped, which take longer than a small prediction."""
    dense = type(X) is np.ndarray and X.flags.c_contiguous
    if not dense and not (scipy.sparse.issparse(X) and X.format == "csr"):
        return False
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] != estimator.n_features_in_:
        return False
    return X.dtype in _X_OPTIONS["dtype"] and not hasattr(estimator, "feature_names_in_")


def labelled_rows(
    X: Any, y: Any, estimator: Any, fewest: int = 2
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return checked rows, all classes, and the class number of each row."""
    if isinstance(X, Shards):
        check_alone(X, y)
        check_several(X.classes, fewest)
        return X.X, X.classes, X.labels.astype(np.int64)
    X, y = check_rows_and_labels(X, y, estimator)
    return X, *classes_of(y, fewest)


def numbered_rows(X: Any, y: Any, classes: np.ndarray, estimator: Any) -> tuple[Any, np.ndarray]:
    """Return checked rows and the numbers of their labels among known classes."""
    if isinstance(X, Shards):
        check_alone(X, y)
        return X.X, encode(X.classes, classes)[X.labels]
    X, y = check_rows_and_labels(X, y, estimator)
    return X, encode(y, classes)


def is_source(X: Any) -> bool:
    """Return True if the rows have labels of their own."""
    return isinstance(X, Shards)


def rows_and_labels_of(X: Any, y: Any) -> tuple[Any, Any]:
    """Return the mapped rows and the labels of a source; others as they are given."""
    if not isinstance(X, Shards):
        return X, y
    check_alone(X, y)
    return X.X, X.y


def check_alone(source: Shards, y: Any) -> None:
    """Raise for labels beside rows that have theirs."""
    if y is not None:
        raise ValueError(
            f"y was given beside {source!r}, which has labels; leave y out, or give the rows as "
            "its X"
        )


def places(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the place of each label among sorted classes; -1 for unknown ones."""
    if (labels.dtype.kind in "biuf") != (classes.dtype.kind in "biuf"):
        return np.full(len(labels), -1)
    found = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    return np.where(classes[found] == labels, found, -1)


def window_of(X: Any) -> int | None:
    """Rows to visit at a time, where they are mapped to files; None for all."""
    return X.window_rows if isinstance(X, Shards) else None


def check_rows_and_labels(X: Any, y: Any, estimator: Any) -> tuple[Any, np.ndarray]:
    """Return checked rows and labels, as `check_rows` does."""
    check_kind(X)
    check_indices(X)
    names, y = _numeric_columns(X), _one_kind_of_labels(y)
    X, y = check_X_y(X, y, estimator=estimator, **_X_OPTIONS)
    if y.dtype.kind not in LABEL_KINDS:
        with warnings.catch_warnings():  # many classes are what this library is for
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            check_classification_targets(y)
    X = _canonical(X, names)
    check_sizes(X)
    return X, y


def _numeric_columns(X: Any) -> Sequence[Any] | None:
    """Return the names of a data frame's columns; raise ValueError for words in any rows."""
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        _check_no_words(X)
        return None
    _get_feature_names(X)  # raises for names of several types, which fits would find at their end
    for place, name in enumerate(X.columns):
        column = X.iloc[:, place]
        kind = getattr(column.dtype, "kind", "O")
        if kind in "mM":
            raise ValueError(
                f"column {name!r} of X is of {column.dtype}; turn dates and times into numbers "
                "with a meaning"
            )
        for row, value in enumerate(column if kind not in "biufc" else ()):
            if not isinstance(value, str):
                continue
            try:
                float(value)
            except ValueError:
                raise ValueError(
                    f"X holds {value!r} in row {row} of column {name!r}, and features are numbers; "
                    "encode the column, for example by scikit-learn's OneHotEncoder"
                ) from None
    return list(X.columns)


def _check_no_words(X: Any) -> None:
    """Raise ValueError with row and column of a word in an array or a list of rows."""
    if isinstance(X, list | tuple) and any(isinstance(row, list | tuple) for row in X[:1]):
        X = np.array([*X, None], dtype=object)[:-1]  # rows of any lengths
    elif not isinstance(X, np.ndarray) or X.dtype.kind not in "OU" or X.ndim != 2:
        return
    for row, values in enumerate(X):
        for column, value in enumerate(values):
            if not isinstance(value, str):
                continue
            try:
                float(value)
            except ValueError:
                raise ValueError(
                    f"X holds {str(value)!r} in row {row}, column {column}, and features are "
                    "numbers; encode the column, for example by scikit-learn's OneHotEncoder"
                ) from None


def _canonical(X: Any, names: Sequence[Any] | None = None) -> Any:
    check_finite(X, names)
    if scipy.sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_indices(X: Any) -> None:
    """Raise where the parts of a sparse matrix contradict each other.

    SciPy does not look at them when a matrix is made, and compiled code, its own as well as ours,
    would read and write outside of the arrays.
    """
    if not scipy.sparse.issparse(X) or X.format not in ("csr", "csc"):
        return
    n_lines, n_places = X.shape if X.format == "csr" else X.shape[::-1]
    pointers, indices = np.asarray(X.indptr), np.asarray(X.indices)
    if pointers.dtype.kind != "i" or indices.dtype.kind != "i":
        cause = f"indices of {indices.dtype} and indptr of {pointers.dtype}, not of integers"
    elif len(pointers) != n_lines + 1 or pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        cause = f"an indptr that does not rise from 0 in {n_lines} steps"
    elif pointers[-1] > min(len(indices), len(X.data)):
        cause = f"an indptr that ends at {pointers[-1]}, beyond {len(indices)} indices"
    else:
        # A negative number is a large one to the unsigned type, so that one look is enough.
        unsigned = indices.view(indices.dtype.str.replace("i", "u"))
        largest = unsigned[: pointers[-1]].max(initial=0)
        if n_places > largest or not pointers[-1]:
            return
        bad = indices[unsigned == largest][0]
        cause = f"the index {bad}, where {n_places} are counted from 0"
    raise ValueError(
        f"X is a damaged {X.format.upper()} matrix with {cause}; build it again, and check it "
        "with X.check_format()"
    )


def check_kind(X: Any) -> None:
    """Raise for rows whose numbers would be taken for others: masked ones, and dates."""
    if isinstance(X, Shards):
        raise ValueError(f"{X!r} contains labels, but this call takes rows alone; pass its X")
    if _is_masked(X):
        raise ValueError("X is a masked array, and what is masked would count; drop or impute it")
    if getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M"):
        raise ValueError(f"X is of {X.dtype}; turn dates and times into numbers with a meaning")


def _is_masked(values: Any) -> bool:
    return isinstance(values, np.ma.MaskedArray) and bool(np.any(values.mask))


def _one_kind_of_labels(y: Any) -> Any:
    """Labels that stay apart when they become an array; ValueError for others."""
    if _is_masked(y):
        raise ValueError("y is a masked array with rows masked; drop such rows")
    if isinstance(y, np.ndarray) and y.dtype.kind == "T":  # NumPy's strings of any length
        y = y.astype(object)
    is_list = isinstance(y, list | tuple)
    values = np.asarray(y, dtype=object) if is_list else np.asarray(y)
    if values.dtype != object or values.ndim != 1:
        return y
    words = values.tolist()
    is_word = [isinstance(word, str) for word in words]
    if not any(is_word):
        return y
    if not all(is_word):
        row = is_word.index(False)
        raise ValueError(
            f"y holds words, and {words[row]!r} in row {row}; give labels of one type, and drop "
            "rows that have none"
        )
    bad = next((word for word in words if is_list and word.endswith("\0")), None)
    if bad is not None:
        raise ValueError(
            f"y holds {bad!r}, and NumPy drops NULs at the end of a string; take them off, or give "
            "y as an array of objects"
        )
    return y


def check_finite(X: Any, names: Sequence[Any] | None = None) -> None:
    """Raise with rows and columns that hold NaN or infinity."""
    values = X.data[: X.indptr[-1]] if scipy.sparse.issparse(X) else X
    if np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all():
        return
    bad = ~np.isfinite(values)
    kinds = " and ".join(
        name
        for name, found in (("NaN", np.isnan(values)), ("inf", np.isinf(values)))
        if found.any()
    )
    if scipy.sparse.issparse(X):
        rows = np.unique(np.searchsorted(X.indptr, np.flatnonzero(bad), side="right") - 1)
        columns = np.unique(X.indices[: len(bad)][bad])
    else:
        rows, columns = np.flatnonzero(bad.any(axis=1)), np.flatnonzero(bad.any(axis=0))
    shown = columns if names is None else np.array([repr(names[k]) for k in columns])
    raise ValueError(
        f"X holds {kinds} in {_listed('row', rows)} of {_listed('column', shown)}; drop or "
        "impute them (scikit-learn's SimpleImputer replaces NaN)"
    )


def check_sizes(X: Any) -> None:
    """Raise for values that are too large or too small for weights in float32 to go with them."""
    values = X.data if scipy.sparse.issparse(X) else X
    largest = float(max(values.max(), -values.min())) if values.size else 0.0
    if 0.0 < largest < MIN_COLUMN_SIZE:
        raise ValueError(
            f"no value of X is larger than {largest:.2g}, and weights, which are float32, would be "
            "too large; multiply X, for example by scikit-learn's StandardScaler"
        )
    most = float(np.finfo(np.float32).max)
    if largest <= most:
        return
    first = np.flatnonzero(np.abs(values) > most)[0]
    if scipy.sparse.issparse(X):
        row, column = np.searchsorted(X.indptr, first, side="right") - 1, X.indices[first]
    else:
        row, column = divmod(first, X.shape[1])
    raise ValueError(
        f"X holds {values.flat[first]:.3g} in row {row}, column {column}, and weights, which are "
        f"float32 up to {most:.2g}, would be too small; divide the column, for example by "
        "scikit-learn's StandardScaler"
    )


def _listed(noun: str, items: np.ndarray) -> str:
    shown = ", ".join(str(i) for i in items[:MAX_LISTED])
    more = f" and {len(items) - MAX_LISTED} more" if len(items) > MAX_LISTED else ""
    return f"{noun}{'s' if len(items) > 1 else ''} {shown}{more}"


def check_weights(sample_weight: Any, X: Any, estimator: Any) -> np.ndarray:
    """Row weights as float64: not negative, not all zero."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    weights: np.ndarray = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; give some rows a positive weight")
    least, most = float(weights[weights > 0.0].min()), float(weights.max())
    if most > MAX_WEIGHT or least < 1.0 / MAX_WEIGHT:
        raise ValueError(
            f"sample_weight goes from {least:.3g} to {most:.3g}, and a weight counts rows: fits "
            f"are accurate from {1.0 / MAX_WEIGHT:g} to {MAX_WEIGHT:g}; divide the weights by "
            "their mean"
        )
    if most > MAX_WEIGHT_RATIO * least:
        raise ValueError(
            f"sample_weight goes from {least:.3g} to {most:.3g}, and next to the largest the "
            "smallest would be lost to rounding; set those to 0, or bound the large ones"
        )
    return weights


def check_groups(groups: Any, X: Any, source: Any) -> np.ndarray | None:
    """Return the group number of each row; None without groups."""
    if groups is None:
        return None
    if is_source(source):
        raise ValueError(
            "groups are of rows in memory, and X is a folder of rows; give X_val of other groups"
        )
    found = column_or_1d(groups)
    check_consistent_length(X, found)
    if (found != found).any() or (found.dtype == object and None in found.tolist()):
        raise ValueError("groups hold missing values; give each row the label of its group")
    numbers: np.ndarray = np.unique(found, return_inverse=True)[1]
    if numbers.max() == 0:
        raise ValueError(
            "groups has one group only, and whole groups are held out for validation; give "
            "groups of which there are several, or none"
        )
    return numbers


def sample_that_counts(
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    class_weight: Any,
    classes: np.ndarray,
    groups: np.ndarray | None = None,
) -> TrainingData:
    """Rows with weights times those of their classes; rows of weight 0 are left out.

    Before anything else, so that they are as if they were not there.  Their classes stay: they are
    known, if only by name.
    """
    sample = TrainingData(X, labels, weights, groups).that_counts()
    if class_weight is None:
        return sample
    if isinstance(class_weight, str):
        factors = compute_sample_weight(class_weight, sample.labels)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)[sample.labels]
    if not (factors >= 0.0).all():
        raise ValueError(f"class_weight={class_weight!r} must not hold negative numbers or NaN")
    weighted = sample.row_weights * factors
    if not weighted.any():
        raise ValueError(
            f"class_weight={class_weight!r} leaves no row a positive weight; give one to a class "
            "that has rows"
        )
    return sample._replace(row_weights=weighted).that_counts()
