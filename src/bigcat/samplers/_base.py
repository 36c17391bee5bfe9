"""Base class of samplers; their compiled side is `bigcat.verbs.draw`."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from bigcat.compile import device, kernel
from bigcat.numerics import random as _random
from bigcat.part import Part
from bigcat.rows import Problem, as_rows
from bigcat.verbs import draw


@dataclass(frozen=True, repr=False)
class Sampler(Part):
    """Choice of the other classes that a step visits, with their importance weights.

    Parameters
    ----------
    exact_classes : int or sequence of labels, default=0
        Classes that every row visits in addition to the drawn ones; a number selects that many of
        the most frequent classes. Raise it if few classes have most rows: sampling noise falls,
        and the one-vs-each bound gets tighter, at the cost of more work per row.
    """

    name: ClassVar[str]
    #: One-line description for tables.
    summary: ClassVar[str]
    #: Fields of the tag that draws write to.
    scratch: ClassVar[tuple[str, ...]] = ()

    #: True if all rows of a batch may share a draw, which then depends on none of them.
    shared: ClassVar[bool] = False
    #: True if a draw returns every other class.
    all_classes: ClassVar[bool] = False
    exact_classes: Any = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact_classes", _checked_classes(self.exact_classes))
        n = self.n_drawn
        if n is not None and not (isinstance(n, numbers.Integral) and n >= 1):
            raise ValueError(f"n_negatives={n!r} must be a whole number of at least 1")

    @property
    def n_exact(self) -> int:
        """Return the number of `exact_classes`."""
        chosen = self.exact_classes
        return chosen if isinstance(chosen, int) else len(chosen)

    @property
    def n_drawn(self) -> int | None:
        """Return the number of draws per row; None if classes are not drawn."""
        return getattr(self, "n_negatives", None)

    def head_of(
        self, frequencies: np.ndarray, number_of: Callable[[Any], np.ndarray]
    ) -> np.ndarray:
        """Return the sorted numbers of the `exact_classes`.

        Parameters
        ----------
        frequencies : (n_classes,) array
            Total row weight of each class.
        number_of : callable
            Maps labels to their numbers; raises ValueError for unknown labels.
        """
        chosen = self.exact_classes
        if isinstance(chosen, int):
            most = np.argsort(-frequencies, kind="stable")[:chosen]
            return np.sort(most).astype(np.int64)
        try:
            return np.unique(number_of(chosen))
        except ValueError as error:
            raise ValueError(
                f"exact_classes={list(chosen)!r} holds labels that y does not; give labels of y, "
                "or a number of classes"
            ) from error

    def check_rows(self, sparse: bool) -> None:
        """Raise ValueError if the sampler cannot draw for rows of this format."""

    def lower(self, problem: Problem) -> Any:
        """Return the tag that compiled code sees.

        The classes of ``problem.head`` are part of every draw and come first.
        """
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the maximal number of classes of one draw."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def memory(self, n_rows: int, n_classes: int, nnz: int) -> int:
        """Return the bytes of the tables, for sparse rows with `nnz` non-zeros in total."""
        return 0

    def with_own_scratch(self, tag: Any) -> Any:
        """Return a copy of the tag for another thread, with scratch arrays of its own."""
        changed = {name: _copied(getattr(tag, name)) for name in self.scratch if hasattr(tag, name)}
        return tag._replace(**changed)

    def in_epoch(self, tag: Any, epoch: int, n_epochs: int) -> Any:
        """Return the tag for an epoch, counted from 0."""
        return tag

    def sample(
        self,
        n_classes: int,
        label: int,
        seed: int = 0,
        head: np.ndarray | None = None,
        *,
        frequencies: np.ndarray | None = None,
        X: Any = None,
        y: np.ndarray | None = None,
        row: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw once, as a step would; return the classes and their importance weights.

        Parameters
        ----------
        n_classes, label : int
            Classes are numbered from 0; `label` is never drawn.
        seed : int, default=0
            Seed of the draw.
        head : array of int, optional
            Classes that are part of every draw.
        frequencies : (n_classes,) array, optional
            Number of rows per class; equal for all classes by default.
        X, y : optional
            Rows and their classes, for samplers that use them.
        row : int, default=0
            Row of `X` to draw for.

        Returns
        -------
        classes : array of int
        counts : array of float
            Importance weights: the number of classes that each drawn class represents.

        Examples
        --------
        >>> from bigcat.samplers import Uniform
        >>> classes, counts = Uniform(n_negatives=3).sample(n_classes=10, label=4)
        >>> counts.tolist()
        [3.0, 3.0, 3.0]
        """
        if X is None:
            labels = np.arange(n_classes)
            weights = np.ones(n_classes) if frequencies is None else np.asarray(frequencies, float)
            rows = as_rows(np.empty((n_classes, 0)), np.float64)
        else:
            labels = np.asarray(y, np.int64)
            weights = np.ones(len(labels))
            rows = as_rows(X.tocsr() if scipy.sparse.issparse(X) else X, np.float64)
        n_features = 0 if X is None else X.shape[1]
        classes_in = np.asarray([] if head is None else head, np.int64)
        problem = Problem(rows, labels, weights, n_features, n_classes, head=classes_in)
        width = self.width(n_classes, classes_in)
        classes, counts = np.empty((1, width), np.int64), np.empty((1, width + 1))
        state = _random.new_state(np.random.RandomState(seed))
        n = sample_many.plain(self.lower(problem), state, rows, row, label, classes, counts)
        return classes[0, :n], counts[0, :n]


def _checked_classes(chosen: Any) -> int | tuple[Any, ...]:
    """Return a number, or a hashable tuple of labels."""
    if isinstance(chosen, numbers.Integral) and not isinstance(chosen, bool) and int(chosen) >= 0:
        return int(chosen)
    if chosen is None or isinstance(chosen, numbers.Number | str):
        raise ValueError(
            f"exact_classes={chosen!r} must be a whole number of at least 0 or a list of labels"
        )
    return tuple(np.asarray(chosen).tolist())


def _copied(scratch: Any) -> Any:
    """Copy an array or a tuple of arrays."""
    return type(scratch)(*map(np.copy, scratch)) if isinstance(scratch, tuple) else scratch.copy()


@kernel
def sample_many(sampler, rng, rows, i, label, classes, counts):
    """Fill each row of `classes` and `counts` with one draw; return the size of the last."""
    n = 0
    for r in range(classes.shape[0]):
        n, _ = draw(sampler, rng, rows, i, label, classes[r], counts[r])
    return n


@kernel
def first_invalid_draw(sampler, rng, rows, labels, some, n_classes, classes, counts):
    """Return the first row of `some` with an invalid draw, and the class.

    A draw is invalid if it contains the label or a class that does not exist; (-1, -1) if all are
    valid.
    """
    for i in some:
        n, _ = draw(sampler, rng, rows, i, labels[i], classes, counts)
        for c in range(n):
            k = classes[c]
            if k == labels[i] or k < 0 or k >= n_classes:
                return i, k
    return -1, -1


@device
def always_in(head, label, classes, counts):
    """Start a draw with the classes of the head except the label; return their number."""
    n = 0
    for k in head:
        if k != label:
            classes[n] = k
            counts[n] = 1.0
            n += 1
    return n
