"""Snapshots of a fit under way, as plain numbers and arrays.

Another process that restores one continues with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, cast

import numpy as np


class Place(NamedTuple):
    """Position of a run of the loop."""

    epoch: int = 0
    done: int = 0  # rows of that epoch
    total: float = 0.0  # sum of their values
    seconds: float = 0.0  # that they took


@dataclass
class Snapshot:
    """Numbers that JSON can hold, and arrays."""

    numbers: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def put(self, prefix: str, other: Snapshot) -> Self:
        """Add another one under a prefix."""
        self.numbers |= {f"{prefix}.{name}": value for name, value in other.numbers.items()}
        self.arrays |= {f"{prefix}.{name}": array for name, array in other.arrays.items()}
        return self

    def part(self, prefix: str) -> Snapshot:
        """Return the snapshot under a prefix."""
        start = f"{prefix}."
        return Snapshot(
            {n.removeprefix(start): v for n, v in self.numbers.items() if n.startswith(start)},
            {n.removeprefix(start): a for n, a in self.arrays.items() if n.startswith(start)},
        )


def position(random_state: np.random.RandomState) -> tuple[Any, ...]:
    """Return the position of a generator in its stream of numbers."""
    return cast(tuple[Any, ...], random_state.get_state(legacy=True))


def of_random_state(state: tuple[Any, ...]) -> Snapshot:
    """Return a snapshot of a `position`."""
    name, keys, *rest = state
    return Snapshot({"name": name, "rest": [rest[0], rest[1], float(rest[2])]}, {"keys": keys})


def as_random_state(kept: Snapshot) -> tuple[Any, ...]:
    """Return the argument of `numpy.random.RandomState.set_state`."""
    return (kept.numbers["name"], kept.arrays["keys"], *kept.numbers["rest"])


def arrays_of(tag: Any, fields: tuple[str, ...], prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and arrays of some fields of a tag, each an array or a tuple of them."""
    for name in fields:
        found = getattr(tag, name, ())
        many = found if isinstance(found, tuple) else (found,)
        yield from ((f"{prefix}.{name}.{i}", array) for i, array in enumerate(many))


def fill(array: np.ndarray, kept: np.ndarray) -> None:
    """Fill an array, which tags and views share, with kept numbers."""
    if array.shape != kept.shape or array.dtype != kept.dtype:
        raise ValueError(
            f"an array of shape {kept.shape} and type {kept.dtype} was kept where the fit has "
            f"{array.shape} and {array.dtype}"
        )
    array[...] = kept
