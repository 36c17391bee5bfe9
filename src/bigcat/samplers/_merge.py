"""Merging of repeated draws by a small hash table from classes to positions in the draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device

_FREE = -1


class Places(NamedTuple):
    """Scratch memory of a draw, at most a quarter full to keep searches short."""

    keys: np.ndarray
    places: np.ndarray


def make_places(n_drawn: int) -> Places:
    """Allocate the scratch memory for `n_drawn` draws."""
    size = 1 << int(4 * max(n_drawn, 1) - 1).bit_length()
    return Places(np.empty(size, np.int32), np.empty(size, np.int32))


@device
def forget(seen):
    """Clear the table."""
    for spot in range(seen.keys.shape[0]):
        seen.keys[spot] = _FREE


@device
def add(seen, k, n, classes, counts):
    """Record a draw of class k, appended if it is new; return the new length."""
    mask = seen.keys.shape[0] - 1
    spot = (k * 0x9E3779B1 >> 15) & mask
    while seen.keys[spot] != _FREE:
        if seen.keys[spot] == k:
            counts[seen.places[spot]] += 1.0
            return n
        spot = (spot + 1) & mask
    seen.keys[spot], seen.places[spot] = k, n
    classes[n], counts[n] = k, 1.0
    return n + 1
