"""The classical theory of the multinomial logit: maximum, curvature, errors, tests.

The parameters are contrasts with a base class, whose weights are 0.  Columns are centred and
scaled inside, so that neither units nor offsets cost digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.special import chdtrc, log_softmax, softmax, xlogy
from sklearn.exceptions import ConvergenceWarning

from bigcat._warnings import warn_caller
from bigcat.inference.table import ResultsTable, wald_columns
from bigcat.linear import LinearModel

#: Maximal number of contrasts whose curvature, a matrix with a row for each, is formed.
MAX_PARAMETERS = 4_000
#: Maximal size of temporary arrays of a block of rows.
BLOCK = 1 << 22
#: Newton's method stops when half its decrement, in nats, is smaller than this.
DECREMENT = 1e-10
MAX_STEPS = 100
#: Nats per parameter by which a fit may miss the maximum without a warning.
MAX_GAP = 0.05

SEPARATED = (
    "the columns of X separate the classes perfectly: the likelihood has no maximum, and its "
    "coefficients grow without end; set l2 to a positive number, or take BayesianClassifier, "
    "whose prior keeps them finite"
)


def warn_of_separation(model: LinearModel, X: Any, labels: np.ndarray) -> None:
    """Warn where weights without a penalty classify each training row correctly.

    Larger multiples of such weights are ever more likely: there is no maximum.
    """
    if (model.best(X) == labels).all():
        warn_caller(SEPARATED, ConvergenceWarning)


@dataclass(frozen=True)
class LikelihoodFit:
    """The maximum of the softmax likelihood.

    Attributes
    ----------
    coef : array of shape (n_classes, M)
        Weights relative to class number `base`, the intercept's last.
    covariance : array of shape (P, P)
        Of the weights of the other classes, P = (n_classes - 1) M, class by class.
    robust_covariance : array of shape (P, P) or None
        The sandwich (HC0 of statsmodels), where it was asked for.
    log_likelihood, null_log_likelihood : float
        In nats; the latter with constants only, NaN without an intercept.
    n_rows : float
        Sum of the row weights.
    """

    coef: np.ndarray
    covariance: np.ndarray
    robust_covariance: np.ndarray | None
    log_likelihood: float
    null_log_likelihood: float
    n_rows: float
    base: int
    intercept: bool

    @property
    def best_covariance(self) -> np.ndarray:
        """The robust covariance if there is one."""
        robust = self.robust_covariance
        return self.covariance if robust is None else robust

    @property
    def others(self) -> np.ndarray:
        """Numbers of the classes but the base."""
        return np.delete(np.arange(len(self.coef)), self.base)

    def table(self, classes: np.ndarray, names: Sequence[str], level: float) -> ResultsTable:
        """Return coefficients and figures as statistical packages print them."""
        n_classes, n_columns = self.coef.shape
        estimates = self.coef[self.others].ravel()
        robust = self.robust_covariance
        with np.errstate(over="ignore"):
            odds_ratios = np.exp(estimates)
        columns = {
            "class": np.repeat(classes[self.others], n_columns),
            "feature": np.tile(np.asarray(names, dtype=object), n_classes - 1),
            **wald_columns(
                estimates,
                np.sqrt(np.diag(self.covariance)),
                robust_std_errors=None if robust is None else np.sqrt(np.diag(robust)),
                level=level,
            ),
            "odds_ratio": odds_ratios,
        }
        figures = {"base": classes[self.base : self.base + 1].tolist()[0], **self.figures()}
        return ResultsTable(columns, title="Multinomial logit", figures=figures)

    def figures(self) -> dict[str, float | int]:
        """Return the figures of the whole model, the likelihood-ratio test among them."""
        ll, n_parameters = self.log_likelihood, len(self.covariance)
        found: dict[str, float | int] = {
            "rows": int(self.n_rows) if self.n_rows == int(self.n_rows) else self.n_rows,
            "parameters": n_parameters,
            "log-likelihood": ll,
            "AIC": 2.0 * n_parameters - 2.0 * ll,
            "BIC": float(np.log(self.n_rows)) * n_parameters - 2.0 * ll,
        }
        if self.intercept:
            null, freedom = self.null_log_likelihood, n_parameters - len(self.coef) + 1
            ratio = 2.0 * (ll - null)
            found |= {
                "log-likelihood of constants": null,
                "LR statistic": ratio,
                "LR degrees of freedom": freedom,
                "LR p-value": float(chdtrc(freedom, ratio)) if freedom else float("nan"),
                "McFadden R2": 1.0 - ll / null,
            }
        return found


def maximise(
    X: Any,
    labels: np.ndarray,
    row_weights: np.ndarray,
    start: np.ndarray,
    *,
    intercept: bool,
    base: int,
    names: Sequence[str],
    robust: bool = False,
) -> LikelihoodFit:
    """Find the maximum from nearby weights `start`, (n_classes, M), by Newton's method."""
    n_classes, n_columns = start.shape
    n_parameters = (n_classes - 1) * n_columns
    if n_parameters > MAX_PARAMETERS:
        raise ValueError(
            f"standard errors of {n_classes - 1:,} x {n_columns:,} contrasts need a matrix of "
            f"{n_parameters:,} rows and columns, and {MAX_PARAMETERS:,} is the most; take "
            "BayesianClassifier, or fewer classes or features"
        )
    counts = np.bincount(labels, row_weights, n_classes)
    if not counts.all():
        raise ValueError(
            f"{int((counts == 0.0).sum())} of {n_classes} classes have no row in y, so that their "
            "likelihood has no maximum; pass the training rows, and fit without those classes"
        )
    problem = _Problem.of(X, labels, row_weights, start, intercept, base, names)
    theta, at_start = problem.theta, problem.log_likelihood(problem.theta)
    value = at_start
    for _ in range(MAX_STEPS):
        gradient, information = problem.derivatives(theta)
        step = _solve(information, gradient).reshape(theta.shape)
        decrement = 0.5 * float(gradient @ step.ravel())
        length = 1.0
        while not (new := problem.log_likelihood(theta + length * step)) >= value - DECREMENT:
            length *= 0.5
        theta, value = theta + length * step, max(new, value)
        if decrement < DECREMENT:
            break
        if problem.separates(theta):
            raise ValueError(SEPARATED)
    # Newton's last step vanishes at a maximum, and moves on by about 1 where there is none.
    if np.abs(step).max() > 1e-2:
        warn_caller(
            "the columns of X separate some of the classes: the likelihood has no maximum in some "
            "directions, and very large coefficients and standard errors of the table mean "
            "nothing; merge rare classes or levels, set l2, or take BayesianClassifier",
            ConvergenceWarning,
        )
    elif value - at_start > MAX_GAP * n_parameters:
        warn_caller(
            f"the log-likelihood of the model on these rows is {value - at_start:.3g} nats below "
            "its maximum, which the table is about; pass the rows of the fit, or fit more "
            "closely with solver=LBFGS(tol=1e-6)",
            ConvergenceWarning,
        )
    _, information = problem.derivatives(theta)
    covariance = _solve(information, np.eye(n_parameters))
    sandwich = covariance @ problem.meat(theta) @ covariance if robust else None
    total = float(row_weights.sum())
    return LikelihoodFit(
        coef=np.insert(theta @ problem.back.T, base, 0.0, axis=0),
        covariance=problem.turned_back(covariance),
        robust_covariance=None if sandwich is None else problem.turned_back(sandwich),
        log_likelihood=value,
        null_log_likelihood=float(xlogy(counts, counts / total).sum()) if intercept else np.nan,
        n_rows=total,
        base=base,
        intercept=intercept,
    )


