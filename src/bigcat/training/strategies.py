"""Kernel strategies: which kernel trains on rows, the memory it needs, and the call.

All classes at vector speed, batches that share classes, or row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse

from bigcat.combinations import Parts
from bigcat.compile import pays
from bigcat.kernels import train_batches, train_rows
from bigcat.kernels.train_all_classes import train_dense, train_sparse
from bigcat.kernels.train_rows import MIN_GRADIENT, KernelPlan
from bigcat.linear import WeightsKind
from bigcat.rows import Problem, Sizes, is_sparse
from bigcat.solvers import AdaGrad, Solver
from bigcat.solvers.sgd import EPSILON
from bigcat.verbs import rate

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


class Totals(NamedTuple):
    """Numbers of rows, some of which other workers may train on."""

    n_rows: int
    weight: float  # sum of the rows' weights
    rows_per_epoch: int  # trained on here

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the totals of a problem whose rows are all trained on here."""
        return cls(problem.n_rows, float(problem.row_weights.sum()), problem.n_rows)


def make_plan(
    problem: Problem, parts: Parts, kind: WeightsKind, batch_size: int, totals: Totals | None = None
) -> KernelPlan:
    """Return the constants that a kernel needs beside the data."""
    solver, sampler = parts.solver, parts.sampler
    totals = totals or Totals.of(problem)
    scale = totals.weight if solver.gradient == "mean" else 1.0
    ridge = problem.l2 / scale
    width = sampler.width(problem.n_classes, problem.head)
    shape = kind.trained_shape(problem.sizes)
    majors = 0
    if ridge > 0.0 and not solver.linear:
        majors = _sweep_majors(problem, width + 1, batch_size, shape)
    return KernelPlan(
        batch_size=batch_size,
        width=width,
        buffered=is_buffered(solver, kind, batch_size),
        implicit=solver.implicit,
        damped=solver.damped,
        fit_intercept=problem.fit_intercept,
        intercept_scale=solver.intercept_scale(problem),
        # Factor that turns a batch's mean gradient into an estimate of the solver's.
        gradient_scale=totals.n_rows / scale if solver.gradient == "mean" else totals.n_rows,
        shrink=ridge if solver.linear else 0.0,
        sweep=ridge * shape[0] / majors if majors else 0.0,
        sweep_majors=majors,
        weight_bound=float(solver.weight_radius),
    )


def is_buffered(solver: Solver, kind: WeightsKind, batch_size: int) -> bool:
    """Return True if a batch's gradient is summed before anything moves.

    Steps and scores that are linear in the weights apply rows one by one.
    """
    return batch_size > 1 and not (solver.linear and kind.linear_scores)


def can_share(solver: Solver) -> bool:
    """Return True if threads can share weights: no step needs all of them."""
    return not solver.implicit and solver.weight_radius == np.inf


