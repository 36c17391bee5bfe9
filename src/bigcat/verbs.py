"""Operations that kernels call on each kind of part.

A part (noise, bound, sampler, solver) is a small frozen dataclass for the user. Compiled code sees
a NamedTuple *tag*, with one implementation of each verb of its kind, registered by
`bigcat.compile.implement`. This file lists all verbs; `docs/extending/` shows how to add a part.
"""

from typing import NamedTuple

import numpy as np

from bigcat.compile import generic, implement

# Noise: added to the utilities, with density phi and distribution function Phi.


@generic
def log_cdf(noise, t):
    """Return the log of the distribution function at t."""


@generic
def log_cdf_grad(noise, t):
    """Return the derivative of `log_cdf`: density over distribution function."""


@generic
def log_cdf_with_grad(noise, t):
    """Return `log_cdf` and `log_cdf_grad`, which often share their most expensive term."""


@generic
def log_pdf(noise, t):
    """Return the log-density at t."""


@generic
def log_pdf_grad(noise, t):
    """Return the derivative of `log_pdf`."""


# Sampler: which other classes a step visits.


@generic
def draw(sampler, rng, rows, i, label, classes, counts):
    """Draw distinct classes other than `label` for row `i` of the training rows.

    Fills ``classes[:n]`` and ``counts[:n]``. A count is the importance weight of a class: its
    number of draws over the expected number. ``counts[n]`` is the weight that the label would have
    if it were drawn like the others. Returns n, which may be 0, and how many of the classes, at the
    front, are part of every draw.

    For draws shared by a batch the label is -1, and every class may appear.
    """


@generic
def label_count(sampler, label):
    """Return the importance weight of the label for draws that a batch shares."""


@implement(label_count, None)
def _(sampler, label):
    return 1.0


# Bound: the objective to maximise, for one row.


