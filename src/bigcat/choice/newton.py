"""Maximum likelihood by Newton steps with bounds, or by L-BFGS where coefficients are very many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import minimize

from bigcat._warnings import warn_caller
from bigcat.choice.data import Array
from bigcat.choice.rows_likelihood import Derivatives

#: The matrix of second derivatives of more coefficients is not made.
MAX_DENSE = 5_000
#: A step that is so short, in squared standard errors, is the last.
_TOLERANCE = 1e-9
#: Smallest eigenvalue of scaled information, against which columns are collinear.
_COLLINEAR = 1e-11
#: Share of the first information in some direction below which choices count as separable.
_SEPARABLE = 1e-7


class ChoiceLikelihood(Protocol):
    """Log-likelihood of coefficients, as the optimiser uses it."""

    n_coefficients: int
    n_cases: int

    def at(self, coef: Array, order: int = 2) -> Derivatives:
        """Return the log-likelihood, from order 1 its gradient, from order 2 the information."""

    def scores(self, coef: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the gradients of chunks of cases, of shape (n, n_coefficients)."""


@dataclass(frozen=True)
class Penalised:
    """A log-likelihood with a Gaussian prior, or ridge, of diagonal precision."""

    likelihood: ChoiceLikelihood
    precision: Array
    mean: Array

    def at(self, coef: Array, order: int = 2) -> Derivatives:
        """Return the penalised log-likelihood and its derivatives."""
        found = self.likelihood.at(coef, order)
        away = coef - self.mean
        value = found.value - 0.5 * float(self.precision @ away**2)
        gradient, information = found.gradient, found.information
        if gradient is not None:
            gradient = gradient - self.precision * away
        if information is not None:
            information = information + np.diag(self.precision)
        return Derivatives(value, gradient, information)


@dataclass(frozen=True)
class Optimum:
    """Maximum of a likelihood, and the way there."""

    coef: Array
    #: Coefficients that the data determine: not fixed, and not at a bound.
    free: Array
    derivatives: Derivatives
    converged: bool
    n_iter: int


def maximise(
    target: Penalised,
    start: Array,
    names: Sequence[str],
    free: Array,
    low: Array,
    high: Array,
    max_iter: int,
) -> Optimum:
    """Return the maximum over the free coefficients between their bounds."""
    coef = np.clip(start, low, high)
    if free.sum() > MAX_DENSE:
        return _lbfgs(target, coef, free, low, high, max_iter)
    here = target.at(coef)
    first = _information(here)
    check_collinear(first, free, names)
    converged, moving, n_iter = False, free, 0
    while n_iter < max_iter:
        n_iter += 1
        gradient, information = here.gradient, _information(here)
        assert gradient is not None
        stuck = ((coef <= low) & (gradient < 0)) | ((coef >= high) & (gradient > 0))
        moving = free & ~stuck
        step = np.zeros_like(coef)
        step[moving] = solve(information[np.ix_(moving, moving)], gradient[moving])
        if float(gradient @ step) < _TOLERANCE:
            converged = True
            break
        length = 1.0
        while True:
            trial = np.clip(coef + length * step, low, high)
            there = target.at(trial)
            if there.value > here.value or length < 1e-8:
                break
            length *= 0.5
        coef, here = trial, there
    found = Optimum(coef, moving, here, converged, n_iter)
    _warn_if_separable(found, first, names)
    return found


def _information(derivatives: Derivatives) -> Array:
    assert derivatives.information is not None
    return derivatives.information


def _lbfgs(
    target: Penalised, coef: Array, free: Array, low: Array, high: Array, max_iter: int
) -> Optimum:
    def value(moved: Array) -> tuple[float, Array]:
        trial = coef.copy()
        trial[free] = moved
        found = target.at(trial, 1)
        assert found.gradient is not None
        return -found.value, -found.gradient[free]

    bounds = list(zip(low[free], high[free]))
    options = {
        "maxiter": 20 * max_iter,
        "maxfun": 40 * max_iter,
        "maxcor": 30,
        "ftol": 1e-14,
        "gtol": 1e-4,
    }
    found = minimize(value, coef[free], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    coef = coef.copy()
    coef[free] = found.x
    moving = free & (coef > low) & (coef < high)
    return Optimum(coef, moving, target.at(coef, 1), bool(found.success), int(found.nit))


def solve(information: Array, right: Array) -> Array:
    """Return the solution with a positive definite matrix, scaled to a unit diagonal."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(information), 1e-300))
    scaled = information * scale * scale[:, None]
    for ridge in (0.0, 1e-10, 1e-6, 1e-2, 1.0):
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(scale)))
        except LinAlgError:
            continue
        return np.asarray((cho_solve(factor, (right.T * scale).T).T * scale).T)
    raise FloatingPointError("the matrix of second derivatives is not finite")


def check_collinear(information: Array, free: Array, names: Sequence[str]) -> None:
    """Raise ValueError naming coefficients that the data cannot tell apart."""
    names = [name for name, kept in zip(names, free) if kept]
    information = information[np.ix_(free, free)]
    size = np.diag(information)
    if (size <= 0.0).any():
        raise ValueError(
            f"{names[int(np.argmin(size))]} is the same for all alternatives of each case, so its "
            "coefficient is not identified; give it a coefficient per alternative or leave it out"
        )
    if len(names) > 2000 or not len(names):
        return
    scale = 1.0 / np.sqrt(size)
    values, vectors = eigh(information * scale * scale[:, None], subset_by_index=[0, 0])
    if values[0] < _COLLINEAR:
        weights = np.abs(vectors[:, 0])
        raise ValueError(
            f"the columns {_listed(names, weights)} are collinear, so their coefficients are not "
            "identified; leave one of them out"
        )


def _warn_if_separable(found: Optimum, first: Array, names: Sequence[str]) -> None:
    """Warn where information has vanished in some direction: no maximum exists there."""
    free = found.free
    if not 0 < free.sum() <= 2000:
        return
    here = _information(found.derivatives)[np.ix_(free, free)]
    smallest = eigh(here, first[np.ix_(free, free)], eigvals_only=True, subset_by_index=[0, 0])
    if smallest[0] < _SEPARABLE:
        weights = np.abs(found.coef[free]) * np.sqrt(np.diag(first)[free])
        kept = [name for name, is_free in zip(names, free) if is_free]
        warn_caller(
            f"choices are separable by {_listed(kept, weights)}: the likelihood rises without end "
            "as the coefficients grow; leave a variable out, give bounds or a prior"
        )
    elif not found.converged:
        warn_caller(f"no convergence after {found.n_iter} steps; raise max_iter or scale variables")


def _listed(names: Sequence[str], weights: Array) -> str:
    return ", ".join(names[k] for k in np.flatnonzero(weights > 0.1 * weights.max()).tolist())
