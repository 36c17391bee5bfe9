"""Classes and features by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

#: Names that an error lists.
LISTED = 5


def feature_names(estimator: Any, intercept: bool) -> list[str]:
    """Return the names of the columns of X, or x0, x1, ...; the intercept comes last.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from bigcat.estimators.names import feature_names
    >>> feature_names(SimpleNamespace(n_features_in_=2), True)
    ['x0', 'x1', 'intercept']
    """
    given = getattr(estimator, "feature_names_in_", None)
    if given is None:
        given = [f"x{m}" for m in range(estimator.n_features_in_)]
    return [*map(str, given), *(["intercept"] if intercept else [])]


def column_numbers(features: ArrayLike, names: Sequence[str]) -> np.ndarray:
    """Return columns by name or by number, in the order in which they are asked for."""
    asked = np.atleast_1d(np.asarray(features, dtype=object)).tolist()
    places = {name: m for m, name in enumerate(names)}
    found = []
    for one in asked:
        if isinstance(one, str):
            place = places.get(one)
        else:
            place = int(one) if 0 <= int(one) < len(names) and int(one) == one else None
        if place is None:
            raise ValueError(
                f"features: {one!r} is not a feature of this model, which has {_some(names)}; give "
                "such names, or numbers of columns"
            )
        found.append(place)
    return np.array(found, dtype=np.intp)


def class_numbers(parameter: str, labels: ArrayLike, classes: np.ndarray) -> np.ndarray:
    """Return the numbers of the labels among the sorted `classes`."""
    asked = np.atleast_1d(np.asarray(labels))
    try:
        places = np.minimum(np.searchsorted(classes, asked), len(classes) - 1)
        missing = np.asarray(classes[places] != asked)
    except TypeError:  # words and numbers have no order
        places, missing = np.zeros(len(asked), np.intp), np.ones(len(asked), bool)
    if np.any(missing):
        unknown = asked[np.broadcast_to(missing, asked.shape)].tolist()[0]
        raise ValueError(
            f"{parameter}: {unknown!r} is not a class of this model, which has "
            f"{_some(classes.tolist())}; give labels as they were in training"
        )
    return np.asarray(places, dtype=np.intp)


def _some(names: Sequence[Any]) -> str:
    shown = ", ".join(repr(name) for name in names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED:,} more"
