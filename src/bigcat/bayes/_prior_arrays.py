"""Means and precisions as the user gives them, made into arrays for all columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def check_positive(name: str, value: Any) -> None:
    if not (np.isscalar(value) and np.isreal(value) and 0.0 < float(value) < np.inf):  # type: ignore[arg-type]
        raise ValueError(f"{name}={value!r} of the prior must be a finite number above 0")


def precision_of(intercept_scale: float) -> float:
    check_positive("intercept_scale", intercept_scale)
    return 1.0 / float(intercept_scale) ** 2


def fixed_units(n_features: int, intercept: bool, intercept_scale: float) -> np.ndarray:
    """Precisions of weights in the units of X, and of an intercept that is not learnt."""
    units = np.ones(n_features)
    return np.append(units, precision_of(intercept_scale)) if intercept else units


def full_mean(mean: ArrayLike, n_columns: int, intercept: bool) -> np.ndarray:
    mean = np.asarray(mean, np.float64)
    if not np.isfinite(mean).all():
        raise ValueError("the mean of the prior holds NaN or inf; give finite numbers")
    if mean.ndim == 0:
        full = np.full(n_columns, float(mean))
        if intercept:
            full[-1] = 0.0
        return full
    if mean.shape == (n_columns,):
        return mean.copy()
    if intercept and mean.shape == (n_columns - 1,):
        return np.append(mean, 0.0)
    raise ValueError(_shape_error("mean", mean.shape, n_columns, intercept))


def full_precision(
    precision: ArrayLike, n_columns: int, intercept: bool, free: float
) -> np.ndarray:
    """Precision of all columns; `free` > 0 is the intercept's own."""
    precision = np.asarray(precision, np.float64)
    if not np.isfinite(precision).all():
        raise ValueError("the precision of the prior holds NaN or inf; give finite numbers")
    short = n_columns - intercept
    if precision.ndim == 0:
        full = np.full(n_columns, float(precision))
    elif precision.shape in ((n_columns,), (n_columns, n_columns)):
        full = precision.copy()
    elif intercept and precision.shape == (short,):
        full = np.append(precision, free or 1.0)
    elif intercept and precision.shape == (short, short):
        full = np.zeros((n_columns, n_columns))
        full[:-1, :-1] = precision
        full[-1, -1] = free or 1.0
    else:
        raise ValueError(_shape_error("precision", precision.shape, n_columns, intercept))
    if intercept and free:
        if full.ndim == 2:
            full[-1, :] = full[:, -1] = 0.0
            full[-1, -1] = free
        else:
            full[-1] = free
    if full.ndim == 1 and not (full > 0.0).all():
        raise ValueError("the precision of the prior must be above 0 for every column")
    if full.ndim == 2:
        if not np.allclose(full, full.T):
            raise ValueError("the precision matrix of the prior must be symmetric")
        try:
            np.linalg.cholesky(full)
        except np.linalg.LinAlgError as error:
            raise ValueError("the precision of the prior must be positive definite") from error
    return full


def _shape_error(name: str, shape: tuple[int, ...], n_columns: int, intercept: bool) -> str:
    also = f" or {n_columns - 1} without the intercept" if intercept else ""
    return (
        f"{name} of the prior has shape {shape}; give a number or an array for {n_columns} "
        f"columns{also}"
    )
