"""What every sampler offers to people; the compiled side is `bigcat.verbs.draw`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from bigcat.compile import device, kernel
from bigcat.numerics import random as _random
from bigcat.rows import Problem, as_rows
from bigcat.verbs import draw


@dataclass(frozen=True)
class Sampler:
    """Which other classes a step looks at, and how many classes each of them stands for."""

    name: ClassVar[str]
    #: One line for tables.
    promise: ClassVar[str]
    #: Fields of its tag that a draw writes to.
    scratch: ClassVar[tuple[str, ...]] = ()

    #: May all rows of a batch share a draw, since it depends on none of them?
    shared: ClassVar[bool] = False

    def lower(self, problem: Problem) -> Any:
        """Tag below the seam; the classes of ``problem.head`` are always in and come first."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """The most classes that one draw can give."""
        raise TypeError(f"{type(self).__name__} is a base class; use a member of bigcat.samplers")

    def memory(self, n_rows: int, n_classes: int, nnz: int) -> int:
        """Bytes of its tables, for sparse rows with `nnz` non-zeros together."""
        return 0

    def with_own_scratch(self, tag: Any) -> Any:
        """The tag for another thread: what draws write to is its own, the rest is shared."""
        changed = {name: _copied(getattr(tag, name)) for name in self.scratch if hasattr(tag, name)}
        return tag._replace(**changed)

    def in_epoch(self, tag: Any, epoch: int, n_epochs: int) -> Any:
        """The tag for an epoch, counted from 0, of a fit with so many."""
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
        """Draw once, as a step would: the classes and how many classes each stands for.

        Parameters
        ----------
        n_classes, label : int
            Classes are numbered from 0; `label` is the one that is not drawn.
        seed : int
        head : array of int, optional
            Classes that are always in.
        frequencies : (n_classes,) array, optional
            How many rows each class has; the same for all if neither this nor `y` is given.
        X, y : optional
            Rows and their classes, for a sampler that looks at them.
        row : int
            The row of `X` to draw for.
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
        n = sample_many(self.lower(problem), state, rows, row, label, classes, counts)
        return classes[0, :n], counts[0, :n]


def _copied(scratch: Any) -> Any:
    """Arrays, or a tuple of them, anew."""
    return type(scratch)(*map(np.copy, scratch)) if isinstance(scratch, tuple) else scratch.copy()


@kernel
def sample_many(sampler, rng, rows, i, label, classes, counts):
    """Fill each row of `classes` and `counts` with one draw; returns the last one's size."""
    n = 0
    for r in range(classes.shape[0]):
        n, _ = draw(sampler, rng, rows, i, label, classes[r], counts[r])
    return n


@device
def always_in(head, label, classes, counts):
    """Begin a draw with the classes of the head, but the label; returns how many they are."""
    n = 0
    for k in head:
        if k != label:
            classes[n] = k
            counts[n] = 1.0
            n += 1
    return n
