"""The one training loop of the stochastic solvers.

The loop owns time, shuffling, finiteness, callbacks and stopping; the kernel below it does a
chunk of rows.  One step: the sampler draws classes for each row of a mini-batch, the rows' scores
for those classes and their labels are computed, the bound turns them into a value, slopes and
new local parameters, and the solver turns slopes into one update.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bigcat._jit import device, kernel, prefetch
from bigcat._seam import coordinate_rate, draw, move, rate, step
from bigcat._weights import (
    accumulate,
    batch_coordinates,
    is_sparse,
    prefetch_row,
    scores,
    update,
    update_slots,
    update_touched,
)
from bigcat.bounds import Bound
from bigcat.noise import Noise
from bigcat.samplers import Sampler
from bigcat.solvers._base import Solver
from bigcat.solvers._state import Problem, State

#: Seconds of work a kernel call is given: short enough for a progress bar and Ctrl-C.
CHUNK_SECONDS = 0.2
#: Slopes below this are taken for zero: their squares would be denormal numbers, which are many
#: times slower to work with, and no solver moves a weight visibly for them.
NEGLIGIBLE = 1e-15
#: Rows whose classes are drawn ahead where batches are smaller.
LOOKAHEAD = 16


@dataclass(frozen=True)
class Parts:
    """The combination to run: which noise, bound, sampler and solver."""

    noise: Noise
    bound: Bound
    sampler: Sampler
    solver: Solver


@dataclass(frozen=True)
class Settings:
    batch_size: int
    max_epochs: int
    shuffle: bool = True
    fresh_rows: bool = False  # rows that were never seen: local parameters start anew


def local_progress(epoch: int) -> float:
    """Size of the local steps: (1 + t)^-0.9 with epochs t = 1, 2, ... (A&R section 4).

    The authors' code counts from 1 too, and rightly: a first step of 1 would throw the starting
    values away for an estimate from a few sampled classes.
    """
    return float((2.0 + epoch) ** -0.9)


class DivergedError(FloatingPointError):
    """Training produced numbers that are not finite."""


@device
def _update_intercepts(
    intercepts, state, gradient, classes, slopes, sizes, n_rows, buffered, solver, step_rate
):
    """Move the intercepts of a batch: row by row, or by the batch's sum where it is needed."""
    if not buffered:
        for r in range(n_rows):
            for c in range(sizes[r] + 1):
                move(solver, step_rate, intercepts, state, classes[r, c], slopes[r, c])
        return
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            gradient[classes[r, c]] += slopes[r, c]
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            k = classes[r, c]
            if gradient[k] != 0.0:  # its first appearance in the batch
                move(solver, step_rate, intercepts, state, k, gradient[k])
                gradient[k] = 0.0


