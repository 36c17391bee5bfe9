"""What a fitted model knows: strong features, classes that are alike, why this class and not that.

Functions return plain rows (lists of dicts), which :mod:`bigcat.plots` draws and ``bigcat report``
shows.  None of them makes an array of rows times classes, or of classes times features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted

from bigcat.estimators.inputs import check_for_prediction
from bigcat.estimators.names import class_numbers, feature_names
from bigcat.linear.full_rank import FullRankWeights
from bigcat.linear.weights import Weights
from bigcat.metrics import RowMeasures

__all__ = [
    "class_map",
    "confusions",
    "explain",
    "hit_curve",
    "nearest_classes",
    "strongest_features",
    "training_counts",
]

#: Numbers of class vectors that a map is made of: as many classes, the most frequent first.
MAP_NUMBERS = 1 << 26
#: Values of k that a curve of hits has a point at.
HIT_POINTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)


def training_counts(model: Any) -> np.ndarray:
    """Training rows of each class, in the order of ``classes_``.

    Raises
    ------
    ValueError
        For a model of a file that was written before models remembered them.
    """
    counts = getattr(model, "class_count_", None)
    if counts is None:
        raise ValueError(
            "the model does not know how many training rows each class had, as models of older "
            "files do not; give the counts, or fit it again"
        )
    return np.asarray(counts)


# --- predictions --------------------------------------------------------------------------------


def hit_curve(rows: RowMeasures) -> list[dict[str, float]]:
    """Hit@k for some k up to the number that was looked at, beside what the model says of it.

    Parameters
    ----------
    rows : RowMeasures
        Of :func:`bigcat.metrics.measure`.

    Returns
    -------
    list of dict
        ``k``, ``hit`` (share of rows), ``confidence`` (mean probability of the k best classes).
    """
    most = rows.top_log_proba.shape[1]
    return [
        {"k": k, "hit": float(rows.hit(k).mean()), "confidence": float(rows.confidence(k).mean())}
        for k in HIT_POINTS
        if k <= most
    ]


def confusions(model: Any, rows: RowMeasures, top: int = 20) -> list[dict[str, Any]]:
    """The pairs of a class and what was predicted for it instead, most frequent first.

    Returns
    -------
    list of dict
        ``truth``, ``predicted`` (labels), ``rows``, ``share`` (of the rows of the true class),
        ``log_odds`` (mean of log p(predicted) - log p(truth) per row), ``examples`` (numbers of
        up to three rows of X, the surest mistakes first).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection, metrics
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier(random_state=0).fit(X[::2], y[::2])
    >>> pairs = inspection.confusions(model, metrics.measure(model, X[1::2], y[1::2]))
    >>> all(pair["truth"] != pair["predicted"] for pair in pairs)
    True
    """
    n_classes = len(model.classes_)
    wrong = np.flatnonzero(rows.position != rows.predicted)
    pair = rows.position[wrong].astype(np.int64) * n_classes + rows.predicted[wrong]
    kinds, which, count = np.unique(pair, return_inverse=True, return_counts=True)
    of_truth = np.bincount(rows.position, minlength=n_classes)
    excess = rows.top_log_proba[wrong, 0] - rows.log_proba[wrong]
    found = []
    for number in np.argsort(-count, kind="stable")[:top]:
        truth, predicted = divmod(int(kinds[number]), n_classes)
        inside = np.flatnonzero(which == number)
        surest = inside[np.argsort(-excess[inside])[:3]]
        found.append(
            {
                "truth": model.classes_[truth],
                "predicted": model.classes_[predicted],
                "rows": int(count[number]),
                "share": float(count[number] / of_truth[truth]),
                "log_odds": float(excess[inside].mean()),
                "examples": rows.row[wrong[surest]].tolist(),
            }
        )
    return found


def bin_name(found: dict[str, float]) -> str:
    """Of a bin of :func:`bigcat.metrics.by_frequency`.

    >>> bin_name({"at_least": 5, "below": 10}), bin_name({"at_least": 10, "below": float("inf")})
    ('5 to 9', '10 and more')
    """
    if found["below"] == float("inf"):
        return f"{found['at_least']:,} and more"
    last = int(found["below"]) - 1
    return f"{last:,}" if last == found["at_least"] else f"{found['at_least']:,} to {last:,}"


# --- weights ------------------------------------------------------------------------------------


def strongest_features(
    model: Any, label: Any, *, top: int = 10, feature_names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The features whose weights differ most from their mean over classes.

    Adding a number to the weights of a feature for all classes changes no probability, so that
    only differences between classes mean something.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    label : a class of the model
    top : int, default=10
    feature_names : sequence of str, optional
        Names of the columns; those that the model was fitted with by default.

    Returns
    -------
    list of dict
        ``feature``, ``column``, ``weight``; the largest first, those against the class last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection
    >>> data = load_iris(as_frame=True)
    >>> model = LinearClassifier(random_state=0).fit(data.data, data.target)
    >>> [row["feature"] for row in inspection.strongest_features(model, 2, top=1)]
    ['petal width (cm)']
    """
    number = int(class_numbers("label", [label], model.classes_)[0])
    names = names_of_features(model, feature_names)
    weights = weights_of(model)
    mine = _dense_row(weights, number) - mean_weights(weights)
    return strongest(mine, names, top)


