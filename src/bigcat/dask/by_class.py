"""Exact fits of full rank whose weights no machine has to hold: each lane owns some classes.

With the normalisers of the rows fixed, which are the local parameters of augment-and-reduce at
their best, the softmax falls apart by class (Gopal and Yang, 2013): who owns a block of classes
works out their slopes from the rows and one number per row.  That number is all that is exchanged,
and the slopes are exact; so L-BFGS goes the way that it goes on one machine.  Its vectors are in
blocks, too.  This process sees their inner products alone, and from these what the next direction
is made of (Chen, Wang and Zhou, 2014).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from distributed import Future
from sklearn.exceptions import ConvergenceWarning

from bigcat.bounds import Exact
from bigcat.caller import warn_caller
from bigcat.dask.blocks import Known, Numbered, Run
from bigcat.dask.cluster import Cluster
from bigcat.dask.fit import order_of
from bigcat.dask.source import Lanes
from bigcat.dask.survey import Survey
from bigcat.linear import FullRankWeights, LinearModel
from bigcat.solvers import LBFGS, DivergedError
from bigcat.training import progress
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.fit import DivergedFit, FitResult, OnEpochEnd
from bigcat.training.lbfgs import BLOCK
from bigcat.training.model_view import ModelView
from bigcat.training.record import Record
from bigcat.training.start import scores_of_frequencies

#: A step is taken if it gains this part of what its slope promises; else a shorter one is tried.
PART_OF_PROMISE, SHORTER, MOST_TRIALS = 1e-4, 0.4, 30


class Units(NamedTuple):
    """Of the search: weights times the usual length of rows, and means over all rows."""

    length: float
    total: float
    l2: float
    fit_intercept: bool


@dataclass(frozen=True)
class Owned:
    """A block of classes, as the search sees it: weights with the intercept last, (B, D + 1).

    `steps` and `bends` are the last moves, and what they changed of the slopes.
    """

    first: int
    place: np.ndarray
    slopes: np.ndarray
    steps: tuple[np.ndarray, ...] = ()
    bends: tuple[np.ndarray, ...] = ()

    def basis(self) -> list[np.ndarray]:
        """What directions are made of."""
        return [*self.steps, *self.bends, self.slopes]

    def __sizeof__(self) -> int:
        return sum(array.nbytes for array in (self.place, *self.basis()))


class Tried(NamedTuple):
    """A block at a place that is tried, and what the others have to know of it."""

    place: np.ndarray
    log_sums: np.ndarray  # over the classes of the block, one number per row
    scores: float  # the sum of those of the rows' own classes
    ridge: float


class Norms(NamedTuple):
    """What all blocks together make of the rows: one number per row, and the value."""

    log_sums: np.ndarray
    log_likelihood: float
    ridge: float


class AllRows(NamedTuple):
    """Rows as every task sees them: folders are read, chunks are sent to whoever needs them."""

    blocks: list[Any]
    sizes: list[int]
    known: Any


# What tasks do


def chunks(
    blocks: Sequence[Numbered | Run], sizes: Sequence[int], known: Known, width: int
) -> Iterator[tuple[slice, TrainingData]]:
    """All rows, so many at a time that their scores are few, with their places among all."""
    done, step = 0, max(1, BLOCK // width)
    for block, n in zip(blocks, sizes):
        for first in range(0, n, step):
            last = min(first + step, n)
            yield slice(done + first, done + last), block.sample(known, np.arange(first, last))
        done += n


def row_weights_of(
    blocks: Sequence[Numbered | Run], sizes: Sequence[int], known: Known
) -> np.ndarray:
    return np.concatenate([s.row_weights for _, s in chunks(blocks, sizes, known, 1)])


def first_place(first: int, intercepts: np.ndarray, n_features: int) -> Owned:
    place = np.zeros((len(intercepts), n_features + 1))
    place[:, -1] = intercepts
    return Owned(first, place, np.zeros_like(place))


def tried(
    owned: Owned,
    coefficients: np.ndarray,
    step: float,
    units: Units,
    blocks: Sequence[Numbered | Run],
    sizes: Sequence[int],
    known: Known,
) -> Tried:
    """A step along a combination of the basis."""
    place = owned.place.copy()
    for coefficient, vector in zip(coefficients, owned.basis()):
        place += (step * coefficient) * vector
    log_sums, of_labels = np.empty(sum(sizes)), 0.0
    for rows, sample in chunks(blocks, sizes, known, len(place)):
        scores = _scores(sample, place, units)
        own, columns = _own(sample, owned.first, len(place))
        of_labels += float(sample.row_weights[own] @ scores[own, columns])
        top = scores.max(axis=1)
        scores -= top[:, None]
        np.exp(scores, out=scores)
        log_sums[rows] = np.log(scores.sum(axis=1)) + top
    ridge = 0.5 * units.l2 * float(np.square(place[:, :-1]).sum()) / units.length**2
    return Tried(place, log_sums, of_labels, ridge)


def without_place(block: Tried) -> Tried:
    """What travels: one number per row."""
    return block._replace(place=np.empty(0))


def norms_of(tried_blocks: Sequence[Tried], row_weights: np.ndarray) -> Norms:
    log_sums = np.logaddexp.reduce([block.log_sums for block in tried_blocks])
    scores = sum(block.scores for block in tried_blocks)
    ridge = sum(block.ridge for block in tried_blocks)
    return Norms(log_sums, scores - float(row_weights @ log_sums), ridge)


def value_of(norms: Norms) -> tuple[float, float]:
    return norms.log_likelihood, norms.ridge


def with_slopes(
    owned: Owned,
    there: Tried,
    norms: Norms,
    memory: int,
    units: Units,
    blocks: Sequence[Numbered | Run],
    sizes: Sequence[int],
    known: Known,
) -> Owned:
    """The block after a step, with the slopes there."""
    slopes = np.zeros_like(there.place)
    for rows, sample in chunks(blocks, sizes, known, len(slopes)):
        p = _scores(sample, there.place, units)
        p -= norms.log_sums[rows, None]
        np.exp(p, out=p)
        p *= sample.row_weights[:, None]
        own, columns = _own(sample, owned.first, len(slopes))
        p[own, columns] -= sample.row_weights[own]
        slopes[:, :-1] += np.asarray((sample.X.T @ p).T)
        slopes[:, -1] += p.sum(axis=0)
    slopes[:, :-1] /= units.length
    slopes[:, :-1] += (units.l2 / units.length**2) * there.place[:, :-1]
    if not units.fit_intercept:
        slopes[:, -1] = 0.0
    slopes /= units.total
    steps, bends = owned.steps, owned.bends
    if memory:
        steps = (*steps, there.place - owned.place)[-memory:]
        bends = (*bends, slopes - owned.slopes)[-memory:]
    return Owned(owned.first, there.place, slopes, steps, bends)


def products_of(owned: Owned) -> tuple[np.ndarray, float]:
    """Inner products of the basis, and the steepest slope."""
    basis = owned.basis()
    found = np.empty((len(basis), len(basis)))
    for i, vector in enumerate(basis):
        for j in range(i + 1):
            found[i, j] = found[j, i] = np.vdot(vector, basis[j])
    return found, float(np.abs(owned.slopes).max())


def fitted(owned: Owned, units: Units) -> tuple[np.ndarray, np.ndarray]:
    """Weights and intercepts in single precision."""
    weights = (owned.place[:, :-1] / units.length).astype(np.float32)
    return weights, owned.place[:, -1].astype(np.float32)


def _scores(sample: TrainingData, place: np.ndarray, units: Units) -> np.ndarray:
    weights = np.ascontiguousarray(place[:, :-1].T) / units.length
    scores = np.asarray(sample.X @ weights, np.float64)
    scores += place[:, -1]
    return scores


def _own(sample: TrainingData, first: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose class is in a block, and which of the block it is."""
    columns = sample.labels - first
    own = np.flatnonzero((columns >= 0) & (columns < n))
    return own, columns[own]


