"""Measures of predicted probabilities: log-likelihood, accuracy, hits at k, calibration.

Every function takes a fitted model and streams over chunks of rows: memory grows with the number of
rows, never with rows times classes. A model is any object with ``classes_`` (sorted),
``predict_top_k(X, k)`` and ``log_proba_of(X, y)``, a pipeline that ends in one, or a search.

Rows whose class the model does not know have no probability. They are dropped everywhere in this
module, as in published results, and :func:`evaluate` reports their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bigcat.compile import clock
from bigcat.pipelines import unwrapped

__all__ = [
    "RowMeasures",
    "by_frequency",
    "calibration",
    "class_frequency_baseline",
    "evaluate",
    "frequency_bins",
    "hit_at_k",
    "log_likelihood",
    "measure",
    "reliability",
]

CHUNK_ROWS = 8192
#: Edges of the bins of class frequencies.
FREQUENCY_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000)


class Model(Protocol):
    """Protocol of models that can be measured."""

    classes_: np.ndarray

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row and their log-probabilities."""

    def log_proba_of(self, X: Any, y: ArrayLike) -> np.ndarray:
        """Return the log-probability of one class per row."""


@dataclass(frozen=True)
class RowMeasures:
    """Measures of each row, from which all figures follow; returned by :func:`measure`.

    Parameters
    ----------
    position : array of shape (n,)
        Index of the row's class in ``classes_``.
    log_proba : array of shape (n,)
        Log-probability of the row's class.
    rank : array of shape (n,)
        Rank of the row's class among the k most probable ones, from 0; k if it is not among them.
    predicted : array of shape (n,)
        Index of the most probable class in ``classes_``.
    top_log_proba : array of shape (n, k)
        Log-probabilities of the k most probable classes, the best first.
    row : array of shape (n,)
        Number of the row in X; rows of unknown classes are dropped.
    dropped : int
        Number of dropped rows.
    """

    position: np.ndarray
    log_proba: np.ndarray
    rank: np.ndarray
    predicted: np.ndarray
    top_log_proba: np.ndarray
    row: np.ndarray
    dropped: int

    def __len__(self) -> int:
        return len(self.position)

    def confidence(self, k: int = 1) -> np.ndarray:
        """Return the predicted probability that the row's class is among the k best, (n,)."""
        total = np.exp(self.top_log_proba[:, :k]).sum(axis=1)
        bounded: np.ndarray = np.minimum(total, 1.0)  # of rounded terms
        return bounded

    def hit(self, k: int = 1) -> np.ndarray:
        """Return True for rows whose class is among the k best, (n,)."""
        return self.rank < k


#: Callback with the number of measured rows and their total.
OnRows = Callable[[int, int], object]


def evaluate(
    model: Model,
    X: Any,
    y: ArrayLike | None = None,
    k: int = 5,
    *,
    on_rows: OnRows | None = None,
) -> dict[str, float]:
    """Measure a fitted model on a validation or test set.

    Parameters
    ----------
    model : fitted classifier, pipeline that ends in one, or search
    X : array or CSR matrix of shape (n, D), or `bigcat.data.Shards`, which have labels
    y : array of shape (n,)
        Labels; rows whose label is not in ``model.classes_`` are dropped and counted.
    k : int, default=5
        Number of most probable classes that count for ``hit_at_k``.
    on_rows : callable, optional
        Called after each chunk with the number of measured rows and of all rows.

    Returns
    -------
    dict
        ``log_likelihood`` (mean per row, nats), ``accuracy``, ``hit_at_<k>``, ``rows`` (measured),
        ``rows_dropped_unseen``, ``seconds``.

    Examples
    --------
    >>> import numpy as np
    >>> class Coin:
    ...     classes_ = np.array(["heads", "tails"])
    ...     def predict_top_k(self, X, k=5):
    ...         return np.tile(self.classes_, (len(X), 1)), np.log(np.tile([0.6, 0.4], (len(X), 1)))
    ...     def log_proba_of(self, X, y):
    ...         return np.log(np.where(y == "heads", 0.6, 0.4))
    >>> report = evaluate(Coin(), np.zeros((4, 1)), ["heads", "tails", "heads", "edge"])
    >>> round(report["accuracy"], 3), report["rows"], report["rows_dropped_unseen"]
    (0.667, 3, 1)
    """
    start = clock()
    rows = measure(model, X, y, k, on_rows=on_rows)
    return {
        "log_likelihood": float(rows.log_proba.mean()),
        "accuracy": float(rows.hit().mean()),
        f"hit_at_{k}": float(rows.hit(k).mean()),
        "rows": len(rows),
        "rows_dropped_unseen": rows.dropped,
        "seconds": clock() - start,  # without compilation
    }


