"""Batches by products of matrices: all rows of a batch look at the same classes.

A row is a dense vector h, the row itself or its embedding.  With the batch's vectors H (n, width)
and those of the drawn classes V (m, width), scores are H V', and with the slopes G (n, m) of the
rows' values the gradients are G' H for the classes and G V for the rows' embeddings: three products
for which processors are made, and each class is fetched once a batch.
"""

from __future__ import annotations

import numpy as np

from bigcat._embedded import EmbeddedRows, accumulate_features, embed
from bigcat._jit import device, generic, implement, kernel
from bigcat._seam import Pace, damping, draw, move, move_vector, rate, stands_for, visit
from bigcat._weights import DenseRows, SparseRows, move_slots
from bigcat.solvers._kernel import NEGLIGIBLE, SMALLEST_SCALE, fold, sweep


@generic
def hidden_vectors(rows, order, start, weights, scale, out):
    """Fill `out` with vectors h of rows ``order[start:]``, whose scores are scale v . h + b."""


@implement(hidden_vectors, DenseRows)
def _(rows, order, start, weights, scale, out):
    for r in range(out.shape[0]):
        x = rows.values[order[start + r]]
        for j in range(out.shape[1]):
            out[r, j] = x[j]


@implement(hidden_vectors, EmbeddedRows)
def _(rows, order, start, weights, scale, out):
    factor = weights.dtype.type(scale * rows.unit)
    embed_batch(rows.rows, order, start, weights, rows.n_classes, factor, out)


@generic
def embed_batch(rows, order, start, vectors, first, factor, out):
    """out = factor X U for rows ``order[start:]``; the vectors of U are the majors from `first`."""


@implement(embed_batch, SparseRows)
def _(rows, order, start, vectors, first, factor, out):
    for r in range(out.shape[0]):
        embed(rows, order[start + r], vectors, first, factor, out[r])


@implement(embed_batch, DenseRows)
def _(rows, order, start, vectors, first, factor, out):
    np.dot(_gathered_rows(rows, order, start, out.shape[0], factor), vectors[first:], out)


@device
def _gathered_rows(rows, order, start, n_rows, factor):
    """factor times the rows ``order[start : start + n_rows]``."""
    x = np.empty((n_rows, rows.values.shape[1]), rows.values.dtype)
    for r in range(n_rows):
        values = rows.values[order[start + r]]
        for j in range(values.shape[0]):
            x[r, j] = factor * values[j]
    return x


@generic
def squared_reach(rows, hidden, label_vector, scale, squared_norm):
    """What a step of 1 along the gradient moves the label's score by."""


@implement(squared_reach, DenseRows)
def _(rows, hidden, label_vector, scale, squared_norm):
    return squared_norm


@implement(squared_reach, EmbeddedRows)
def _(rows, hidden, label_vector, scale, squared_norm):
    by_class, by_features = 0.0, 0.0
    for j in range(hidden.shape[0]):
        by_class += hidden[j] * hidden[j]
        by_features += label_vector[j] * label_vector[j]
    factor = scale * rows.unit
    return by_class + squared_norm * factor * factor * by_features


@generic
def move_embedding(rows, order, start, slopes, vectors, weights, state, scale, work, solver, rate):
    """Move the vectors of the batch's features, from the slopes and the classes' old vectors."""


@implement(move_embedding, DenseRows)
def _(rows, order, start, slopes, vectors, weights, state, scale, work, solver, rate):
    pass


@implement(move_embedding, EmbeddedRows)
def _(rows, order, start, slopes, vectors, weights, state, scale, work, solver, rate):
    back, factor = np.dot(slopes, vectors), weights.dtype.type(scale * rows.unit)
    move_batch(
        rows.rows, order, start, back, factor, weights, state, rows.n_classes, work, solver, rate
    )


