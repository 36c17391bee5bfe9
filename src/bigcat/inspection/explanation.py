"""Explanation of a single prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.estimators.inputs import check_for_prediction
from bigcat.estimators.names import class_numbers
from bigcat.inspection.features import names_of_features, weights_of, weights_of_class
from bigcat.pipelines import apart


def explain(
    model: Any,
    row: Any,
    label: Any = None,
    against: Any = None,
    *,
    top: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Split the difference between the scores of two classes into contributions of features.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier, or pipeline that ends in one
    row : array or CSR matrix of shape (1, n_features), or what the pipeline takes
    label, against : classes of the model, optional
        By default the most probable class and the next one.
    top : int, optional
        Maximum number of features: those with the largest contributions. All by default.
    feature_names : sequence of str, optional
        Names of the columns; by default those that the model was fitted with.

    Returns
    -------
    dict
        ``label``, ``against``; ``difference`` of their scores, which for the softmax is the log
        odds; ``intercept``, the difference of the intercepts; ``features``: rows of ``feature``,
        ``value``, ``weight`` (difference between the two classes) and ``contribution`` (value
        times weight), the largest first; ``left_out``, the sum of the contributions beyond `top`.
        Intercept, contributions and ``left_out`` add up to the difference.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier(random_state=0).fit(X, y)
    >>> found = inspection.explain(model, X[:1], 0, against=2)
    >>> total = found["intercept"] + sum(row["contribution"] for row in found["features"])
    >>> bool(abs(total - found["difference"]) < 1e-4)
    True
    """
    names, whole = names_of_features(model, feature_names), apart(model)
    model = whole.classifier
    x = check_for_prediction(model, whole.transform(row))
    if x.shape[0] != 1:
        raise ValueError(f"row has {x.shape[0]} rows; give one, such as X[i : i + 1]")
    if label is None or against is None:
        best = [k for k in model.predict_top_k(x, min(3, len(model.classes_)))[0][0]]
        label = next(k for k in best if k != against) if label is None else label
        against = next(k for k in best if k != label) if against is None else against
    pair = class_numbers("label", [label], model.classes_)
    other = class_numbers("against", [against], model.classes_)
    if pair[0] == other[0]:
        raise ValueError(f"label and against are both {label!r}; give two classes")
    weights = weights_of(model)
    weight = weights_of_class(weights, int(pair[0])) - weights_of_class(weights, int(other[0]))
    sparse = scipy.sparse.csr_matrix(x)
    columns, values = sparse.indices, sparse.data.astype(np.float64)
    parts = values * weight[columns]
    intercept = float(model.intercept_[pair[0]] - model.intercept_[other[0]])
    kept = np.argsort(-np.abs(parts), kind="stable")[:top]
    kept = kept[np.argsort(-parts[kept], kind="stable")]
    return {
        "label": model.classes_[pair[0]],
        "against": model.classes_[other[0]],
        "difference": intercept + float(parts.sum()),
        "intercept": intercept,
        "features": [
            {
                "feature": names[columns[i]],
                "value": float(values[i]),
                "weight": float(weight[columns[i]]),
                "contribution": float(parts[i]),
            }
            for i in kept
        ],
        "left_out": float(parts.sum() - parts[kept].sum()),
    }
