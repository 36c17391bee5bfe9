"""Repeated draws become one entry: a small hash table from a class to its place in the draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device

_FREE = -1


class Places(NamedTuple):
    """Scratch space of a draw: a quarter full at most, so that searches are short."""

    keys: np.ndarray
    places: np.ndarray


def make_places(n_drawn: int) -> Places:
    size = 1 << int(4 * max(n_drawn, 1) - 1).bit_length()
    return Places(np.empty(size, np.int32), np.empty(size, np.int32))


@device
def forget(seen):
    for spot in range(seen.keys.shape[0]):
        seen.keys[spot] = _FREE


@device
def add(seen, k, n, classes, counts):
    """Class k was drawn: one more of it, at the end if it is new; returns the new length."""
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
