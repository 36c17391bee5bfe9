"""Strong features of a class, and the weights behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from bigcat.estimators.names import class_numbers, feature_names
from bigcat.linear.full_rank import FullRankWeights
from bigcat.linear.weights import Weights
from bigcat.pipelines import apart


def strongest_features(
    model: Any, label: Any, *, top: int = 10, feature_names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the features whose weights differ most from their mean over classes.

    Adding a number to the weights of a feature for all classes changes no probability, so only
    differences between classes are meaningful.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    label : a class of the model
    top : int, default=10
        Maximum number of features.
    feature_names : sequence of str, optional
        Names of the columns; by default those that the model was fitted with.

    Returns
    -------
    list of dict
        ``feature``, ``column``, ``weight``; from the most positive to the most negative weight.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection
    >>> data = load_iris(as_frame=True)
    >>> model = LinearClassifier(random_state=0).fit(data.data, data.target)
    >>> [row["feature"] for row in inspection.strongest_features(model, 2, top=1)]
    ['petal width (cm)']
    """
    weights = weights_of(model)
    number = int(class_numbers("label", [label], model.classes_)[0])
    names = names_of_features(model, feature_names)
    mine = weights_of_class(weights, number) - mean_weights(weights)
    return strongest(mine, names, top)


def strongest(weights: np.ndarray, names: Sequence[str], top: int) -> list[dict[str, Any]]:
    """Return the `top` weights of largest size, from the most positive to the most negative."""
    top = min(top, len(weights))
    columns = np.argpartition(-np.abs(weights), top - 1)[:top]
    columns = columns[np.argsort(-weights[columns], kind="stable")]
    return [
        {"feature": names[column], "column": int(column), "weight": float(weights[column])}
        for column in columns
        if weights[column] != 0.0
    ]


def weights_of(model: Any) -> Weights:
    """Return the weights of a fitted estimator, also at the end of a pipeline.

    For a posterior, its mean.
    """
    check_is_fitted(model)
    model = apart(model).classifier
    if hasattr(model, "linear_model"):
        weights: Weights = model.linear_model().weights
        return weights
    return FullRankWeights(np.asarray(model.coef_, np.float32))


def names_of_features(model: Any, given: Sequence[str] | None = None) -> Sequence[str]:
    """Return the given names, checked, or those of the model, or x0, x1, ..."""
    whole = apart(model)
    n_features = whole.classifier.n_features_in_
    if given is None:
        made = whole.feature_names
        return feature_names(whole.classifier, intercept=False) if made is None else made
    if len(given) != n_features:
        raise ValueError(
            f"feature_names has {len(given)} names, the model {n_features} features; give one name "
            "per column"
        )
    return given


def mean_weights(weights: Weights) -> np.ndarray:
    """Return the mean over classes of each feature's weight, (n_features,)."""
    mean: np.ndarray = weights.class_vectors.mean(axis=0, dtype=np.float64)
    if not weights.kind.has_vectors:  # the vector of a class is its weights
        return mean
    features = scipy.sparse.identity(weights.shape[1], np.float32, format="csr")
    found: np.ndarray = weights.embed(features) @ mean
    beside = weights.beside(features)
    if beside is not None:
        found = found + np.asarray(beside.sum(axis=1)).ravel() / len(weights)
    return found


def weights_of_class(weights: Weights, number: int) -> np.ndarray:
    """Return all weights of a class, (n_features,)."""
    row: np.ndarray = weights.take(np.array([number])).dense()[0]
    return row.astype(np.float64)
