"""Checks of options; errors name cause, value and remedy."""

from __future__ import annotations

import numbers
from collections.abc import Collection
from typing import Any


def is_number(value: object) -> bool:
    """Return True for a real number."""
    return isinstance(value, numbers.Real)


def is_count(value: object) -> bool:
    """Return True for a whole number of at least 0."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0


def check_whole(name: str, value: Any, or_auto: bool = False) -> None:
    """Raise ValueError unless an option is a whole number of at least 1."""
    if or_auto and isinstance(value, str) and value == "auto":
        return
    if not is_count(value) or value < 1:
        also = ", or 'auto'" if or_auto else ""
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1{also}")


def check_fraction(fraction: Any) -> None:
    """Raise ValueError unless a validation fraction lies between 0 and 1."""
    if not (is_number(fraction) and 0.0 < fraction < 1.0):
        raise ValueError(f"validation_fraction={fraction!r} must lie between 0 and 1")


def check_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Raise ValueError unless an option is one of the allowed values."""
    if value not in allowed:
        raise ValueError(
            f"{name}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}"
        )
