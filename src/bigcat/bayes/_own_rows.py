"""The curvature of very many classes, from the rows of each and a mean over all others.

What the rows say about class k is sum_n w_nk x_n x_n' with w = p (1 - p), over all rows and
classes.  With a hundred thousand classes that is out of reach, and hardly needed: half of it or
more comes from the few rows whose label is k.  These are counted one by one.  Of all other rows
only the sum of their probabilities matters, which at a fit is known: it is what the class's own
rows lack, sum (1 - p), since both sum up to the number of its rows.  They count as if they were
rows like any.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import expit, logsumexp

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import CHUNK
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import MOST_TURNED, Curvature, Entries, basis_of, turned

#: Classes that are drawn for some rows, and how many rows share them: what all others sum up to.
N_DRAWN, ROWS_TOGETHER = 1_024, 4_096


def curvature_of_own_rows(
    likelihood: Likelihood, weights: Floats, prior: Floats, rng: np.random.RandomState
) -> Curvature:
    """As `Curvature.at`, for a softmax at a fit; its cost does not grow with classes times rows."""
    design, labels = likelihood.design, likelihood.labels
    p = probabilities_of_labels(likelihood, weights, rng)
    curvatures = design.row_weights * p * (1.0 - p)
    all_classes = design.row_weights * (1.0 - p * p)  # the sum over classes, or nearly so
    basis: Floats = np.empty((0, 0))
    if prior.shape[1] <= MOST_TURNED:
        basis = basis_of(likelihood, prior, lambda rows: all_classes[rows])
        prior = np.ones_like(prior)
    order = np.argsort(labels, kind="stable")
    spectra = np.zeros(likelihood.shape, likelihood.dtype)
    anywhere = np.zeros(prior.shape[1])
    rough = basis.astype(likelihood.dtype, copy=False)
    for start in range(0, len(order), step := max(1, CHUNK // prior.shape[1])):
        rows = order[start : start + step]
        z = turned(likelihood.rows[rows], rough)
        squares = np.square(z) if isinstance(z, np.ndarray) else z.multiply(z).tocsr()
        anywhere += squares.T @ all_classes[rows]
        first, last = labels[rows[0]], labels[rows[-1]]
        shape = (last - first + 1, len(rows))
        of_class = scipy.sparse.csr_array(
            (curvatures[rows], (labels[rows] - first, np.arange(len(rows)))), shape=shape
        )
        sums = of_class.astype(likelihood.dtype) @ squares
        spectra[first : last + 1] += sums.toarray() if scipy.sparse.issparse(sums) else sums
    others = np.bincount(labels, design.row_weights * (1.0 - p), likelihood.n_classes)
    anywhere /= max(all_classes.sum(), 1e-30)
    for k in range(0, len(others), step):
        some = slice(k, k + step)
        spectra[some] += np.outer(others[some], anywhere).astype(spectra.dtype)
    starts = np.searchsorted(labels[order], np.arange(likelihood.n_classes + 1))
    entries = Entries(starts, order, curvatures[order])
    return Curvature(likelihood, basis, prior, spectra, entries)


def probabilities_of_labels(
    likelihood: Likelihood, weights: Floats, rng: np.random.RandomState
) -> Floats:
    """Of each row's own label, (n,), with the sum over other classes from some that are drawn."""
    design, labels = likelihood.design, likelihood.labels
    counts = np.bincount(labels, design.row_weights, likelihood.n_classes) + 1.0
    shares = counts / counts.sum()
    out = np.empty(design.n)
    for start in range(0, design.n, ROWS_TOGETHER):
        rows = slice(start, min(start + ROWS_TOGETHER, design.n))
        own = labels[rows]
        drawn = rng.choice(likelihood.n_classes, N_DRAWN, p=shares)
        x = likelihood.rows[rows]
        chosen = np.ascontiguousarray(weights[drawn].T, dtype=likelihood.dtype)
        scores = np.asarray(x @ chosen, np.float64) - np.log(N_DRAWN * shares[drawn])
        scores[own[:, None] == drawn] = -np.inf
        out[rows] = expit(_own_scores(x, weights, own) - logsumexp(scores, axis=1))
    return out


def _own_scores(x: Any, weights: Floats, labels: np.ndarray) -> Floats:
    """Of some rows, each with the weights of its own class."""
    if not scipy.sparse.issparse(x):
        found: Floats = np.einsum("nm,nm->n", x, weights[labels])
        return found
    at = np.repeat(np.arange(len(labels)), np.diff(x.indptr))
    values = x.data * weights[labels[at], x.indices]
    sums: Floats = np.bincount(at, values, len(labels)).astype(np.float64, copy=False)
    return sums
