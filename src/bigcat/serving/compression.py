"""Smaller model files, and their cost in log-likelihood."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bigcat.files.linear import check_dtype, expand, shrink

if TYPE_CHECKING:
    from bigcat.estimators import LinearClassifier

__all__ = ["compressed", "storage_loss"]


def compressed(model: LinearClassifier, dtype: str) -> LinearClassifier:
    """Return a copy that predicts as the model saved in fewer bytes and loaded again.

    Parameters
    ----------
    model : LinearClassifier
        A fitted one; it stays as it is.
    dtype : {"float32", "float16", "int8"}
        As in `bigcat.save_model`.

    Returns
    -------
    LinearClassifier
        With float32 weights that were rounded to `dtype`.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3, dtype=np.float32).repeat(20, axis=0)
    >>> model = bigcat.LinearClassifier(max_epochs=2, random_state=0).fit(X, X.argmax(axis=1))
    >>> small = bigcat.compressed(model, "int8")
    >>> bool(np.abs(small.coef_ - model.coef_).max() <= np.abs(model.coef_).max() / 254 * 1.001)
    True
    """
    check_dtype(dtype)
    _check_linear(model)
    rounded = copy.copy(model)
    weights = model.linear_model().weights
    arrays = {}
    for name, array in weights.arrays().items():
        again = expand(*shrink(array, dtype))
        arrays[name] = again.copy(order="K") if again is array else again
    history, intercept = model.history_, model.intercept_.copy()
    rounded.restore(weights.from_arrays(arrays), intercept, model.classes_, history)
    rounded.__dict__.pop("_solver_state", None)  # belongs to the other weights
    return rounded


def storage_loss(model: LinearClassifier, X: Any, y: Any, dtype: str) -> dict[str, float]:
    """Measure the log-likelihood that fewer bytes per weight cost.

    Parameters
    ----------
    model : LinearClassifier
        A fitted one.
    X : array or CSR matrix of shape (n, n_features)
        Rows to measure by, best such as the model was not fitted to.
    y : array of shape (n,)
        Their labels, all of them among the model's classes.
    dtype : {"float32", "float16", "int8"}
        As in `bigcat.save_model`.

    Returns
    -------
    dict
        ``log_likelihood`` of the model and ``stored_log_likelihood`` (means per row, in nats);
        ``loss``, their difference, and its ``loss_std_error``; ``bytes`` and ``stored_bytes`` of
        the weights and intercepts.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(3, dtype=np.float32).repeat(20, axis=0)
    >>> y = X.argmax(axis=1)
    >>> model = bigcat.LinearClassifier(max_epochs=2, random_state=0).fit(X, y)
    >>> cost = bigcat.storage_loss(model, X, y, "float16")
    >>> cost["bytes"], cost["stored_bytes"], abs(cost["loss"]) < 1e-3
    (48, 30, True)
    """
    before = model.log_proba_of(X, y)
    after = compressed(model, dtype).log_proba_of(X, y)
    difference = before - after
    return {
        "log_likelihood": float(before.mean()),
        "stored_log_likelihood": float(after.mean()),
        "loss": float(difference.mean()),
        "loss_std_error": float(difference.std() / np.sqrt(len(difference))),
        "bytes": _bytes(model, "float32"),
        "stored_bytes": _bytes(model, dtype),
    }


def _bytes(model: LinearClassifier, dtype: str) -> int:
    total = model.intercept_.nbytes
    for weights in model.linear_model().weights.arrays().values():
        stored, scales = shrink(weights, dtype)
        total += stored.nbytes + (0 if scales is None else scales.nbytes)
    return total


def _check_linear(model: object) -> None:
    kind = type(model).__name__
    if kind != "LinearClassifier":
        raise TypeError(
            f"weights of a LinearClassifier can be stored in fewer bytes, got {kind}; of a "
            "pipeline or a search, take the fitted classifier inside it"
        )
    check_is_fitted(model)