def log_likelihood(model: Model, X: Any, y: ArrayLike | None = None) -> float:
    """Return the mean log-probability of the observed classes, in nats per row.

    Larger is better. Compare it with :func:`class_frequency_baseline`. It is a scorer for
    scikit-learn, too: ``scoring=bigcat.metrics.log_likelihood``. Unlike ``neg_log_loss`` it drops
    rows of classes that are missing in the training rows of a fold, which would make it NaN.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> bigcat.metrics.log_likelihood(model, X, y) > bigcat.metrics.class_frequency_baseline(y, y)
    True
    """
    model = unwrapped(model)
    total, count = 0.0, 0
    for X_chunk, y_chunk, *_ in _known_chunks(model, X, y)[0]:
        total += float(np.sum(model.log_proba_of(X_chunk, y_chunk), dtype=np.float64))
        count += len(y_chunk)
    return total / count


def hit_at_k(model: Model, X: Any, y: ArrayLike | None = None, k: int = 5) -> float:
    """Return the share of rows whose observed class is among the k most probable ones.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> bigcat.metrics.hit_at_k(model, X, y, k=2)
    1.0
    """
    model = unwrapped(model)
    k = _checked_k(model, k)
    hits, count = 0, 0
    for X_chunk, y_chunk, *_ in _known_chunks(model, X, y)[0]:
        top, _log_proba = model.predict_top_k(X_chunk, k)
        hits += int((top == y_chunk[:, None]).any(axis=1).sum())
        count += len(y_chunk)
    return hits / count


def class_frequency_baseline(y_train: ArrayLike, y_test: ArrayLike) -> float:
    """Return the mean log-likelihood of predicting the class frequencies of the training set.

    Class k has probability (n_k + 1) / (N + K), for N training rows of K classes. Test rows of
    other classes are dropped, as everywhere in this module.

    Examples
    --------
    >>> round(class_frequency_baseline([0, 0, 0, 1], [0, 0, 1]), 4)
    -0.6365
    """
    classes, counts = np.unique(np.asarray(y_train), return_counts=True)
    if not len(classes):
        raise ValueError("y_train is empty; the baseline needs the training labels")
    position, known = _positions(classes, np.asarray(y_test))
    if not known.any():
        raise ValueError(_no_known_class(len(known)))
    log_proba = np.log((counts + 1.0) / (counts.sum() + len(classes)))
    return float(log_proba[position[known]].mean())


def by_frequency(
    model: Model,
    X: Any,
    y: ArrayLike,
    counts: ArrayLike,
    *,
    edges: Sequence[int] = FREQUENCY_EDGES,
    k: int = 5,
) -> list[dict[str, float]]:
    """Measure rows by the frequency of their class in the training set.

    Parameters
    ----------
    model, X, y, k :
        As in :func:`evaluate`.
    counts : array of shape (K,)
        Training rows of each class, in the order of ``model.classes_``.
    edges : sequence of int
        Increasing edges; a bin holds the classes with ``edges[i] <= count < edges[i + 1]``, the
        last one all above.

    Returns
    -------
    list of dict
        One per bin that holds test rows: ``at_least``, ``below`` (inf for the last), ``classes``,
        ``rows``, ``log_likelihood``, ``accuracy``, ``hit_at_<k>``.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> table = bigcat.metrics.by_frequency(model, X, y, counts=np.bincount(y))
    >>> [(row["at_least"], row["below"], row["rows"]) for row in table]
    [(20, 50, 60)]
    """
    counts = np.asarray(counts)
    n_classes = len(model.classes_)
    if counts.shape != (n_classes,):
        raise ValueError(
            f"counts has shape {counts.shape}, the model has {n_classes} classes; "
            "give one count per class, in the order of classes_"
        )
    if np.any(np.diff(np.asarray(edges)) <= 0):
        raise ValueError(f"edges must increase, got {list(edges)}")
    return frequency_bins(measure(model, X, y, k), counts, edges=edges, k=k)


