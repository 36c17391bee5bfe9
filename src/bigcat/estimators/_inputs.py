"""Checks of data, before any work: every error says cause, value and remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.model_selection import train_test_split
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_X_y

_X_OPTIONS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "ensure_all_finite": False,  # `check_finite` says which rows
    "accept_large_sparse": True,
}


def check_rows(X: Any, estimator: Any) -> Any:
    """X as a C-ordered array or canonical CSR of floats, finite; copied only where it must be."""
    X = check_array(X, estimator=estimator, input_name="X", **_X_OPTIONS)
    return _canonical(X)


def check_rows_and_labels(X: Any, y: Any, estimator: Any) -> tuple[Any, np.ndarray]:
    X, y = check_X_y(X, y, estimator=estimator, **_X_OPTIONS)
    with warnings.catch_warnings():  # many classes are what this library is for
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        check_classification_targets(y)
    return _canonical(X), y


def _canonical(X: Any) -> Any:
    check_finite(X)
    if scipy.sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_finite(X: Any) -> None:
    """Raise with the rows that hold NaN or infinity."""
    values = X.data if scipy.sparse.issparse(X) else X
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
    else:
        rows = np.flatnonzero(bad.any(axis=1))
    raise ValueError(f"X holds {kinds} in {_listed('row', rows)}; drop or impute them")


def _listed(noun: str, items: np.ndarray, most: int = 5) -> str:
    shown = ", ".join(str(i) for i in items[:most])
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return f"{noun}{'s' if len(items) > 1 else ''} {shown}{more}"


def check_weights(sample_weight: Any, X: Any, estimator: Any) -> np.ndarray:
    """Row weights as float64: not negative, not all zero."""
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is zero for every row; give some rows a positive weight")
    return weights


def weigh_classes(weights: np.ndarray, class_weight: Any, y: np.ndarray) -> np.ndarray:
    """Row weights times the weights of their classes."""
    if class_weight is None:
        return weights
    factors = compute_sample_weight(class_weight, y)
    if not (factors >= 0.0).all():
        raise ValueError(f"class_weight={class_weight!r} must not hold negative numbers or NaN")
    return weights * factors


def classes_of(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels and each row's number among them; at least two are needed."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[0]!r}; a classifier needs at least 2 "
            "classes"
        )
    return classes, labels.astype(np.int64).reshape(-1)


def encode(y: Any, classes: np.ndarray) -> np.ndarray:
    """Numbers of the labels among `classes`; labels that are not there raise."""
    y = np.asarray(y).reshape(-1)
    if y.dtype.kind in "OU" and classes.dtype.kind in "OU":
        y = y.astype(classes.dtype if classes.dtype.kind == "O" else str)
    try:
        labels = np.searchsorted(classes, y)
    except TypeError:
        raise ValueError(
            f"y holds labels of type {y.dtype} where the model knows {classes.dtype}; "
            "give labels as they were in training"
        ) from None
    labels = np.minimum(labels, len(classes) - 1)
    unseen = classes[labels] != y
    if unseen.any():
        values = np.unique(y[unseen])
        shown = ", ".join(repr(v.item() if hasattr(v, "item") else v) for v in values[:5])
        more = f" and {len(values) - 5} more" if len(values) > 5 else ""
        raise ValueError(
            f"{int(unseen.sum())} of {len(y)} rows have a class that was absent in training: "
            f"{shown}{more}; drop those rows (numpy.isin(y, model.classes_) finds the others)"
        )
    return labels.astype(np.int64)


def hold_out(
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    n_classes: int,
    fraction: float,
    random_state: np.random.RandomState,
    remedy: str,
) -> tuple[Any, np.ndarray, np.ndarray, tuple[Any, np.ndarray, np.ndarray]]:
    """Split off validation rows, none of whose classes is missing in what is left."""
    indices = np.arange(len(labels))
    try:
        kept, held = train_test_split(indices, test_size=fraction, random_state=random_state)
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} leaves no rows on one side of {len(labels)}; {remedy}"
        ) from error
    missing = np.bincount(labels[kept], minlength=n_classes) == 0
    back = missing[labels[held]]
    kept, held = np.sort(np.concatenate([kept, held[back]])), held[~back]
    if not len(held):
        raise ValueError(
            f"no validation row has a class that is left in the training rows; {remedy}"
        )
    return X[kept], labels[kept], weights[kept], (X[held], labels[held], weights[held])
