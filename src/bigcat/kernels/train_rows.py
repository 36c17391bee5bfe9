"""Training kernel of the stochastic solvers: a chunk of rows, batch after batch.

Each step draws classes for the rows of a mini-batch and computes scores for these classes and the
labels. The solver visits each row (most let the bound turn scores into a value, gradients and new
local parameters), and the gradients become one update.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bigcat.compile import device, kernel, prefetch
from bigcat.rows.forms import update_slots
from bigcat.verbs import (
    Batch,
    StepSize,
    accumulate,
    batch_coordinates,
    coordinate_rate,
    couple,
    damping,
    draw,
    move,
    prefetch_row,
    rate,
    score_squared_norm,
    scores,
    update,
    update_touched,
    visit,
)

#: Gradients below this count as zero: their squares would be denormal numbers, which are many times
#: slower, and no solver moves a weight visibly for them.
MIN_GRADIENT = 1e-15
#: Scale at which lazily scaled weights are multiplied out, well before float32 numbers overflow.
MIN_LAZY_SCALE = 1e-6
#: Rows for which classes are drawn ahead if batches are smaller.
LOOKAHEAD_ROWS = 16


@device
def _update_intercepts(
    intercepts, state, gradient, classes, grads, sizes, n_rows, buffered, solver, step_rate
):
    """Move the intercepts of a batch, row by row or by the batch's sum if `buffered`."""
    if not buffered:
        for r in range(n_rows):
            for c in range(sizes[r] + 1):
                move(solver, step_rate, intercepts, state, classes[r, c], grads[r, c])
        return
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            gradient[classes[r, c]] += grads[r, c]
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            k = classes[r, c]
            if gradient[k] != 0.0:  # its first appearance in the batch
                move(solver, step_rate, intercepts, state, k, gradient[k])
                gradient[k] = 0.0


class TrainingRows(NamedTuple):
    """Rows of a fit with labels, weights and order."""

    features: Any  # a tag of `bigcat.rows`
    labels: np.ndarray
    weights: np.ndarray
    order: np.ndarray  # in which they are visited


class Span(NamedTuple):
    """Part of an epoch that a call trains on: rows ``order[first:last]``."""

    first: int
    last: int
    iteration: int  # steps made before
    epoch: int
    n_threads: int  # calls at once; each counts the steps of the others, too


class MethodTags(NamedTuple):
    """Tags of the parts of a method."""

    bound: Any
    sampler: Any
    solver: Any


class ModelArrays(NamedTuple):
    """Arrays that a fit changes; several calls may share them without locks."""

    weights: np.ndarray
    intercepts: np.ndarray
    weights_state: np.ndarray
    intercepts_state: np.ndarray
    local: np.ndarray


class LoopState(NamedTuple):
    """Numbers passed from one call to the next."""

    sweep_cursor: int
    scale: float  # the weights are ``scale * weights``
    squared_norm: float


class KernelPlan(NamedTuple):
    """Constants of a fit."""

    batch_size: int
    width: int  # the most other classes that a draw can give
    buffered: bool  # True if the batch's gradient is summed before anything moves
    implicit: bool
    damped: bool
    fit_intercept: bool
    intercept_scale: float  # step size of the intercepts, for one of 1 of the weights
    gradient_scale: float
    shrink: float  # ridge of linear solvers, for a step size of 1
    sweep: float  # ridge of the others, for a step size of 1 and the majors of one turn
    sweep_majors: int
    weight_bound: float


class Scratch(NamedTuple):
    """Scratch memory: the gradient of a batch, for solvers that need its sum."""

    gradient: np.ndarray
    intercept_gradient: np.ndarray
    slot_of: np.ndarray
    touched: np.ndarray


class RowNorms(NamedTuple):
    """Squared norms and inner products of rows, for solvers that need them; else empty arrays."""

    squared_norms: np.ndarray  # a row
    grams: np.ndarray  # a batch
    batch_order: np.ndarray
    slot_of_class: np.ndarray  # scratch


@device
def fold(weights, scale):
    """Multiply lazily scaled weights out."""
    factor = weights.dtype.type(scale)
    for major in range(weights.shape[0]):
        w = weights[major]
        for j in range(w.shape[0]):
            w[j] *= factor


