"""Uniform sampling of the other classes, without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bigcat.compile import device, implement
from bigcat.numerics import random as _random
from bigcat.rows import Problem
from bigcat.samplers._base import Sampler, always_in
from bigcat.verbs import draw

_FREE = np.int64(-1)


class UniformTag(NamedTuple):
    """Tag of `Uniform` without exact classes."""

    n_classes: int
    n_drawn: int
    table: np.ndarray  # scratch: hash set of what the current row has drawn
    pool: np.ndarray  # scratch: list to shuffle, used where most classes are drawn


class HeadAndUniformTag(NamedTuple):
    """Tag of `Uniform` with exact classes."""

    head: np.ndarray  # classes that are always in
    rest: np.ndarray  # all others
    place: np.ndarray  # a class's place in `rest`, -1 for those in the head
    n_drawn: int
    table: np.ndarray
    pool: np.ndarray


@dataclass(frozen=True, repr=False)
class Uniform(Sampler):
    """Uniform draw of `n_negatives` other classes, without replacement.

    Parameters
    ----------
    n_negatives : int, default=32
        Classes drawn per row, or all others if there are fewer. More of them reduce the noise of
        steps, at proportional cost.
    exact_classes
        See `Sampler`.

    Examples
    --------
    >>> from bigcat.samplers import Uniform
    >>> classes, counts = Uniform(n_negatives=3).sample(n_classes=10, label=4, seed=0)
    >>> len(set(classes)), 4 in classes, float(counts[0])
    (3, False, 3.0)
    """

    name: ClassVar[str] = "uniform"
    summary: ClassVar[str] = "uniform over the other classes, without replacement"
    scratch: ClassVar[tuple[str, ...]] = ("table", "pool")
    n_negatives: int = 32

    def lower(self, problem: Problem) -> Any:
        """Return the tag."""
        n_classes = problem.n_classes
        if len(problem.head):
            return self._lower_with_head(n_classes, problem.head)
        n_drawn = min(self.n_negatives, n_classes - 1)
        return UniformTag(n_classes, n_drawn, *_scratch(n_drawn, n_classes - 1))

    def _lower_with_head(self, n_classes: int, head: np.ndarray) -> HeadAndUniformTag:
        rest = np.setdiff1d(np.arange(n_classes, dtype=np.int64), head)
        place = np.full(n_classes, -1, dtype=np.int64)
        place[rest] = np.arange(len(rest))
        n_drawn = min(self.n_negatives, len(rest))
        return HeadAndUniformTag(head, rest, place, n_drawn, *_scratch(n_drawn, len(rest)))

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the maximal number of classes of one draw."""
        n_head = 0 if head is None else len(head)
        return n_head + min(self.n_negatives, n_classes - 1)


def _scratch(n_drawn: int, n_others: int) -> tuple[np.ndarray, np.ndarray]:
    size = 1 << int(np.ceil(np.log2(4 * max(n_drawn, 1))))
    most = 2 * n_drawn > n_others - 1  # the label may be one of them
    return np.full(size, _FREE), np.empty(n_others if most else 0, dtype=np.int64)


@device
def _distinct(rng, n, n_others, table, pool, out, start):
    """Write `n` distinct numbers of 0..n_others-1 to out[start:], uniformly."""
    if n >= n_others:
        for c in range(n_others):
            out[start + c] = c
    elif 2 * n > n_others:  # the front of a shuffled list
        for c in range(n_others):
            pool[c] = c
        for c in range(n):
            other = c + _random.below(rng, n_others - c)
            out[start + c] = pool[other]
            pool[other] = pool[c]  # what is in front is not looked at again
    else:  # draw again what is in the hash set already
        mask = table.shape[0] - 1
        for spot in range(table.shape[0]):
            table[spot] = _FREE
        for c in range(n):
            while True:
                chosen = _random.below(rng, n_others)
                spot = (chosen * 0x9E3779B1) & mask
                while table[spot] != _FREE and table[spot] != chosen:
                    spot = (spot + 1) & mask
                if table[spot] == _FREE:
                    break
            table[spot] = chosen
            out[start + c] = chosen


@implement(draw, UniformTag)
def _(sampler, rng, rows, i, label, classes, counts):
    n, n_others = sampler.n_drawn, sampler.n_classes - 1
    _distinct(rng, n, n_others, sampler.table, sampler.pool, classes, 0)
    for c in range(n):
        if classes[c] >= label:  # skip the label
            classes[c] += 1
        counts[c] = n_others / n
    counts[n] = n_others / n
    return n, 0


@implement(draw, HeadAndUniformTag)
def _(sampler, rng, rows, i, label, classes, counts):
    n = n_always = always_in(sampler.head, label, classes, counts)
    place = sampler.place[label]
    n_others = sampler.rest.shape[0] - (1 if place >= 0 else 0)
    n_drawn = min(sampler.n_drawn, n_others)
    _distinct(rng, n_drawn, n_others, sampler.table, sampler.pool, classes, n)
    for c in range(n, n + n_drawn):
        chosen = classes[c]
        if place >= 0 and chosen >= place:
            chosen += 1
        classes[c] = sampler.rest[chosen]
        counts[c] = n_others / n_drawn
    # A label of the head has weight 1; others have that of a drawn class.
    counts[n + n_drawn] = n_others / n_drawn if place >= 0 and n_drawn > 0 else 1.0
    return n + n_drawn, n_always
