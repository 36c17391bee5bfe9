"""Draws from a fixed distribution over classes in constant time: Walker's alias method.

Each of K slots has a class of its own and another one, and a share in [0, 1] of its own; a
uniform slot and then one of its two classes has any distribution (Vose, 1991, builds it in O(K)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, kernel


class Alias(NamedTuple):
    """Twelve bytes per class."""

    own: np.ndarray  # float32: share of a slot's own class in its slot
    other: np.ndarray  # int32
    probability: np.ndarray  # float32; 0 for what is never drawn


def mixture(
    class_weights: np.ndarray, power: float, uniform: float, head: np.ndarray
) -> np.ndarray:
    """Weights to a power, mixed with a `uniform` share of uniform; zero in the head."""
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
    n = len(probability)
    own, other = np.ones(n, np.float32), np.arange(n, dtype=np.int32)
    _pair_up(n * probability, own, other)
    return Alias(own, other, probability.astype(np.float32))


@kernel
def _pair_up(left, own, other):
    """Fill slots that have room with what classes have too much; `left` is used up."""
    n = left.shape[0]
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    n_small, n_large = 0, 0
    for k in range(n):
        if left[k] < 1.0:
            small[n_small] = k
            n_small += 1
        else:
            large[n_large] = k
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        k, rich = small[n_small], large[n_large - 1]
        own[k], other[k] = left[k], rich
        left[rich] -= 1.0 - left[k]
        if left[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1


@device
def pick(u, n):
    """One of n from a uniform number, and what is left of it: uniform again, and independent."""
    scaled = u * n
    chosen = min(np.int64(scaled), n - 1)
    return chosen, scaled - chosen


@device
def alias_draw(table, u):
    """The class for a uniform number u in [0, 1)."""
    slot, rest = pick(u, table.own.shape[0])
    other = np.int64(table.other[slot])  # read in any case: no branch to mispredict
    return slot if rest < table.own[slot] else other
