"""Class probabilities of the additive-noise model, from scores.

With h = phi / Phi and S(t) = sum_j log Phi(t - psi_j),

    p(y = k) = integral of h(t - psi_k) exp(S(t)) dt            (A&R equation 5, t = e + psi_k)

so all classes share the nodes t and S(t). The integrands add up to the derivative of exp(S(t)), so
the probabilities add up to one: a free check of the quadrature. Probabilities are normalised to
remove the remaining rounding error.

The integrands are smooth, and a trapezoid rule converges exponentially for them. Its nodes are

    t(v) = centre + width (v +- even exp(|v| - even)),   v = 0, +-STEP, +-2 STEP, ...

evenly spaced up to v = even, 45 widths beyond the last score in that direction (an integrand can
be flat between two scores, and turns near each of them). Beyond, they grow exponentially, so that
heavy-tailed noises such as Student's t need few nodes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bigcat.compile import device, kernel, like
from bigcat.noise import Noise
from bigcat.verbs import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad

STEP = 0.25
EVEN_WIDTHS = 45.0  # in widths; noise with exponential tails is negligible beyond
MAX_EVEN_WIDTHS = 1500.0
MAX_NODES = 16384  # both directions together; light-tailed noise needs about 100
_NEGLIGIBLE = 40.0  # e^-40 of the peak is below rounding
# Tolerances of the mode. The trapezoid rule needs it only to a fraction of the peak's width, which
# is at least 1e-3 for any number of classes that fits in memory; extra nodes make up for less.
_MODE, _ROUGH_MODE = 1e-3, 0.1
_UNDERFLOW = 700.0
_SINGLE_WIDTHS = 64.0  # in either direction: between scores that far apart integrands can be flat


@device
def _even_widths(distance, width):
    """Return the extent of the evenly spaced nodes, in widths, given the last score's distance."""
    return min(EVEN_WIDTHS + max(distance, 0.0) / width, MAX_EVEN_WIDTHS)


@device
def _node(centre, width, v, even):
    """Return the node t(v), on the side given by the sign of `width`, and dt/dv in widths."""
    growth = even * math.exp(min(v - even, 600.0))
    return centre + width * (v + growth), 1.0 + growth


class Rule(NamedTuple):
    """Nodes for one class: spacing in widths of the peak, and the tail e^-tail at which they end.

    A float32 spacing selects single precision, which is faster. `max_nodes` limits the nodes in
    either direction, since single precision cannot distinguish nodes between scores that are far
    apart; for the same reason heights above the peak are cut at `highest`, so that masses are
    finite.
    """

    spacing: Any
    tail: float
    max_nodes: int
    highest: float


