"""Compiled side of `weight_posterior`: expected bounds of rows, and updates of coordinates."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bigcat.bounds.augment_reduce import (
    QuadratureAugmentReduceTag,
    SoftmaxAugmentReduceTag,
    move_natural,
)
from bigcat.compile import device, implement, kernel
from bigcat.kernels.train_rows import MIN_GRADIENT
from bigcat.numerics.special import negative_sum
from bigcat.verbs import (
    at,
    coordinate_rate,
    draw,
    each_coordinate,
    expected_step,
    log_cdf_with_grad,
    log_pdf,
    log_pdf_grad,
    move,
    rate,
    step,
    update,
)

# Expectation of a row's bound over its scores.


@implement(expected_step, SoftmaxAugmentReduceTag)
def _(bound, rng, local, progress, means, variances, counts, n, n_always, work, grads, curvatures):
    # E[exp(psi_k - psi_y)] = exp(m_k + v_k/2 - (m_y - v_y/2)): the bound itself at other scores.
    for c in range(n):
        work[c] = means[c] + 0.5 * variances[c]
    label = means[n] - 0.5 * variances[n]
    value = step(bound, rng, local, progress, label, work, counts, n, n_always, grads)
    for c in range(n):
        curvatures[c] = -grads[c]
    curvatures[n] = grads[n]
    return value


@device
def _expected_log_cdf(bound, centre, scale):
    """Return E[log Phi(t)], its derivative in t's mean, and twice that in its variance, t Gaussian.

    Twice the derivative in the variance is E[(log Phi)''], which equals E[u (log Phi)'] / scale
    (Stein): negative for log-concave noise at any symmetric nodes.
    """
    value, grad, u_grad = 0.0, 0.0, 0.0
    for q in range(bound.nodes.shape[0]):
        u, weight = bound.nodes[q], bound.weights[q]
        g, h = log_cdf_with_grad(bound.noise, centre + scale * u)
        value += weight * g
        grad += weight * h
        u_grad += weight * u * h
    return value, grad, u_grad / scale


@implement(expected_step, QuadratureAugmentReduceTag)
def _(bound, rng, local, progress, means, variances, counts, n, n_always, work, grads, curvatures):
    # q(e) = N(mu, s^2), so e + psi_y - psi_k is Gaussian too, of variance s^2 + v_y + v_k: one
    # quadrature a class takes the expectation over the noise, the weights and the label's at once.
    value = bound.entropy + math.log(local[1])
    grad, hessian = 0.0, 0.0
    for q in range(bound.nodes.shape[0]):
        u, weight = bound.nodes[q], bound.weights[q]
        e = local[0] + local[1] * u
        pdf_grad = log_pdf_grad(bound.noise, e)
        value += weight * log_pdf(bound.noise, e)
        grad += weight * pdf_grad
        hessian += weight * u * pdf_grad / local[1]
    for moved in range(2 if progress > 0.0 else 1):
        spread = local[1] * local[1] + variances[n]
        for c in range(n):
            centre = local[0] + means[n] - means[c]
            g, h, curvature = _expected_log_cdf(bound, centre, math.sqrt(spread + variances[c]))
            grads[c] = -counts[c] * h
            curvatures[c] = -counts[c] * curvature
            if moved == 0:
                value += counts[c] * g
        grads[n], curvatures[n] = negative_sum(grads, n), -negative_sum(curvatures, n)
        if moved == 0 and progress > 0.0:
            u_grad = local[1] * (hessian - curvatures[n])
            move_natural(local, progress, bound.gain, grad + grads[n], u_grad)
    return value


# Arrays of the posterior, and actions at a coordinate.


class Gaussians(NamedTuple):
    """Independent Gaussians N(mean, 1 / (base + information)), flat, in the layout of the rows."""

    mean: np.ndarray
    information: np.ndarray
    state: np.ndarray  # the solver's, for the means
    seen: np.ndarray  # the row, counted from the last `settle`, of the last visit; -1: never
    prior_precision: float
    base: float  # the prior's precision again; infinite for a point estimate, whose variance is 0


class PosteriorArrays(NamedTuple):
    """Arrays that a fit changes."""

    weights: Gaussians
    intercepts: Gaussians
    local: np.ndarray


class PosteriorPlan(NamedTuple):
    """Constants of an epoch."""

    n_minors: int  # length of a run of weights
    width: int  # the most other classes that a draw can give
    fit_intercept: bool
    gradient_scale: float
    information_gain: float


class Clock(NamedTuple):
    """Share of the KL divergence that belongs to one row."""

    now: int  # rows since the last `settle`
    mean_share: float  # weight of the KL in the solver's objective, a row
    information_share: float  # of a natural-gradient step


class Visit(NamedTuple):
    """Action: apply the pending KL steps; sum the means and variances of the row's scores."""

    now: int
    pull: float  # of the prior on a mean, a row and unit of the solver's rate
    information_share: float
    base: float
    solver: Any
    rate: float


class Inform(NamedTuple):
    """Action: add the row's curvature to the information; `update` moves the means."""

    zero: float


@device
def _visit(q, clock, solver, step_rate):
    pull = clock.mean_share * q.prior_precision
    return Visit(clock.now, pull, clock.information_share, q.base, solver, step_rate)


@device
def _decay(t):
    """Return exp(-t), for small t by a polynomial with an error of 1e-13."""
    if t > 0.02:
        return math.exp(-t)
    return 1.0 - t * (1.0 - t * (1 / 2 - t * (1 / 6 - t * (1 / 24 - t * (1 / 120)))))


@device
def _catch_up(action, j, mean, information, state, seen):
    elapsed = action.now - max(seen[j], 0)
    information[j] *= _decay(elapsed * action.information_share)
    # A coordinate without gradients has no step size yet and stays at its start.
    rate = coordinate_rate(action.solver, action.rate, state, j) if seen[j] >= 0 else 0.0
    mean[j] *= _decay(elapsed * action.pull * rate)


@implement(at, Visit)
def _(action, j, c, x, mean, information, state, seen, means, variances):
    _catch_up(action, j, mean, information, state, seen)
    seen[j] = action.now
    means[c] += x * mean[j]
    variances[c] += x * x / (action.base + information[j])


@implement(at, Inform)
def _(action, j, c, x, mean, information, state, seen, grads, curvatures):
    # Negative only for noise that is not log-concave.
    information[j] = max(information[j] + curvatures[c] * x * x, action.zero)


@kernel
def settle(q, clock, solver, step_rate):
    """Apply all pending KL steps, reset the clock, and return KL(q || prior)."""
    mean, information, state, seen = q.mean, q.information, q.state, q.seen
    action = _visit(q, clock, solver, step_rate)
    kl = 0.0
    for j in range(mean.shape[0]):
        _catch_up(action, j, mean, information, state, seen)
        seen[j] = min(seen[j], 0)
        if q.base < math.inf:
            ratio = information[j] / q.base
            kl += 0.5 * (math.log1p(ratio) - ratio / (1.0 + ratio) + q.base * mean[j] * mean[j])
    return kl


@device
def _row(rows, i, classes, n, plan, q, action, intercept_action, first, second):
    """Apply the action to a row's weights and intercepts; the intercept is a feature of value 1."""
    each_coordinate(rows, i, classes, n, plan.n_minors, action, q.weights, first, second)
    if plan.fit_intercept:
        b = q.intercepts
        mean, information, state, seen = b.mean, b.information, b.state, b.seen
        for c in range(n):
            at(intercept_action, classes[c], c, 1.0, mean, information, state, seen, first, second)


@kernel
def train_posterior(data, span, plan, method, rng, q, clock, progress):
    """Train on the rows of a span; return the sum of their values."""
    rows, labels, row_weights, order = data
    first, last, iteration, epoch, _ = span
    bound, sampler, solver = method
    weights, intercepts, local = q
    width = plan.width
    classes, counts = np.empty(width + 1, np.int64), np.empty(width + 1)
    means, variances = np.empty(width + 1), np.empty(width + 1)
    work, grads, curvatures = np.empty(width + 1), np.empty(width + 1), np.empty(width + 1)
    # Moves use the precision of the weights, at vector speed.
    dtype = weights.mean.dtype
    scaled_grads, scaled_curvatures = np.empty(width + 1, dtype), np.empty(width + 1, dtype)
    inform = Inform(dtype.type(0.0))
    n_majors = weights.mean.size // plan.n_minors
    mean = weights.mean.reshape((n_majors, plan.n_minors))
    state = weights.state.reshape((n_majors, weights.state.size // n_majors))
    value = 0.0
    for r in range(first, last):
        i = order[r]
        n, n_always = draw(sampler, rng, rows, i, labels[i], classes, counts)
        classes[n] = labels[i]
        iteration += 1
        step_rate = rate(solver, iteration, epoch)
        time_now = Clock(clock.now + r - first + 1, clock.mean_share, clock.information_share)
        means[: n + 1] = 0.0
        variances[: n + 1] = 0.0
        visit = _visit(weights, time_now, solver, step_rate)
        intercept_visit = _visit(intercepts, time_now, solver, step_rate)
        _row(rows, i, classes, n + 1, plan, q, visit, intercept_visit, means, variances)
        value += row_weights[i] * expected_step(
            bound,
            rng,
            local[i],
            progress,
            means,
            variances,
            counts,
            n,
            n_always,
            work,
            grads,
            curvatures,
        )
        for c in range(n + 1):
            grad = row_weights[i] * plan.gradient_scale * grads[c]
            curvature = row_weights[i] * plan.information_gain * curvatures[c]
            scaled_grads[c] = grad if abs(grad) > MIN_GRADIENT else 0.0
            scaled_curvatures[c] = curvature if abs(curvature) > MIN_GRADIENT else 0.0
        move_rate = dtype.type(step_rate)
        update(rows, i, mean, state, classes, scaled_grads, n + 1, solver, move_rate)
        if plan.fit_intercept:
            for c in range(n + 1):
                k, grad = classes[c], scaled_grads[c]
                move(solver, move_rate, intercepts.mean, intercepts.state, k, grad)
        _row(rows, i, classes, n + 1, plan, q, inform, inform, scaled_grads, scaled_curvatures)
    return value
