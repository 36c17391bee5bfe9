"""Predictions while another thread fits the same estimator.

A fit adopts its result by one assignment of ``__dict__``, and a prediction works on a shallow copy.
So a prediction sees the model before the fit or the one after it, and never parts of both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Estimator = TypeVar("Estimator")
Method = TypeVar("Method", bound=Callable[..., Any])


def shallow_copy(estimator: Estimator) -> Estimator:
    """Return an estimator with the same attributes, which later fits do not change."""
    other: Estimator = object.__new__(type(estimator))
    other.__dict__ = estimator.__dict__.copy()
    return other


def consistent(method: Method) -> Method:
    """Make a method work on a shallow copy of its estimator."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        return method(shallow_copy(self), *args, **options)

    return cast(Method, called)
