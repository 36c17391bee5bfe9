"""Draws of weights for ArviZ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bigcat.inference.likelihood import _blocks


def log_likelihood_of_draws(
    weights: np.ndarray,
    X: Any,
    labels: np.ndarray,
    intercept: bool,
    log_probabilities: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Return the log-likelihood of each row with each draw, (S, n), a few rows at a time."""
    n_draws, n_classes, n_columns = weights.shape
    n_features = n_columns - int(intercept)
    flat = weights.reshape(-1, n_columns).T.astype(np.float64)
    coef, constant = np.ascontiguousarray(flat[:n_features]), flat[n_features:].sum(axis=0)
    out = np.empty((n_draws, X.shape[0]))
    for rows in _blocks(X.shape[0], n_draws * n_classes):
        scores = np.asarray(X[rows] @ coef) + constant
        by_draw = scores.reshape(-1, n_draws, n_classes).transpose(1, 0, 2)
        logs = log_probabilities(np.ascontiguousarray(by_draw))
        out[:, rows] = logs[:, np.arange(logs.shape[1]), labels[rows]]
    return out


def inference_data(
    weights: np.ndarray,
    classes: np.ndarray,
    features: Sequence[str],
    *,
    log_likelihood: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    acceptance: float | None = None,
) -> Any:
    """Return an ArviZ InferenceData.

    Parameters
    ----------
    weights : array of shape (chains, draws, n_classes, M)
    classes, features : names of the last two dimensions
    log_likelihood : array of shape (chains, draws, n), optional
    labels : array of shape (n,), optional
    acceptance : float, optional
        Mean acceptance probability of the chains' moves.
    """
    try:
        import arviz
        import xarray
    except ImportError as error:
        raise ImportError(
            "to_arviz needs ArviZ: pip install 'bigcat[bayes]' (or 'arviz<1')"
        ) from error
    groups: dict[str, Any] = {"posterior": {"weights": weights}}
    if log_likelihood is not None:
        groups |= {"log_likelihood": {"y": log_likelihood}, "observed_data": {"y": labels}}
    found = arviz.from_dict(
        **groups,
        coords={"class": classes, "feature": list(features)},
        dims={"weights": ["class", "feature"], "y": ["row"]},
    )
    if acceptance is not None:
        found.add_groups({"sample_stats": xarray.Dataset({"acceptance_rate": acceptance})})
    return found
