"""Stochastic passes over the rows of a problem: the `Process` of a fit of weights."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bigcat._system import one_blas_thread
from bigcat.combinations import Parts
from bigcat.kernels.train_rows import (
    LOOKAHEAD_ROWS,
    MIN_LAZY_SCALE,
    KernelPlan,
    LoopState,
    MethodTags,
    ModelArrays,
    Span,
    TrainingRows,
)
from bigcat.linear import WeightsKind
from bigcat.numerics.random import new_state
from bigcat.read_ahead import ReadAhead
from bigcat.rows import Problem
from bigcat.samplers.checks import check_draws
from bigcat.training.loop import CHUNK_SECONDS
from bigcat.training.order import Order
from bigcat.training.snapshot import (
    Place,
    Snapshot,
    arrays_of,
    as_random_state,
    fill,
    of_random_state,
    position,
)
from bigcat.training.state import State
from bigcat.training.strategies import Totals, Workload, can_share, make_plan, strategy_for
from bigcat.verbs import rate

#: Times per epoch that the weights are added to their average, where one is kept.
AVERAGES = 8
#: Weight of an earlier row's squared gradients in an update, relative to a new row's in one pass: a
#: fit makes several passes, whose first gradients are larger.
PAST_PASSES = 100.0
#: Part of the weights that the ridge may take between two meetings of the threads.
MAX_DRIFT = 0.1
#: Rows of the first kernel call.
FIRST_CHUNK = 2048

#: ``part(thread, first, last, scale, n_together)`` trains on rows first..last and returns the sum
#: of their values and the weights' new scale.
Part = Callable[[int, int, int, float, int], tuple[float, float]]


class Passes:
    """Parts, the state that they change, and the kernel strategy.

    Rates fall over `max_epochs`.  Local parameters of `fresh_rows` start anew.  `totals` are
    those of the whole problem, if these rows are a part of it.
    """

    def __init__(
        self,
        problem: Problem,
        parts: Parts,
        kind: WeightsKind,
        state: State,
        *,
        batch_size: int,
        max_epochs: int,
        random_state: np.random.RandomState,
        shuffle: bool = True,
        fresh_rows: bool = False,
        n_threads: int = 1,
        window: int | None = None,
        totals: Totals | None = None,
    ) -> None:
        totals = totals or Totals.of(problem)
        batch_size = min(batch_size, problem.n_rows)
        self.problem, self.parts, self.state = problem, parts, state
        self.fresh_rows, self.remembers = fresh_rows, False
        self.n_rows, self.total_weight = problem.n_rows, float(problem.row_weights.sum())
        self.workload = Workload(parts, kind, problem.sizes, batch_size, len(problem.head))
        self.plan = make_plan(problem, parts, kind, batch_size, totals)
        self.share = min(self.plan.width / max(problem.n_classes - 1, 1), 1.0)
        self.order = Order(problem, self.plan, shuffle, random_state, window)
        self.ahead = None if window is None else ReadAhead(problem.rows, window)
        self.n_threads = n = n_threads if can_share(parts.solver) else 1
        self.bound = parts.bound.lower(parts.noise)
        tag = parts.sampler.lower(problem)
        self._samplers = [tag, *(parts.sampler.with_own_scratch(tag) for _ in range(n - 1))]
        self.samplers = self._samplers
        self.rngs = [state.rng, *(new_state(random_state) for _ in range(n - 1))]
        n_steps = max_epochs * -(-totals.rows_per_epoch // batch_size)
        self.solver = parts.solver.lower_for(problem, n_steps)
        n_looked_at = self.workload.n_looked_at
        self.rows = [kind.rows_of_thread(problem, n_looked_at) for _ in range(n)]
        check_draws(parts.sampler, tag, self.rows[0], problem)
        self.scale, self.squared_norm = 1.0, self._norm()
        # Weak reference: a cycle would keep the fit state alive.
        self.strategy = strategy_for(self.workload)(weakref.proxy(self))
        # Whole blocks of the kernel: their draws come first, so a cut elsewhere would change bits.
        self.block = batch_size * max(1, LOOKAHEAD_ROWS // batch_size)
        self.chunk_rows = self.block * max(1, FIRST_CHUNK // self.block)
        self.between = max(self.block, self.block * round(problem.n_rows / (AVERAGES * self.block)))
        self.average_at = self.between

    @property
    def epochs_made(self) -> int:
        """Epochs made, including those of earlier runs."""
        return self.state.epoch

    @epochs_made.setter
    def epochs_made(self, epochs: int) -> None:
        self.state.epoch = epochs

    # Calls of the loop

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Draw the order of the rows, and begin to read them where they are mapped."""
        if self.remembers:
            self.before_epoch = position(self.order.random_state)
        self.order.next_epoch()
        if self.ahead is not None:
            self.ahead.begin(self.order.rows)
        self.samplers = [self.parts.sampler.in_epoch(s, epoch, n_epochs) for s in self._samplers]
        self.average_at = self.between

    def chunk(self, first: int, seconds: float | None) -> int:
        """Return the end of the next kernel call, of about `CHUNK_SECONDS`."""
        if seconds is not None:
            grow = min(2.0, CHUNK_SECONDS / seconds)
            wanted = min(int(self.chunk_rows * grow), self.n_rows)
            self.chunk_rows = self.block * max(1, wanted // self.block)
        if self.ahead is not None:
            most = max(self.block, self.ahead.window // self.block * self.block)
            self.chunk_rows = min(self.chunk_rows, most)
        end = first + self.chunk_rows
        return end if self.state.average is None else min(end, self.average_at)

    def train(self, first: int, last: int) -> float:
        """Train on rows of this epoch's order; return the sum of their values."""
        if self.ahead is not None:
            self.ahead.ask_until(last)
        # The threads are ours.
        with one_blas_thread if self.strategy.multiplies else contextlib.nullcontext():
            if self.n_threads == 1 or last - first <= self.plan.batch_size:
                value, self.scale = self.strategy.train(0, first, last, self.scale, 1)
                self.state.iteration += -(-(last - first) // self.plan.batch_size)
            else:
                value, self.scale = train_together(
                    self.strategy.train,
                    first,
                    last,
                    self.scale,
                    self.n_threads,
                    self.plan,
                    self.solver,
                    self.state,
                )
        average = self.state.average
        if average is not None and last > 0 and last in (self.average_at, self.n_rows):
            average.add(self.state.weights, self.scale, self.state.intercepts)
            self.average_at += self.between
        return value

    def end_epoch(self) -> None:
        """Write the scale into the weights."""
        if self.ahead is not None:
            self.ahead.end()
        if self.scale != 1.0:
            self.state.weights *= self.state.weights.dtype.type(self.scale)
            self.scale = 1.0
        self.squared_norm = self._norm()

    def diverged(self, value: float) -> str:
        """Return the message for a value that is not finite."""
        bound, solver = self.parts.bound, self.parts.solver
        return (
            f"the {bound.name} {bound.word} became {value} in epoch {self.epochs_made + 1}; "
            f"{solver.divergence_remedy}"
        )

    def snapshot(self, ended: bool) -> Snapshot:
        """Return the state, from which a fit resumes with the same bits."""
        now = position(self.order.random_state)
        numbers = {"scale": self.scale, "squared_norm": self.squared_norm}
        numbers["average_at"] = self.average_at
        kept = Snapshot(numbers, self._scratch()).put("state", self.state.snapshot())
        for i, rng in enumerate(self.rngs):
            kept.arrays[f"rng.{i}"] = rng
        # An epoch that is under way is begun again, and then draws the same order of rows.
        return kept.put("random", of_random_state(now if ended else self.before_epoch))

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        """Take over a snapshot."""
        self.order.random_state.set_state(as_random_state(kept.part("random")))
        if place.epoch < n_epochs:
            self.begin_epoch(place.epoch, n_epochs)
        self.scale, self.squared_norm = kept.numbers["scale"], kept.numbers["squared_norm"]
        self.average_at = kept.numbers["average_at"]
        self.state.restore(kept.part("state"))
        for name, array in self._scratch().items():
            fill(array, kept.arrays[name])
        for i, rng in enumerate(self.rngs):
            fill(rng, kept.arrays[f"rng.{i}"])

    def _scratch(self) -> dict[str, np.ndarray]:
        """Return the scratch arrays of samplers, on whose order later draws depend."""
        scratch = self.parts.sampler.scratch
        return {
            name: array
            for i, tag in enumerate(self._samplers)
            for name, array in arrays_of(tag, scratch, f"sampler.{i}")
        }

    # Calls of strategies

    def training_rows(self, features: Any) -> TrainingRows:
        """Return the rows with `features`, in this epoch's order."""
        problem = self.problem
        return TrainingRows(features, problem.labels, problem.row_weights, self.order.rows)

    def span(self, first: int, last: int, n_together: int) -> Span:
        """Return the rows and the counters of a kernel call."""
        return Span(first, last, self.state.iteration, self.state.epoch, n_together)

    def call(
        self,
        kernel: Callable[..., tuple[float, LoopState]],
        work: Any,
        thread: int,
        first: int,
        last: int,
        scale: float,
        n_together: int,
    ) -> tuple[float, float]:
        """Run a kernel with everything that the parts need."""
        state = self.state
        n_majors = len(state.weights)
        cursor = (state.sweep_cursor + thread * n_majors // n_together) % n_majors
        value, carried = kernel(
            self.training_rows(self.rows[thread]),
            self.span(first, last, n_together),
            self.plan,
            MethodTags(self.bound, self.samplers[thread], self.solver),
            self.rngs[thread],
            ModelArrays(
                state.weights,
                state.intercepts,
                state.weights_state,
                state.intercepts_state,
                state.local,
            ),
            work,
            self.order.geometry,
            self._local_progress(),
            LoopState(cursor, scale, self.squared_norm),
        )
        self.squared_norm = carried.squared_norm
        if thread == 0:
            state.sweep_cursor = carried.sweep_cursor
        return value, carried.scale

    def _local_progress(self) -> float:
        """Return the size of the local steps, which begin anew for new rows."""
        epoch = 0 if self.fresh_rows else self.state.epoch
        return self.parts.bound.local_progress(epoch, self.share)

    def _norm(self) -> float:
        """Return |W|^2 if a solver keeps it bounded, else 0."""
        if self.plan.weight_bound == np.inf:
            return 0.0
        return float(np.vdot(self.state.weights, self.state.weights))


def add_past(passes: Passes, rows_before: np.ndarray) -> None:
    """Give AdaGrad's state the squared gradients that earlier rows would have left.

    A pass at rate zero sums the squared gradients of the new rows.  Earlier rows, whose numbers are
    known by class, count `PAST_PASSES` times as much each.  So classes with many rows hardly move,
    new ones do, and features move as little as a mean class.
    """
    problem, state = passes.problem, passes.state
    kind, n_classes = passes.workload.kind, problem.n_classes
    solver, passes.solver = passes.solver, passes.solver._replace(learning_rate=0.0)
    passes.begin_epoch(0, 1)
    passes.train(0, problem.n_rows)
    passes.end_epoch()
    passes.solver, state.iteration = solver, 0
    past = (PAST_PASSES * rows_before / problem.n_rows).astype(state.weights.dtype)
    squares = kind.turned(state.weights_state, problem)
    squares[n_classes:] *= past.sum()
    squares[:n_classes] += past[:, None] * squares[:n_classes].sum(axis=0)
    state.intercepts_state += past * state.intercepts_state.sum()


def train_together(
    part: Part,
    first: int,
    last: int,
    scale: float,
    n_threads: int,
    plan: KernelPlan,
    solver: Any,
    state: State,
) -> tuple[float, float]:
    """Train on rows first..last by several threads on the same weights, without locks.

    Each takes a part of the rows (Niu et al., 2011, Hogwild): with few coordinates per step they
    seldom meet, and a lost update is one step less.  The bits differ each time.
    """
    value = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        while first < last:
            stop = min(last, first + _rows_a_round(plan, solver, state))
            cuts = _cut(first, stop, plan.batch_size, n_threads)
            tasks = [
                pool.submit(part, thread, *cut, scale, len(cuts)) for thread, cut in enumerate(cuts)
            ]
            done = [task.result() for task in tasks]
            value += sum(v for v, _ in done)
            state.iteration += -(-(stop - first) // plan.batch_size)
            # Each thread has shrunk the weights for all of them: take the mean step.
            scale *= math.prod(s / scale for _, s in done) ** (1.0 / len(cuts))
            if scale < MIN_LAZY_SCALE:
                state.weights *= state.weights.dtype.type(scale)
                scale = 1.0
            first = stop
    return value, scale


def _rows_a_round(plan: KernelPlan, solver: Any, state: State) -> int:
    """Return the rows until the threads meet, since their scales of the weights drift apart."""
    step = math.log1p(rate(solver, state.iteration + 1, state.epoch) * plan.shrink)
    most = 1 << 40
    n_steps = most if step == 0.0 else min(MAX_DRIFT / step, most)
    return plan.batch_size * max(1, int(n_steps))


def _cut(first: int, last: int, batch_size: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut rows into parts of as many whole batches each; fewer parts where batches are few."""
    n_batches = -(-(last - first) // batch_size)
    n_parts = min(n_parts, n_batches)
    edges = [first + batch_size * (n_batches * part // n_parts) for part in range(n_parts)]
    return list(zip(edges, [*edges[1:], last]))