# The search


def direction(products: np.ndarray) -> np.ndarray:
    """Coefficients of the basis: the two loops of L-BFGS, on inner products alone."""
    m = (len(products) - 1) // 2
    steps, bends = range(m), range(m, 2 * m)
    found = np.zeros(2 * m + 1)
    found[-1] = -1.0
    along = np.zeros(m)
    for i in reversed(steps):
        along[i] = found @ products[i] / products[i, bends[i]]
        found[bends[i]] -= along[i]
    if m:
        found *= products[m - 1, bends[-1]] / products[bends[-1], bends[-1]]
    for i in steps:
        found[i] += along[i] - found @ products[bends[i]] / products[i, bends[i]]
    return found


def wanted(solver: Any) -> bool:
    """Is it a fit of this kind that a solver asks for?"""
    return isinstance(solver, LBFGS) or solver == LBFGS.name


def check_config(config: FitConfig) -> None:
    """Raise for what has no exact fit by class."""
    if config.kind.rank is not None or not isinstance(config.parts.bound, Exact):
        raise ValueError(
            "solver='lbfgs' on a cluster goes with method='exact' and rank=None, whose classes "
            "workers can share; take solver='adagrad' or 'auto' for others"
        )
    if not config.parts.noise.softmax:
        raise ValueError(
            f"noise={config.parts.noise.name!r} has no normaliser that falls apart by class; take "
            "noise='gumbel', or solver='adagrad'"
        )
    if config.validation_fraction is not None:
        raise ValueError("solver='lbfgs' on a cluster holds no rows out; set early_stopping=False")


