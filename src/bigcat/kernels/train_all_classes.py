"""Training on all classes at vector speed: the exact softmax with plain steps.

The general kernel draws classes and gathers their scores one by one. If every class is visited in
order, scores are sums of contiguous runs of memory, and the bandwidth of reading and writing
weights limits the speed. So classes are processed in blocks, whose scores stay in the nearest cache
until they are exponentials, and the updating pass goes backwards, starting with the data read last.

Weights are ``scale * weights`` as in the general kernel, and results agree up to rounding. Several
calls may run at once on the same weights: nothing is locked, and a lost update is a lost step. Each
call counts the steps of the others (`n_threads`) in the iterations and in the ridge.
"""

from __future__ import annotations

import math

import numpy as np

from bigcat.compile import device, kernel, prefetch, product
from bigcat.kernels.train_rows import MIN_GRADIENT, MIN_LAZY_SCALE
from bigcat.numerics.softmax import (
    CLASS_BLOCK,
    NO_SCORE,
    copy_from,
    exponentiate,
    exponentiate_columns,
    finish,
    highest_of_columns,
    join,
)
from bigcat.rows.blocks import add_features
from bigcat.verbs import damping, rate

#: Bytes of a feature's weights to prefetch; hardware prefetching follows.
PREFETCH_BYTES = 1024
#: Weights per block of classes for dense rows.
DENSE_BLOCK_WEIGHTS = 1 << 17


@device
def _ridge(step_rate, shrink, n_threads):
    """Return the factor of the weights for the proximal ridge steps of all threads."""
    return (1.0 / (1.0 + step_rate * shrink)) ** n_threads


@device
def _damping(solver, plan, squared_norms, i, weight, step_rate, n_rows, label_grad):
    """Return the factor of row i's gradients for solvers that shorten steps."""
    if not plan.damped:
        return 1.0
    intercept_norm = plan.intercept_scale if plan.fit_intercept else 0.0
    row_norm = weight * (squared_norms[i] + intercept_norm) / n_rows
    return damping(solver, label_grad, step_rate * row_norm, squared_norms[i])


@device
def _folded(weights, scale, n_threads):
    """Multiply a small scale out, with one thread only: others could not know of it."""
    if scale < MIN_LAZY_SCALE and n_threads == 1:
        weights *= weights.dtype.type(scale)
        return 1.0
    return scale


# Sparse rows: weights are feature-major, and those of a feature are one run over the classes.


