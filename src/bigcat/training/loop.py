"""The one training loop of the stochastic solvers.

The loop owns time, shuffling, finiteness, callbacks and stopping; the kernel below it
(`bigcat.solvers._kernel`) does a chunk of rows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bigcat.combinations import Parts
from bigcat.kernels.train_batches import train_batches
from bigcat.kernels.train_rows import LOOKAHEAD, Geometry, Plan, Work, train_rows
from bigcat.numerics import random as _random
from bigcat.rows import Problem, batch_grams, embedded, is_sparse, squared_norms
from bigcat.samplers import Sampler
from bigcat.solvers import DivergedError
from bigcat.solvers._base import Solver
from bigcat.training.routes import all_classes as _exact
from bigcat.training.routes import batches as _products
from bigcat.training.state import State
from bigcat.training.threads import train_together

#: Times an epoch that the weights are added to their average, where one is kept.
AVERAGES = 8
#: Seconds of work a kernel call is given: short enough for a progress bar and Ctrl-C.
CHUNK_SECONDS = 0.2


@dataclass(frozen=True)
class Settings:
    batch_size: int
    max_epochs: int
    shuffle: bool = True
    fresh_rows: bool = False  # rows that were never seen: local parameters start anew
    n_threads: int = 1  # more give other bits each time


def local_progress(epoch: int) -> float:
    """Size of the local steps: (1 + t)^-0.9 with epochs t = 1, 2, ... (A&R section 4).

    The authors' code counts from 1 too, and rightly: a first step of 1 would throw the starting
    values away for an estimate from a few sampled classes.
    """
    return float((2.0 + epoch) ** -0.9)


def make_plan(problem: Problem, parts: Parts, batch_size: int, shape: tuple[int, int]) -> Plan:
    solver = parts.solver
    scale = float(problem.row_weights.sum()) if solver.gradient == "mean" else 1.0
    ridge = problem.l2 / scale
    majors = 0
    if ridge > 0.0 and not solver.linear:
        majors = _sweep_majors(problem, parts.sampler, batch_size, shape)
    return Plan(
        batch_size=batch_size,
        width=parts.sampler.width(problem.n_classes, problem.head),
        buffered=is_buffered(solver, batch_size, problem.rank),
        implicit=solver.implicit,
        damped=solver.damped,
        fit_intercept=problem.fit_intercept,
        intercept_scale=solver.intercept_scale(problem),
        # What a batch's mean gradient is multiplied by to estimate what the solver works on.
        gradient_scale=problem.n_rows / scale if solver.gradient == "mean" else problem.n_rows,
        shrink=ridge if solver.linear else 0.0,
        sweep=ridge * shape[0] / majors if majors else 0.0,
        sweep_majors=majors,
        weight_bound=float(getattr(solver, "weight_bound", np.inf)),
    )


def _sweep_majors(
    problem: Problem, sampler: Sampler, batch_size: int, shape: tuple[int, int]
) -> int:
    """The ridge as proximal sweeps, where step sizes differ from coordinate to coordinate.

    Sampled steps touch few coordinates, the ridge all of them.  After each batch the next few
    major rows of the weights are shrunk for all the batches since their last turn: right on
    average over an epoch, stable for any strength, and no dearer than the data, since there are
    as many sweeps an epoch as cost what the data cost, but at least one.
    """
    rows = problem.rows
    n_values = len(rows.values) if is_sparse(rows) else rows.values.size
    width = sampler.width(problem.n_classes, problem.head) + 1
    n_batches = -(-problem.n_rows // batch_size)
    sweeps = min(max(n_values * width / (shape[0] * shape[1]), 1.0), n_batches)
    return min(int(np.ceil(shape[0] * sweeps / n_batches)), shape[0])


def is_buffered(solver: Solver, batch_size: int, rank: int | None) -> bool:
    """Must a batch's gradient be summed before anything moves?

    Not where rows can be applied one by one: with steps and scores that are linear in the weights.
    """
    return batch_size > 1 and not (solver.linear and rank is None)


def majors_a_row(problem: Problem, width: int) -> int:
    """The most majors that a row can touch, with `width` classes."""
    n_features = problem.n_features
    if is_sparse(problem.rows):
        n_features = int(np.diff(problem.rows.indptr).max(initial=1))
    if problem.rank is not None:
        return width + n_features
    return n_features if is_sparse(problem.rows) else width


def make_work(problem: Problem, parts: Parts, batch_size: int, weights: np.ndarray) -> Work:
    n_majors, n_minors = weights.shape
    n_slots = 0
    if is_buffered(parts.solver, batch_size, problem.rank):
        width = parts.sampler.width(problem.n_classes, problem.head) + 1
        n_slots = min(n_majors, batch_size * majors_a_row(problem, width))
    return Work(
        gradient=np.zeros((n_slots, n_minors), weights.dtype),
        intercept_gradient=np.zeros(problem.n_classes if n_slots else 0, weights.dtype),
        slot_of=np.full(n_majors if n_slots else 0, -1, np.int64),
        touched=np.empty(n_slots, np.int64),
    )


def _can_share(plan: Plan) -> bool:
    """May several threads work on the same weights?  Not where a step needs all of them."""
    return not plan.implicit and plan.weight_bound == np.inf


class Order:
    """In which order rows are visited, and what an implicit solver has to know of them.

    An implicit step of several rows needs their inner products, which are worked out once: the
    batches stay the same and only their order changes (unbiased softmax, appendix F.3).
    """

    def __init__(self, problem: Problem, plan: Plan, settings: Settings, random_state) -> None:
        self.shuffle, self.random_state = settings.shuffle, random_state
        self.rows = np.arange(problem.n_rows)
        self.batch_size = plan.batch_size
        self.fixed = plan.implicit and self.batch_size > 1
        norms = plan.implicit or plan.damped or plan.weight_bound < np.inf
        grams, slots = np.empty((0, 0, 0)), 0
        if self.fixed:
            if self.shuffle:
                self.rows = random_state.permutation(problem.n_rows)
            grams = batch_grams(problem.rows, problem.n_features, self.rows, self.batch_size)
            slots = problem.n_classes
        self.members = self.rows
        self.geometry = Geometry(
            squared_norms(problem.rows) if norms else np.empty(0),
            grams,
            np.arange(len(grams)),
            np.full(slots, -1, np.int64),
        )

    def next_epoch(self) -> None:
        if not self.shuffle:
            return
        if not self.fixed:
            self.rows = self.random_state.permutation(len(self.rows))
            return
        # Whole batches change places; a smaller one stays last.
        whole = len(self.members) // self.batch_size
        batches = self.random_state.permutation(whole)
        cut = whole * self.batch_size
        self.geometry.batch_order[:whole] = batches
        shuffled = self.members[:cut].reshape(whole, self.batch_size)[batches].ravel()
        self.rows = np.concatenate([shuffled, self.members[cut:]])


def run_epochs(
    problem: Problem,
    parts: Parts,
    state: State,
    settings: Settings,
    random_state: np.random.RandomState,
    on_compiled: Callable[[float], None],
    on_epoch: Callable[[float, float], bool],
    on_chunk: Callable[[float, float], None],
) -> None:
    """Run up to `settings.max_epochs` epochs, changing `state` in place.

    Parameters
    ----------
    on_compiled : callable
        Called once with the seconds spent on compilation (or on loading the cache).
    on_epoch : callable
        Called with the mean value a row and the training seconds of the epoch; a true answer
        stops the run.
    on_chunk : callable
        Called with the fraction of the epoch done and the mean value so far, for progress.
    """
    batch_size = min(settings.batch_size, problem.n_rows)
    plan = make_plan(problem, parts, batch_size, state.weights.shape)
    order = Order(problem, plan, settings, random_state)
    n_threads = settings.n_threads if _can_share(plan) else 1
    dense = problem.rank is not None or not is_sparse(problem.rows)
    by_products = _products.applies(dense, parts.sampler, parts.solver, batch_size)
    kernel = train_batches if by_products else train_rows
    works: list[Any] = [
        _products.make_work(problem, batch_size, state.weights)
        if by_products
        else make_work(problem, parts, batch_size, state.weights)
        for _ in range(n_threads)
    ]
    bound = parts.bound.lower(parts.noise)
    sampler = parts.sampler.lower(problem)
    samplers = [sampler, *(parts.sampler.with_own_scratch(sampler) for _ in range(n_threads - 1))]
    samplers_now = samplers
    rngs = [state.rng, *(_random.new_state(random_state) for _ in range(n_threads - 1))]
    n_steps = settings.max_epochs * -(-problem.n_rows // batch_size)
    solver = parts.solver.lower_for(problem, n_steps)
    bounded = plan.weight_bound < np.inf
    scale, squared_norm = 1.0, float(np.vdot(state.weights, state.weights)) if bounded else 0.0

    all_classes = problem.rank is None and _exact.applies(
        parts.noise, parts.bound, parts.sampler, parts.solver
    )
    rows: list[Any] = [problem.rows] * n_threads
    if problem.rank is not None:
        rows = [embedded(problem) for _ in rows]

    def part(thread: int, first: int, last: int, scale: float, n_together: int):
        nonlocal squared_norm
        value, cursor, scale, squared_norm = kernel(
            rows[thread],
            problem.labels,
            problem.row_weights,
            order.rows,
            first,
            last,
            plan,
            bound,
            samplers_now[thread],
            solver,
            rngs[thread],
            state.weights,
            state.intercepts,
            state.weights_state,
            state.intercepts_state,
            state.local,
            works[thread],
            order.geometry,
            state.iteration,
            state.epoch,
            local_progress(0 if settings.fresh_rows else state.epoch),
            (state.sweep_cursor + thread * len(state.weights) // n_together) % len(state.weights),
            scale,
            squared_norm,
            n_together,
        )
        if thread == 0:
            state.sweep_cursor = cursor
        return value, scale

    def chunk(first: int, last: int) -> float:
        nonlocal scale
        if all_classes:
            value, scale = _exact.train(
                problem,
                plan,
                solver,
                state,
                order.rows,
                order.geometry.squared_norms,
                first,
                last,
                scale,
                n_threads,
            )
        else:
            alone: Any = _products.one_thread_each() if by_products else contextlib.nullcontext()
            with alone:
                value, scale = train_together(
                    part, first, last, scale, n_threads, plan, solver, state
                )
        return value

    started = time.perf_counter()
    chunk(0, 0)  # compiles, trains on nothing
    on_compiled(time.perf_counter() - started)

    total_weight = problem.row_weights.sum()
    # Whole blocks of the kernel: their draws come first, so a cut elsewhere would change the bits.
    block = batch_size * max(1, LOOKAHEAD // batch_size)
    chunk_rows = block * max(1, 2048 // block)
    between = max(block, block * round(problem.n_rows / (AVERAGES * block)))
    for epoch in range(settings.max_epochs):
        started = time.perf_counter()
        order.next_epoch()
        samplers_now = [parts.sampler.in_epoch(s, epoch, settings.max_epochs) for s in samplers]
        total, done, average_at = 0.0, 0, between
        try:
            while done < problem.n_rows:
                chunk_started = time.perf_counter()
                end = min(done + chunk_rows, problem.n_rows)
                if state.average is not None:
                    end = min(end, average_at)
                value = chunk(done, end)
                if not np.isfinite(value):
                    raise DivergedError(
                        f"the {parts.bound.name} {parts.bound.word} became {value} in epoch "
                        f"{state.epoch + 1}; {parts.solver.if_diverged}"
                    )
                total += value
                seconds = max(time.perf_counter() - chunk_started, 1e-6)
                done = end
                if state.average is not None and (done == average_at or done == problem.n_rows):
                    state.average.add(
                        state.weights * state.weights.dtype.type(scale), state.intercepts
                    )
                    average_at += between
                on_chunk(done / problem.n_rows, total / total_weight * problem.n_rows / done)
                grow = min(2.0, CHUNK_SECONDS / seconds)
                wanted = min(int(chunk_rows * grow), problem.n_rows)
                chunk_rows = block * max(1, wanted // block)
        finally:  # whoever looks now, if only after an interruption, sees the weights themselves
            if scale != 1.0:
                state.weights *= state.weights.dtype.type(scale)
                scale = 1.0
        if bounded:
            squared_norm = float(np.vdot(state.weights, state.weights))
        state.epoch += 1
        if on_epoch(total / total_weight, time.perf_counter() - started):
            return
