"""All classes in every batch, for low rank with AdaGrad: NumPy's products of matrices, uncompiled.

The steps are those of `bigcat.kernels.train_batches`.  Nearly all the time goes to BLAS, so a
kernel would gain little, and this one starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from bigcat.compile import pays
from bigcat.kernels.train_rows import MIN_GRADIENT
from bigcat.rows import is_sparse
from bigcat.solvers import AdaGrad
from bigcat.solvers.sgd import EPSILON
from bigcat.training.routes.base import Journey, Route
from bigcat.verbs import rate

if TYPE_CHECKING:
    from bigcat.training.passes import Passes


class AllVectors(Route):
    """Vectors of all classes meet the embeddings of a batch."""

    multiplies = True

    @staticmethod
    def applies(journey: Journey) -> bool:
        parts, sizes = journey.parts, journey.sizes
        solver, rank = parts.solver, journey.kind.rank
        if rank is None or not isinstance(solver, AdaGrad):
            return False
        products = sizes.n_rows * rank * (sizes.n_classes + sizes.row_values)
        return (
            parts.noise.softmax
            and parts.bound.is_likelihood
            and parts.sampler.all_classes
            and solver.per == "coordinate"
            # Features of sparse rows are gathered one by one, which a kernel does twice as fast.
            and not (sizes.sparse and pays(products))
        )

    @staticmethod
    def scratch_numbers(journey: Journey) -> int:
        sizes, (n_majors, width) = journey.sizes, journey.kind.trained_shape(journey.sizes)
        touched = min(sizes.n_features, journey.batch_size * sizes.row_values)
        moved = max(n_majors - sizes.n_features, 3 * touched if sizes.sparse else touched)
        of_row = 2 * width + 2 * sizes.n_classes + sizes.row_values
        return journey.batch_size * of_row + 3 * moved * width

    def __init__(self, passes: Passes) -> None:
        self.passes = passes
        problem = passes.problem
        self.X: Any = problem.rows.values
        if is_sparse(problem.rows):
            parts = (self.X, problem.rows.indices, problem.rows.indptr)
            self.X = scipy.sparse.csr_array(parts, shape=(problem.n_rows, problem.n_features))

    def train(
        self, thread: int, first: int, last: int, scale: float, n_together: int
    ) -> tuple[float, float]:
        p, state, value = self.passes, self.passes.state, 0.0
        iteration, n_majors = state.iteration, len(state.weights)
        cursor = state.sweep_cursor + thread * n_majors // n_together
        for start in range(first, last, p.plan.batch_size):
            members = p.order.rows[start : min(start + p.plan.batch_size, last)]
            iteration += n_together
            step_rate = rate(p.solver, iteration, state.epoch)
            with np.errstate(all="ignore"):  # the loop looks whether values are finite
                value += self._step(members, step_rate)
            if p.plan.sweep_majors:
                swept = (cursor + np.arange(p.plan.sweep_majors)) % n_majors
                cursor += p.plan.sweep_majors
                shrunk = p.plan.sweep * step_rate / (np.sqrt(state.weights_state[swept]) + EPSILON)
                state.weights[swept] /= 1.0 + shrunk
        if thread == 0:
            state.sweep_cursor = cursor % n_majors
        return value, scale

    def _step(self, members: np.ndarray, step_rate: float) -> float:
        """Move all weights for the rows of a batch; the sum of their values."""
        p, problem, state = self.passes, self.passes.problem, self.passes.state
        n_classes, number = problem.n_classes, state.weights.dtype.type
        vectors, features = state.weights[:n_classes], state.weights[n_classes:]
        x, labels, row_weights = (
            self.X[members],
            problem.labels[members],
            problem.row_weights[members],
        )
        places = np.arange(len(members))
        unit = number(problem.unit)

        hidden = np.asarray(x @ features)
        hidden *= unit
        slopes = hidden @ vectors.T
        slopes += state.intercepts
        slopes -= slopes.max(axis=1, keepdims=True)
        own = slopes[places, labels].astype(np.float64)
        np.exp(slopes, out=slopes)
        slopes[places, labels] = 0.0
        others = slopes.sum(axis=1, dtype=np.float64)
        totals = others + np.exp(own)
        value = float(row_weights @ (own - np.log(totals)))
        factors = row_weights * p.plan.gradient_scale / len(members)
        slopes *= (-factors / totals).astype(number)[:, None]
        slopes *= slopes < -MIN_GRADIENT
        slopes[places, labels] = factors * others / totals

        back = slopes @ vectors
        back *= unit
        moves, states = number(step_rate), state.weights_state
        _move(p.solver, moves, vectors, states[:n_classes], slopes.T @ hidden)
        if p.plan.fit_intercept:
            intercept_rate = number(step_rate * p.plan.intercept_scale)
            gradient = slopes.sum(axis=0)
            _move(p.solver, intercept_rate, state.intercepts, state.intercepts_state, gradient)
        if not scipy.sparse.issparse(x):
            _move(p.solver, moves, features, states[n_classes:], x.T @ back)
            return value
        present, columns = np.unique(x.indices, return_inverse=True)
        x = scipy.sparse.csr_array((x.data, columns, x.indptr), shape=(len(members), len(present)))
        moved, remembered = features[present], states[n_classes + present]
        _move(p.solver, moves, moved, remembered, np.asarray(x.T @ back))
        features[present], states[n_classes + present] = moved, remembered
        return value


def _move(
    solver: Any, step_rate: Any, weights: np.ndarray, state: np.ndarray, gradient: np.ndarray
) -> None:
    """Take AdaGrad's step in place; the gradient is used up."""
    squares = gradient * gradient
    state += squares
    np.sqrt(state, out=squares)
    squares += weights.dtype.type(solver.rounding)
    gradient *= step_rate
    gradient /= squares
    weights += gradient