def frequency_bins(
    rows: RowMeasures, counts: np.ndarray, *, edges: Sequence[int] = FREQUENCY_EDGES, k: int = 5
) -> list[dict[str, float]]:
    """Return the table of :func:`by_frequency` for measured rows.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> rows = bigcat.metrics.measure(model, X, y)
    >>> bigcat.metrics.frequency_bins(rows, np.bincount(y))[0]["accuracy"]
    1.0
    """
    edge_array = np.asarray(edges)
    bin_of_class = np.searchsorted(edge_array, counts, side="right")
    bin_of_row = bin_of_class[rows.position]
    table = []
    for b in np.unique(bin_of_row):
        inside = bin_of_row == b
        table.append(
            {
                "at_least": int(edge_array[b - 1]) if b else 0,
                "below": int(edge_array[b]) if b < len(edge_array) else float("inf"),
                "classes": int((bin_of_class == b).sum()),
                "rows": int(inside.sum()),
                "log_likelihood": float(rows.log_proba[inside].mean()),
                "accuracy": float(rows.hit()[inside].mean()),
                f"hit_at_{k}": float(rows.hit(k)[inside].mean()),
            }
        )
    return table


def calibration(
    model: Model, X: Any, y: ArrayLike | None = None, n_bins: int = 10
) -> dict[str, Any]:
    """Compare the probability of the predicted class with its accuracy.

    Rows are grouped into ``n_bins`` bins of equal width by the probability of their most probable
    class.

    Returns
    -------
    dict
        Arrays of length ``n_bins``: ``confidence`` (mean probability in the bin), ``accuracy``,
        ``count`` (rows); an empty bin holds NaN. ``ece``, the expected calibration error: the mean
        over rows of |accuracy - confidence| of their bin.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> found = bigcat.metrics.calibration(model, X, y)
    >>> int(found["count"].sum())
    60
    """
    rows = measure(model, X, y, 1)
    return reliability(rows.confidence(), rows.hit(), n_bins)


def reliability(confidence: ArrayLike, right: ArrayLike, n_bins: int = 10) -> dict[str, Any]:
    """Compare stated probabilities with observed frequencies.

    Parameters
    ----------
    confidence : array of shape (n,)
        Probabilities.
    right : array of bool of shape (n,)
    n_bins : int
        Bins of equal width.

    Returns
    -------
    dict
        As :func:`calibration` has it.

    Examples
    --------
    >>> found = reliability([0.2, 0.2, 0.9, 0.9], [False, False, True, True], n_bins=2)
    >>> found["accuracy"].tolist(), round(found["ece"], 3)
    ([0.0, 1.0], 0.15)
    """
    if n_bins < 1:
        raise ValueError(f"n_bins={n_bins} must be at least 1")
    confidence = np.asarray(confidence, np.float64)
    bin_of_row = np.clip((confidence * n_bins).astype(np.int64), 0, n_bins - 1)
    count = np.bincount(bin_of_row, minlength=n_bins)
    sum_confidence = np.bincount(bin_of_row, weights=confidence, minlength=n_bins)
    sum_right = np.bincount(bin_of_row, weights=np.asarray(right, float), minlength=n_bins)
    filled = np.where(count == 0, np.nan, count)
    return {
        "confidence": sum_confidence / filled,
        "accuracy": sum_right / filled,
        "count": count,
        "ece": float(np.abs(sum_right - sum_confidence).sum() / count.sum()),
    }