def _sweep_majors(problem: Problem, n_classes: int, batch_size: int, shape: tuple[int, int]) -> int:
    """Return the major rows that a batch shrinks: the ridge as proximal sweeps.

    Sampled steps touch few coordinates, the ridge all of them.  After each batch the next few
    major rows of the weights are shrunk for all the batches since their last turn: right on
    average over an epoch, stable for any strength, and no dearer than the data, since there are
    as many sweeps per epoch as cost what the data cost, but at least one.
    """
    n_batches = -(-problem.n_rows // batch_size)
    cost = problem.sizes.n_values * n_classes / (shape[0] * shape[1])
    sweeps = min(max(cost, 1.0), n_batches)
    return min(int(np.ceil(shape[0] * sweeps / n_batches)), shape[0])


class Workload(NamedTuple):
    """Parts, weights and sizes of a fit, before any array."""

    parts: Parts
    kind: WeightsKind
    sizes: Sizes
    batch_size: int
    n_head: int = 0  # classes that are kept exact

    @property
    def n_looked_at(self) -> int:
        """Number of classes that a row looks at, including its own."""
        head = np.empty(self.n_head, np.int64)
        return self.parts.sampler.width(self.sizes.n_classes, head) + 1


class KernelStrategy(ABC):
    """Kernel, scratch memory, and the call that trains on some rows."""

    #: True if BLAS would start threads of its own, and round as they split.
    multiplies: bool

    @staticmethod
    @abstractmethod
    def applies(workload: Workload) -> bool:
        """Return True if the kernel can train this."""

    @staticmethod
    @abstractmethod
    def scratch_numbers(workload: Workload) -> int:
        """Return the numbers each thread holds beside the weights, their state and the data."""

    @abstractmethod
    def __init__(self, passes: Passes) -> None:
        """Allocate the scratch memory."""

    @abstractmethod
    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        """Train on rows ``order[first:last]``; return the sum of their values and the new scale.

        `n_together` threads do so at once, on rows of their own and the same weights.
        """


class AllClasses(KernelStrategy):
    """All classes of every row at vector speed: the exact softmax of full rank, plain steps."""

    @staticmethod
    def applies(workload: Workload) -> bool:
        parts = workload.parts
        return (
            workload.kind.linear_scores
            and workload.kind.sees_problem_rows
            and parts.noise.softmax
            and parts.bound.is_likelihood
            and parts.sampler.all_classes
            and parts.solver.plain
        )

    @staticmethod
    def scratch_numbers(workload: Workload) -> int:
        sizes = workload.sizes
        of_row = sizes.n_classes + (0 if sizes.sparse else sizes.n_features)
        return 2 * workload.batch_size * of_row

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        sparse = passes.problem.sizes.sparse
        self.kernel: Callable[..., tuple[float, float]] = train_sparse if sparse else train_dense
        self.multiplies = not sparse

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        p, state = self.passes, self.passes.state
        return self.kernel(
            p.training_rows(p.problem.rows),
            p.span(first, last, n_together),
            p.plan,
            p.solver,
            state.weights,
            state.intercepts,
            p.order.geometry.squared_norms,
            scale,
        )


class AllVectors(KernelStrategy):
    """All classes in every batch, for low rank with AdaGrad, by NumPy's products of matrices.

    The steps are those of `bigcat.kernels.train_batches`.  Nearly all the time goes to BLAS, so a
    kernel would gain little, and this one starts at once.
    """

    multiplies = True

    @staticmethod
    def applies(workload: Workload) -> bool:
        parts, sizes = workload.parts, workload.sizes
        solver, rank = parts.solver, workload.kind.rank
        if rank is None or not isinstance(solver, AdaGrad):
            return False
        products = sizes.n_rows * rank * (sizes.n_classes + sizes.row_values)
        return (
            parts.noise.softmax
            and parts.bound.is_likelihood
            and parts.sampler.all_classes
            and solver.per == "coordinate"
            # Features of sparse rows are gathered one by one, which a kernel does twice as fast.
            and not (sizes.sparse and pays(products))
        )

    @staticmethod
    def scratch_numbers(workload: Workload) -> int:
        sizes, (n_majors, width) = workload.sizes, workload.kind.trained_shape(workload.sizes)
        touched = min(sizes.n_features, workload.batch_size * sizes.row_values)
        moved = max(n_majors - sizes.n_features, 3 * touched if sizes.sparse else touched)
        of_row = 2 * width + 2 * sizes.n_classes + sizes.row_values
        return workload.batch_size * of_row + 3 * moved * width

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        problem = passes.problem
        self.X: Any = problem.rows.values
        if is_sparse(problem.rows):
            parts = (self.X, problem.rows.indices, problem.rows.indptr)
            self.X = scipy.sparse.csr_array(parts, shape=(problem.n_rows, problem.n_features))

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        p, state, value = self.passes, self.passes.state, 0.0
        iteration, n_majors = state.iteration, len(state.weights)
        cursor = state.sweep_cursor + thread * n_majors // n_together
        for start in range(first, last, p.plan.batch_size):
            members = p.order.rows[start : min(start + p.plan.batch_size, last)]
            iteration += n_together
            step_rate = rate(p.solver, iteration, state.epoch)
            with np.errstate(all="ignore"):  # the loop looks whether values are finite
                value += self._step(members, step_rate)
            if p.plan.sweep_majors:
                swept = (cursor + np.arange(p.plan.sweep_majors)) % n_majors
                cursor += p.plan.sweep_majors
                shrunk = p.plan.sweep * step_rate / (np.sqrt(state.weights_state[swept]) + EPSILON)
                state.weights[swept] /= 1.0 + shrunk
        if thread == 0:
            state.sweep_cursor = cursor % n_majors
        return value, scale

    def _step(self, members: np.ndarray, step_rate: float) -> float:
        """Move all weights for the rows of a batch; return the sum of their values."""
        p, problem, state = self.passes, self.passes.problem, self.passes.state
        n_classes, number = problem.n_classes, state.weights.dtype.type
        vectors, features = state.weights[:n_classes], state.weights[n_classes:]
        x, labels, row_weights = (
            self.X[members],
            problem.labels[members],
            problem.row_weights[members],
        )
        places = np.arange(len(members))
        unit = number(problem.unit)

        hidden = np.asarray(x @ features)
        hidden *= unit
        score_gradients = hidden @ vectors.T
        score_gradients += state.intercepts
        score_gradients -= score_gradients.max(axis=1, keepdims=True)
        own = score_gradients[places, labels].astype(np.float64)
        np.exp(score_gradients, out=score_gradients)
        score_gradients[places, labels] = 0.0
        others = score_gradients.sum(axis=1, dtype=np.float64)
        totals = others + np.exp(own)
        value = float(row_weights @ (own - np.log(totals)))
        factors = row_weights * p.plan.gradient_scale / len(members)
        score_gradients *= (-factors / totals).astype(number)[:, None]
        score_gradients *= score_gradients < -MIN_GRADIENT
        score_gradients[places, labels] = factors * others / totals

        back = score_gradients @ vectors
        back *= unit
        moves, states = number(step_rate), state.weights_state
        _move(p.solver, moves, vectors, states[:n_classes], score_gradients.T @ hidden)
        if p.plan.fit_intercept:
            intercept_rate = number(step_rate * p.plan.intercept_scale)
            gradient = score_gradients.sum(axis=0)
            _move(p.solver, intercept_rate, state.intercepts, state.intercepts_state, gradient)
        if not scipy.sparse.issparse(x):
            _move(p.solver, moves, features, states[n_classes:], x.T @ back)
            return value
        present, columns = np.unique(x.indices, return_inverse=True)
        x = scipy.sparse.csr_array((x.data, columns, x.indptr), shape=(len(members), len(present)))
        moved, remembered = features[present], states[n_classes + present]
        _move(p.solver, moves, moved, remembered, np.asarray(x.T @ back))
        features[present], states[n_classes + present] = moved, remembered
        return value


def _move(
    solver: Any, step_rate: Any, weights: np.ndarray, state: np.ndarray, gradient: np.ndarray
) -> None:
    """Take AdaGrad's step in place; the gradient is used up."""
    squares = gradient * gradient
    state += squares
    np.sqrt(state, out=squares)
    squares += weights.dtype.type(solver.epsilon)
    gradient *= step_rate
    gradient /= squares
    weights += gradient


class BatchScratch(NamedTuple):
    """Scratch memory of a thread: a batch's entries by feature, and the places of its classes."""

    back: np.ndarray  # gradients of the rows' embeddings
    gradient: np.ndarray  # of one feature's vector
    slot_of: np.ndarray  # of a feature, -1 between batches
    features: np.ndarray
    ends: np.ndarray
    members: np.ndarray
    values: np.ndarray
    place_of: np.ndarray  # of a class, -1 between batches


def _n_entries(workload: Workload) -> int:
    """Return the non-zeros of a batch that meet vectors of features one by one."""
    if not (workload.kind.has_vectors and workload.sizes.sparse):
        return 0
    return min(workload.batch_size * workload.sizes.row_values, max(workload.sizes.n_values, 1))


class SharedClasses(KernelStrategy):
    """Batches of dense rows or embeddings that share one draw of classes."""

    multiplies = True

    @staticmethod
    def applies(workload: Workload) -> bool:
        solver = workload.parts.solver
        return (
            workload.parts.sampler.shared
            and workload.kind.sees_dense_rows(workload.sizes)
            and workload.batch_size > 1
            and not solver.needs_linear_scores
        )

    @staticmethod
    def scratch_numbers(workload: Workload) -> int:
        sizes, batch_size = workload.sizes, workload.batch_size
        width = workload.kind.trained_shape(sizes)[1]
        n_classes = workload.n_looked_at + batch_size
        of_batch = batch_size * (n_classes + 2 * width) + 2 * n_classes * width
        n_entries = _n_entries(workload)
        if n_entries:  # places of all features, and those of the batch with its entries
            n_touched = min(sizes.n_features, n_entries)
            return of_batch + sizes.n_features + 3 * n_touched + 2 * n_entries
        if workload.kind.has_vectors:  # dense rows: a copy of them, and a gradient of all features
            return of_batch + sizes.n_features * (width + batch_size)
        return of_batch

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.works = [self._work(passes) for _ in range(passes.n_threads)]

    @staticmethod
    def _work(passes: Passes) -> BatchScratch:
        workload, weights = passes.workload, passes.state.weights
        n_entries = _n_entries(workload)
        n_features = workload.sizes.n_features if n_entries else 0
        n_touched = min(n_features, n_entries)
        embeds = workload.kind.has_vectors
        return BatchScratch(
            back=np.empty((workload.batch_size if embeds else 0, weights.shape[1]), weights.dtype),
            gradient=np.empty(weights.shape[1], weights.dtype),
            slot_of=np.full(n_features, -1, np.int32),
            features=np.empty(n_touched, np.int32),
            ends=np.empty(n_touched, np.int64),
            members=np.empty(n_entries, np.int32),
            values=np.empty(n_entries, weights.dtype),
            place_of=np.full(workload.sizes.n_classes, -1, np.int32),
        )

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        work = self.works[thread]
        return self.passes.call(
            train_batches.train_batches, work, thread, first, last, scale, n_together
        )


def _n_slots(workload: Workload) -> int:
    """Return the major rows whose gradients a batch sums before anything moves."""
    if not is_buffered(workload.parts.solver, workload.kind, workload.batch_size):
        return 0
    of_row = workload.kind.majors_of_row(workload.sizes, workload.n_looked_at)
    return min(workload.kind.trained_shape(workload.sizes)[0], workload.batch_size * of_row)


class RowByRow(KernelStrategy):
    """The general kernel: classes are drawn and scores gathered for each row."""

    multiplies = False

    @staticmethod
    def applies(workload: Workload) -> bool:
        return True

    @staticmethod
    def scratch_numbers(workload: Workload) -> int:
        n_slots = _n_slots(workload)
        n_majors, n_minors = workload.kind.trained_shape(workload.sizes)
        if not n_slots:
            return 0  # some numbers per row of a batch: nothing beside the rest
        return n_slots * (n_minors + 2) + workload.sizes.n_classes + 2 * n_majors

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        self.works = [self._work(passes) for _ in range(passes.n_threads)]

    @staticmethod
    def _work(passes: Passes) -> train_rows.Scratch:
        weights, n_slots = passes.state.weights, _n_slots(passes.workload)
        return train_rows.Scratch(
            gradient=np.zeros((n_slots, weights.shape[1]), weights.dtype),
            intercept_gradient=np.zeros(passes.problem.n_classes if n_slots else 0, weights.dtype),
            slot_of=np.full(len(weights) if n_slots else 0, -1, np.int64),
            touched=np.empty(n_slots, np.int64),
        )

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        work = self.works[thread]
        return self.passes.call(train_rows.train_rows, work, thread, first, last, scale, n_together)


#: The quickest first; the last one applies everywhere.
STRATEGIES: tuple[type[KernelStrategy], ...] = (AllClasses, AllVectors, SharedClasses, RowByRow)


def strategy_for(workload: Workload) -> type[KernelStrategy]:
    """Return the quickest strategy that applies."""
    return next(strategy for strategy in STRATEGIES if strategy.applies(workload))


def kernel_of(workload: Workload) -> tuple[type, ...]:
    """Return the types that determine the kernel of a fit; empty if NumPy trains it."""
    parts = workload.parts
    strategy = strategy_for(workload) if parts.solver.stochastic else AllVectors
    if strategy is AllVectors:
        return ()
    members = (workload.kind, parts.noise, parts.bound, parts.sampler, parts.solver)
    return strategy, *map(type, members)
