"""The closest Gaussian posterior in which classes are independent, for the softmax.

The mean maximises, and the precisions are the curvature of, the *expected* log-likelihood under the
Gaussian itself (Opper and Archambeau, 2009).  Laplace's approximation takes both at the mode, where
with few rows per class and many weights it is too wide, and its evidence prefers too small a scale.
Given the variances of the scores the mean is the maximum of a concave function.  Expectations are
means over draws of the scores, the same at every evaluation and others for every row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bigcat._system import map_on_threads, one_blas_thread
from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import CACHED
from bigcat.bayes.covariance import BlockSums, ClassFull
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.whitening import ClassWhitening
from bigcat.kernels.softmax_rows import softmax_rows

#: Pairs of draws of each score, and normal numbers that rows take theirs from.
PAIRS_OF_DRAWS, POOL = 4, 1 << 21
#: Scores whose variances may be kept.
MAX_SCORES = 1 << 26
#: Curvatures of rows and classes that are held at a time.
MAX_CURVATURES = 1 << 22
#: Classes whose variances of scores are computed at a time.
CLASSES_TOGETHER = 64
#: Steps to a first mean, and to a later one.
FIRST_STEPS, STEPS = 10, 4


class ClosestGaussian:
    """The Gaussian, improved step by step.

    Parameters
    ----------
    likelihood : Likelihood
        Of the softmax.
    start : ClassWhitening
    rng : RandomState
    """

    def __init__(
        self, likelihood: Likelihood, start: ClassWhitening, rng: np.random.RandomState
    ) -> None:
        self.likelihood, self.whitening = likelihood, start
        self.pool = np.random.default_rng(rng.randint(1 << 31)).standard_normal(POOL, np.float32)
        self.seed = int(rng.randint(1 << 31))
        self.n_steps = FIRST_STEPS

    @classmethod
    def suits(cls, likelihood: Likelihood) -> bool:
        """Return True for a softmax whose scores can be kept."""
        few = likelihood.n_classes * likelihood.design.n <= MAX_SCORES
        return few and likelihood.noise.softmax

    def improve(self, precision: Floats, prior_mean: Floats) -> None:
        """Move the mean given the variances, then the variances given the mean."""
        self.deviations = self._score_deviations()
        around = self.whitening

        def gradients(u: Floats) -> tuple[float, Floats]:
            mean = around.to_weights(u[None])[0]
            value, gradient = self._expected(mean)
            away = mean - prior_mean
            value -= 0.5 * float((precision * away * away).sum())
            return value, around.pulled((gradient - precision * away)[None])[0]

        with one_blas_thread:
            u = ascend(gradients, np.zeros_like(around.mode), self.n_steps)
            mean = around.to_weights(u[None])[0]
            sums = BlockSums(len(mean), mean.shape[1], self.likelihood.dtype)
            self._add_curvature(mean, sums)
        self.n_steps = STEPS
        self.whitening = ClassWhitening(mean, sums.matrices(precision))

    def _score_deviations(self) -> Floats:
        """Return the standard deviations of all scores, (K, n), in single precision."""
        form = self.whitening.covariance()
        assert isinstance(form, ClassFull)
        form.pairs_dtype = np.float32
        out = np.empty((self.likelihood.n_classes, self.likelihood.design.n), np.float32)
        for start in range(0, len(out), CLASSES_TOGETHER):
            some = slice(start, start + CLASSES_TOGETHER)
            out[some] = form.row_variances(self.likelihood.design, some).T
        np.sqrt(np.maximum(out, 0.0, out=out), out=out)
        return out

    def _expected(self, mean: Floats) -> tuple[float, Floats]:
        """Return the expected log-likelihood and its gradient."""
        likelihood = self.likelihood
        design, n_classes = likelihood.design, likelihood.n_classes
        weights = np.ascontiguousarray(mean, np.float32)
        n_draws, step = 2 * PAIRS_OF_DRAWS, self._rows_together()

        def of_rows(part: slice) -> tuple[float, Floats]:
            total, gradient = 0.0, np.zeros(weights.shape, np.float32)
            for start in range(part.start, part.stop, step):
                rows = slice(start, min(start + step, part.stop))
                scores = self._draws(weights, rows)
                values = np.zeros(n_draws)
                row_weights = design.row_weights[rows]
                softmax_rows(scores, likelihood.labels[rows], row_weights, False, True, values)
                total += float(values.mean())
                x = likelihood.rows[rows]
                gradients = scores.mean(axis=0)
                found = gradients @ x if not design.sparse else (x.T @ gradients.T).T
                gradient += np.asarray(found, np.float32)
            return total, gradient

        parts = likelihood._parts(n_classes * n_draws)
        found = map_on_threads(of_rows, parts, likelihood.n_threads)
        gradient: Floats = np.sum([g for _, g in found], axis=0, dtype=np.float64)
        return sum(value for value, _ in found), gradient

    def _add_curvature(self, mean: Floats, sums: BlockSums) -> None:
        """Add E[p (1 - p)] x x' of all rows."""
        likelihood, step = self.likelihood, self._rows_together()
        design, weights = likelihood.design, np.ascontiguousarray(mean, np.float32)
        for block in design.chunks(len(weights), MAX_CURVATURES):
            curvatures = np.empty((block.stop - block.start, len(weights)), np.float32)
            for start in range(block.start, block.stop, step):
                rows = slice(start, min(start + step, block.stop))
                p, n = self._draws(weights, rows), rows.stop - rows.start
                # Gradients: the indicator of the label less the probabilities.
                labels = likelihood.labels[rows]
                softmax_rows(p, labels, np.ones(n), False, True, np.zeros(len(p)))
                p[:, labels, np.arange(n)] -= 1.0
                some = slice(start - block.start, rows.stop - block.start)
                curvatures[some] = (-p - np.square(p)).mean(axis=0).T
            curvatures *= design.row_weights[block, None].astype(np.float32)
            sums.add(curvatures, design.rows[block])

    def _rows_together(self) -> int:
        numbers = self.likelihood.n_classes * 2 * PAIRS_OF_DRAWS
        return int(np.clip(8 * CACHED // numbers, 8, 4096))

    def _draws(self, weights: Floats, rows: slice) -> Floats:
        """Return draws of the scores of some rows, (2 pairs, K, n), in pairs around the mean."""
        likelihood, n = self.likelihood, rows.stop - rows.start
        x = likelihood.rows[rows].astype(np.float32, copy=False)
        middle = np.asarray((x @ weights.T).T if likelihood.design.sparse else weights @ x.T)
        deviations = self.deviations[:, rows]
        out = np.empty((2 * PAIRS_OF_DRAWS, len(weights), n), np.float32)
        numbers = np.random.default_rng((self.seed, rows.start))
        for pair in range(PAIRS_OF_DRAWS):
            start = int(numbers.integers(POOL - min(middle.size, POOL // 2)))
            normals = np.resize(self.pool[start : start + middle.size], middle.shape)
            away = normals * deviations
            np.add(middle, away, out=out[2 * pair])
            np.subtract(middle, away, out=out[2 * pair + 1])
        return out


def ascend(f: Callable[[Floats], tuple[float, Floats]], start: Floats, n_steps: int) -> Floats:
    """Return a point near the maximum of a concave function whose curvature is about 1.

    Steps along the gradient have the length of Barzilai and Borwein (1988); one that loses is
    made shorter.
    """
    here, length = start, 1.0
    value, gradient = f(here)
    for _ in range(n_steps):
        there = here + length * gradient
        new_value, new_gradient = f(there)
        if not new_value >= value:
            length *= 0.25
            continue
        moved, bent = there - here, gradient - new_gradient
        length = float(np.clip((moved * moved).sum() / max((moved * bent).sum(), 1e-30), 0.25, 8.0))
        here, value, gradient = there, new_value, new_gradient
    return here
