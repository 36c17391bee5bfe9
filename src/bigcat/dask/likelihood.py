"""The likelihood of rows that a cluster holds: sums over parts, one on each lane.

All that the method of Laplace asks of rows is such a sum: log-likelihoods, slopes, curvatures.  The
weights are sent to the workers, each of which works out the sum over its own rows; so the method
itself stays as it is, and its answers are those of one process, but for the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Future

from bigcat.bayes._arrays import Floats
from bigcat.bayes._column_sizes import ColumnSums
from bigcat.bayes._design import Design
from bigcat.bayes._frames import FRAMES, FrameByClass
from bigcat.bayes._likelihood import Likelihood, precision_of
from bigcat.bayes._posed import centred
from bigcat.dask.blocks import Known, Numbered, Run, one_below_the_other
from bigcat.dask.cluster import Cluster
from bigcat.noise import Noise
from bigcat.training.data import TrainingData

#: Bytes of the matrices of a block of classes, about.
BYTES_OF_BLOCK = 1 << 26
#: Bytes of what may be a part of a task itself.
SMALL = 1 << 15


# What tasks do


def rows_of_lane(
    blocks: Sequence[Numbered | Run], sizes: Sequence[int], known: Known
) -> TrainingData:
    """All rows of a lane that count, in memory."""
    samples = [block.sample(known, np.arange(n)) for block, n in zip(blocks, sizes)]
    return one_below_the_other(samples).that_counts()


def sums_of_columns(sample: TrainingData) -> tuple[Floats, float]:
    """Of dense rows: from which their means follow."""
    weights = sample.row_weights
    return weights @ np.asarray(sample.X, np.float64), float(weights.sum())


def likelihood_of(
    sample: TrainingData,
    means: Floats | None,
    intercept: bool,
    noise: Noise,
    n_classes: int,
    n_rows: int,
) -> Likelihood:
    design = Design(centred(sample.X, means), intercept, sample.row_weights)
    return Likelihood(design, sample.labels, noise, n_classes, n_rows=n_rows)


def counted(likelihood: Likelihood) -> tuple[int, float, Floats, Floats, Floats]:
    """Rows, their weight and what else is known without weights."""
    sums = ColumnSums.of(likelihood.design)
    return (
        likelihood.design.n,
        sums.weight,
        sums.squares,
        sums.counts,
        likelihood.class_weights(),
    )


def size_of(likelihood: Likelihood) -> int:
    return int(likelihood.design.n)


def values_of(likelihood: Likelihood, stack: Floats) -> tuple[Floats]:
    return (likelihood.values(stack),)


def gradients_of(likelihood: Likelihood, stack: Floats) -> tuple[Floats, Floats]:
    return likelihood.gradients(stack)


def gram_of(likelihood: Likelihood) -> tuple[Floats]:
    return (likelihood.design.gram(),)


def squared_sums_of(likelihood: Likelihood) -> tuple[Floats]:
    return (likelihood.design.squared_sums(),)


def some_rows_of(likelihood: Likelihood, rows: np.ndarray, n_rows: int) -> Likelihood:
    return likelihood.of_rows(rows, n_rows)


def curvature_of(
    likelihood: Likelihood, form: str, mode: Floats, prior: Floats, classes: slice | None
) -> Floats:
    """What the rows of a part, and the prior, know of the weights of some classes."""
    precisions = FRAMES[form][0]
    if classes is None:
        found: Floats = precisions(likelihood, mode, prior)
        return found
    own = prior if len(prior) == 1 else prior[classes]
    return np.asarray(precisions(likelihood, mode, own, classes))


def frame_of(form: str, mode: Floats, sums: Sequence[Floats], classes: slice | None) -> Any:
    """The frame of a block of classes, from the curvatures of all parts."""
    return FRAMES[form][1](mode if classes is None else mode[classes], np.sum(sums, axis=0))


def added(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(np.sum(some, axis=0) for some in zip(*parts))


@dataclass(frozen=True)
class Parts:
    """Some of the rows on each lane, as a `Likelihood` or a `TrainingData`."""

    cluster: Cluster
    on_lanes: list[Future[Any]]

    def each(self, name: str, function: Callable[..., Any], *arguments: Any) -> list[Future[Any]]:
        """A task for each part, with the same arguments."""
        return [
            self.cluster.submit(name, function, part, *arguments, lane=lane)
            for lane, part in enumerate(self.on_lanes)
        ]

    def sum(self, function: Callable[..., tuple[Any, ...]], *arguments: np.ndarray) -> Any:
        """Of what a function gives for each part, item by item.

        Large arguments are sent to the workers once, past the scheduler, and so are answers.
        """
        if sum(argument.nbytes for argument in arguments) <= SMALL:
            return added(self.cluster.results(self.each("part", function, *arguments)))

        def work() -> Any:
            found = self.each("part", function, *(self.cluster.put(a) for a in arguments))
            return self.cluster.fetch(self.cluster.submit("sum", added, found))

        return self.cluster.repeated(work)


class DesignOfParts(Design):
    """Sums over the rows of all parts."""

    def __init__(self, parts: Parts, intercept: bool, n_columns: int, n: int, weight: float):
        self.parts, self.intercept = parts, intercept
        self.n, self.n_columns, self.total_weight = n, n_columns, weight

    def gram(self, weights: Floats | None = None) -> Floats:
        assert weights is None
        found: Floats = self.parts.sum(gram_of)[0]
        return found

    def squared_sums(self) -> Floats:
        found: Floats = self.parts.sum(squared_sums_of)[0]
        return found


class LikelihoodOfParts(Likelihood):
    """The sum over parts: what `bigcat.bayes.Laplace` asks of rows.

    Parameters
    ----------
    parts : Parts
        Of `Likelihood`.
    noise : Noise
    n_classes, n_columns : int
    intercept : bool
    """

    def __init__(
        self, parts: Parts, noise: Noise, n_classes: int, n_columns: int, intercept: bool
    ) -> None:
        self.parts, self.noise, self.n_classes = parts, noise, n_classes
        n, weight, squares, counts, of_classes = parts.sum(counted)
        self._class_weights: Floats = of_classes
        self.column_sums = ColumnSums(squares, counts, float(weight))
        self.design = DesignOfParts(parts, intercept, n_columns, int(n), float(weight))
        self.dtype = precision_of(self.design.n, n_classes, n_columns, noise)
        self.n_gradients = 0

    def class_weights(self) -> Floats:
        return self._class_weights

    def values(self, stack: Floats) -> Floats:
        found: Floats = self.parts.sum(values_of, stack)[0]
        return found

    def gradients(self, stack: Floats) -> tuple[Floats, Floats]:
        self.n_gradients += len(stack)
        values, gradients = self.parts.sum(gradients_of, stack)
        return values, gradients

    def of_rows(self, rows: np.ndarray, n_rows: int | None = None) -> Likelihood:
        """Rows are numbered part after part."""
        cluster, parts = self.parts.cluster, self.parts
        sizes = cluster.results(parts.each("size", size_of))
        edges = np.cumsum([0, *sizes])
        some = []
        for lane, (first, last) in enumerate(pairwise(edges)):
            own = rows[(rows >= first) & (rows < last)] - first
            if len(own):
                arguments = (parts.on_lanes[lane], cluster.put(own), n_rows or len(rows))
                some.append(cluster.submit("some", some_rows_of, *arguments, lane=lane))
        n_columns, intercept = self.design.n_columns, self.design.intercept
        return LikelihoodOfParts(
            Parts(cluster, some), self.noise, self.n_classes, n_columns, intercept
        )


def make_frame(form: str, likelihood: LikelihoodOfParts, mode: Floats, prior: Floats) -> Any:
    """As `bigcat.bayes._frames.make_frame`, with a task for each block of classes."""
    parts, n_lanes = likelihood.parts, len(likelihood.parts.on_lanes)
    cluster, kind = parts.cluster, FRAMES[form][1]
    by_class = isinstance(kind, type) and issubclass(kind, FrameByClass)
    blocks = _blocks(form, mode.shape, n_lanes) if by_class else [None]

    def work() -> list[Any]:
        at, no_prior = cluster.put(mode), np.zeros((1, 1))
        priors = [cluster.put(prior), *([no_prior] * (n_lanes - 1))]
        frames = []
        for number, classes in enumerate(blocks):
            sums = [
                cluster.submit("curvature", curvature_of, part, form, at, own, classes, lane=lane)
                for lane, (part, own) in enumerate(zip(parts.on_lanes, priors))
            ]
            lane = number % n_lanes
            frames.append(cluster.submit("frame", frame_of, form, at, sums, classes, lane=lane))
        return [cluster.fetch(frame) for frame in frames]

    found = cluster.repeated(work)
    return type(found[0]).joined(found) if by_class else found[0]


def _blocks(form: str, shape: tuple[int, ...], n_lanes: int) -> list[slice | None]:
    """Classes of each task: at least as many blocks as lanes, and none too large."""
    n_classes, n_columns = shape
    per_class = 8 * n_columns * (n_columns if form == "class" else 1)
    n_blocks = min(n_classes, max(n_lanes, -(-n_classes * per_class // BYTES_OF_BLOCK)))
    edges = [n_classes * i // n_blocks for i in range(n_blocks + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
