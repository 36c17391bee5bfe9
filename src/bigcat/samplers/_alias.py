"""Draws from a fixed distribution over classes in constant time (Walker's alias method).

Each of K slots holds its own class and another one, with a share in [0, 1] for its own. Drawing a
uniform slot and then one of its two classes gives any distribution (Vose, 1991, builds the table in
O(K)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device


class Alias(NamedTuple):
    """Alias table, twelve bytes per class."""

    own: np.ndarray  # float32: share of a slot's own class in its slot
    other: np.ndarray  # int32
    probability: np.ndarray  # float32; 0 for what is never drawn


def mixture(
    class_weights: np.ndarray, power: float, uniform: float, head: np.ndarray
) -> np.ndarray:
    """Return class weights to a power, mixed with a `uniform` share of uniform; 0 in the head."""
    p = np.where(class_weights > 0.0, class_weights, 0.0) ** power
    rest = np.ones(len(p))
    p[head] = rest[head] = 0.0
    total, n_rest = p.sum(), rest.sum()
    if n_rest == 0.0:
        return rest
    if total == 0.0:  # no row of any of them
        return rest / n_rest
    return (1.0 - uniform) / total * p + uniform / n_rest * rest


def alias_table(probability: np.ndarray) -> Alias:
    """Build the alias table: fill slots that have room with the surplus of other classes."""
    n = len(probability)
    left = n * probability
    own, other = np.ones(n, np.float32), np.arange(n, dtype=np.int32)
    small, large = np.flatnonzero(left < 1.0), np.flatnonzero(left >= 1.0)
    if not len(large):  # nothing is ever drawn
        return Alias(own, other, probability.astype(np.float32))
    room, surplus = np.cumsum(1.0 - left[small]), np.cumsum(left[large] - 1.0)
    # A small class's slot is filled by the large one whose surplus covers where its room begins.
    filling = np.searchsorted(surplus, room - (1.0 - left[small]), side="right")
    own[small] = left[small]
    other[small] = large[np.minimum(filling, len(large) - 1)]
    # That class may have given more than its surplus; the next large one makes up for it.
    last = np.searchsorted(room, surplus[:-1])
    owes = last < len(room)
    owing = large[:-1][owes]
    own[owing] = 1.0 - (room[last[owes]] - surplus[:-1][owes])
    other[owing] = large[1:][owes]
    return Alias(own, other, probability.astype(np.float32))


@device
def pick(u, n):
    """Return one of n for a uniform number, and the remainder: uniform and independent."""
    scaled = u * n
    chosen = min(np.int64(scaled), n - 1)
    return chosen, scaled - chosen


@device
def alias_draw(table, u):
    """Return the class for a uniform number u in [0, 1)."""
    slot, rest = pick(u, table.own.shape[0])
    other = np.int64(table.other[slot])  # read in any case: no branch to mispredict
    return slot if rest < table.own[slot] else other
