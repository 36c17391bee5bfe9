"""Steps on batches of rows (`partial_fit` of binary regressions), by the plainest algebra.

A twin of one class at a time, with matrices, says what means, covariances and the estimate of the
ELBO have to be after each of several steps.
"""

import dataclasses
import time
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit, log_expit, log_ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning

from bigcat.bayes import (
    GaussianPrior,
    IndependentBinary,
)
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import ClassDiagonal, ClassFull, SharedDiagonal, SharedFull
from bigcat.bayes.method import Task
from bigcat.bayes.stochastic import Stream
from bigcat.training.data import TrainingData

N_CLASSES, POWER = 3, 0.7
RNG = np.random.default_rng(0)
MATRIX = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, -0.2], [0.0, -0.2, 0.8]])
PRIORS = {
    "diagonal": GaussianPrior(scale=0.8, intercept_scale=2.0),
    "matrix": GaussianPrior(mean=np.array([0.2, -0.1, 0.3]), precision=MATRIX),
}
BATCHES = [
    (RNG.normal(size=(n, 2)), RNG.integers(0, N_CLASSES, n), RNG.uniform(0.5, 2.0, n))
    for n in (9, 6, 7)
]


def log_phi_slope(t):
    return np.exp(-0.5 * t * t - 0.5 * np.log(2.0 * np.pi) - log_ndtr(t))


class Twin:
    """One class; what `Stream` holds of it."""

    def __init__(self, prior: Any, k: int, link: str, full: bool) -> None:
        state = prior.bind(N_CLASSES, 3, True)
        self.k, self.link, self.full = k, link, full
        self.prior_mean = state.mean
        precision = state.precision(slice(0, 1))
        self.P = precision if state.is_matrix else np.diag(precision[:, 0])
        self.mean = state.mean.copy()
        self.n_steps, self.rows_seen = 0, 0.0
        self.precision: Any = None
        self.surrogate: Any = None
        self.covariance: Any = None

    def step(self, X, y, s, total_rows):
        self.n_steps += 1
        self.rows_seen += s.sum()
        X = np.column_stack([X, np.ones(len(X))])
        rate = self.n_steps**-POWER
        scale = (self.rows_seen if total_rows is None else total_rows) / s.sum()
        own = (y == self.k).astype(float)
        gram = X.T @ (s[:, None] * X)
        if self.n_steps == 1:
            if not self.prior_mean.any():
                share = (s @ own + 0.5) / (s.sum() + 1.0)
                odds = np.log(share) - np.log1p(-share)
                self.mean[-1] = odds if self.link == "logit" else ndtri(share)
            inner = self.P + gram
            self.covariance = np.linalg.inv(inner) if self.full else np.diag(1 / np.diag(inner))
        mean, covariance = self.mean, self.covariance
        eta = X @ mean
        variance = np.einsum("nm,mj,nj->n", X, covariance, X)
        if self.link == "probit":
            sign = 2.0 * own - 1.0
            likelihood = s @ log_ndtr(sign * eta) - 0.5 * s @ variance
            ratio = log_phi_slope(sign * eta)
            slope, weights = s * sign * ratio, s
            curvature = s * ratio * (ratio + sign * eta)
        else:
            c = np.sqrt(eta**2 + variance)
            likelihood = s @ ((own - 0.5) * eta - 0.5 * c + log_expit(c))
            weights = s * (expit(c) - 0.5) / c
            slope = s * (own - 0.5) - weights * eta
            bend = 0.25 / np.cosh(0.5 * c) ** 2 / c - weights / s / c  # slope of omega
            curvature = weights + s * eta**2 / c * bend
        away = mean - self.prior_mean
        entropy = 0.5 * (np.linalg.slogdet(covariance)[1] + 3)
        energy = 0.5 * (np.linalg.slogdet(self.P)[1] - away @ self.P @ away)
        energy -= 0.5 * np.trace(self.P @ covariance)
        gradient = scale * X.T @ slope - self.P @ away
        best = self.P + scale * X.T @ (weights[:, None] * X)
        if not self.full:
            best = np.diag(np.diag(best))
        begin = best if self.link == "probit" else np.zeros((3, 3))
        old = begin if self.precision is None else self.precision
        self.precision = (1.0 - rate) * old + rate * best
        if self.full:
            natural = (1.0 - rate) * old @ mean + rate * (best @ mean + gradient)
            self.mean = np.linalg.solve(self.precision, natural)
        else:
            reach = np.abs(X).T @ (np.abs(X).sum(axis=1) * curvature)
            bound = np.diag(self.P) + scale * reach
            known = bound if self.surrogate is None else self.surrogate
            self.surrogate = (1.0 - rate) * known + rate * bound
            self.mean = mean + rate * gradient / self.surrogate
        self.covariance = np.linalg.inv(self.precision)
        return scale * likelihood + entropy + energy


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("total_rows", [None, 40])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_steps_are_the_twins(link, full, prior, total_rows, sparse):
    bound = PRIORS[prior].bind(N_CLASSES, 3, True)
    stream = Stream(bound, N_CLASSES, link, full, POWER)
    twins = [Twin(PRIORS[prior], k, link, full) for k in range(N_CLASSES)]
    for X, y, s in BATCHES:
        design = Design(scipy.sparse.csr_array(X) if sparse else X, True, s)
        elbo = stream.step(design, y, total_rows)
        expected = sum(twin.step(X, y, s, total_rows) for twin in twins)
        assert elbo == pytest.approx(expected, rel=1e-9)
        assert stream.rows_seen == pytest.approx(twins[0].rows_seen)
        np.testing.assert_allclose(stream.mean, [twin.mean for twin in twins], rtol=1e-8)
        held: Any = stream.covariance
        for k, twin in enumerate(twins):
            array = held.array()
            one = array if link == "probit" else array[k]
            np.testing.assert_allclose(one if full else np.diag(one), twin.covariance, rtol=1e-8)
    kinds = {
        ("probit", True): SharedFull,
        ("probit", False): SharedDiagonal,
        ("logit", True): ClassFull,
        ("logit", False): ClassDiagonal,
    }
    assert type(stream.covariance) is kinds[link, full]
    assert stream.n_steps == 3


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_a_stream_goes_on_from_a_posterior(link, full):
    """As from its own step: the same means and covariances after the next batch."""
    first, *rest = BATCHES
    bound = PRIORS["diagonal"].bind(N_CLASSES, 3, True)
    stream = Stream(bound, N_CLASSES, link, full, POWER)
    stream.step(Design(first[0], True, first[2]), first[1], None)
    other = Stream(bound, N_CLASSES, link, full, POWER)
    assert stream.covariance is not None
    other.resume(stream.mean, stream.covariance, stream.rows_seen, stream.n_steps)
    assert other.mean is not stream.mean
    assert (other.rows_seen, other.n_steps) == (stream.rows_seen, 1)
    resumed: Any = other.precision
    own: Any = stream.precision
    np.testing.assert_allclose(resumed, own, rtol=1e-9)
    if not full:  # the bound of the curvature is the next batch's
        stream.surrogate = None
    for X, y, s in rest:
        for one in (stream, other):
            one.step(Design(X, True, s), y, None)
        np.testing.assert_allclose(other.mean, stream.mean, rtol=1e-7)
    found: Any = other.covariance
    np.testing.assert_allclose(found.array(), stream.covariance.array(), rtol=1e-7)


