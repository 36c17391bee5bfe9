"""Newton's method for the optimum of a bound with a ridge, where L-BFGS takes thousands of passes.

If a few rows are hundreds of times as long as most, curvatures differ by many powers of ten, and
L-BFGS is slow. Here a step is the optimum of the quadratic model in a trust region (Steihaug:
conjugate gradients until they leave it), preconditioned by the diagonal of the curvature. The
objective is strictly concave except for a constant that all intercepts share, so every point with a
gradient of zero is the same optimum.

Values and gradients are those of bigcat's kernels. Only the curvature is computed here, from the
gradients of the scores; a wrong one would cost steps, but not change the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bigcat.bounds import Bound
from bigcat.bounds._base import full_rows
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state

#: Products with the curvature, for one step and in all.
STEP_PRODUCTS, MAX_PRODUCTS = 300, 20_000


class Curvature(NamedTuple):
    """Curvature of the negative values of all rows in their scores."""

    times: Callable[[np.ndarray], np.ndarray]  # changes of scores, (n, n_classes)
    diagonal: np.ndarray


class Optimum(NamedTuple):
    coef: np.ndarray
    intercept: np.ndarray
    gradient: float  # the largest one of the mean value per row
    steps: int
    products: int


def of_softmax(score_gradients: np.ndarray, labels: np.ndarray) -> Curvature:
    return _about_mean(_missing(score_gradients, labels))


def of_bouchard(score_gradients: np.ndarray, labels: np.ndarray) -> Curvature:
    """Return the curvature of Bouchard's bound, whose offset keeps the sum of the sigmoids at 1."""
    sigmoids = _missing(score_gradients, labels)
    return _about_mean(sigmoids * (1.0 - sigmoids))


def of_one_vs_each(score_gradients: np.ndarray, labels: np.ndarray) -> Curvature:
    rows = np.arange(len(labels))
    spread = -score_gradients * (1.0 + score_gradients)
    spread[rows, labels] = 0.0

    def times(change: np.ndarray) -> np.ndarray:
        found: np.ndarray = spread * (change - change[rows, labels][:, None])
        found[rows, labels] = -found.sum(axis=1)
        return found

    diagonal = spread.copy()
    diagonal[rows, labels] = spread.sum(axis=1)
    return Curvature(times, diagonal)


CURVATURES = {"exact": of_softmax, "bouchard": of_bouchard, "one-vs-each": of_one_vs_each}


