"""Training by products of matrices: all rows of a batch visit the same classes.

A row is a dense vector h, the row itself or its embedding. With the batch's vectors H (n, width)
and those of the drawn classes V (m, width), scores are H V'. With the gradients G (n, m) of the
rows' values, the gradients of the classes are G' H and those of the rows' embeddings G V. So a
batch takes three products of matrices, and each class is read once. A label that was not drawn
affects its own rows only and is kept apart from the products.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, implement, kernel, product
from bigcat.kernels.train_rows import MIN_GRADIENT, MIN_LAZY_SCALE, LoopState, fold, sweep
from bigcat.rows import DenseRows, EmbeddedRows, SparseRows
from bigcat.verbs import (
    StepSize,
    damping,
    draw,
    embed,
    embed_batch,
    hidden_score_squared_norm,
    hidden_vectors,
    label_count,
    move,
    move_batch,
    move_embedding,
    move_vector,
    rate,
    visit,
)


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


@implement(embed_batch, SparseRows)
def _(rows, order, start, vectors, first, factor, out):
    for r in range(out.shape[0]):
        embed(rows, order[start + r], vectors, first, factor, out[r])


@implement(embed_batch, DenseRows)
def _(rows, order, start, vectors, first, factor, out):
    x = _gathered_rows(rows, order, start, out.shape[0], factor)
    product(x, False, vectors[first:], False, out)


@device
def _gathered_rows(rows, order, start, n_rows, factor):
    """Return the rows ``order[start : start + n_rows]`` times `factor`."""
    x = np.empty((n_rows, rows.values.shape[1]), rows.values.dtype)
    for r in range(n_rows):
        values = rows.values[order[start + r]]
        for j in range(values.shape[0]):
            x[r, j] = factor * values[j]
    return x


@implement(hidden_score_squared_norm, DenseRows)
def _(rows, hidden, label_vector, scale, squared_norm):
    return squared_norm


@implement(hidden_score_squared_norm, EmbeddedRows)
def _(rows, hidden, label_vector, scale, squared_norm):
    by_class, by_features = 0.0, 0.0
    for j in range(hidden.shape[0]):
        by_class += hidden[j] * hidden[j]
        by_features += label_vector[j] * label_vector[j]
    factor = scale * rows.unit
    return by_class + squared_norm * factor * factor * by_features


class BatchGradients(NamedTuple):
    """Gradients of the rows ``order[start:]`` for drawn classes and labels, with their vectors.

    ``vectors[c]`` are those of the drawn classes, followed by those of labels that were not drawn;
    ``places`` holds the positions of the rows' labels in them.
    """

    order: np.ndarray
    start: int
    drawn: np.ndarray  # (n_rows, n)
    of_label: np.ndarray
    places: np.ndarray
    vectors: np.ndarray


@implement(move_embedding, DenseRows)
def _(rows, batch, scale, weights, state, work, solver, rate):
    pass


@implement(move_embedding, EmbeddedRows)
def _(rows, batch, scale, weights, state, work, solver, rate):
    n_rows, n = batch.drawn.shape
    back, factor = work.back[:n_rows], weights.dtype.type(scale * rows.unit)
    product(batch.drawn, False, batch.vectors[:n], False, back)
    for r in range(n_rows):
        place = batch.places[r]
        if place >= n:
            _add(back[r], batch.of_label[r], batch.vectors[place])
    order, start, first = batch.order, batch.start, rows.n_classes
    move_batch(rows.rows, order, start, back, factor, weights, state, first, work, solver, rate)


@implement(move_batch, SparseRows)
def _(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    ends, members, values, gradient = work.ends, work.members, work.values, work.gradient
    one = vectors.dtype.type(1.0)
    begin = 0
    for place in range(_by_feature(rows, order, start, back.shape[0], work)):
        major, end = first + work.features[place], ends[place]
        for j in range(gradient.shape[0]):
            gradient[j] = 0.0
        for p in range(begin, end):
            row, x = back[members[p]], factor * values[p]
            for j in range(gradient.shape[0]):
                gradient[j] += x * row[j]
        move_vector(solver, rate, vectors[major], state[major], one, gradient)
        begin = end


@device
def _by_feature(rows, order, start, n_rows, work):
    """Sort the entries of a batch by feature, so that each feature's vector is read once.

    Returns the number of features, ``work.features``. The rows ``work.members`` with a feature, and
    its ``work.values``, end at its ``work.ends`` and begin at the end of the previous feature.
    """
    slot_of, features, ends = work.slot_of, work.features, work.ends
    n = 0
    for r in range(n_rows):
        i = order[start + r]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            feature = rows.indices[p]
            if slot_of[feature] < 0:
                slot_of[feature], features[n], ends[n] = n, feature, 0
                n += 1
            ends[slot_of[feature]] += 1
    total = 0
    for place in range(n):  # for now where they begin
        total, ends[place] = total + ends[place], total
    for r in range(n_rows):
        i = order[start + r]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            place = slot_of[rows.indices[p]]
            work.members[ends[place]], work.values[ends[place]] = r, rows.values[p]
            ends[place] += 1
    for place in range(n):
        slot_of[features[place]] = -1
    return n


@implement(move_batch, DenseRows)
def _(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    x, one = _gathered_rows(rows, order, start, back.shape[0], factor), vectors.dtype.type(1.0)
    gradient = np.empty((x.shape[1], back.shape[1]), vectors.dtype)
    product(x, True, back, False, gradient)
    for feature in range(gradient.shape[0]):
        major = first + feature
        move_vector(solver, rate, vectors[major], state[major], one, gradient[feature])


@device
def _gather(weights, classes, n, out):
    """Fill ``out[c] = weights[classes[c]]``."""
    for c in range(n):
        w = weights[classes[c]]
        for j in range(w.shape[0]):
            out[c, j] = w[j]


@device
def _in_order(classes, n):
    """Return True if the classes are 0, 1, 2, ..."""
    n_misplaced = 0
    for c in range(n):
        n_misplaced += classes[c] != c
    return n_misplaced == 0


@device
def _leave_out(values, place, n_always, n):
    """Remove entry `place` from the first `n`, keeping the first `n_always` at the front."""
    if place < n_always:
        values[place], place = values[n_always - 1], n_always - 1
    values[place] = values[n - 1]


@device
def _put_back(values, place, n_always, n, value):
    """Undo `_leave_out`, with a new `value` at the place."""
    hole = n_always - 1 if place < n_always else place
    values[n - 1], values[hole] = values[hole], values[place]
    values[place] = value


@device
def _inner(a, b):
    total = a.dtype.type(0.0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@device
def _add(vector, factor, other):
    """Add ``factor * other`` to a vector."""
    for j in range(vector.shape[0]):
        vector[j] += factor * other[j]


@kernel
def train_batches(data, span, plan, method, rng, model, work, row_norms, progress, loop_state):
    """Train on the rows of a span, as `train_rows` does, with one draw of classes per batch.

    The classes of a batch are the drawn ones followed by labels that were not drawn. The other
    classes of a row are the drawn ones except its label. `row_norms` holds squared norms if the
    solver needs them; the squared norm of the weights is unused. Returns the same as `train_rows`.
    """
    rows, labels, row_weights, order = data
    first, last, iteration, epoch, n_threads = span
    bound, sampler, solver = method
    weights, intercepts, weights_state, intercepts_state, local = model
    sweep_cursor, scale, squared_norm = loop_state
    shared_rng, rng = rng, rng.copy()
    n_classes, width, number = intercepts.shape[0], weights.shape[1], weights.dtype.type
    batch_size = min(plan.batch_size, last - first)
    most = min(plan.width + 1, n_classes) + batch_size
    classes, counts = np.empty(most + 1, np.int64), np.empty(most + 1)
    gathered = np.empty((most, width), weights.dtype)
    class_gradient = np.empty((most, width), weights.dtype)
    intercept_gradient = np.empty(most)
    hidden_buffer = np.empty((batch_size, width), weights.dtype)
    score_buffer = np.empty(batch_size * most, weights.dtype)
    place_of, places = work.place_of, np.empty(batch_size, np.int64)
    label_grads = np.empty(batch_size, weights.dtype)
    levels, others = np.empty(most + 1), np.empty(most + 1)
    row_counts, grads = np.empty(most + 1), np.empty(most + 1)
    intercept_norm = plan.intercept_scale if plan.fit_intercept else 0.0
    value = 0.0
    for start in range(first, last, plan.batch_size):
        n_rows = min(plan.batch_size, last - start)
        iteration += n_threads
        step_rate = rate(solver, iteration, epoch)
        shrunk = (1.0 / (1.0 + step_rate * plan.shrink)) ** n_threads
        weight_rate = number(step_rate / scale)
        intercept_rate = number(step_rate * plan.intercept_scale)

        n, n_always = draw(sampler, rng, rows, 0, -1, classes, counts)
        for c in range(n):
            place_of[classes[c]] = c
            levels[c] = intercepts[classes[c]]
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
        if n == n_classes and _in_order(classes, n):
            vectors = weights[:n_classes]
        else:
            _gather(weights, classes, n_all, vectors)
        scores = score_buffer[: n_rows * n].reshape(n_rows, n)
        product(hidden, False, vectors[:n], True, scores)

        for r in range(n_rows):
            i, place, row = order[start + r], places[r], scores[r]
            for c in range(n):
                others[c] = levels[c] + scale * row[c]
                row_counts[c] = counts[c]
            m, m_always = n, n_always
            if place < n:
                label_score = others[place]
                _leave_out(others, place, n_always, n)
                _leave_out(row_counts, place, n_always, n)
                m -= 1
                m_always -= 1 if place < n_always else 0
            else:
                inner = _inner(hidden[r], vectors[place])
                label_score = intercepts[classes[place]] + scale * inner
            row_counts[m] = label_count(sampler, classes[place])
            weight = row_weights[i] * plan.gradient_scale
            row_norm, size = 0.0, 0.0
            if plan.damped:
                size = hidden_score_squared_norm(
                    rows, hidden[r], vectors[place], scale, row_norms.squared_norms[i]
                )
                row_norm = (shrunk * size + intercept_norm) / n_rows
            value += row_weights[i] * visit(
                solver,
                bound,
                rng,
                local[i],
                progress,
                StepSize(step_rate * weight, row_norm),
                label_score,
                others,
                row_counts,
                m,
                m_always,
                grads,
            )
            shorter = damping(solver, grads[m], step_rate * weight * row_norm, size)
            factor = weight / n_rows * shorter
            label_grads[r] = factor * grads[m]
            if place < n:
                _put_back(grads, place, n_always, n, grads[m])
            for c in range(n):
                grad = factor * grads[c]
                row[c] = grad if abs(grad) > MIN_GRADIENT else 0.0

        product(scores, True, hidden, False, class_gradient[:n])
        for c in range(n_all):
            intercept_gradient[c] = 0.0
        for c in range(n, n_all):
            for j in range(width):
                class_gradient[c, j] = 0.0
        for r in range(n_rows):
            for c in range(n):
                intercept_gradient[c] += scores[r, c]
            place = places[r]
            if place >= n:
                _add(class_gradient[place], label_grads[r], hidden[r])
                intercept_gradient[place] += label_grads[r]
        batch = BatchGradients(order, start, scores, label_grads, places, vectors)
        move_embedding(rows, batch, scale, weights, weights_state, work, solver, weight_rate)
        for c in range(n_all):
            k = classes[c]
            place_of[k] = -1
            w, s = weights[k], weights_state[k]
            move_vector(solver, weight_rate, w, s, number(1.0), class_gradient[c])
            if plan.fit_intercept and intercept_gradient[c] != 0.0:
                gradient = number(intercept_gradient[c])
                move(solver, intercept_rate, intercepts, intercepts_state, k, gradient)
        scale *= shrunk
        if scale < MIN_LAZY_SCALE and n_threads == 1:  # others could not know of it
            fold(weights, scale)
            scale = 1.0
        sweep_cursor = sweep(weights, weights_state, sweep_cursor, plan, solver, step_rate)
    shared_rng[0] = rng[0]
    return value, LoopState(sweep_cursor, scale, squared_norm)
