"""Standard errors of coefficients, classical and robust, and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from bigcat.choice.data import Array
from bigcat.choice.newton import solve

#: Steps of conjugate gradients, and the relative size at which a residual counts as zero.
_MAX_STEPS, _SMALL = 500, 1e-8


class ChiSquaredTest(NamedTuple):
    """A statistic that is chi-squared with `df` degrees of freedom under the hypothesis."""

    statistic: float
    df: int
    p_value: float

    @classmethod
    def of(cls, statistic: float, df: int) -> ChiSquaredTest:
        """Return the test of a statistic."""
        return cls(float(statistic), df, float(chi2.sf(statistic, df)))


def embedded(matrix: Array, free: Array) -> Array:
    """Return the matrix among all coefficients, NaN where one is not free."""
    out = np.full((len(free),) * 2, np.nan)
    out[np.ix_(free, free)] = matrix
    return out


def classical(information: Array, free: Array) -> Array:
    """Return the inverse of the free part of the information."""
    return embedded(solve(information[np.ix_(free, free)], np.eye(int(free.sum()))), free)


def sandwich(
    covariance: Array,
    free: Array,
    scores: Iterable[tuple[slice, Array]],
    groups: Array | None,
    noise: Array | float = 0.0,
) -> Array:
    """Return the robust covariance; with groups it is clustered, times G / (G - 1).

    `noise` is the covariance that scores have from sampling, summed over cases.
    """
    bread = covariance[np.ix_(free, free)]
    if groups is None:
        meat = sum(part[:, free].T @ part[:, free] for _, part in scores)
    else:
        n_groups = int(groups.max()) + 1
        sums = np.zeros((n_groups, len(bread)))
        for cases, part in scores:
            np.add.at(sums, groups[cases], part[:, free])
        meat = sums.T @ sums * (n_groups / max(n_groups - 1, 1))
    return embedded(bread @ (meat - noise) @ bread, free)


def solve_by_products(product: Callable[[Array], Array], right: Array, diagonal: Array) -> Array:
    """Return the solution for several right sides by preconditioned conjugate gradients."""
    solution, residual = np.zeros_like(right), right.copy()
    direction = residual / diagonal[:, None]
    size = first = np.einsum("ij,ij->j", residual, direction)
    for _ in range(_MAX_STEPS):
        if (size <= _SMALL**2 * first).all():
            break
        turned = product(direction)
        length = size / np.maximum(np.einsum("ij,ij->j", direction, turned), 1e-300)
        solution += length * direction
        residual -= length * turned
        ready = residual / diagonal[:, None]
        before, size = size, np.einsum("ij,ij->j", residual, ready)
        direction = ready + size / np.maximum(before, 1e-300) * direction
    return solution