def _missing(score_gradients: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the weight of each class in a row: the label's 1 less its gradient."""
    found = -score_gradients
    found[np.arange(len(labels)), labels] += 1.0
    return found


def _about_mean(spread: np.ndarray) -> Curvature:
    """Return a curvature in which only deviations of the scores from their mean count."""
    total = np.maximum(spread.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def times(change: np.ndarray) -> np.ndarray:
        found: np.ndarray = spread * (change - (spread * change).sum(axis=1, keepdims=True) / total)
        return found

    return Curvature(times, spread - spread**2 / total)


def optimum(
    X: Any, labels: np.ndarray, n_classes: int, bound: Bound, l2: float, tol: float
) -> Optimum:
    """Maximise from zero weights until no gradient of the mean value per row is above `tol`."""
    return _Search(X, labels, n_classes, bound, l2).run(tol)


class _Search:
    """Search over weights (n_features + 1, n_classes); the last row holds the intercepts."""

    def __init__(self, X: Any, labels: np.ndarray, n_classes: int, bound: Bound, l2: float) -> None:
        n, n_features = X.shape
        ones = np.ones((n, 1))
        self.X = scipy.sparse.hstack([X, ones], format="csr", dtype=np.float64)
        self.transposed = self.X.T.tocsr()
        self.squares = self.transposed.power(2)
        self.labels, self.bound = labels, bound
        self.ridge = np.full((n_features + 1, 1), l2)
        self.ridge[-1] = 0.0
        self.weights, self.scores = np.zeros((n_features + 1, n_classes)), np.zeros((n, n_classes))
        self.order, self.rng = np.arange(n_classes), new_state(np.random.RandomState(0))
        self.tag = bound.lower(Gumbel())

    def look(self, weights: np.ndarray, scores: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective to minimise and the gradients of the rows' values."""
        score_gradients, values = np.empty_like(scores), np.empty(len(scores))
        local = np.empty((len(scores), max(self.bound.n_local, 1)))
        full_rows(
            self.tag,
            self.rng,
            scores,
            self.labels,
            0,
            self.order,
            local,
            values,
            score_gradients,
            True,
        )
        of_ridge = 0.5 * float(np.vdot(weights, self.ridge * weights))
        return of_ridge - float(values.sum()), score_gradients

    def run(self, tol: float) -> Optimum:
        n, products, steps, radius = len(self.labels), 0, 0, np.inf
        value, score_gradients = self.look(self.weights, self.scores)
        while True:
            gradient = self.ridge * self.weights - self.transposed @ score_gradients
            largest = float(np.abs(gradient).max()) / n
            if largest <= tol:
                *coef, intercept = self.weights
                return Optimum(np.array(coef).T, intercept, largest, steps, products)
            if products > MAX_PRODUCTS:
                raise RuntimeError(f"a gradient of {largest:g} after {products} products")
            step = self.step(
                gradient, CURVATURES[self.bound.name](score_gradients, self.labels), radius
            )
            products += step.products
            moved = self.weights + step.weights, self.scores + step.scores
            new_value, new_score_gradients = self.look(*moved)
            ratio = (value - new_value) / step.predicted
            if ratio < 0.25:
                radius = 0.25 * step.length
            elif ratio > 0.75 and step.at_edge:
                radius *= 3.0
            if ratio > 1e-3:
                (self.weights, self.scores), value, score_gradients = (
                    moved,
                    new_value,
                    new_score_gradients,
                )
                steps += 1

    def step(self, gradient: np.ndarray, curvature: Curvature, radius: float) -> _Step:
        """Compute a step by conjugate gradients within the trust region."""
        diagonal = self.ridge + self.squares @ curvature.diagonal
        diagonal[-1] += 1.0  # an intercept without curvature from rows
        n = len(self.labels)
        near = min(0.1, np.sqrt(np.linalg.norm(gradient) / n)) ** 2
        found, rest = np.zeros_like(gradient), -gradient
        found_scores = np.zeros_like(self.scores)
        scaled = rest / diagonal
        direction, size = scaled.copy(), np.vdot(rest, scaled)
        end = near * size
        # Lengths in the metric of the diagonal, which follow from what is known.
        length2, along, direction2 = 0.0, 0.0, size
        at_edge, products = False, 0
        while not at_edge and size > end and products < STEP_PRODUCTS:
            products += 1
            scores = self.X @ direction
            image = self.transposed @ curvature.times(scores) + self.ridge * direction
            far = size / np.vdot(direction, image)
            if length2 + 2.0 * far * along + far**2 * direction2 >= radius**2:
                room = along**2 + direction2 * (radius**2 - length2)
                far, at_edge = (np.sqrt(room) - along) / direction2, True
            found += far * direction
            found_scores += far * scores
            rest -= far * image
            length2 += 2.0 * far * along + far**2 * direction2
            scaled = rest / diagonal
            before, size = size, np.vdot(rest, scaled)
            ratio = size / before
            along = ratio * (along + far * direction2)
            direction2 = size + ratio**2 * direction2
            direction *= ratio
            direction += scaled
        predicted = 0.5 * (np.vdot(found, rest) - np.vdot(found, gradient))
        return _Step(found, found_scores, predicted, np.sqrt(length2), at_edge, products)


class _Step(NamedTuple):
    weights: np.ndarray
    scores: np.ndarray
    predicted: float  # by the second order
    length: float
    at_edge: bool
    products: int