class ByClass:
    """A fit by L-BFGS of blocks of classes.

    Parameters
    ----------
    cluster : Cluster
    config : FitConfig
    lanes : Lanes
        Rows; every task looks at all of them.
    known : Future of Known
    found : Survey
    """

    def __init__(
        self, cluster: Cluster, config: FitConfig, lanes: Lanes, known: Future[Known], found: Survey
    ) -> None:
        self.cluster, self.config, self.found = cluster, config, found
        blocks = [block for lane in lanes for block in lane]
        self.rows = AllRows([rows for rows, _ in blocks], [n for _, n in blocks], known)
        self.order = order_of(found)
        n_classes, self.n_features = len(found.classes), found.sizes.n_features
        n_blocks = min(cluster.n_lanes, n_classes)
        edges = [n_classes * i // n_blocks for i in range(n_blocks + 1)]
        self.classes = [slice(a, b) for a, b in pairwise(edges)]
        assert isinstance(config.parts.solver, LBFGS)
        self.memory, self.tol = config.parts.solver.memory, config.parts.solver.tol
        arrays = 2 * self.memory + 6
        of_block = 8 * arrays * -(-n_classes // n_blocks) * (self.n_features + 1)
        cluster.check_memory(of_block, "a block of classes with what L-BFGS remembers")

    def run(self, class_weights: np.ndarray, tell: OnEpochEnd, shows: bool | str) -> FitResult:
        """From the class frequencies on; `class_weights` are sums of the rows' weights."""
        config, bound = self.config, self.config.parts.bound
        length = float(np.sqrt(self.found.typical_size))
        self.units = Units(length, float(class_weights.sum()), config.l2, config.fit_intercept)
        with progress.reporter(shows, config.max_epochs, bound.name, bound.word) as report:
            self.record = Record(config.stop(), report, config.max_epochs)
            self.record.compiled(0.0)
            try:
                owned, converged = self._search(class_weights, tell)
                result = self._result(owned)
            except DivergedError as error:
                raise DivergedFit(str(error), None) from None
        if not converged:
            warn_caller(
                f"L-BFGS stopped after {len(self.record.history)} iterations without reaching "
                f"tol={self.tol}; raise max_epochs, or scale the columns of X",
                ConvergenceWarning,
            )
        return result

    def _search(
        self, class_weights: np.ndarray, tell: OnEpochEnd
    ) -> tuple[list[Future[Owned]], bool]:
        config, submit = self.config, self.cluster.submit
        intercepts = np.zeros(len(class_weights))
        if config.parts.solver.init == "frequencies" and config.fit_intercept:
            intercepts = scores_of_frequencies(class_weights, config.parts.noise)
            intercepts -= intercepts.mean()  # which no step changes
        self.row_weights = submit("weights", row_weights_of, *self.rows)
        owned = [
            submit("start", first_place, c.start, intercepts[c], self.n_features, lane=lane)
            for lane, c in enumerate(self.classes)
        ]
        began = time.perf_counter()
        places, norms, value, _ = self._try(owned, np.zeros(1), 0.0)
        owned, products, steepest = self._move(owned, places, norms, 0)
        for _ in range(config.max_epochs):
            if steepest <= self.tol:
                return owned, True
            coefficients = direction(products)
            promised = float(coefficients @ products[-1])
            step = 1.0 if len(products) > 1 else min(1.0, products[-1, -1] ** -0.5)
            for _ in range(MOST_TRIALS):
                places, norms, new, likelihood = self._try(owned, coefficients, step)
                if new <= value + PART_OF_PROMISE * step * promised:
                    break
                step *= SHORTER
            else:
                return owned, False  # no step along this line is better, in these numbers
            owned, products, steepest = self._move(owned, places, norms, self.memory)
            value = new
            stop = self._told(owned, likelihood, time.perf_counter() - began, tell)
            began = time.perf_counter()
            if stop:
                return owned, True
        return owned, steepest <= self.tol

    def _try(
        self, owned: list[Future[Owned]], coefficients: np.ndarray, step: float
    ) -> tuple[list[Future[Tried]], Future[Norms], float, float]:
        """Blocks at another place, the normalisers there, and minus the mean objective."""
        submit = self.cluster.submit
        places = [
            submit("try", tried, block, coefficients, step, self.units, *self.rows, lane=lane)
            for lane, block in enumerate(owned)
        ]
        small = [submit("sums", without_place, place) for place in places]
        norms = submit("norms", norms_of, small, self.row_weights)
        likelihood, ridge = self.cluster.result(submit("value", value_of, norms))
        if not np.isfinite(likelihood):
            raise DivergedError(
                f"the log-likelihood became {likelihood}; scale the columns of X to similar size"
            )
        total = self.units.total
        return places, norms, (ridge - likelihood) / total, likelihood / total

    def _move(
        self,
        owned: list[Future[Owned]],
        places: list[Future[Tried]],
        norms: Future[Norms],
        memory: int,
    ) -> tuple[list[Future[Owned]], np.ndarray, float]:
        """Blocks with their slopes, and the inner products of all."""
        submit = self.cluster.submit
        arguments = (norms, memory, self.units, *self.rows)
        after = [
            submit("slopes", with_slopes, block, place, *arguments, lane=lane)
            for lane, (block, place) in enumerate(zip(owned, places))
        ]
        found = self.cluster.results([submit("products", products_of, block) for block in after])
        products = np.sum([some for some, _ in found], axis=0)
        return after, products, max(steepest for _, steepest in found)

    def _told(
        self, owned: list[Future[Owned]], value: float, seconds: float, tell: OnEpochEnd
    ) -> bool:
        columns = dict.fromkeys(("objective", "bound"), value)
        columns |= dict.fromkeys(("log_likelihood", "validation_log_likelihood"), float("nan"))
        self.record.report(len(self.record.history) + 1, value)
        self.record.add(seconds, columns, watched=value)
        model = ModelView(lambda: self._model(owned), lambda X: X, self.found.classes[self.order])
        return tell(self.record.history[-1], model)

    def _model(self, owned: list[Future[Owned]]) -> LinearModel:
        """In this process, which then holds all weights."""
        parts = [
            self.cluster.fetch(self.cluster.submit("fitted", fitted, block, self.units))
            for block in owned
        ]
        weights, intercepts = (np.concatenate(some) for some in zip(*parts))
        return LinearModel(FullRankWeights(weights), intercepts, self.config.parts.noise)

    def _result(self, owned: list[Future[Owned]]) -> FitResult:
        model, number = self._model(owned), np.argsort(self.order)
        advice = self.config.parts.solver.if_diverged
        history = self.record.history
        none = np.empty(0, np.int64)
        result = FitResult.checked(
            model.weights.take(number), model.intercept[number], history, advice, head=none
        )
        return result
