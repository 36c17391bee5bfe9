"""The verbs of each kind of part, as kernels call them.

A part (a noise, a bound, a sampler, a solver) is a small frozen dataclass for people; below this
seam it is a NamedTuple *tag* with one implementation of each verb of its kind, registered with
`bigcat._jit.implement`.  This file is the whole list.  `docs/extending/` shows how to add one.
"""

from bigcat._jit import generic

# Noise: the distribution of the utilities' additive noise (METHODS: phi and Phi).


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
def draw(sampler, rng, label, classes, counts):
    """Draw classes other than `label`.

    Fills ``classes[:n]`` and ``counts[:n]``, the latter with how many classes each drawn one
    stands for (the inverse of its expected number of appearances).  Returns n and how many of
    them, at the front, are in whatever is drawn.
    """


# Bound: what is maximised, for one row.


@generic
def step(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes):
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
        `n_always` of them are in whatever is drawn.
    slopes : array
        Receives d value / d others[c]; the observed class's slope is minus their sum, since
        every bound depends on differences of scores alone.
    """


@generic
def fit_local(bound, local, label_score, others, counts, n):
    """Set the row's local parameters to their optimum for these scores."""


# Solver: how parameters move.


@generic
def rate(solver, iteration, epoch):
    """Step size before any scaling by coordinate; `iteration` counts from 1, `epoch` from 0."""


@generic
def move(solver, rate, weights, state, j, gradient):
    """Move ``weights[j]`` up the gradient, and its state ``state[j]`` along."""


@generic
def coordinate_rate(solver, rate, state, j):
    """Step size that `move` would now use for coordinate j."""