def make_rule(spacing: float, tail: float, precision: str) -> Rule:
    """Return a rule in "single" or "double" precision."""
    if precision == "single":
        max_nodes = max(1, int(_SINGLE_WIDTHS / spacing))
        return Rule(np.float32(spacing), float(tail), max_nodes, 30.0)
    return Rule(float(spacing), float(tail), MAX_NODES // 2, _UNDERFLOW)


#: Rule with rounding errors only, and one with errors of about 1e-5 to monitor a fit.
FULL = make_rule(STEP, _NEGLIGIBLE, "double")
QUICK = make_rule(0.5, 12.0, "single")


# One class: its integrand, log phi(e) + sum_k log Phi(e + psi_y - psi_k).


@device
def log_joint(noise, e, label_score, others, counts, n):
    """Return A&R equation 6 with the other classes weighted by `counts`."""
    total, level = like(0.0, others), like(e + label_score, others)
    for c in range(n):
        total += counts[c] * log_cdf(noise, level - others[c])
    return log_pdf(noise, e) + total


@device
def log_joint_grad(noise, e, label_score, others, counts, n):
    """Return the derivative of `log_joint` with respect to e."""
    total, level = like(0.0, others), like(e + label_score, others)
    for c in range(n):
        total += counts[c] * log_cdf_grad(noise, level - others[c])
    return log_pdf_grad(noise, e) + total


@device
def joint_mode(noise, label_score, others, counts, n, tolerance=_MODE):
    """Return the maximiser e of `log_joint` and the scale of the peak there, at most 1.

    The gradient decreases: bracket the root, then apply the secant rule of Illinois with occasional
    bisections. The scale comes from the last secant and is approximate.
    """
    low = high = 0.0
    at_low = at_high = log_joint_grad(noise, 0.0, label_score, others, counts, n)
    step = 1.0
    if at_low > 0.0:
        while at_high > 0.0 and step < 1e30:
            low, at_low = high, at_high
            high, step = step, 2.0 * step
            at_high = log_joint_grad(noise, high, label_score, others, counts, n)
    else:
        while at_low <= 0.0 and step < 1e30:
            high, at_high = low, at_low
            low, step = -step, 2.0 * step
            at_low = log_joint_grad(noise, low, label_score, others, counts, n)
    kept, fall = 0, (at_low - at_high) / (high - low)
    last, at_last = (low, at_low) if at_low < -at_high else (high, at_high)
    for iteration in range(200):
        middle = 0.5 * (low + high)
        if iteration % 4 < 3:
            middle = (low * at_high - high * at_low) / (at_high - at_low)
        if not low < middle < high:
            break
        gradient = log_joint_grad(noise, middle, label_score, others, counts, n)
        moved = middle - last
        if abs(moved) > 0.01 * tolerance * (1.0 + abs(middle)):  # shorter ones are rounding
            fall = (at_last - gradient) / moved
        last, at_last = middle, gradient
        # An end kept twice counts half, so that the next secant falls on its side.
        if gradient > 0.0:
            low, at_low = middle, gradient
            at_high *= 0.5 if kept > 0 else 1.0
            kept = 1
        else:
            high, at_high = middle, gradient
            at_low *= 0.5 if kept < 0 else 1.0
            kept = -1
        if min(high - low, abs(moved)) < tolerance:
            break
    return last, 1.0 / math.sqrt(max(fall, 1.0))


@device
def _highest(gaps, n):
    """Return the last turning point of the integrand: near 0, or the highest score above that."""
    top = 0.0
    for c in range(n):
        top = max(top, gaps[c])
    return top


@device
def log_prob_of_label(noise, label_score, others, counts, n, rule, grads):
    """Return the log-probability of the label, accurate however small; write `grads` unless None.

    Uses the nodes of a `Rule`, in the precision of its spacing.
    """
    # Differences to the label's score keep their digits in single precision.
    gaps, weights = np.full(n + 1, rule.spacing), np.full(n + 1, rule.spacing)
    gradients, moved = np.full(n + 1, rule.spacing), np.full(n + 1, rule.spacing)
    zero = like(0.0, rule.spacing)
    for c in range(n):
        gaps[c], weights[c], moved[c] = others[c] - label_score, counts[c], zero
    mode, width = joint_mode(noise, 0.0, gaps, weights, n, _ROUGH_MODE)
    peak, top, total = 0.0, _highest(gaps, n), 0.0
    for direction in (1.0, -1.0):
        even = _even_widths(top - mode if direction > 0.0 else mode, width)
        v = 0.0 if direction > 0.0 else float(rule.spacing)
        for _ in range(rule.max_nodes):
            e, jacobian = _node(mode, direction * width, v, even)
            if grads is None:
                height = log_joint(noise, e, 0.0, gaps, weights, n)
            else:
                height = _log_joint_with_grads(noise, e, gaps, weights, n, gradients)
            if v == 0.0:
                peak = height
            mass = jacobian * math.exp(min(height - peak, rule.highest))
            total += mass
            if grads is not None:
                for c in range(n):
                    moved[c] += like(mass, moved) * gradients[c]
            if height - peak + math.log(jacobian) < -rule.tail:
                break
            v += rule.spacing
    if grads is not None:
        for c in range(n):
            grads[c] = -moved[c] / total
    return peak + math.log(total * width * rule.spacing)


@device
def _log_joint_with_grads(noise, e, gaps, counts, n, gradients):
    """Return `log_joint`; write minus its derivatives with respect to the gaps."""
    total, level = like(0.0, gaps), like(e, gaps)
    for c in range(n):
        log_f, gradient = log_cdf_with_grad(noise, level - gaps[c])
        total += counts[c] * log_f
        gradients[c] = counts[c] * gradient
    return log_pdf(noise, e) + total


# All classes at once: shared nodes.


@device
def _log_cdf_of_max(noise, t, scores):
    """Return S(t): the log-probability that no utility exceeds t."""
    total = 0.0
    for k in range(scores.shape[0]):
        total += log_cdf(noise, t - scores[k])
    return total


@device
def _centre_of_max(noise, scores):
    """Return t with S(t) = -1 and the scale 1 / S'(t); for Gumbel-like maxima t is the mode."""
    low = high = scores.max()
    step = 1.0
    while _log_cdf_of_max(noise, high, scores) < -1.0:
        low = high
        high += step
        step *= 2.0
    step = 1.0
    while _log_cdf_of_max(noise, low, scores) > -1.0:
        high = low
        low -= step
        step *= 2.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if high - low < 1e-2:
            break
        if _log_cdf_of_max(noise, middle, scores) < -1.0:
            low = middle
        else:
            high = middle
    t = 0.5 * (low + high)
    grad = 0.0
    for k in range(scores.shape[0]):
        grad += log_cdf_grad(noise, t - scores[k])
    return t, 1.0 / grad


@kernel
def _scale_of_max(noise, scores):
    return _centre_of_max(noise, scores)[1]


def max_scale(noise: Noise, n_classes: int) -> float:
    """Return the Gumbel-like scale of the largest of `n_classes` noises."""
    scale = _scale_of_max.for_steps(64 * n_classes)
    return float(scale(noise.lower(), np.zeros(n_classes)))


def score_scale(noise: Noise, n_classes: int) -> float:
    """Return the factor that turns log-probabilities into approximate scores.

    The largest of many noises is nearly Gumbel, of scale 1 / S'(t) where S(t) = -1, so every noise
    is nearly a softmax with that scale. The factor is exactly 1 for Gumbel noise.
    """
    return 1.0 if noise.softmax else max_scale(noise, n_classes)


@device
def _shared_nodes(noise, scores, step, nodes, masses):
    """Fill nodes t_q and masses exp(S(t_q)) dt; return their number."""
    centre, width = _centre_of_max(noise, scores)
    # A class's integrand lies between its score and the best one; nothing lies below that.
    lowest = scores.min() - 10.0
    n = 0
    for direction in (1.0, -1.0):
        even = _even_widths(0.0 if direction > 0.0 else centre - lowest, width)
        v = 0.0 if direction > 0.0 else step
        for _ in range(nodes.shape[0] // 2):
            t, jacobian = _node(centre, direction * width, v, even)
            log_f = _log_cdf_of_max(noise, t, scores)
            nodes[n] = t
            masses[n] = math.exp(log_f) * width * step * jacobian
            n += 1
            if direction > 0.0 and -log_f < 1e-17:  # all mass above t: 1 - exp(S)
                break
            if direction < 0.0 and log_f < (-_NEGLIGIBLE if t < lowest else -_UNDERFLOW):
                break
            v += step
    return n


@kernel
def all_log_probs(noise, scores, out):
    """Write the log-probabilities of all classes per row; `scores` and `out` may be one array."""
    n_classes = scores.shape[1]
    nodes, masses = np.empty(MAX_NODES), np.empty(MAX_NODES)
    psi, probs = np.empty(n_classes), np.empty(n_classes)
    others, ones = np.empty(n_classes), np.ones(n_classes)
    for i in range(scores.shape[0]):
        psi[:] = scores[i]
        psi -= psi.max()  # only differences matter, and nodes near zero are exact
        step = STEP
        for _ in range(6):
            n = _shared_nodes(noise, psi, step, nodes, masses)
            total = 0.0
            for k in range(n_classes):
                p = 0.0
                for q in range(n):
                    p += masses[q] * log_cdf_grad(noise, nodes[q] - psi[k])
                probs[k] = p
                total += p
            if abs(total - 1.0) < 1e-11:
                break
            step *= 0.5  # a noise that is less smooth than the usual ones
        for k in range(n_classes):
            p = probs[k] / total
            if p > 1e-280:
                out[i, k] = math.log(p)
            else:  # underflow: this class alone, in log space
                for j in range(n_classes):
                    others[j] = psi[j]
                others[k] = psi[n_classes - 1]
                out[i, k] = log_prob_of_label(
                    noise, psi[k], others, ones, n_classes - 1, FULL, None
                )


@kernel
def label_log_probs(noise, scores, labels, rule, out):
    """Write the log-probability of one class per row, accurate however small it is."""
    n_others = scores.shape[1] - 1
    others, ones = np.empty(n_others), np.ones(n_others)
    for i in range(scores.shape[0]):
        y = labels[i]
        for k in range(y):
            others[k] = scores[i, k]
        for k in range(y, n_others):
            others[k] = scores[i, k + 1]
        log_prob = log_prob_of_label(noise, scores[i, y], others, ones, n_others, rule, None)
        out[i] = min(log_prob, 0.0)  # rounding


# Entry points of the estimators.


def log_probabilities(noise: Noise, scores: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of all classes, exact to rounding; `scores` are not changed.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.noise import Gaussian
    >>> from bigcat.probabilities import log_probabilities
    >>> np.exp(log_probabilities(Gaussian(), np.array([[1.0, 0.0, -1.0]]))).round(4)
    array([[0.7288, 0.2241, 0.0472]])
    """
    if noise.softmax:
        scores = np.asarray(scores)
        if scores.dtype.kind != "f":
            scores = scores.astype(np.float64)
        scores = scores - scores.max(axis=1, keepdims=True)
        # float64 in the reduction only: float32 scores keep float32 storage.
        totals = np.exp(scores).sum(axis=1, keepdims=True, dtype=np.float64)
        scores -= np.log(totals).astype(scores.dtype)
        return scores
    out = np.array(scores, dtype=np.float64, order="C")
    all_log_probs(noise.lower(), out, out)
    return out


def log_probabilities_of(
    noise: Noise, scores: np.ndarray, labels: ArrayLike, *, quick: bool = False
) -> np.ndarray:
    """Return the log-probability of one class per row; `labels` are columns of `scores`.

    `quick` is faster, with an error of about 1e-5.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.noise import Gaussian
    >>> from bigcat.probabilities import log_probabilities_of
    >>> np.exp(log_probabilities_of(Gaussian(), np.array([[1.0, 0.0, -1.0]]), [0])).round(4)
    array([0.7288])
    """
    labels = np.asarray(labels, dtype=np.int64)
    out = np.empty(len(labels))
    if noise.softmax:
        rows = np.arange(len(labels))
        shifted = scores - scores[rows, labels][:, None]
        shifted[rows, labels] = -np.inf  # small probabilities of all others are not lost beside 1
        high = shifted.max(axis=1, initial=0.0)
        shifted -= high[:, None]
        others = np.exp(shifted).sum(axis=1, dtype=np.float64)
        out = -(high + np.log1p(np.expm1(-high) + others))
    else:
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        rule = QUICK if quick else FULL
        label_log_probs(noise.lower(), scores, labels, rule, out)
    return out
