"""Check values read from files against a schema of plain types and predicates."""

from __future__ import annotations

import math
from types import UnionType
from typing import Any

import numpy as np

#: Largest magnitude of a weight or an intercept: scores of float32 stay finite.
MAX_WEIGHT = 1e18


def is_whole(value: object, minimum: int = 0, maximum: float = math.inf) -> bool:
    """Return True for an integer within bounds, which True and False are not."""
    return type(value) is int and minimum <= value <= maximum


def is_number(value: object, minimum: float = -math.inf, maximum: float = math.inf) -> bool:
    """Return True for a number within bounds."""
    return type(value) in (int, float) and minimum <= value <= maximum  # type: ignore[operator]


def is_names(value: object) -> bool:
    """Return True for a list of different strings."""
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len({*value}) == len(value)
    )


def check(name: str, value: Any, schema: Any) -> None:
    """Raise ValueError unless a value agrees with a schema.

    A dict has these keys and no others, a set holds the values, a tuple stands for None or its
    item.
    """
    if isinstance(schema, tuple):
        if value is None:
            return
        (schema,) = schema
    if isinstance(schema, dict) and isinstance(value, dict):
        if differing := value.keys() ^ schema.keys():
            raise ValueError(f"{name} has missing or unknown keys: {', '.join(sorted(differing))}")
        for key, part in schema.items():
            check(f"{name}.{key}", value[key], part)
        return
    if isinstance(schema, type | UnionType):
        good = isinstance(value, schema)
    elif isinstance(schema, set):
        good = any(type(value) is type(known) and value == known for known in schema)
    else:
        good = not isinstance(schema, dict) and schema(value)
    if not good:
        raise ValueError(f"{name} is {shown(value)}")


def check_floats(
    name: str,
    array: np.ndarray,
    shape: tuple[int, ...] | None = None,
    minimum: float = -MAX_WEIGHT,
    maximum: float = MAX_WEIGHT,
) -> None:
    """Raise ValueError unless an array has floating-point numbers within bounds and the shape."""
    if array.dtype.kind != "f":
        raise ValueError(f"{name} is of {array.dtype}, not of floating-point numbers")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    if not array.size:
        return
    with np.errstate(invalid="ignore"):
        low, high = array.min(), array.max()
    if not (low >= minimum and high <= maximum):  # which NaN is not
        odd = high if low >= minimum else low
        raise ValueError(f"{name} holds {odd:g}, which is not between {minimum:g} and {maximum:g}")


def shown(value: object) -> str:
    """Return a value for a message, however long a file makes it."""
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
