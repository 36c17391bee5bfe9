"""Checks of an estimator's parameters."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

_WHOLE = ("n_negatives", "max_epochs", "n_iter_no_change", "n_nodes")


_MAY_BE_AUTO = ("n_negatives", "max_epochs")


_CHOICES = {
    "init": ("frequencies", "zero", "random"),
    "probabilities": ("quadrature", "importance"),
    "expectation": ("quadrature", "sample"),
    "variational": ("auto", "gaussian", "logistic", "gumbel"),
}


def check_parameters(estimator: Any) -> None:
    """Raise for a parameter that no method could use, with its value and what would do."""
    for name in _WHOLE:
        value = getattr(estimator, name, 1)
        if name in _MAY_BE_AUTO and isinstance(value, str) and value == "auto":
            continue
        if not is_count(value) or value < 1:
            also = ", or 'auto'" if name in _MAY_BE_AUTO else ""
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1{also}")
    n_threads = getattr(estimator, "n_threads", None)
    if n_threads is not None and not (is_count(n_threads) and n_threads >= 1):
        raise ValueError(
            f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores"
        )
    rank: Any = getattr(estimator, "rank", None)
    if rank is not None and rank != "auto" and not (is_count(rank) and rank >= 1):
        raise ValueError(
            f"rank={rank!r} must be a whole number of at least 1, None for weights of full rank, "
            "or 'auto'"
        )
    batch_size: Any = getattr(estimator, "batch_size", "auto")
    if batch_size != "auto" and not (is_count(batch_size) and batch_size >= 1):
        raise ValueError(
            f"batch_size={batch_size!r} must be a whole number of at least 1, or 'auto'"
        )
    for name, allowed in _CHOICES.items():
        value = getattr(estimator, name, allowed[0])
        if value not in allowed:
            raise ValueError(
                f"{name}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}"
            )
    l2 = getattr(estimator, "l2", 0.0)
    named = isinstance(l2, str) and l2 in ("auto", "path")
    if not named and not (is_number(l2) and 0.0 <= l2 < math.inf):
        raise ValueError(f"l2={l2!r} must be a finite number of at least 0, 'auto' or 'path'")
    stopping = getattr(estimator, "early_stopping", False)
    if not isinstance(stopping, (bool, np.bool_)) and stopping != "auto":
        raise ValueError(f"early_stopping={stopping!r} must be True, False or 'auto'")
    tol = estimator.tol
    if tol is not None and not (is_number(tol) and tol >= 0.0):
        raise ValueError(f"tol={tol!r} must be a number of at least 0, or None")
    rate = estimator.learning_rate
    if rate != "auto" and not (is_number(rate) and 0.0 < rate < math.inf):
        raise ValueError(f"learning_rate={rate!r} must be a number above 0, or 'auto'")
    callbacks = getattr(estimator, "callbacks", None) or ()
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise ValueError(f"callbacks={callbacks!r} must be a list of functions, or None")
    n_exact = getattr(estimator, "exact_classes", 0)
    if n_exact is None or (is_number(n_exact) and not is_count(n_exact)):
        raise ValueError(
            f"exact_classes={n_exact!r} must be a whole number of at least 0 or a list of labels"
        )
    fraction = getattr(estimator, "validation_fraction", 0.5)
    if not (is_number(fraction) and 0.0 < fraction < 1.0):
        raise ValueError(f"validation_fraction={fraction!r} must lie between 0 and 1")


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def is_count(value: Any) -> bool:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and bool(value >= 0)