@generic
def move_batch(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    """Move the vectors of a batch's features by ``factor X' back``."""


@implement(move_batch, SparseRows)
def _(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    gradient, slot_of, touched = work.gradient, work.slot_of, work.touched
    n_touched = np.zeros(1, np.int64)
    for r in range(back.shape[0]):
        for j in range(back.shape[1]):
            back[r, j] *= factor
        i = order[start + r]
        accumulate_features(rows, i, first, back[r], gradient, slot_of, touched, n_touched)
    move_slots(vectors, state, gradient, slot_of, touched, n_touched[0], solver, rate)


@implement(move_batch, DenseRows)
def _(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    x = _gathered_rows(rows, order, start, back.shape[0], factor)
    gradient, one = np.dot(x.T, back), vectors.dtype.type(1.0)
    for feature in range(gradient.shape[0]):
        major = first + feature
        move_vector(solver, rate, vectors[major], state[major], one, gradient[feature])


@device
def _gather(weights, classes, n, out):
    """out[c] = weights[classes[c]]."""
    for c in range(n):
        w = weights[classes[c]]
        for j in range(w.shape[0]):
            out[c, j] = w[j]


@device
def _in_order(classes, n):
    """Are the classes 0, 1, 2, ...?"""
    n_misplaced = 0
    for c in range(n):
        n_misplaced += classes[c] != c
    return n_misplaced == 0


@kernel
def train_batches(
    rows,
    labels,
    row_weights,
    order,
    first,
    last,
    plan,
    bound,
    sampler,
    solver,
    rng,
    weights,
    intercepts,
    weights_state,
    intercepts_state,
    local,
    work,
    geometry,
    iteration,
    epoch,
    progress,
    sweep_cursor,
    scale,
    squared_norm,
    n_threads,
):
    """Train on rows ``order[first:last]``, as `train_rows` does, with classes drawn a batch.

    A batch's classes are those drawn and then the labels that were not; a row's other classes are
    those drawn but its label.  `geometry` has the rows' norms where the solver needs them, and
    `squared_norm` is not used.  Returns what `train_rows` does.
    """
    shared_rng, rng = rng, rng.copy()
    n_classes, width = intercepts.shape[0], weights.shape[1]
    batch_size = min(plan.batch_size, last - first)
    most = min(plan.width + 1, n_classes) + batch_size
    classes, counts = np.empty(most + 1, np.int64), np.empty(most + 1)
    gathered = np.empty((most, width), weights.dtype)
    class_gradient = np.empty((most, width), weights.dtype)
    hidden_buffer = np.empty((batch_size, width), weights.dtype)
    score_buffer = np.empty(batch_size * most, weights.dtype)
    place_of, places = work.place_of, np.empty(batch_size, np.int64)
    others, row_counts, row_slopes = np.empty(most + 1), np.empty(most + 1), np.empty(most + 1)
    intercept_norm = plan.intercept_scale if plan.fit_intercept else 0.0
    one = weights.dtype.type(1.0)
    value = 0.0
    for start in range(first, last, plan.batch_size):
        n_rows = min(plan.batch_size, last - start)
        iteration += n_threads
        step_rate = rate(solver, iteration, epoch)
        shrunk = (1.0 / (1.0 + step_rate * plan.shrink)) ** n_threads
        weight_rate = weights.dtype.type(step_rate / scale)
        intercept_rate = weights.dtype.type(step_rate * plan.intercept_scale)

        n, n_always = draw(sampler, rng, rows, 0, -1, classes, counts)
        for c in range(n):
            place_of[classes[c]] = c
        n_all = n
        for r in range(n_rows):
            y = labels[order[start + r]]
            if place_of[y] < 0:
                place_of[y], classes[n_all] = n_all, y
                n_all += 1
            places[r] = place_of[y]

        hidden = hidden_buffer[:n_rows]
        hidden_vectors(rows, order, start, weights, scale, hidden)
        vectors = gathered[:n_all]
        if n_all == n_classes and _in_order(classes, n_all):
            vectors = weights[:n_classes]
        else:
            _gather(weights, classes, n_all, vectors)
        scores = score_buffer[: n_rows * n_all].reshape(n_rows, n_all)
        np.dot(hidden, vectors.T, scores)

        for r in range(n_rows):
            i, place, row = order[start + r], places[r], scores[r]
            m = 0
            for c in range(n):
                if c != place:
                    others[m] = intercepts[classes[c]] + scale * row[c]
                    row_counts[m] = counts[c]
                    m += 1
            label = classes[place]
            row_counts[m] = stands_for(sampler, label)
            weight = row_weights[i] * plan.gradient_scale
            far = 0.0
            if plan.damped:
                size = squared_reach(
                    rows, hidden[r], vectors[place], scale, geometry.squared_norms[i]
                )
                far = (shrunk * size + intercept_norm) / n_rows
            value += row_weights[i] * visit(
                solver,
                bound,
                rng,
                local[i],
                progress,
                Pace(step_rate * weight, far),
                intercepts[label] + scale * row[place],
                others,
                row_counts,
                m,
                n_always - (1 if place < n_always else 0),
                row_slopes,
            )
            factor = weight / n_rows * damping(solver, row_slopes[m], step_rate * weight * far)
            for c in range(n, n_all):
                row[c] = 0.0
            m = 0
            for c in range(n):
                if c != place:
                    slope = factor * row_slopes[m]
                    row[c] = slope if abs(slope) > NEGLIGIBLE else 0.0
                    m += 1
            row[place] = factor * row_slopes[m]

        np.dot(scores.T, hidden, class_gradient[:n_all])
        move_embedding(
            rows,
            order,
            start,
            scores,
            vectors,
            weights,
            weights_state,
            scale,
            work,
            solver,
            weight_rate,
        )
        for c in range(n_all):
            k = classes[c]
            move_vector(solver, weight_rate, weights[k], weights_state[k], one, class_gradient[c])
        if plan.fit_intercept:
            for c in range(n_all):
                others[c] = 0.0
            for r in range(n_rows):
                for c in range(n_all):
                    others[c] += scores[r, c]
            for c in range(n_all):
                gradient = weights.dtype.type(others[c])
                if gradient != 0.0:
                    move(solver, intercept_rate, intercepts, intercepts_state, classes[c], gradient)
        for c in range(n_all):
            place_of[classes[c]] = -1
        scale *= shrunk
        if scale < SMALLEST_SCALE and n_threads == 1:  # others could not know of it
            fold(weights, scale)
            scale = 1.0
        sweep_cursor = sweep(weights, weights_state, sweep_cursor, plan, solver, step_rate)
    shared_rng[0] = rng[0]
    return value, sweep_cursor, scale, squared_norm