@pytest.mark.parametrize("full", [True, False])
def test_a_copy_takes_steps_of_its_own(full):
    bound = PRIORS["diagonal"].bind(N_CLASSES, 3, True)
    stream = Stream(bound, N_CLASSES, "logit", full, POWER)
    X, y, s = BATCHES[0]
    stream.step(Design(X, True, s), y, None)
    kept = stream.mean.copy(), stream.precision.copy()  # type: ignore[union-attr]
    copied = stream.copied()
    copied.step(Design(X, True, s), y, None)
    assert (stream.n_steps, copied.n_steps) == (1, 2)
    np.testing.assert_array_equal(stream.mean, kept[0])
    np.testing.assert_array_equal(stream.precision, kept[1])
    assert not np.allclose(copied.mean, stream.mean)


# The method


def task_of(X, y, fit_intercept=True, prior=None) -> Task:
    sample = TrainingData(X, y, np.ones(len(y)))
    prior = prior or GaussianPrior()
    return Task(sample, np.arange(N_CLASSES), prior, fit_intercept, np.random.RandomState(0))


def test_batches_add_rows_to_a_history():
    began = time.perf_counter()
    method, fitted = IndependentBinary(step_power=0.9), None
    for X, y, _ in BATCHES:
        fitted = method.fit_more(task_of(X, y), fitted)
    took = time.perf_counter() - began
    assert fitted is not None
    assert [row["iteration"] for row in fitted.history] == [1, 2, 3]
    seconds = [row["seconds"] for row in fitted.history]
    assert 0.0 < seconds[0] < seconds[1] < seconds[2] < took
    assert fitted.history[-1]["elbo"] == fitted.evidence
    assert fitted.seen == (22.0, 3)
    assert fitted.stream.power == 0.9
    assert fitted.bounds_evidence


def test_what_batches_go_on_from():
    X, y, _ = BATCHES[0]
    fitted = {
        (link, covariance): IndependentBinary(link, covariance=covariance).fit_more(
            task_of(X, y), None
        )
        for link in ("probit", "logit")
        for covariance in ("full", "diagonal")
    }
    for one, last in fitted.items():
        for other in fitted:
            method = IndependentBinary(other[0], covariance=other[1])
            assert method._like(last.posterior) is (one == other)
            if one != other:
                with pytest.raises(ValueError, match="by another method, link, covariance or kin"):
                    method.fit_more(task_of(X, y), last)
    # From a file there is no stream, but the posterior and how much it has seen.
    last = fitted["probit", "full"]
    again = IndependentBinary().fit_more(task_of(X, y), dataclasses.replace(last, stream=None))
    assert again.seen == (18.0, 2)
    through = IndependentBinary().fit_more(task_of(X, y), last)
    np.testing.assert_allclose(again.posterior.mean, through.posterior.mean, rtol=1e-8)
    assert last.stream.n_steps == 1  # a step of its own


def test_iterations_that_end_too_early_are_told():
    X, y, _ = BATCHES[0]
    for solver, remedy in (("newton", "raise max_iter or tol$"), ("cavi", "or take solver='newt")):
        method = IndependentBinary(solver=solver, max_iter=1)
        with pytest.warns(ConvergenceWarning, match=f"after max_iter=1 iterations; .*{remedy}"):
            fitted = method.fit(task_of(X, y))
        assert fitted.seen == (9.0, 1)
        assert len(fitted.history) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IndependentBinary(tol=0.0, max_iter=1).fit(task_of(X, y))
        IndependentBinary(tol=0.5).fit(task_of(X, y))