@device
def sweep(weights, state, cursor, plan, solver, step_rate):
    """Apply the ridge to the majors of this turn; return the start of the next turn."""
    sweep_rate = weights.dtype.type(step_rate)
    for _ in range(plan.sweep_majors):
        w, s = weights[cursor], state[cursor]
        for j in range(w.shape[0]):
            w[j] /= 1.0 + plan.sweep * coordinate_rate(solver, sweep_rate, s, j)
        cursor += 1
        if cursor == weights.shape[0]:
            cursor = 0
    return cursor


@kernel
def train_rows(data, span, plan, method, rng, model, work, row_norms, progress, loop_state):
    """Train on the rows of a span; `progress` is the step size of local parameters.

    The label of a row is stored last among its classes: entry n of the n + 1. Weights are ``scale *
    weights``, so that the ridge of a linear solver costs one multiplication per step.

    Several calls may run at once on the same weights, without locks. Each counts the steps of the
    others in the iterations and in the ridge.

    Returns the sum of the rows' values and the state for the next call.
    """
    rows, labels, row_weights, order = data
    first, last, iteration, epoch, n_threads = span
    bound, sampler, solver = method
    weights, intercepts, weights_state, intercepts_state, local = model
    sweep_cursor, scale, squared_norm = loop_state
    # A copy: states of several threads may share a cache line, which every draw would invalidate.
    shared_rng, rng = rng, rng.copy()
    batch_size, width = plan.batch_size, plan.width
    # Classes are drawn for a block of rows at once, so that the weights of the next row can be
    # prefetched.
    block = batch_size * max(1, LOOKAHEAD_ROWS // batch_size)
    classes = np.empty((block, width + 1), np.int64)
    counts = np.empty((block, width + 1))
    grads = np.empty((batch_size, width + 1), weights.dtype)
    sizes = np.empty(block, np.int64)
    always = np.empty(block, np.int64)
    psi, row_grads = np.empty((batch_size, width + 1)), np.empty((batch_size, width + 1))
    rates, u_before = np.empty(batch_size), np.empty(batch_size)
    n_touched = np.zeros(1, np.int64)
    one_by_one = batch_size == 1
    buffered = plan.buffered
    coupled = row_norms.grams.shape[0] > 0
    intercept_norm = plan.intercept_scale if plan.fit_intercept else 0.0
    limited = plan.weight_bound < math.inf
    value = 0.0
    for start in range(first, last, batch_size):
        offset = (start - first) % block
        if offset == 0:
            for r in range(min(block, last - start)):
                i = order[start + r]
                y = labels[i]
                n, n_always = draw(sampler, rng, rows, i, y, classes[r], counts[r])
                classes[r, n] = y
                sizes[r], always[r] = n, n_always
            prefetch_row(rows, order[start], weights, classes[0], sizes[0] + 1)
        stop = min(start + batch_size, last)
        n_rows = stop - start
        iteration += n_threads
        step_rate = rate(solver, iteration, epoch)
        # The ridge as a proximal step: W <- (W + rate grads x) / (1 + rate l2), with gradients at
        # the old W, or at the new one for an implicit solver.
        shrunk = (1.0 / (1.0 + step_rate * plan.shrink)) ** n_threads
        score_scale = scale * shrunk if plan.implicit else scale
        weight_rate = weights.dtype.type(step_rate / scale)
        intercept_rate = weights.dtype.type(step_rate * plan.intercept_scale)

        for r in range(n_rows):
            i, d = order[start + r], offset + r
            n = sizes[d]
            if d + 1 < block and start + r + 1 < last:
                prefetch_row(rows, order[start + r + 1], weights, classes[d + 1], n + 1)
                prefetch(local, order[start + r + 1] * local.shape[1])
            scores(rows, i, weights, score_scale, intercepts, classes[d], n + 1, psi[r])
            weight = row_weights[i] * plan.gradient_scale
            row_norm, size = 0.0, 0.0
            if plan.implicit or plan.damped:
                size = score_squared_norm(rows, i, weights, labels[i], row_norms.squared_norms[i])
                row_norm = (shrunk * size + intercept_norm) / n_rows
            if plan.implicit:
                u_before[r] = local[i, 0]
                rates[r] = step_rate * weight
            value += row_weights[i] * visit(
                solver,
                bound,
                rng,
                local[i],
                progress,
                StepSize(step_rate * weight, row_norm),
                psi[r, n],
                psi[r],
                counts[d],
                n,
                always[d],
                row_grads[r],
            )
            if coupled:
                continue
            damped = damping(solver, row_grads[r, n], step_rate * weight * row_norm, size)
            for c in range(n + 1):
                grad = weight / n_rows * damped * row_grads[r, c]
                grads[r, c] = grad if plan.implicit or abs(grad) > MIN_GRADIENT else 0.0
            # The row is still in the cache.  The gradient of a batch is taken at the weights before
            # the batch, so only its sum may be built now, unless the batch is this row.
            if buffered:
                accumulate(
                    rows,
                    i,
                    work.gradient,
                    weights,
                    work.slot_of,
                    work.touched,
                    n_touched,
                    classes[d],
                    grads[r],
                    n + 1,
                )
            elif one_by_one:
                update(
                    rows,
                    i,
                    weights,
                    weights_state,
                    classes[d],
                    grads[r],
                    n + 1,
                    solver,
                    weight_rate,
                )
                if limited:
                    # |W|^2 of the new weights, from numbers that are at hand.
                    squared_norm *= shrunk * shrunk
                    for c in range(n + 1):
                        moved = shrunk * step_rate * grads[r, c]
                        dot = psi[r, c] - intercepts[classes[d, c]]
                        squared_norm += 2.0 * moved * shrunk * dot
                        squared_norm += moved * moved * row_norms.squared_norms[i]

        if coupled:
            batch = Batch(
                n_rows=n_rows,
                gram=row_norms.grams[row_norms.batch_order[start // batch_size]],
                shrunk=shrunk,
                intercept_norm=intercept_norm,
                rates=rates,
                progress=progress,
                u_before=u_before,
                scores=psi,
                counts=counts[offset:],
                sizes=sizes[offset:],
                classes=classes[offset:],
                grads=row_grads,
                members=order[start:stop],
                local=local,
                slot_of_class=row_norms.slot_of_class,
            )
            couple(solver, batch)
            for r in range(n_rows):
                weight = row_weights[order[start + r]] * plan.gradient_scale
                for c in range(sizes[offset + r] + 1):
                    grads[r, c] = weight / n_rows * row_grads[r, c]
        if buffered:
            # Visit touched coordinates, or scan all slots at vector speed, whichever is cheaper (a
            # scan is about four times as fast per coordinate).
            triples = batch_coordinates(rows, order, start, stop, width + 1)
            if n_touched[0] * weights.shape[1] < 4 * triples:
                update_slots(
                    weights,
                    weights_state,
                    work.gradient,
                    work.touched,
                    n_touched[0],
                    solver,
                    weight_rate,
                )
            else:
                for r in range(n_rows):
                    i, d = order[start + r], offset + r
                    update_touched(
                        rows,
                        i,
                        weights,
                        weights_state,
                        work.gradient,
                        work.slot_of,
                        classes[d],
                        sizes[d] + 1,
                        solver,
                        weight_rate,
                    )
            for slot in range(n_touched[0]):
                work.slot_of[work.touched[slot]] = -1
            n_touched[0] = 0
        elif not one_by_one:
            for r in range(n_rows):
                i, d = order[start + r], offset + r
                n = sizes[d] + 1
                update(
                    rows, i, weights, weights_state, classes[d], grads[r], n, solver, weight_rate
                )
        if plan.fit_intercept:
            _update_intercepts(
                intercepts,
                intercepts_state,
                work.intercept_gradient,
                classes[offset:],
                grads,
                sizes[offset:],
                n_rows,
                buffered,
                solver,
                intercept_rate,
            )
        scale *= shrunk
        if limited and squared_norm > plan.weight_bound * plan.weight_bound:
            scale *= plan.weight_bound / math.sqrt(squared_norm)
            squared_norm = plan.weight_bound * plan.weight_bound
        if scale < MIN_LAZY_SCALE and n_threads == 1:  # others could not know of it
            fold(weights, scale)
            scale = 1.0
        sweep_cursor = sweep(weights, weights_state, sweep_cursor, plan, solver, step_rate)
    shared_rng[0] = rng[0]
    return value, LoopState(sweep_cursor, scale, squared_norm)
