"""Quality of a fitted model on test rows. NumPy and SciPy only."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

FLOOR = 1e-6
CHUNK = 1 << 22  # probabilities at a time
SMALLEST = 1e-30  # in place of a probability of zero, which has no logarithm


@dataclass
class Model:
    """A fitted peer.

    Parameters
    ----------
    log_proba : callable
        Rows to an array (rows, classes) of log-probabilities, as the peer has them: they need not
        sum to one.
    top : callable, optional
        Rows and k to an array (rows, k) of the classes that the peer puts first, -1 for none. With
        it the probabilities of all classes count as costly.
    facts : dict
        What else to report.
    """

    log_proba: Any
    top: Any = None
    facts: dict | None = None


def logarithm(p):
    """Return the logarithm of probabilities that may be zero."""
    return np.log(np.maximum(np.asarray(p, np.float64), SMALLEST))


def score(model, X, y, common, n_classes):
    """Measures of a model, among them those of single rows, so that two models can be paired.

    Parameters
    ----------
    model : Model
    X, y : test rows
    common : array
        The rows on which the log-likelihood is taken.
    n_classes : int
    """
    started = time.perf_counter()
    probabilities = _probabilities(model.log_proba, X[common], y[common], n_classes)
    seconds = time.perf_counter() - started
    result = _likelihoods(probabilities)
    result["proba_seconds_per_1000"] = 1000 * seconds / len(common)
    if model.top is not None:
        started = time.perf_counter()
        best = np.asarray(model.top(X, 5))
        result["top_seconds_per_1000"] = 1000 * (time.perf_counter() - started) / len(y)
        hits = best == y[:, None]
        ranks = np.where(hits.any(axis=1), hits.argmax(axis=1), 5)
    elif len(common) == len(y):
        ranks = probabilities["rank"]
    else:
        everything = _probabilities(model.log_proba, X, y, n_classes)
        result["log_likelihood_all_rows"] = _likelihoods(everything)["log_likelihood"]
        ranks = everything["rank"]
    rows = {
        "log_p_of_rows": [round(value, 5) for value in probabilities["log_p"].tolist()],
        "rows_right": np.flatnonzero(ranks == 0).tolist(),
        "rows_asked": len(y),
    }
    shares = {"accuracy": float((ranks == 0).mean()), "hit_at_5": float((ranks < 5).mean())}
    return result | shares | rows


def _probabilities(log_proba, X, y, n_classes):
    """Return for each row the renormalised log-probability of its class, its rank, and the row's
    sum.
    """
    parts = []
    step = max(1, CHUNK // n_classes)
    for first in range(0, len(y), step):
        rows = slice(first, first + step)
        log_p = np.asarray(log_proba(X[rows]))
        own = log_p[np.arange(len(log_p)), y[rows]].astype(np.float64)
        top = log_p.max(axis=1).astype(np.float64)
        log_sum = top + np.log(np.exp(log_p - top[:, None]).sum(axis=1, dtype=np.float64))
        rank = (log_p > own[:, None]).sum(axis=1)
        parts.append((own - log_sum, rank, np.exp(log_sum)))
    names = ("log_p", "rank", "sum")
    return {name: np.concatenate(part) for name, part in zip(names, zip(*parts))}


def _likelihoods(probabilities):
    log_p, sums = probabilities["log_p"], probabilities["sum"]
    return {
        "log_likelihood": float(np.maximum(log_p, np.log(FLOOR)).mean()),
        "log_likelihood_without_floor": float(log_p.mean()),
        "rows_at_floor": int((log_p < np.log(FLOOR)).sum()),
        "rows_scored": len(log_p),
        "row_sum_mean": float(sums.mean()),
        "row_sum_min": float(sums.min()),
        "row_sum_max": float(sums.max()),
    }
