"""The curvature at a mode as a spectrum and a few directions per class, in one basis for all.

The precision of class k is H_k = P + sum_n w_nk x_n x_n', with w = p (1 - p) for the softmax.  Its
matrix per class costs n M^2 and M^3, and most of it is the same in all classes: in the basis in
which P and the sum over classes are diagonal, H_k nearly is, too.  What is left is mostly due to
the rows that say most about a class, and these are kept as directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import CHUNK
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._whitening import GaussianAtMode, class_precisions
from bigcat.bayes.covariance import LowRank

#: Up to so many columns have a basis of their own; more are taken as they are.
MOST_TURNED = 2_048
#: Up to so many columns nothing is left out.
EXACT_UP_TO = 32
#: Rows that the basis is found from, for each column.
ROWS_OF_BASIS = 8
#: Directions of a class, usual and where memory is short, and rows of which each is made.
N_DIRECTIONS, MIN_DIRECTIONS, ROWS_PER_DIRECTION = 16, 4, 4
#: Rows that are looked at together, at the least.
MIN_ROWS = 128
#: A row with less curvature counts on the diagonal only.
RELEVANT_CURVATURE = 0.01


class LowRankGaussian(GaussianAtMode):
    """A mode with a `LowRank` covariance."""

    def __init__(self, mode: Floats, covariance: LowRank) -> None:
        self.mode, self.form = mode, covariance

    def covariance(self) -> LowRank:
        return self.form


def low_rank_gaussian(
    likelihood: Likelihood, mode: Floats, prior: Floats, n_directions: int = N_DIRECTIONS
) -> LowRankGaussian:
    """The whitening at a mode; `prior` are the precisions, (1, M), or (K, M) without a basis."""
    found = Curvature.at(likelihood, mode, prior).covariance(n_directions)
    return LowRankGaussian(mode, found)


class Entries(NamedTuple):
    """Rows that say much about a class: their numbers and curvatures, class after class."""

    starts: np.ndarray  # of each class, and the end
    rows: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, found: Sequence[tuple[np.ndarray, ...]], n_classes: int) -> Entries:
        classes, rows, weights = (np.concatenate(parts) for parts in zip(*found))
        order = np.argsort(classes, kind="stable")
        starts = np.searchsorted(classes[order], np.arange(n_classes + 1))
        return cls(starts, rows[order], weights[order])

    @classmethod
    def none(cls, n_classes: int) -> Entries:
        return cls(np.zeros(n_classes + 1, np.int64), np.empty(0, np.int64), np.empty(0))

    def of_class(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        own = slice(self.starts[k], self.starts[k + 1])
        return self.rows[own], self.weights[own]


class Curvature(NamedTuple):
    """What the rows say about the weights of each class, before the prior is added.

    Parameters
    ----------
    likelihood : Likelihood
    basis : array of shape (M, M), or (0, 0) for columns as they are
    prior : array of shape (1, M) or (K, M)
        Precisions in the basis.
    spectra : array of shape (K, M)
        The diagonals of the sums over rows.
    entries : Entries
    matrices : array of shape (K, M, M) or None
        The sums over rows themselves, in the basis, where columns are few.
    """

    likelihood: Likelihood
    basis: Floats
    prior: Floats
    spectra: Floats
    entries: Entries
    matrices: Floats | None = None

    @classmethod
    def at(cls, likelihood: Likelihood, weights: Floats, prior: Floats) -> Curvature:
        basis: Floats = np.empty((0, 0))
        if len(prior) == 1 and prior.shape[1] <= MOST_TURNED:
            rough = weights.astype(likelihood.dtype, copy=False)

            def of_rows(rows: slice) -> Floats:
                sums: Floats = likelihood.fisher_weights(rough, rows).sum(axis=1)
                return sums * likelihood.design.row_weights[rows]

            basis, prior = basis_of(likelihood, prior, of_rows), np.ones_like(prior)
        if basis.size and prior.shape[1] <= EXACT_UP_TO:
            sums = class_precisions(likelihood, weights, np.zeros_like(prior))
            sums = basis.T @ sums @ basis
            spectra = np.diagonal(sums, axis1=1, axis2=2)
            return cls(likelihood, basis, prior, spectra, Entries.none(len(spectra)), sums)
        return cls(likelihood, basis, prior, *_sums(likelihood, weights, basis))

    def covariance(self, n_directions: int) -> LowRank:
        """Return the covariance with the prior."""
        if self.matrices is not None:
            return self._exact(self.matrices)
        n_classes, n_columns = self.spectra.shape
        n_directions = min(n_directions, n_columns)
        diagonals = self.spectra + np.asarray(self.prior, self.spectra.dtype)
        directions = np.zeros((n_classes, n_directions, n_columns), np.float32)
        shrinkage = np.zeros((n_classes, n_directions), np.float32)
        for k, z in self._rows_of_classes(ROWS_PER_DIRECTION * n_directions):
            diagonals[k], own, shrunk = _directions(diagonals[k], z, n_directions)
            directions[k, : len(own)], shrinkage[k, : len(own)] = own, shrunk
        scales = diagonals.astype(np.float32, copy=False)
        np.sqrt(scales, out=scales)
        np.divide(1.0, scales, out=scales)
        return LowRank(scales, directions, shrinkage, self.basis)

    def _exact(self, matrices: Floats) -> LowRank:
        """As many directions as columns: I + S_k in units of the prior, which is diagonal."""
        values, vectors = np.linalg.eigh(matrices)
        shrinkage = 1.0 - 1.0 / (1.0 + np.maximum(values, 0.0))
        directions = vectors.transpose(0, 2, 1).astype(np.float32)
        scales = np.ones(values.shape, np.float32)
        return LowRank(scales, directions, shrinkage.astype(np.float32), self.basis)

    def _rows_of_classes(self, most: int) -> Iterator[tuple[int, Floats]]:
        """Classes with the rows that say most about each, times the roots of their curvatures."""
        classes, chosen, n_rows = [], [], 0
        n_classes, width = self.spectra.shape
        for k in range(n_classes) if most else ():
            rows, weights = self.entries.of_class(k)
            if len(rows) > most:
                best = np.argpartition(-weights, most)[:most]
                rows, weights = rows[best], weights[best]
            if len(rows):
                classes.append(k)
                chosen.append((rows, weights))
                n_rows += len(rows)
            if n_rows * width >= CHUNK or (k == n_classes - 1 and classes):
                yield from zip(classes, self._gathered(chosen))
                classes, chosen, n_rows = [], [], 0

    def _gathered(self, chosen: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Floats]:
        """Rows of several classes in the basis, taken together: single ones cost as much each."""
        rows, weights = (np.concatenate(parts) for parts in zip(*chosen))
        x = self.likelihood.design.rows[rows]
        x = x.toarray() if self.likelihood.design.sparse and not self.basis.size else x
        z: Floats = turned(x, self.basis) * np.sqrt(weights)[:, None]
        return np.split(z, np.cumsum([len(some) for some, _ in chosen])[:-1])


def basis_of(
    likelihood: Likelihood, prior: Floats, curvatures: Callable[[slice], Floats]
) -> Floats:
    """T with T' P T = I, and T' (sum_n c_n x x') T diagonal; c_n is summed over classes."""
    design = likelihood.design
    units = 1.0 / np.sqrt(prior[0])
    total = np.zeros((design.n_columns, design.n_columns))
    enough = ROWS_OF_BASIS * design.n_columns
    step = max(1, design.n // enough)  # every so many rows say as much
    for rows in _row_blocks(likelihood, step):
        some = slice(rows.start + -rows.start % step, rows.stop, step)
        x = design.dense(some) * units
        x *= np.sqrt(curvatures(some))[:, None]
        total += x.T @ x
    basis: Floats = units[:, None] * np.linalg.eigh(total)[1]
    return basis


def _sums(likelihood: Likelihood, weights: Floats, basis: Floats) -> tuple[Floats, Entries]:
    """The diagonals of all sums over rows, (K, M), in the basis, and the rows that stand out."""
    design = likelihood.design
    spectra = np.zeros(likelihood.shape, likelihood.dtype)
    basis = basis.astype(likelihood.dtype, copy=False)
    weights = weights.astype(likelihood.dtype, copy=False)
    found = []
    for rows in _row_blocks(likelihood):
        curvatures = likelihood.fisher_weights(weights, rows)
        curvatures *= design.row_weights[rows, None].astype(curvatures.dtype)
        z = turned(likelihood.rows[rows], basis)
        if isinstance(z, np.ndarray):
            spectra += curvatures.T @ np.square(z)
        else:
            spectra += np.asarray(z.multiply(z).T.tocsr() @ curvatures).T
        of_rows, classes = np.nonzero(curvatures > RELEVANT_CURVATURE)
        values = curvatures[of_rows, classes].astype(np.float32)
        found.append((classes.astype(np.int32), of_rows + rows.start, values))
    return spectra, Entries.of(found, likelihood.n_classes)


def _row_blocks(likelihood: Likelihood, step: int = 1) -> Iterator[slice]:
    """Rows that are looked at together, one in `step` of them; enough for products of matrices."""
    width = likelihood.n_classes + likelihood.design.n_columns
    return likelihood.design.chunks(width, step * max(CHUNK, MIN_ROWS * width))


def turned(rows: Any, basis: Floats) -> Any:
    return np.asarray(rows @ basis) if basis.size else rows


def _directions(diagonal: Floats, z: Floats, n_directions: int) -> tuple[Floats, Floats, Floats]:
    """A diagonal, directions and what these shrink, of diag(diagonal), which holds z'z's.

    The precision is diag(d) + z'z with d = diagonal - diag(z'z).  Of z'z in units of d the largest
    eigenvalues are kept; the rest counts on the diagonal again.
    """
    diagonal = diagonal.astype(np.float64, copy=False)
    least = 1e-9 * diagonal  # what rounding leaves where a few rows say all of a column
    d = np.maximum(diagonal - np.square(z).sum(axis=0), least)
    values, vectors = np.linalg.eigh(_gram(z / np.sqrt(d)))
    kept = slice(max(0, len(values) - n_directions), None)
    along = vectors[:, kept].T @ z  # so that along'along is the largest part of z'z
    d = np.maximum(diagonal - np.square(along).sum(axis=0), least)
    scaled = along / np.sqrt(d)
    values, vectors = np.linalg.eigh(_gram(scaled))
    values = np.maximum(values, 1e-12)
    own: Floats = (vectors / np.sqrt(values)).T @ scaled
    return d, own, values / (1.0 + values)


def _gram(rows: Floats) -> Floats:
    gram: Floats = rows @ rows.T
    return gram