@kernel
def train_rows(
    rows,
    labels,
    row_weights,
    order,
    first,
    last,
    batch_size,
    bound,
    sampler,
    solver,
    linear,
    rng,
    weights,
    intercepts,
    weights_state,
    intercepts_state,
    local,
    width,
    gradient,
    intercept_gradient,
    slot_of,
    touched,
    iteration,
    epoch,
    progress,
    gradient_scale,
    ridge,
    ridge_majors,
    ridge_cursor,
    fit_intercept,
):
    """Train on rows ``order[first:last]``; returns the sum of their values and the cursor.

    Classes of a row are kept with its label last: entry n of the n + 1.
    """
    # Classes are drawn for a block of rows at once, so that the weights of the next row can be
    # fetched while a row is worked on.
    block = batch_size * max(1, LOOKAHEAD // batch_size)
    classes = np.empty((block, width + 1), np.int64)
    counts = np.empty((block, width))
    slopes = np.empty((batch_size, width + 1), weights.dtype)
    sizes = np.empty(block, np.int64)
    always = np.empty(block, np.int64)
    psi, row_slopes = np.empty(width + 1), np.empty(width + 1)
    n_touched = np.zeros(1, np.int64)
    one_by_one = batch_size == 1
    buffered = not (linear or one_by_one)
    value = 0.0
    for start in range(first, last, batch_size):
        offset = (start - first) % block
        if offset == 0:
            for r in range(min(block, last - start)):
                y = labels[order[start + r]]
                n, n_always = draw(sampler, rng, y, classes[r], counts[r])
                classes[r, n] = y
                sizes[r], always[r] = n, n_always
            prefetch_row(rows, order[start], weights, classes[0], sizes[0] + 1)
        stop = min(start + batch_size, last)
        iteration += 1
        step_rate = weights.dtype.type(rate(solver, iteration, epoch))

        for r in range(stop - start):
            i, d = order[start + r], offset + r
            n = sizes[d]
            if d + 1 < block and start + r + 1 < last:
                prefetch_row(rows, order[start + r + 1], weights, classes[d + 1], n + 1)
                prefetch(local, order[start + r + 1] * local.shape[1])
            scores(rows, i, weights, intercepts, classes[d], n + 1, psi)
            value += row_weights[i] * step(
                bound, rng, local[i], progress, psi[n], psi, counts[d], n, always[d], row_slopes
            )
            scale = row_weights[i] * gradient_scale / (stop - start)
            total = 0.0
            for c in range(n):
                total += row_slopes[c]
                slope = scale * row_slopes[c]
                slopes[r, c] = slope if abs(slope) > NEGLIGIBLE else 0.0
            slopes[r, n] = -scale * total
            # The row is still in the cache.  A batch's gradient is taken at the weights before
            # the batch, so only its sum may be built now, unless the batch is this row.
            if buffered:
                accumulate(
                    rows, i, gradient, slot_of, touched, n_touched, classes[d], slopes[r], n + 1
                )
            elif one_by_one:
                update(
                    rows, i, weights, weights_state, classes[d], slopes[r], n + 1, solver, step_rate
                )

        if buffered:
            # Visit what the batch touched, or everything in its slots at vector speed: the
            # cheaper of the two (a scan is about four times as fast a coordinate).
            triples = batch_coordinates(rows, order, start, stop, width + 1)
            if n_touched[0] * weights.shape[1] < 4 * triples:
                update_slots(
                    weights, weights_state, gradient, touched, n_touched[0], solver, step_rate
                )
            else:
                for r in range(stop - start):
                    i, d = order[start + r], offset + r
                    update_touched(
                        rows,
                        i,
                        weights,
                        weights_state,
                        gradient,
                        slot_of,
                        classes[d],
                        sizes[d] + 1,
                        solver,
                        step_rate,
                    )
            for slot in range(n_touched[0]):
                slot_of[touched[slot]] = -1
            n_touched[0] = 0
        elif not one_by_one:
            for r in range(stop - start):
                i, d = order[start + r], offset + r
                n = sizes[d] + 1
                update(rows, i, weights, weights_state, classes[d], slopes[r], n, solver, step_rate)
        if fit_intercept:
            _update_intercepts(
                intercepts,
                intercepts_state,
                intercept_gradient,
                classes[offset:],
                slopes,
                sizes[offset:],
                stop - start,
                buffered,
                solver,
                step_rate,
            )
        for _ in range(ridge_majors):
            w, s = weights[ridge_cursor], weights_state[ridge_cursor]
            for j in range(w.shape[0]):
                w[j] /= 1.0 + ridge * coordinate_rate(solver, step_rate, s, j)
            ridge_cursor += 1
            if ridge_cursor == weights.shape[0]:
                ridge_cursor = 0
    return value, iteration, ridge_cursor


@dataclass
class _Ridge:
    """The ridge as proximal sweeps over blocks of the weights.

    Sampled steps touch few coordinates, the ridge all of them.  After each batch the next
    `majors` major rows of the weights are shrunk for all the batches since their last turn:
    right on average over an epoch, stable for any strength, and no dearer than the data, since
    there are as many sweeps an epoch as cost what the data cost, but at least one.
    """

    strength: float = 0.0
    majors: int = 0

    @classmethod
    def plan(cls, problem: Problem, parts: Parts, batch_size: int, shape: tuple[int, int]):
        if problem.l2 == 0.0:
            return cls()
        rows = problem.rows
        n_values = len(rows.values) if is_sparse(rows) else rows.values.size
        width = parts.sampler.width(problem.n_classes, problem.head) + 1
        n_batches = -(-problem.n_rows // batch_size)
        sweeps = min(max(n_values * width / (shape[0] * shape[1]), 1.0), n_batches)
        majors = min(int(np.ceil(shape[0] * sweeps / n_batches)), shape[0])
        total = problem.row_weights.sum() if parts.solver.gradient == "mean" else 1.0
        return cls(problem.l2 / total * shape[0] / majors, majors)


def gradient_slots(solver: Solver, batch_size: int, majors_a_row: int, n_majors: int) -> int:
    """Rows of the batch's gradient buffer: the most majors that a batch can touch."""
    if solver.linear or batch_size == 1:
        return 0
    return min(n_majors, batch_size * majors_a_row)


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
    shape = state.weights.shape
    dtype = state.weights.dtype
    batch_size = min(settings.batch_size, problem.n_rows)
    ridge = _Ridge.plan(problem, parts, batch_size, shape)
    n_slots = gradient_slots(
        parts.solver, batch_size, _majors_a_row(problem, parts.sampler), shape[0]
    )
    buffered = n_slots > 0
    fixed: dict[str, Any] = {
        "batch_size": batch_size,
        "bound": parts.bound.lower(parts.noise),
        "sampler": parts.sampler.lower(problem.n_classes, problem.head),
        "solver": parts.solver.lower(),
        "linear": parts.solver.linear,
        "width": parts.sampler.width(problem.n_classes, problem.head),
        "gradient": np.zeros((n_slots, shape[1]), dtype),
        "intercept_gradient": np.zeros(problem.n_classes if buffered else 0, dtype),
        "slot_of": np.full(shape[0] if buffered else 0, -1, np.int64),
        "touched": np.empty(n_slots, np.int64),
        "gradient_scale": _gradient_scale(problem, parts.solver),
        "ridge": ridge.strength,
        "ridge_majors": ridge.majors,
        "fit_intercept": problem.fit_intercept,
    }
    order = np.arange(problem.n_rows)

    def chunk(first: int, last: int) -> float:
        value, state.iteration, state.ridge_cursor = train_rows(
            problem.rows,
            problem.labels,
            problem.row_weights,
            order,
            first,
            last,
            fixed["batch_size"],
            fixed["bound"],
            fixed["sampler"],
            fixed["solver"],
            fixed["linear"],
            state.rng,
            state.weights,
            state.intercepts,
            state.weights_state,
            state.intercepts_state,
            state.local,
            fixed["width"],
            fixed["gradient"],
            fixed["intercept_gradient"],
            fixed["slot_of"],
            fixed["touched"],
            state.iteration,
            state.epoch,
            local_progress(0 if settings.fresh_rows else state.epoch),
            fixed["gradient_scale"],
            fixed["ridge"],
            fixed["ridge_majors"],
            state.ridge_cursor,
            fixed["fit_intercept"],
        )
        return value

    started = time.perf_counter()
    chunk(0, 0)  # compiles, trains on nothing
    on_compiled(time.perf_counter() - started)

    total_weight = problem.row_weights.sum()
    # Whole blocks of the kernel: their draws come first, so a cut elsewhere would change the bits.
    block = batch_size * max(1, LOOKAHEAD // batch_size)
    chunk_rows = block * max(1, 2048 // block)
    for _ in range(settings.max_epochs):
        started = time.perf_counter()
        if settings.shuffle:
            order = random_state.permutation(problem.n_rows)
        total, done = 0.0, 0
        while done < problem.n_rows:
            chunk_started = time.perf_counter()
            end = min(done + chunk_rows, problem.n_rows)
            value = chunk(done, end)
            if not np.isfinite(value):
                raise DivergedError(
                    f"the {parts.bound.name} bound became {value} in epoch {state.epoch + 1}; "
                    "lower learning_rate, scale the columns of X to similar size, or take "
                    "solver='adagrad'"
                )
            total += value
            seconds = max(time.perf_counter() - chunk_started, 1e-6)
            done = end
            on_chunk(done / problem.n_rows, total / total_weight * problem.n_rows / done)
            grow = min(2.0, CHUNK_SECONDS / seconds)
            wanted = min(int(chunk_rows * grow), problem.n_rows)
            chunk_rows = block * max(1, wanted // block)
        state.epoch += 1
        if on_epoch(total / total_weight, time.perf_counter() - started):
            return


def _majors_a_row(problem: Problem, sampler: Sampler) -> int:
    if is_sparse(problem.rows):
        return int(np.diff(problem.rows.indptr).max(initial=1))
    return sampler.width(problem.n_classes, problem.head) + 1


def _gradient_scale(problem: Problem, solver: Solver) -> float:
    """What a batch's mean gradient is multiplied by to estimate what the solver works on."""
    if solver.gradient == "sum":
        return float(problem.n_rows)
    return problem.n_rows / float(problem.row_weights.sum())
