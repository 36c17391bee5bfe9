"""Implicit SGD on the softmax's double sum (unbiased softmax, section 3.2 and appendix F).

A step goes to where the gradient, taken at the *new* point, points back to the old one.  With
d_k = psi_k - psi_y at the old weights, s = |x|^2 and t the step size, the new u and the lengths
p_k = t c_k exp(d_k' - u) of the classes' steps along x obey

    d_k' = d_k - s (p_k + P),    P = sum_k p_k,    u = u_old - t (1 - exp(-u)) + P.

So P is a function of u alone, P(u) = u - u_old + t (1 - exp(-u)), and each p_k follows from it
by the Lambert W function: s p_k = omega(log(s t c_k) + d_k - u - s P(u)).  What remains is one
root in one variable, sum_k p_k(u) = P(u), however many classes were drawn: its left side falls
and its right side grows.  One class is the appendix's equation 16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bigcat.compile import device, implement
from bigcat.numerics.special import wright_omega
from bigcat.solvers.double_sum import DoubleSumSolver, double_sum_steps
from bigcat.verbs import couple, visit

#: Lower bound on |x|^2: an empty row without an intercept moves u alone.
_MIN_SQUARED_NORM = 1e-80
#: Tolerance on the exponents; the remaining error is of second order.
_TOLERANCE = 1e-4
#: Values that change nothing in double precision.
_TINY = 1e-100
#: Bound on evaluations; the tests see at most 12 (tests/test_unbiased.py).
_MAX_EVALUATIONS = 50
#: Maximal sweeps over the rows of a batch, and the score change at which they end.
_MAX_SWEEPS = 200
_SWEEP_ACCURACY = 1e-7


@double_sum_steps
class ImplicitTag(NamedTuple):
    """Tag of `Implicit`."""

    learning_rate: float
    decay: float
    n_steps: float
    relative: bool


@dataclass(frozen=True, repr=False)
class Implicit(DoubleSumSolver):
    """Proximal steps on the weights and the row's u = log eta together.

    Steps are never longer than gradient steps (Proposition 1) and linear in the scores where those
    are exponential (Proposition 2), so they cannot overflow at any learning rate.

    With ``batch_size`` above 1 the step of all rows of a batch is found jointly. Batches then stay
    the same over the epochs and need ``8 * batch_size`` bytes per row. The step takes at most 200
    sweeps over the rows, usually 3 to 20. With learning rates in the hundreds and nearly parallel
    rows it can be inexact, but stays finite.

    Parameters
    ----------
    learning_rate : float or "auto", default="auto"
        "auto" is relative to the row size. Any value is stable; 1 is usual.
    decay : float, optional
        Factor of the rate per epoch; by default the rate decays to zero over `max_epochs`.
    batch_size : int, default=1
        Rows whose step is found jointly.
    init
        See `Solver`.

    Examples
    --------
    >>> from bigcat.solvers import Implicit
    >>> Implicit(learning_rate=10.0).implicit
    True
    """

    name: ClassVar[str] = "implicit"
    summary: ClassVar[str] = "proximal steps; robust to the learning rate, cannot overflow"
    implicit: ClassVar[bool] = True
    bounds: ClassVar[tuple[str, ...] | None] = ("augment-reduce",)
    auto_rate: ClassVar[float] = 1.0

    def tag(self, rate: float, decay: float, n_steps: float) -> ImplicitTag:
        """Return the tag for an absolute rate."""
        return ImplicitTag(rate, decay, n_steps, self.relative)


@device
def proximal_step(u_before, rate, squared_norm, label_score, others, counts, n, lengths):
    """Solve for one row: return the new u and the number of evaluations; write s p_k to `lengths`.

    The start is the u of a row without drawn classes, where P(u) = 0: below the root, and close to
    it once the label has most of the probability. Each round replaces the classes by a number of
    equal ones with the same value and gradient, and P by a line, and solves that in closed form.
    (Newton's method would move by about 1 per round along the exponential, and fitting an
    exponential overshoots for scores far apart.)
    """
    squared_norm = max(squared_norm, _MIN_SQUARED_NORM)
    unit = squared_norm * rate
    count, log_unit = 0.0, 0.0
    above = wright_omega(math.log(rate) + rate - u_before)
    u, e, pull = u_before - rate + above, above / rate, 0.0
    evaluations = 0
    while True:
        evaluations += 1
        pull_grad = squared_norm * (1.0 + rate * e)
        speed = 1.0 + pull_grad  # every exponent falls so fast in u
        total, fall, excess, z, w = 0.0, 0.0, 0.0, 0.0, 0.0
        for c in range(n):
            if counts[c] != count:  # most samplers have one count for all
                count = counts[c]
                log_unit = math.log(unit * count)
            z = log_unit + others[c] - label_score - u - pull
            w = wright_omega(z)
            lengths[c] = w
            if n > 1:
                share = w / (1.0 + w)
                total += w
                fall += share
                excess += w * share
        # n_equal omega(z) has the classes' value and gradient, and falls by `speed` in z.
        n_equal = 1.0
        if n > 1:
            w = excess / max(fall, _TINY)
            n_equal = total / max(w, _TINY)
            z = w + math.log(max(w, _TINY))
        if w < _TINY:
            return u, evaluations
        # The intersection with the line is an omega again.
        line = pull_grad / speed
        part = line / (n_equal + line)
        ahead = pull / line
        change = ((1.0 - part) * wright_omega(ahead + z - math.log(part)) - ahead) / speed
        u += change
        if abs(change) * speed <= _TOLERANCE or evaluations == _MAX_EVALUATIONS:
            for c in range(n):
                lengths[c] *= 1.0 - change * speed / (1.0 + lengths[c])
            return u, evaluations
        e = math.exp(-u)
        pull = squared_norm * (u - u_before + rate * (1.0 - e))


@implement(visit, ImplicitTag)
def _(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    u = local[0]
    # The bound at the old point; far off it is a huge number, not an infinite one.
    value = 1.0 - u - math.exp(-u)
    for c in range(n):
        value -= counts[c] * math.exp(min(others[c] - label_score - u, 600.0))
    rate, squared_norm = step_size
    if rate > 0.0:
        local_rate = progress if solver.relative else rate
        local[0], _ = proximal_step(
            u, local_rate, squared_norm * (rate / local_rate), label_score, others, counts, n, grads
        )
    _as_grads(grads, n, rate * max(squared_norm, _MIN_SQUARED_NORM))
    return value


@device
def _as_grads(lengths, n, unit):
    """Convert score changes to gradients of the classes and the label."""
    total = 0.0
    for c in range(n):
        grad = lengths[c] / unit if unit > 0.0 else 0.0
        lengths[c] = -grad
        total += grad
    lengths[n] = total


@implement(couple, ImplicitTag)
def _(solver, batch):
    # Appendix F.3.  At the optimum every class moves along the rows that drew it, by the gradients
    # at the new point.  So the unknowns are gradients, and solving for one row with the others
    # fixed is the one-row problem again.  Sweeps over the rows are coordinate ascent on the dual:
    # they need the rows' inner products instead of a basis, and no feasible start, since no
    # intermediate point can overflow.
    n_rows, rates, sizes, grads = batch.n_rows, batch.rates, batch.sizes, batch.grads
    slot_of_class = batch.slot_of_class
    width = grads.shape[1]
    slots = np.empty((n_rows, width), np.int64)
    n_slots = 0
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            k = batch.classes[r, c]
            if slot_of_class[k] < 0:
                slot_of_class[k] = n_slots
                n_slots += 1
            slots[r, c] = slot_of_class[k]
    for r in range(n_rows):
        for c in range(sizes[r] + 1):
            slot_of_class[batch.classes[r, c]] = -1
    kernel = np.empty((n_rows, n_rows))
    moved = np.zeros((n_rows, n_slots))  # the scores, by all steps so far
    for r in range(n_rows):
        for j in range(n_rows):
            kernel[r, j] = (batch.shrunk * batch.gram[r, j] + batch.intercept_norm) / n_rows
            for c in range(sizes[r] + 1):
                moved[j, slots[r, c]] += kernel[r, j] * rates[r] * grads[r, c]
    here, found = np.empty(width), np.empty(width)
    for _ in range(_MAX_SWEEPS):
        largest = 0.0
        for r in range(n_rows):
            n, rate, squared_norm = sizes[r], rates[r], kernel[r, r]
            if rate == 0.0:
                continue
            local_rate = batch.progress if solver.relative else rate
            for c in range(n + 1):
                here[c] = (
                    batch.scores[r, c] + moved[r, slots[r, c]] - squared_norm * rate * grads[r, c]
                )
            u, _ = proximal_step(
                batch.u_before[r],
                local_rate,
                squared_norm * (rate / local_rate),
                here[n],
                here,
                batch.counts[r],
                n,
                found,
            )
            batch.local[batch.members[r], 0] = u
            _as_grads(found, n, rate * max(squared_norm, _MIN_SQUARED_NORM))
            for c in range(n + 1):
                step = rate * (found[c] - grads[r, c])
                grads[r, c] = found[c]
                largest = max(largest, abs(step) * squared_norm)
                found[c] = step
            for j in range(n_rows):
                for c in range(n + 1):
                    moved[j, slots[r, c]] += kernel[r, j] * found[c]
        if largest <= _SWEEP_ACCURACY:
            break
