"""Samplers by class frequency, with replacement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from bigcat.compile import implement
from bigcat.numerics import random as _random
from bigcat.rows import Problem
from bigcat.samplers._alias import Alias, alias_draw, alias_table, mixture
from bigcat.samplers._base import Sampler, always_in
from bigcat.samplers._merge import Places, add, forget, make_places
from bigcat.verbs import draw, label_count

ALIAS_BYTES = 12  # a class


class FrequencyTag(NamedTuple):
    """Tag of `Frequency`, `Stratified` and `Shared`."""

    head: np.ndarray  # classes that are always in
    table: Alias  # over all others
    n_drawn: int
    seen: Places


@dataclass(frozen=True, repr=False)
class Frequency(Sampler):
    """`n_negatives` draws by class frequency to a power, mixed with uniform draws.

    Draws are with replacement: a class of probability q that is drawn c times out of n appears
    once, with the importance weight c / (n q). Draws of the label are dropped, so a row may have
    none at all.

    Parameters
    ----------
    n_negatives : int, default=32
        Draws per row. More of them reduce the noise of steps, at proportional cost.
    power : float, default=0.75
        Exponent of the frequency: 1 draws classes as often as they occur, 0 uniformly.
    uniform : float, default=0.5
        Share of uniform draws, above 0. Without them classes without rows would never be drawn, and
        rare ones would have huge importance weights.
    exact_classes
        See `Sampler`.

    Examples
    --------
    >>> from bigcat.samplers import Frequency
    >>> sampler = Frequency(n_negatives=100)
    >>> classes, counts = sampler.sample(4, label=2, frequencies=[900, 90, 9, 1])
    >>> sorted(classes.tolist())
    [0, 1, 3]
    """

    name: ClassVar[str] = "frequency"
    summary: ClassVar[str] = "by class frequency mixed with uniform, with replacement"
    scratch: ClassVar[tuple[str, ...]] = ("seen",)
    n_negatives: int = 32
    power: float = 0.75
    uniform: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mixture(self.power, self.uniform)

    def lower(self, problem: Problem) -> FrequencyTag:
        """Return the tag."""
        q = mixture(problem.class_weights(), self.power, self.uniform, problem.head)
        n_drawn = self.n_negatives if q.any() else 0  # none where the head is everything
        return FrequencyTag(problem.head, alias_table(q), n_drawn, make_places(n_drawn))

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the maximal number of classes of one draw."""
        n_head = 0 if head is None else len(head)
        return n_head + min(self.n_negatives, n_classes - 1)

    def memory(self, n_rows: int, n_classes: int, nnz: int) -> int:
        """Return the bytes of the alias table."""
        return ALIAS_BYTES * n_classes


@dataclass(frozen=True, repr=False)
class Stratified(Sampler):
    """The `n_head` most frequent classes always, plus `n_negatives` draws from the others.

    The head comes first with importance weight 1, together with `exact_classes`; the tail is drawn
    as by `Frequency`.

    Parameters
    ----------
    n_head : int, default=512
        Number of most frequent classes that every row visits. Raise it for less noise if few
        classes have most rows; the cost per row is proportional to ``n_head + n_negatives``.
    n_negatives : int, default=16
        Draws per row from the other classes.
    power, uniform : float
        As in `Frequency`, within the tail.
    exact_classes
        See `Sampler`.

    Examples
    --------
    >>> from bigcat.samplers import Stratified
    >>> sampler = Stratified(n_head=3, n_negatives=2)
    >>> classes, counts = sampler.sample(6, label=0, frequencies=[50, 20, 15, 5, 5, 5])
    >>> classes[:2].tolist(), counts[:2].tolist()
    ([1, 2], [1.0, 1.0])
    """

    name: ClassVar[str] = "stratified"
    summary: ClassVar[str] = "the most frequent classes always, the others by frequency"
    n_head: int = 512
    n_negatives: int = 16
    power: float = 0.75
    uniform: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mixture(self.power, self.uniform)

    def lower(self, problem: Problem) -> FrequencyTag:
        """Return the tag."""
        most = np.argsort(-problem.class_weights(), kind="stable")[: self.n_head]
        head = np.concatenate([problem.head, np.setdiff1d(most, problem.head)])
        tail = Frequency(self.n_negatives, self.power, self.uniform)
        return tail.lower(replace(problem, head=head))

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the maximal number of classes of one draw."""
        n_head = min(self.n_head, n_classes) + (0 if head is None else len(head))
        return min(n_head + self.n_negatives, n_classes)

    def memory(self, n_rows: int, n_classes: int, nnz: int) -> int:
        """Return the bytes of the alias table."""
        return ALIAS_BYTES * n_classes


@dataclass(frozen=True, repr=False)
class Shared(Frequency):
    """Draws of `Frequency` that all rows of a batch share.

    The scores of a batch are then a product of matrices, so dense rows and low-rank models visit
    many more classes at the same cost. Each row leaves out its own label, and its sample is one of
    `Frequency`; only the rows of a batch are no longer independent.

    Parameters
    ----------
    n_negatives, power, uniform, exact_classes
        As in `Frequency`.
    n_first : int, optional
        Draws in the first third of the epochs. Fewer suffice there, while steps are long; the
        quality of a fit depends on the later ones.

    Examples
    --------
    >>> from bigcat.samplers import Shared
    >>> Shared().n_negatives
    384
    """

    name: ClassVar[str] = "shared"
    summary: ClassVar[str] = "by frequency, the same for a batch; products of matrices"
    shared: ClassVar[bool] = True
    n_negatives: int = 384
    n_first: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_first is not None and not 1 <= self.n_first <= self.n_negatives:
            raise ValueError(
                f"n_first={self.n_first!r} must be from 1 to n_negatives={self.n_negatives}"
            )

    def in_epoch(self, tag: FrequencyTag, epoch: int, n_epochs: int) -> FrequencyTag:
        """Return the tag for an epoch, with `n_first` draws in the first third of the epochs."""
        if self.n_first is None or 3 * (epoch + 1) > n_epochs:
            return tag
        return tag._replace(n_drawn=self.n_first)


def check_mixture(power: float, uniform: float) -> None:
    """Raise ValueError for a power or uniform share out of range."""
    if not 0.0 <= power < np.inf:
        raise ValueError(f"power={power!r} must be a finite number, not below 0")
    if not 0.0 < uniform <= 1.0:
        raise ValueError(
            f"uniform={uniform!r} must be above 0 and at most 1: with no uniform draws classes "
            "without rows would never be drawn; set a small number such as 0.05"
        )


@implement(draw, FrequencyTag)
def _(sampler, rng, rows, i, label, classes, counts):
    table, seen, n_drawn = sampler.table, sampler.seen, sampler.n_drawn
    n = n_always = always_in(sampler.head, label, classes, counts)
    forget(seen)
    for _ in range(n_drawn):
        k = alias_draw(table, _random.uniform(rng))
        # Dropped, not drawn again: importance weights then do not depend on the label.
        if k != label:
            n = add(seen, k, n, classes, counts)
    for c in range(n_always, n):
        counts[c] /= n_drawn * table.probability[classes[c]]
    counts[n] = label_count(sampler, label)
    return n, n_always


@implement(label_count, FrequencyTag)
def _(sampler, label):
    q = sampler.table.probability[label]
    return 1.0 / (sampler.n_drawn * q) if q > 0.0 else 1.0