def measure(
    model: Model,
    X: Any,
    y: ArrayLike | None = None,
    k: int = 5,
    *,
    on_rows: OnRows | None = None,
) -> RowMeasures:
    """Measure each row: log-probability and rank of its class, and the predicted class.

    Takes one pass of ``predict_top_k``, and ``log_proba_of`` for rows whose class is not in its
    result.

    Parameters
    ----------
    model, X, y, on_rows :
        As in :func:`evaluate`.
    k : int, default=5
        Number of most probable classes to compute.

    Returns
    -------
    RowMeasures

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, y)
    >>> rows = bigcat.metrics.measure(model, X, y, k=2)
    >>> int(rows.rank.max()), len(rows), rows.dropped
    (0, 60, 0)
    """
    model = unwrapped(model)
    k_found = _checked_k(model, k)
    chunks, dropped = _known_chunks(model, X, y)
    classes = np.asarray(model.classes_)
    parts: list[tuple[np.ndarray, ...]] = []
    for X_chunk, y_chunk, position, row in chunks:
        top, top_log_proba = model.predict_top_k(X_chunk, k_found)
        match = top == y_chunk[:, None]
        found = match.any(axis=1)
        rank = np.where(found, match.argmax(axis=1), k)
        top_log_proba = np.asarray(top_log_proba, dtype=np.float64)
        log_proba = top_log_proba[np.arange(len(y_chunk)), np.minimum(rank, k_found - 1)]
        if not found.all():
            missed = np.flatnonzero(~found)
            log_proba[missed] = model.log_proba_of(_take_rows(X_chunk, missed), y_chunk[missed])
        predicted = np.searchsorted(classes, top[:, 0])
        parts.append((position, log_proba, rank, predicted, top_log_proba, row))
        if on_rows is not None:
            on_rows(int(row[-1]) + 1, X.shape[0] if hasattr(X, "shape") else len(X))
    position, log_proba, rank, predicted, top_log_proba, row = map(np.concatenate, zip(*parts))
    return RowMeasures(position, log_proba, rank, predicted, top_log_proba, row, dropped)


def _known_chunks(
    model: Model, X: Any, y: ArrayLike | None
) -> tuple[Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]], int]:
    """Return chunks of (X, y, positions, row numbers) and the number of dropped rows."""
    classes = np.asarray(model.classes_)
    X, position, known = _placed_rows(classes, X, y)
    if not known.any():
        raise ValueError(_no_known_class(len(known)))

    def chunks() -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
        for start in range(0, len(known), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            keep = known[part]
            rows = start + np.flatnonzero(keep)
            if keep.any():
                X_chunk = _take_rows(X, part if keep.all() else rows)
                yield X_chunk, classes[position[rows]], position[rows], rows

    return chunks(), int(len(known) - known.sum())


def _placed_rows(
    classes: np.ndarray, X: Any, y: ArrayLike | None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return rows, positions of their labels in the sorted classes, and a mask of known ones."""
    if y is None and hasattr(X, "labels"):  # a source whose labels are numbers already
        position, known = _positions(classes, X.classes)
        return X.X, position[X.labels], known[X.labels]
    X = _as_rows(X)
    y = np.asarray(y)
    if y.ndim != 1 or X.shape[0] != len(y):
        raise ValueError(
            f"X has {X.shape[0]} rows and y has shape {y.shape}; give one label per row"
        )
    if not len(y):
        raise ValueError("there are no rows to measure; X and y are empty")
    return X, *_positions(classes, y)


def _as_rows(X: Any) -> Any:
    """Return rows that can be indexed by number; data frames stay data frames."""
    if hasattr(X, "iloc"):
        return X
    if hasattr(X, "tocsr"):
        return X.tocsr()
    texts = isinstance(X, list | tuple) and len(X) and isinstance(X[0], str)
    return np.asarray(X, object) if texts else np.asarray(X)


def _take_rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _positions(classes: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each label in the sorted classes, and a mask of known labels."""
    if (classes.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
        raise ValueError(
            f"the labels are of type {y.dtype}, the classes of the model of type {classes.dtype}; "
            "give labels of the kind that the model was fitted with"
        )
    position = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return position, classes[position] == y


def _checked_k(model: Model, k: int) -> int:
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    return min(k, len(model.classes_))


def _no_known_class(n_rows: int) -> str:
    return (
        f"none of the {n_rows} rows has a class of the training data; "
        "check that both parts use the same labels"
    )