def strongest(weights: np.ndarray, names: Sequence[str], top: int) -> list[dict[str, Any]]:
    """The `top` largest of them by size, from the most positive to the most negative."""
    top = min(top, len(weights))
    columns = np.argpartition(-np.abs(weights), top - 1)[:top]
    columns = columns[np.argsort(-weights[columns], kind="stable")]
    return [
        {"feature": names[column], "column": int(column), "weight": float(weights[column])}
        for column in columns
        if weights[column] != 0.0
    ]


def nearest_classes(model: Any, label: Any, top: int = 5) -> list[dict[str, Any]]:
    """The classes whose weights point in the same direction, the most alike first.

    Returns
    -------
    list of dict
        ``label``, ``similarity``: the cosine between the vectors of both classes, less the mean
        vector.
    """
    number = int(class_numbers("label", [label], model.classes_)[0])
    vectors = weights_of(model).class_vectors
    cosines = similarities(vectors, vectors.mean(axis=0), np.array([number]))[0]
    cosines[number] = -np.inf
    best = np.argsort(-cosines, kind="stable")[: min(top, len(cosines) - 1)]
    return [{"label": model.classes_[k], "similarity": float(cosines[k])} for k in best]


def similarities(vectors: np.ndarray, mean: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Cosines of some class vectors with all of them, (len(classes), n_classes)."""
    mine = vectors[classes] - mean
    products = mine @ vectors.T - (mine @ mean)[:, None]
    squares = np.einsum("kr,kr->k", vectors, vectors) - 2.0 * (vectors @ mean) + mean @ mean
    lengths = np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny))
    cosines: np.ndarray = products / (lengths[classes, None] * lengths)
    return cosines


def class_map(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places of the classes in the plane: the first two principal components of their vectors.

    Returns
    -------
    numbers : array of shape (m,)
        Which classes, the most frequent first: all, or as many as 2^26 numbers of vectors hold.
    places : array of shape (m, 2)
    share : array of shape (2,)
        Of the spread of the vectors that each component has.
    """
    check_is_fitted(model)
    vectors = weights_of(model).class_vectors
    counts = getattr(model, "class_count_", None)
    order = np.arange(len(vectors)) if counts is None else np.argsort(-counts, kind="stable")
    numbers = order[: max(2, MAP_NUMBERS // max(1, vectors.shape[1]))]
    centred = vectors[numbers].astype(np.float32)
    centred -= centred.mean(axis=0)
    spread = max(float(np.einsum("kr,kr->", centred, centred)), np.finfo(np.float32).tiny)
    if min(centred.shape) < 2:  # two classes of one feature lie on a line
        places = np.zeros((len(numbers), 2), np.float32)
        places[:, 0] = centred[:, 0]
        return numbers, places, np.array([1.0, 0.0])
    left, sizes, _ = randomized_svd(centred, 2, random_state=0)
    return numbers, left * sizes, sizes.astype(np.float64) ** 2 / spread


def explain(
    model: Any,
    row: Any,
    label: Any = None,
    against: Any = None,
    *,
    top: int | None = None,
    feature_names: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Why this class and not that one: what each feature adds to the difference of two scores.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    row : array or CSR matrix of shape (1, n_features)
    label, against : classes of the model, optional
        The most probable one and the next, by default.
    top : int, optional
        Only so many features, those that add or take most.
    feature_names : sequence of str, optional

    Returns
    -------
    dict
        ``label``, ``against``; ``difference`` of their scores, which for the softmax is the
        logarithm of the odds; ``intercept``, its part that no feature has; ``features``: rows of
        ``feature``, ``value``, ``weight`` (of the one class less the other's), ``contribution``
        (their product), the largest first; ``left_out``, the sum of the contributions that `top`
        cut.  Intercept, contributions and what was left out add up to the difference.

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
    x = check_for_prediction(model, row)
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
    weight = _dense_row(weights, int(pair[0])) - _dense_row(weights, int(other[0]))
    sparse = scipy.sparse.csr_matrix(x)
    columns, values = sparse.indices, sparse.data.astype(np.float64)
    parts = values * weight[columns]
    intercept = float(model.intercept_[pair[0]] - model.intercept_[other[0]])
    names = names_of_features(model, feature_names)
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


def weights_of(model: Any) -> Weights:
    """The weights of either estimator; those of a posterior at its mean."""
    check_is_fitted(model)
    if hasattr(model, "linear_model"):
        weights: Weights = model.linear_model().weights
        return weights
    return FullRankWeights(np.asarray(model.coef_, np.float32))


def names_of_features(model: Any, given: Sequence[str] | None = None) -> Sequence[str]:
    """The given names, checked, or those that the model has, or x0, x1, ..."""
    if given is None:
        return feature_names(model, intercept=False)
    if len(given) != model.n_features_in_:
        raise ValueError(
            f"feature_names has {len(given)} names, the model {model.n_features_in_} features; "
            "give one name per column"
        )
    return given


def mean_weights(weights: Weights) -> np.ndarray:
    """The mean over classes of each feature's weight, (n_features,)."""
    mean: np.ndarray = weights.class_vectors.mean(axis=0, dtype=np.float64)
    if not weights.kind.has_vectors:  # the vector of a class is its weights
        return mean
    features = scipy.sparse.identity(weights.shape[1], np.float32, format="csr")
    found: np.ndarray = weights.embed(features) @ mean
    beside = weights.beside(features)
    if beside is not None:
        found = found + np.asarray(beside.sum(axis=1)).ravel() / len(weights)
    return found


def _dense_row(weights: Weights, number: int) -> np.ndarray:
    """All weights of a class, (n_features,)."""
    row: np.ndarray = weights.take(np.array([number])).dense()[0]
    return row.astype(np.float64)