@generic
def step(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    """Return the value of the bound for one row; write its gradients.

    Parameters
    ----------
    local : array
        Variational parameters of the row. Move them in place after computing the value and before
        the gradients: a value at parameters that do not depend on the sample is unbiased.
    progress : float
        Step size of the local parameters: 0 keeps them, 1 replaces them by the new estimate.
    label_score : float
        Score of the observed class.
    others, counts : arrays
        Scores and importance weights of the `n` other classes; the first `n_always` of them are
        part of every draw.  ``counts[n]`` is the label's weight.
    grads : array
        Receives d value / d others[c], and in ``grads[n]`` d value / d label_score.
    """


@generic
def fit_local(bound, local, label_score, others, counts, n):
    """Set the row's local parameters to their optimum for these scores."""


# Bounds with one local parameter u that a solver may move (the softmax's double sum) have two more
# verbs.


@generic
def at_local(bound, u, label_score, others, counts, n, grads):
    """Return the value at local parameter u and its derivative in u; write gradients as `step`."""


@generic
def local_floor(bound, label_score, others, n):
    """Return the best u for the label and these `n` classes alone: a lower bound of the best u."""


# Solver: how parameters move.


@generic
def rate(solver, iteration, epoch):
    """Return the step size before any scaling by coordinate.

    `iteration` counts from 1, `epoch` from 0.
    """


@generic
def move(solver, rate, weights, state, j, gradient):
    """Move ``weights[j]`` along the gradient and update its solver state ``state[j]``."""


@generic
def move_vector(solver, rate, weights, state, factor, gradient):
    """Move a whole class or feature vector by the gradient ``factor * gradient``.

    Equals `move` for each coordinate, unless the solver has one step size per vector.
    """


@implement(move_vector, None)
def _(solver, rate, weights, state, factor, gradient):
    for j in range(weights.shape[0]):
        move(solver, rate, weights, state, j, factor * gradient[j])


@generic
def coordinate_rate(solver, rate, state, j):
    """Return the step size that `move` would now use for coordinate j."""


class StepSize(NamedTuple):
    """Step size of one row.

    ``rate`` is the step size of its local parameters. A gradient of 1 with respect to a score moves
    that score by ``rate * squared_norm``: |x|^2 over the batch size, with 1 added to |x|^2 for the
    intercept.
    """

    rate: float
    squared_norm: float


@generic
def visit(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    """Return the value of a row; write its gradients and move its local parameters.

    Calls `step` of the bound by default. Override it in a solver with its own rule for local
    parameters.
    """


@implement(visit, None)
def _(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    return step(bound, rng, local, progress, label_score, others, counts, n, n_always, grads)


@generic
def damping(solver, label_grad, score_step, size):
    """Return the factor by which a row's gradients are shortened.

    `score_step` is the change of the label's score per unit gradient, `size` the row's |x|^2.
    """


@implement(damping, None)
def _(solver, label_grad, score_step, size):
    return 1.0


class Batch(NamedTuple):
    """A batch as implicit solvers see it; arrays have one entry per row."""

    n_rows: int
    gram: np.ndarray  # inner products of the rows
    shrunk: float  # multiplies them
    intercept_norm: float  # is added to them
    rates: np.ndarray
    progress: float  # step size of local parameters
    u_before: np.ndarray
    scores: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray  # how many other classes a row has
    classes: np.ndarray
    grads: np.ndarray
    members: np.ndarray  # rows of `local`
    local: np.ndarray
    slot_of_class: np.ndarray  # scratch, all -1


@generic
def couple(solver, batch):
    """Correct gradients computed row by row for the interaction of the rows of a batch."""


@implement(couple, None)
def _(solver, batch):
    pass


# Rows: access to a row, for any storage format of rows and weights.


@generic
def scores(rows, i, weights, scale, intercepts, classes, n, out):
    """Fill ``out[c] = scale w_k . x_i + b_k`` for the first `n` entries k of `classes`."""


@generic
def score_squared_norm(rows, i, weights, label, squared_norm):
    """Return the squared norm of the label score's gradient, after `scores` of the same row."""


@implement(score_squared_norm, None)
def _(rows, i, weights, label, squared_norm):
    return squared_norm


@generic
def prefetch_row(rows, i, weights, classes, n):
    """Prefetch row `i` and the weights that `scores` will read for it."""


@generic
def update(rows, i, weights, state, classes, grads, n, solver, rate):
    """Move the weights of row i's classes by the gradient ``grads[c] * x_j`` per coordinate."""


@generic
def accumulate(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    """Add row i's gradient to the gradient of the batch."""


@generic
def batch_coordinates(rows, order, start, stop, n_per_row):
    """Return the number of (row, feature, class) triples of a batch: the cost of visiting them."""


@generic
def update_touched(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    """Move row i's coordinates by the batch gradient, each once, and clear the used entries."""


# Batches whose rows share their drawn classes.


@generic
def hidden_vectors(rows, order, start, weights, scale, out):
    """Fill `out` with vectors h of rows ``order[start:]``, whose scores are scale v . h + b."""


@generic
def hidden_score_squared_norm(rows, hidden, label_vector, scale, squared_norm):
    """Return the squared norm of the label score's gradient for a hidden vector."""


@generic
def move_embedding(rows, batch, scale, weights, state, work, solver, rate):
    """Move the feature vectors of a batch, given the gradients and the old class vectors."""


# Feature vectors (low rank).


@generic
def embed(rows, i, vectors, first, factor, out):
    """Fill ``out = factor x_i U``, where the vectors of U are the majors from `first` on."""


@generic
def prefetch_features(rows, i, vectors, first):
    """Prefetch the vectors of row i's features."""


@generic
def move_features(rows, i, vectors, state, first, back, solver, rate):
    """Move the vectors of row i's features by the gradient ``x_j back``."""


@generic
def accumulate_features(rows, i, first, back, gradient, slot_of, touched, n_touched):
    """Add the gradients of row i's feature vectors to the gradient of the batch."""


@generic
def embed_batch(rows, order, start, vectors, first, factor, out):
    """Fill ``out = factor X U`` for rows ``order[start:]``; U holds the majors from `first` on."""


@generic
def move_batch(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    """Move the feature vectors of a batch by ``factor X' back``."""


# All classes: a group of rows and a block of classes at a time.


@generic
def row_count(rows):
    """Return the number of rows."""


@generic
def block_shape(rows, n_classes, n_features):
    """Return the number of rows and of classes to process at a time."""


@generic
def score_block(rows, first, weights, intercepts, start, out):
    """Fill ``out[r, k] = w . x + b`` for row `first` + r and class `start` + k."""


# Posteriors: the expectation of a bound, and actions on the four numbers of each weight.


@generic
def expected_step(
    bound, rng, local, progress, means, variances, counts, n, n_always, work, grads, curvatures
):
    """Return the expectation of `step` over independent Gaussian scores; write its derivatives.

    Scores are N(means[c], variances[c]), the label's last.

    Fills, for the `n` other classes and the label, ``grads[c]`` with the derivative in means[c]
    and ``curvatures[c]`` with minus twice the derivative in variances[c].
    """


@generic
def at(action, place, c, x, mean, information, state, seen, first, second):
    """Apply the action at one place of the flat arrays.

    Entry `c` of the last two arrays belongs to the class.
    """


@generic
def each_coordinate(rows, i, classes, n, n_minors, action, q, first, second):
    """Apply `at` to each coordinate of row i's features and the first `n` entries of `classes`.

    `q` holds flat arrays ``mean, information, state, seen``.
    """
