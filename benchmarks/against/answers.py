"""Answers of a fitted model, as digests of their bits and as numbers to compare."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import scipy.sparse

#: Rows that are predicted: of few classes and of many.
N_ROWS, N_ROWS_OF_MANY, MANY = 60, 25, 2_000
#: Columns of a history that hold names or seconds, or only count.
NOT_COMPARED = ("stage", "candidate", "epoch", "iteration", "seconds", "compile_seconds")
#: Selections of "auto", without seconds and reasons.
CHOICE = (
    *("bound", "sampler", "solver", "rank", "batch_size", "max_epochs", "l2"),
    *("n_negatives", "learning_rate"),
)


def digest(value: Any) -> str:
    """SHA-256 of an array's type, shape and bytes."""
    array = np.asarray(value)
    content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
    return hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + content).hexdigest()


def of_linear(model: Any, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Everything that a `LinearClassifier` has learned and predicts."""
    n = N_ROWS if len(model.classes_) < MANY else N_ROWS_OF_MANY
    X, y = X[:n], y[:n]
    found = {
        name: getattr(model, name)
        for name in ("coef_", "embedding_", "class_embedding_", "intercept_", "classes_", "n_iter_")
        if hasattr(model, name)
    }
    found |= _predictions(model, X, y)
    found["predict_proba, other form"] = model.predict_proba(_other_form(X))
    found["decision_function"] = model.decision_function(X)
    found["lower_bound"] = bound_or_none(model, X, y)
    # Versions differ in the name.
    choice = getattr(model.history_, "selection", getattr(model.history_, "choice", None))
    if choice is not None:
        found["choice"] = repr([(name, choice.get(name)) for name in CHOICE])
    return _answer(found, model.history_)


def bound_or_none(model: Any, X: Any, y: np.ndarray) -> Any:
    """Return `lower_bound`, or a note if the method is not a bound."""
    try:
        return model.lower_bound(X, y)
    except ValueError:
        return "refused"


def of_bayesian(model: Any, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Everything that a `BayesianClassifier` has learned and predicts."""
    X, y = X[:N_ROWS], y[:N_ROWS]
    q = model.posterior_
    found = {
        "mean": q.mean,
        "covariance": q.covariance,
        "sample": q.sample(2, random_state=0),
        "interval": q.predict_interval(X[:10], n_draws=20, random_state=0),
        "coef_": model.coef_,
        "intercept_": model.intercept_,
        "n_iter_": model.n_iter_,
        "elbo_": model.elbo_,
        "averaging_weight_": getattr(model, "averaging_weight_", "none"),
        **_predictions(model, X, y, posterior="plug-in"),
        "predict_proba, averaged": model.predict_proba(X, posterior="averaged"),
    }
    return _answer(found, model.history_)


def of_categorical(model: Any) -> dict[str, Any]:
    """Everything that a `CategoricalDistribution` has learned."""
    names = ("probabilities_", "scores_", "classes_", "lower_bound_", "n_iter_")
    return _answer({name: getattr(model, name) for name in names}, model.history_)


def _predictions(model: Any, X: Any, y: np.ndarray, **how: str) -> dict[str, Any]:
    classes, values = model.predict_top_k(X, k=min(5, len(model.classes_)), **how)
    return {
        "predict": model.predict(X, **how),
        "predict_proba": model.predict_proba(X, **how),
        "predict_top_k, classes": classes,
        "predict_top_k, values": values,
        "log_proba_of": model.log_proba_of(X, y, **how),
    }


def _other_form(X: Any) -> Any:
    return X.toarray() if scipy.sparse.issparse(X) else scipy.sparse.csr_matrix(X)


def _answer(found: dict[str, Any], history: Any) -> dict[str, Any]:
    columns = [name for name in (history[0] if history else {}) if name not in NOT_COMPARED]
    return {
        "digests": {name: digest(value) for name, value in found.items()},
        "close": {name: [_plain(row.get(name)) for row in history] for name in columns},
    }


def _plain(value: Any) -> float | None:
    """A number for JSON; NaN, which is equal to NaN here, as None."""
    return None if value is None or math.isnan(value) else float(value)