def dense_design(X: Any, intercept: bool) -> np.ndarray:
    """Return X as a dense array in float64, with a last column of ones if asked."""
    dense = X.toarray() if scipy.sparse.issparse(X) else X
    ones = np.ones((dense.shape[0], int(intercept)))
    return np.hstack([dense.astype(np.float64, copy=False), ones])


@dataclass(frozen=True)
class _Problem:
    """Scaled rows with their labels; `back` turns scaled weights into those of the columns."""

    rows: np.ndarray
    labels: np.ndarray
    row_weights: np.ndarray
    back: np.ndarray
    theta: np.ndarray
    base: int

    @classmethod
    def of(
        cls,
        X: Any,
        labels: np.ndarray,
        row_weights: np.ndarray,
        start: np.ndarray,
        intercept: bool,
        base: int,
        names: Sequence[str],
    ) -> _Problem:
        rows = dense_design(X, intercept)
        n_columns = rows.shape[1]
        centres, scales = np.zeros(n_columns), np.ones(n_columns)
        columns = slice(0, n_columns - int(intercept))
        if intercept:
            centres[columns] = np.average(rows[:, columns], axis=0, weights=row_weights)
        rows[:, columns] -= centres[columns]
        squares = np.average(rows**2, axis=0, weights=row_weights)
        constant = squares <= (1e-14 * centres) ** 2
        scales = np.sqrt(np.where(constant, 1.0, squares))
        rows[:, constant] = 0.0
        rows /= scales
        _check_rank(rows, names)
        back = np.diag(1.0 / scales)
        forth = np.diag(scales)
        if intercept:
            back[-1, columns] = -centres[columns] / scales[columns]
            forth[-1, columns] = centres[columns]
        contrasts = np.delete(start - start[base], base, axis=0)
        return cls(rows, labels, row_weights, back, contrasts @ forth.T, base)

    def scores(self, theta: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        return np.insert(self.rows[rows] @ theta.T, self.base, 0.0, axis=1)

    def log_likelihood(self, theta: np.ndarray) -> float:
        logs = log_softmax(self.scores(theta), axis=1)
        return float(self.row_weights @ logs[np.arange(len(logs)), self.labels])

    def separates(self, theta: np.ndarray) -> bool:
        """Return True if each row's own class has the highest score."""
        return bool((self.scores(theta).argmax(axis=1) == self.labels).all())

    def residuals(self, theta: np.ndarray, rows: slice = slice(None)) -> tuple[Any, np.ndarray]:
        """Return probabilities and weighted residuals of the classes but the base."""
        probabilities = softmax(self.scores(theta, rows), axis=1)
        errors = -probabilities
        errors[np.arange(len(errors)), self.labels[rows]] += 1.0
        errors *= self.row_weights[rows, None]
        return np.delete(probabilities, self.base, axis=1), np.delete(errors, self.base, axis=1)

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient, (P,), and minus the Hessian, (P, P)."""
        n_others, n_columns = theta.shape
        p, errors = self.residuals(theta)
        information = np.empty((n_others, n_columns, n_others, n_columns))
        for k in range(n_others):
            for j in range(k + 1):
                weights = self.row_weights * p[:, k] * (float(j == k) - p[:, j])
                block = self.rows.T @ (weights[:, None] * self.rows)
                information[k, :, j] = block
                information[j, :, k] = block
        return (errors.T @ self.rows).ravel(), information.reshape(theta.size, theta.size)

    def meat(self, theta: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of the rows' gradients, (P, P)."""
        total = np.zeros((theta.size, theta.size))
        for rows in _blocks(len(self.rows), theta.size):
            errors = self.residuals(theta, rows)[1]
            gradients = (errors[:, :, None] * self.rows[rows, None, :]).reshape(len(errors), -1)
            total += gradients.T @ gradients
        return total

    def turned_back(self, covariance: np.ndarray) -> np.ndarray:
        n_others, n_columns = self.theta.shape
        blocks = covariance.reshape(n_others, n_columns, n_others, n_columns)
        turned = np.einsum("ab,kbjc,dc->kajd", self.back, blocks, self.back, optimize=True)
        return np.ascontiguousarray(turned.reshape(covariance.shape))


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _solve(information: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with a positive definite matrix, whose zeros come from separated classes alone."""
    try:
        solved = scipy.linalg.cho_solve(scipy.linalg.cho_factor(information), right)
    except np.linalg.LinAlgError:
        solved = np.linalg.pinv(information, hermitian=True) @ right
    return np.asarray(solved)


def _check_rank(rows: np.ndarray, names: Sequence[str]) -> None:
    _, triangle, order = scipy.linalg.qr(rows, mode="economic", pivoting=True)
    sizes = np.zeros(rows.shape[1])
    sizes[: len(triangle)] = np.abs(np.diag(triangle))
    redundant = [names[m] for m in np.sort(order[sizes <= 1e-10 * sizes.max()])]
    if redundant:
        raise ValueError(
            f"columns of X are linear functions of others: {', '.join(map(str, redundant[:5]))}"
            f"{' ...' if len(redundant) > 5 else ''}; drop them, or one level of each category"
        )
