"""Hits, confusions and class frequencies of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat.metrics import RowMeasures

#: Values of k at which a hit curve has a point.
HIT_POINTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)


def hit_curve(rows: RowMeasures) -> list[dict[str, float]]:
    """Return hit@k and the model's own estimate of it for increasing k.

    Parameters
    ----------
    rows : RowMeasures
        Result of :func:`bigcat.metrics.measure`.

    Returns
    -------
    list of dict
        ``k``, ``hit`` (share of rows), ``confidence`` (mean probability of the k best classes).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, inspection, metrics
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier(random_state=0).fit(X[::2], y[::2])
    >>> [point["k"] for point in inspection.hit_curve(metrics.measure(model, X[1::2], y[1::2]))]
    [1, 2, 3]
    """
    most = rows.top_log_proba.shape[1]
    return [
        {"k": k, "hit": float(rows.hit(k).mean()), "confidence": float(rows.confidence(k).mean())}
        for k in HIT_POINTS
        if k <= most
    ]


def confusions(model: Any, rows: RowMeasures, top: int = 20) -> list[dict[str, Any]]:
    """Return the most frequent pairs of a true class and another class predicted instead.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    rows : RowMeasures
        Result of :func:`bigcat.metrics.measure`.
    top : int, default=20
        Maximum number of pairs.

    Returns
    -------
    list of dict
        ``truth``, ``predicted`` (labels), ``rows``, ``share`` (of the rows of the true class),
        ``log_odds`` (mean of log p(predicted) - log p(truth) per row), ``examples`` (indices of
        up to three rows of X, the largest log odds first).

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
    code = rows.position[wrong].astype(np.int64) * n_classes + rows.predicted[wrong]
    codes, pair, count = np.unique(code, return_inverse=True, return_counts=True)
    rows_of_truth = np.bincount(rows.position, minlength=n_classes)
    excess = rows.top_log_proba[wrong, 0] - rows.log_proba[wrong]
    found = []
    for number in np.argsort(-count, kind="stable")[:top]:
        truth, predicted = divmod(int(codes[number]), n_classes)
        inside = np.flatnonzero(pair == number)
        clearest = inside[np.argsort(-excess[inside])[:3]]
        found.append(
            {
                "truth": model.classes_[truth],
                "predicted": model.classes_[predicted],
                "rows": int(count[number]),
                "share": float(count[number] / rows_of_truth[truth]),
                "log_odds": float(excess[inside].mean()),
                "examples": rows.row[wrong[clearest]].tolist(),
            }
        )
    return found


def bin_name(found: dict[str, float]) -> str:
    """Return the label of a bin of :func:`bigcat.metrics.by_frequency`.

    >>> bin_name({"at_least": 5, "below": 10}), bin_name({"at_least": 10, "below": float("inf")})
    ('5 to 9', '10 and more')
    """
    if found["below"] == float("inf"):
        return f"{found['at_least']:,} and more"
    last = int(found["below"]) - 1
    return f"{last:,}" if last == found["at_least"] else f"{found['at_least']:,} to {last:,}"