@device
def _sparse_softmax(rows, i, label, weights, scale, intercepts, exponentials, highs):
    """Return the three numbers of `finish` for row i.

    Class k, if it is not the label, has probability ``exponentials[k] * exp(highs[k // CLASS_BLOCK]
    - normaliser)``.
    """
    scale = weights.dtype.type(scale)
    label_score, high, total = 0.0, NO_SCORE, 0.0
    for start in range(0, intercepts.shape[0], CLASS_BLOCK):
        block = exponentials[start : start + CLASS_BLOCK]
        copy_from(intercepts, start, block)
        add_features(rows, rows.indptr[i], rows.indptr[i + 1], weights, scale, start, block)
        if start <= label < start + CLASS_BLOCK:
            label_score = float(block[label - start])
            block[label - start] = NO_SCORE
        block_high, block_total = exponentiate(block)
        highs[start // CLASS_BLOCK] = block_high
        high, total = join(high, total, block_high, block_total)
    return finish(label_score, high, total)


@device
def _prefetch_feature(rows, p, weights):
    n = min(weights.shape[1], PREFETCH_BYTES // weights.itemsize)
    start = np.int64(rows.indices[p]) * weights.shape[1]
    for k in range(0, n, 64 // weights.itemsize):
        prefetch(weights, start + k)


@device
def _sparse_update(
    rows,
    i,
    upcoming,
    label,
    weights,
    intercepts,
    exponentials,
    highs,
    normaliser,
    label_grad,
    weight,
    weight_rate,
    intercept_rate,
):
    """Move all classes' weights for row i, and the intercepts unless their rate is 0.

    Prefetches the weights of row `upcoming` meanwhile.
    """
    negligible = weights.dtype.type(MIN_GRADIENT)
    soon, end = rows.indptr[upcoming], rows.indptr[upcoming + 1]
    for b in range(highs.shape[0] - 1, -1, -1):
        start = b * CLASS_BLOCK
        grads = exponentials[start : start + CLASS_BLOCK]
        factor = weights.dtype.type(weight * math.exp(highs[b] - normaliser))
        for k in range(grads.shape[0]):
            grad = factor * grads[k]
            grads[k] = -grad if grad > negligible else weights.dtype.type(0.0)
        if start <= label < start + CLASS_BLOCK:
            grads[label - start] = weight * label_grad
        if intercept_rate != 0.0:
            intercept = intercepts[start : start + CLASS_BLOCK]
            for k in range(grads.shape[0]):
                intercept[k] += intercept_rate * grads[k]
        for p in range(rows.indptr[i + 1] - 1, rows.indptr[i] - 1, -1):
            if b == 0 and soon < end:
                _prefetch_feature(rows, soon, weights)
                soon += 1
            w = weights[rows.indices[p], start : start + CLASS_BLOCK]
            x = weight_rate * rows.values[p]
            for k in range(grads.shape[0]):
                w[k] += x * grads[k]


@kernel
def train_sparse(data, span, plan, solver, weights, intercepts, squared_norms, scale):
    """Train on the rows of a span; return the sum of values and the scale."""
    rows, labels, row_weights, order = data
    first, last, iteration, epoch, n_threads = span
    batch_size, n_classes = plan.batch_size, intercepts.shape[0]
    exponentials = np.empty((batch_size, n_classes), weights.dtype)
    highs = np.empty((batch_size, -(-n_classes // CLASS_BLOCK)))
    normalisers, label_grads = np.empty(batch_size), np.empty(batch_size)
    shortened = np.empty(batch_size)
    number = weights.dtype.type
    value = 0.0
    for start in range(first, last, batch_size):
        n_rows = min(batch_size, last - start)
        iteration += n_threads
        step_rate = rate(solver, iteration, epoch)
        for r in range(n_rows):
            i = order[start + r]
            log_p, label_grads[r], normalisers[r] = _sparse_softmax(
                rows, i, labels[i], weights, scale, intercepts, exponentials[r], highs[r]
            )
            value += row_weights[i] * log_p
            weight = row_weights[i] * plan.gradient_scale
            shortened[r] = _damping(
                solver, plan, squared_norms, i, weight, step_rate, n_rows, label_grads[r]
            )
        for r in range(n_rows - 1, -1, -1):
            i = order[start + r]
            upcoming = order[start + r - 1] if r > 0 else order[min(start + n_rows, last - 1)]
            _sparse_update(
                rows,
                i,
                upcoming,
                labels[i],
                weights,
                intercepts,
                exponentials[r],
                highs[r],
                normalisers[r],
                label_grads[r],
                shortened[r] * row_weights[i] * plan.gradient_scale / n_rows,
                number(step_rate / scale),
                number(step_rate * plan.intercept_scale if plan.fit_intercept else 0.0),
            )
        scale = _folded(weights, scale * _ridge(step_rate, plan.shrink, n_threads), n_threads)
    return value, scale


# Dense rows: weights are class-major, and a batch is two products of matrices.  Scores are kept
# as (n_classes, n_rows), so that a block of classes is one run of memory in all of them.


@device
def _dense_products(weights, x, out):
    """Write weights . x^T to `out`; a single row is faster without BLAS."""
    if x.shape[0] > 1:
        product(weights, False, x, True, out)
        return
    for k in range(weights.shape[0]):
        w, total = weights[k], weights.dtype.type(0.0)
        for j in range(w.shape[0]):
            total += w[j] * x[0, j]
        out[k, 0] = total


@device
def _dense_add(weights, factor, grads, x, scratch):
    """Add ``factor * grads . x`` to the weights."""
    if x.shape[0] > 1:
        sums = scratch[: weights.shape[0]]
        product(grads, False, x, False, sums)
        for k in range(weights.shape[0]):
            w, more = weights[k], sums[k]
            for j in range(w.shape[0]):
                w[j] += factor * more[j]
        return
    for k in range(weights.shape[0]):
        w, grad = weights[k], factor * grads[k, 0]
        if grad != 0.0:
            for j in range(w.shape[0]):
                w[j] += grad * x[0, j]


@kernel
def train_dense(data, span, plan, solver, weights, intercepts, squared_norms, scale):
    """Train on the rows of a span; return the sum of values and the scale."""
    rows, labels, row_weights, order = data
    first, last, iteration, epoch, n_threads = span
    batch_size, (n_classes, n_features) = plan.batch_size, weights.shape
    number = weights.dtype.type
    step = min(max(DENSE_BLOCK_WEIGHTS // n_features, 16), n_classes)  # classes at a time
    n_blocks = -(-n_classes // step)
    buffer = np.empty(n_classes * batch_size, weights.dtype)
    x_buffer = np.empty((batch_size, n_features), weights.dtype)
    scratch = np.empty((step if batch_size > 1 else 0, n_features), weights.dtype)
    highs = np.empty((n_blocks, batch_size), weights.dtype)
    totals = np.empty(batch_size, weights.dtype)
    label_scores, label_grads = np.empty(batch_size), np.empty(batch_size)
    row_high, row_total = np.empty(batch_size), np.empty(batch_size)
    value = 0.0
    for start in range(first, last, batch_size):
        n_rows = min(batch_size, last - start)
        members, x = order[start : start + n_rows], x_buffer[:n_rows]
        scores = buffer[: n_classes * n_rows].reshape(n_classes, n_rows)
        for r in range(n_rows):
            x[r] = rows.values[members[r]]
        iteration += n_threads
        step_rate = rate(solver, iteration, epoch)
        intercept_rate = number(step_rate * plan.intercept_scale)

        row_high[:], row_total[:] = NO_SCORE, 0.0
        for b in range(n_blocks):
            lowest, beyond = b * step, min((b + 1) * step, n_classes)
            block = scores[lowest:beyond]
            _dense_products(weights[lowest:beyond], x, block)
            for k in range(beyond - lowest):
                for r in range(n_rows):
                    block[k, r] = intercepts[lowest + k] + number(scale) * block[k, r]
            for r in range(n_rows):
                y = labels[members[r]] - lowest
                if 0 <= y < beyond - lowest:
                    label_scores[r] = block[y, r]
                    block[y, r] = NO_SCORE
            highest_of_columns(block, highs[b, :n_rows])
            exponentiate_columns(block, highs[b, :n_rows], totals[:n_rows])
            for r in range(n_rows):
                row_high[r], row_total[r] = join(
                    row_high[r], row_total[r], float(highs[b, r]), float(totals[r])
                )
        for r in range(n_rows):
            i = members[r]
            log_p, label_grad, row_high[r] = finish(label_scores[r], row_high[r], row_total[r])
            weight = row_weights[i] * plan.gradient_scale
            row_total[r] = weight / n_rows
            row_total[r] *= _damping(
                solver, plan, squared_norms, i, weight, step_rate, n_rows, label_grad
            )
            label_grads[r] = row_total[r] * label_grad
            value += row_weights[i] * log_p

        for b in range(n_blocks - 1, -1, -1):
            lowest, beyond = b * step, min((b + 1) * step, n_classes)
            grads = scores[lowest:beyond]
            for r in range(n_rows):
                totals[r] = row_total[r] * math.exp(highs[b, r] - row_high[r])
            for k in range(beyond - lowest):
                for r in range(n_rows):
                    grad = totals[r] * grads[k, r]
                    grads[k, r] = -grad if grad > number(MIN_GRADIENT) else number(0.0)
            for r in range(n_rows):
                y = labels[members[r]] - lowest
                if 0 <= y < beyond - lowest:
                    grads[y, r] = label_grads[r]
            if plan.fit_intercept:
                for k in range(beyond - lowest):
                    intercepts[lowest + k] += intercept_rate * grads[k].sum()
            _dense_add(weights[lowest:beyond], number(step_rate / scale), grads, x, scratch)
        scale = _folded(weights, scale * _ridge(step_rate, plan.shrink, n_threads), n_threads)
    return value, scale
