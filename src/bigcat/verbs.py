"""The verbs of each kind of part, as kernels call them.

A part (a noise, a bound, a sampler, a solver) is a small frozen dataclass for people; below this
seam it is a NamedTuple *tag* with one implementation of each verb of its kind, registered with
`bigcat.compile.implement`.  This file is the whole list.  `docs/extending/` shows how to add one.
"""

from typing import NamedTuple

import numpy as np

from bigcat.compile import generic, implement

# Noise: what is added to the utilities, of density phi and distribution function Phi.


@generic
def log_cdf(noise, t):
    """Log of the distribution function at t."""


@generic
def log_cdf_grad(noise, t):
    """Derivative of `log_cdf`: density over distribution function."""


@generic
def log_cdf_with_grad(noise, t):
    """`log_cdf` and `log_cdf_grad` together, which often share their dearest term."""


@generic
def log_pdf(noise, t):
    """Log of the density at t."""


@generic
def log_pdf_grad(noise, t):
    """Derivative of `log_pdf`."""


# Sampler: which other classes a step looks at.


@generic
def draw(sampler, rng, rows, i, label, classes, counts):
    """Draw classes other than `label`, all distinct, for row `i` of the rows trained on.

    Fills ``classes[:n]`` and ``counts[:n]``, the latter with how many classes each drawn one
    stands for (the inverse of its expected number of appearances, times how often it appeared),
    and ``counts[n]`` with what the label would stand for were it drawn like the others.  Returns
    n, which may be 0, and how many of them, at the front, are in whatever is drawn.

    Where draws are shared by a batch the label is -1, and all classes may come.
    """


@generic
def label_count(sampler, label):
    """What the label would stand for were it drawn like the others, where draws are shared."""


@implement(label_count, None)
def _(sampler, label):
    return 1.0


# Bound: what is maximised, for one row.


@generic
def step(bound, rng, local, progress, label_score, others, counts, n, n_always, grads):
    """Value of the bound for one row, and its slopes.

    Parameters
    ----------
    local : array
        The row's own variational parameters, moved in place after the value and before the slopes
        are taken: a value at parameters that do not depend on the sample is right on average.
    progress : float
        How far the local parameters move: 0 keeps them, 1 replaces them by the new estimate.
    label_score : float
        Score of the observed class.
    others, counts : arrays
        Scores of the first `n` other classes and how many classes each stands for; the first
        `n_always` of them are in whatever is drawn.  ``counts[n]`` is the label's.
    grads : array
        Receives d value / d others[c], and in ``grads[n]`` d value / d label_score.
    """


@generic
def fit_local(bound, local, label_score, others, counts, n):
    """Set the row's local parameters to their optimum for these scores."""


# A bound whose one local parameter u a solver may move itself (the softmax's double sum) has two
# verbs more.


@generic
def at_local(bound, u, label_score, others, counts, n, grads):
    """Value at the local parameter u, with the slopes of `step`, and its derivative in u."""


@generic
def local_floor(bound, label_score, others, n):
    """The best u if the label and these `n` classes were all there are: never above the best."""


# Solver: how parameters move.


@generic
def rate(solver, iteration, epoch):
    """Step size before any scaling by coordinate; `iteration` counts from 1, `epoch` from 0."""


@generic
def move(solver, rate, weights, state, j, gradient):
    """Move ``weights[j]`` up the gradient, and its state ``state[j]`` along."""


@generic
def move_vector(solver, rate, weights, state, factor, gradient):
    """Move a class's or a feature's whole vector by gradient ``factor * gradient``.

    As `move` does it coordinate by coordinate, unless a solver has one step size for a vector.
    """


@implement(move_vector, None)
def _(solver, rate, weights, state, factor, gradient):
    for j in range(weights.shape[0]):
        move(solver, rate, weights, state, j, factor * gradient[j])


@generic
def coordinate_rate(solver, rate, state, j):
    """Step size that `move` would now use for coordinate j."""


class StepSize(NamedTuple):
    """How far a row may move.

    ``rate`` is the step size of its local parameters; ``squared_norm`` is what a slope of 1 moves a
    score by, divided by that: |x|^2 over the batch size, with 1 added to |x|^2 for the intercept.
    """

    rate: float
    squared_norm: float


