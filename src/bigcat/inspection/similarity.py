"""Similarity between classes: cosines of their vectors, and a map of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from bigcat.estimators.names import class_numbers
from bigcat.inspection.features import weights_of
from bigcat.pipelines import apart

#: Maximum number of values in the class vectors of a map; the most frequent classes come first.
MAX_MAP_VALUES = 1 << 26


def nearest_classes(model: Any, label: Any, top: int = 5) -> list[dict[str, Any]]:
    """Return the classes whose weights point in the most similar direction.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    label : a class of the model
    top : int, default=5
        Maximum number of classes.

    Returns
    -------
    list of dict
        ``label``, ``similarity``: the cosine between the vectors of both classes after
        subtracting the mean vector.  The most similar class comes first.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection
    >>> data = load_iris()
    >>> model = LinearClassifier(random_state=0).fit(data.data, data.target_names[data.target])
    >>> [str(row["label"]) for row in inspection.nearest_classes(model, "setosa", top=1)]
    ['versicolor']
    """
    vectors = weights_of(model).class_vectors
    number = int(class_numbers("label", [label], model.classes_)[0])
    cosines = similarities(vectors, vectors.mean(axis=0), np.array([number]))[0]
    cosines[number] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(top, len(cosines) - 1)]
    return [{"label": model.classes_[k], "similarity": float(cosines[k])} for k in best]


def similarities(vectors: np.ndarray, mean: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return cosines of some class vectors with all of them, (len(classes), n_classes)."""
    mine = vectors[classes] - mean
    products = mine @ vectors.T - (mine @ mean)[:, None]
    squares = np.einsum("kr,kr->k", vectors, vectors) - 2.0 * (vectors @ mean) + mean @ mean
    lengths = np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    cosines: np.ndarray = products / (lengths[classes, None] * lengths)
    return cosines


def class_map(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return coordinates of the classes: the first two principal components of their vectors.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier

    Returns
    -------
    numbers : array of shape (m,)
        Classes on the map, the most frequent first: all of them, or as many as have 2^26 values
        in their vectors.
    places : array of shape (m, 2)
    share : array of shape (2,)
        Share of the variance of the vectors along each component.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection
    >>> X, y = load_iris(return_X_y=True)
    >>> numbers, places, share = inspection.class_map(LinearClassifier(random_state=0).fit(X, y))
    >>> numbers.tolist(), places.shape
    ([0, 1, 2], (3, 2))
    """
    check_is_fitted(model)
    vectors = weights_of(model).class_vectors
    counts = getattr(apart(model).classifier, "class_count_", None)
    order = np.arange(len(vectors)) if counts is None else np.argsort(-counts, kind="stable")
    numbers = order[: max(2, MAX_MAP_VALUES // max(1, vectors.shape[1]))]
    centred = vectors[numbers].astype(np.float32)
    centred -= centred.mean(axis=0)
    spread = max(float(np.einsum("kr,kr->", centred, centred)), np.finfo(np.float32).tiny)
    if min(centred.shape) < 2:  # two classes with one feature lie on a line
        places = np.zeros((len(numbers), 2), np.float32)
        places[:, 0] = centred[:, 0]
        return numbers, places, np.array([1.0, 0.0])
    left, sizes, _ = randomized_svd(centred, 2, random_state=0)
    return numbers, left * sizes, sizes.astype(np.float64) ** 2 / spread
