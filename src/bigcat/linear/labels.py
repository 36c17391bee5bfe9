"""Encoding of labels as class numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def check_several(classes: np.ndarray, fewest: int = 2) -> None:
    """Raise ValueError for fewer classes."""
    if len(classes) < fewest:
        raise ValueError(
            f"y holds one class only, {classes.tolist()[0]!r}; a classifier needs at least 2 "
            "classes"
        )


def classes_of(y: np.ndarray, fewest: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct labels, at least two, and each row's number among them."""
    classes, labels = np.unique(y, return_inverse=True)
    check_several(classes, fewest)
    return classes, labels.astype(np.int64).reshape(-1)


def joined(classes: np.ndarray, y: ArrayLike) -> np.ndarray:
    """Return the known classes and those of `y`, sorted; raise ValueError for other types.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.linear.labels import joined
    >>> joined(np.array(["cat", "dog"]), ["ape", "dog"]).tolist()
    ['ape', 'cat', 'dog']
    """
    y = np.unique(np.asarray(y).reshape(-1))
    if (y.dtype.kind in "OU") != (classes.dtype.kind in "OU"):
        raise ValueError(
            f"y holds labels of type {y.dtype} but the model was fitted with {classes.dtype}; "
            "give labels of that type"
        )
    return np.union1d(classes, y)


def encode(y: ArrayLike, classes: np.ndarray) -> np.ndarray:
    """Return the numbers of labels among `classes`; raise ValueError for unknown labels."""
    y = np.asarray(y).reshape(-1)
    if y.dtype.kind in "OU" and classes.dtype.kind in "OU":
        y = y.astype(classes.dtype if classes.dtype.kind == "O" else str)
    try:
        labels: np.ndarray = np.searchsorted(classes, y)
    except TypeError:
        raise ValueError(
            f"y holds labels of type {y.dtype} but the model was fitted with {classes.dtype}; "
            "give labels of that type"
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