@generic
def visit(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    """Value of a row, its slopes, and the move of its local parameters: `step` of the bound.

    A solver that moves the local parameters by a rule of its own implements it anew.
    """


@implement(visit, None)
def _(
    solver, bound, rng, local, progress, step_size, label_score, others, counts, n, n_always, grads
):
    return step(bound, rng, local, progress, label_score, others, counts, n, n_always, grads)


@generic
def damping(solver, label_grad, score_step, size):
    """What the slopes of a row of that |x|^2 are multiplied by.

    A slope of 1 moves the label's score by `score_step`.
    """


@implement(damping, None)
def _(solver, label_grad, score_step, size):
    return 1.0


class Batch(NamedTuple):
    """A batch as an implicit solver sees it; arrays have an entry or a row of entries per row."""

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
    """Correct slopes that were found row by row for what the rows of a batch do to each other."""


@implement(couple, None)
def _(solver, batch):
    pass


# Rows: what kernels ask of a row, whatever its form and that of the weights.


@generic
def scores(rows, i, weights, scale, intercepts, classes, n, out):
    """out[c] = scale w_k . x_i + b_k for the first `n` entries k of `classes`."""


@generic
def score_squared_norm(rows, i, weights, label, squared_norm):
    """What a step of 1 along the gradient moves the label's score by, after its `scores`."""


@implement(score_squared_norm, None)
def _(rows, i, weights, label, squared_norm):
    return squared_norm


@generic
def prefetch_row(rows, i, weights, classes, n):
    """Start to fetch row `i` and the weights that `scores` will read for it."""


@generic
def update(rows, i, weights, state, classes, grads, n, solver, rate):
    """Move the weights of row i's classes at once, by gradient slope_c * x_j a coordinate."""


@generic
def accumulate(rows, i, gradient, weights, slot_of, touched, n_touched, classes, grads, n):
    """Add row i's gradient to the batch's."""


@generic
def batch_coordinates(rows, order, start, stop, n_per_row):
    """How many (row, feature, class) triples a batch holds: the cost of visiting just those."""


@generic
def update_touched(rows, i, weights, state, gradient, slot_of, classes, n, solver, rate):
    """Move row i's coordinates by the batch's gradient, each once: what is used is cleared."""


# The same for a batch whose rows share their classes.


@generic
def hidden_vectors(rows, order, start, weights, scale, out):
    """Fill `out` with vectors h of rows ``order[start:]``, whose scores are scale v . h + b."""


@generic
def hidden_score_squared_norm(rows, hidden, label_vector, scale, squared_norm):
    """What a step of 1 along the gradient moves the label's score by."""


@generic
def move_embedding(rows, batch, scale, weights, state, work, solver, rate):
    """Move the vectors of the batch's features, from the slopes and the classes' old vectors."""


# Features that have vectors of their own (low rank).


@generic
def embed(rows, i, vectors, first, factor, out):
    """out = factor x_i U, where the vectors of U are the majors from `first` on."""


@generic
def prefetch_features(rows, i, vectors, first):
    """Start to fetch the vectors of row i's features."""


@generic
def move_features(rows, i, vectors, state, first, back, solver, rate):
    """Move the vectors of row i's features by gradient x_j back."""


@generic
def accumulate_features(rows, i, first, back, gradient, slot_of, touched, n_touched):
    """Add row i's gradients of its features' vectors to the batch's."""


@generic
def embed_batch(rows, order, start, vectors, first, factor, out):
    """out = factor X U for rows ``order[start:]``; the vectors of U are the majors from `first`."""


@generic
def move_batch(rows, order, start, back, factor, vectors, state, first, work, solver, rate):
    """Move the vectors of a batch's features by ``factor X' back``."""


# All classes, a group of rows and a block of classes at a time.


@generic
def row_count(rows):
    """How many rows there are."""


@generic
def block_shape(rows, n_classes, n_features):
    """Rows and classes at a time."""


@generic
def score_block(rows, first, weights, intercepts, start, out):
    """out[r, k] = w . x + b for row `first` + r and class `start` + k."""


# Posteriors: a bound's expectation, and what is done with the four numbers of a weight.


@generic
def expected_step(
    bound, rng, local, progress, means, variances, counts, n, n_always, work, grads, curvatures
):
    """Expectation of `step` over independent scores N(means[c], variances[c]), the label's last.

    Fills, for the `n` other classes and the label, ``grads[c]`` with the derivative in means[c]
    and ``curvatures[c]`` with minus twice the derivative in variances[c].
    """


@generic
def at(action, place, c, x, mean, information, state, seen, first, second):
    """Do the action at one place of the flat arrays; entry `c` of the last two is the class's."""


@generic
def each_coordinate(
    rows, i, classes, n, n_minors, action, mean, information, state, seen, first, second
):
    """`at` for every coordinate of row i's features and the first `n` entries of `classes`."""
