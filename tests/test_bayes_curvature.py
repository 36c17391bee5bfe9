"""Curvature of very many classes, steps to a posterior's mean, and rows of a history, by hand."""

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import expit, log_softmax, logsumexp

from bigcat.bayes import GaussianPrior, _expected_softmax, _low_rank_frame, _mode, _own_rows
from bigcat.bayes._design import Design
from bigcat.bayes._laplace_plan import Plan
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import Curvature, Entries
from bigcat.bayes.laplace import LEARNT, _row
from bigcat.noise import Gumbel
from tests.bayesian import four_classes, laplace

RNG = np.random.default_rng(8)
X = RNG.normal(size=(11, 3)) * (RNG.random((11, 3)) < 0.8)
Y = np.array([0, 2, 1, 2, 2, 0, 4, 4, 1, 0, 2])  # the class 3 has no row
S = RNG.uniform(0.5, 2.0, 11)
WEIGHTS = RNG.normal(size=(5, 4))


def likelihood_of(sparse=False):
    rows = scipy.sparse.csr_array(X) if sparse else X
    return Likelihood(Design(rows, True, S), Y, Gumbel(), 5)


def with_ones():
    return np.column_stack([X, np.ones(len(X))])


# From the rows of each class


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("chunk", [4 * 3, 1 << 21])
def test_own_rows_are_counted_and_others_by_their_sum(monkeypatch, sparse, turned, chunk):
    p = RNG.uniform(0.1, 0.9, 11)
    monkeypatch.setattr(_own_rows, "probabilities_of_labels", lambda *given: p)
    monkeypatch.setattr(_own_rows, "MOST_TURNED", 4 if turned else 3)
    monkeypatch.setattr(_own_rows, "CHUNK", chunk)
    prior = np.array([[1.0, 4.0, 0.25, 2.0]])
    rng = np.random.RandomState(0)
    found = _own_rows.curvature_of_own_rows(likelihood_of(sparse), WEIGHTS, prior, rng)
    z = with_ones()
    if turned:
        np.testing.assert_allclose(found.prior, np.ones((1, 4)))
        np.testing.assert_allclose(
            found.basis.T @ np.diag(prior[0]) @ found.basis, np.eye(4), atol=1e-12
        )
        z = z @ found.basis
        total = z.T @ ((S * (1.0 - p**2))[:, None] * z)
        np.testing.assert_allclose(total, np.diag(np.diag(total)), atol=1e-9)
    else:
        assert found.basis.shape == (0, 0)
        assert found.prior is prior
    everywhere = S * (1.0 - p**2)
    mean = everywhere @ z**2 / everywhere.sum()
    for k in range(5):
        own = k == Y
        expected = (S * p * (1.0 - p))[own] @ z[own] ** 2 + (S * (1.0 - p))[own].sum() * mean
        np.testing.assert_allclose(found.spectra[k], expected)
        rows, curvatures = found.entries.of_class(k)
        np.testing.assert_array_equal(rows, np.flatnonzero(own))
        np.testing.assert_allclose(curvatures, (S * p * (1.0 - p))[own])


@pytest.mark.parametrize("sparse", [False, True])
def test_probabilities_with_given_classes(monkeypatch, sparse):
    """The label's score against those of drawn classes, each over how often it is drawn."""
    monkeypatch.setattr(_own_rows, "N_DRAWN", 6)
    monkeypatch.setattr(_own_rows, "ROWS_TOGETHER", 7)
    asked = []
    classes = np.array([0, 1, 3, 3, 2, 4])

    def choice(n, size, p):
        asked.append((n, size))
        np.testing.assert_allclose(p, (np.bincount(Y, S, 5) + 1.0) / (S.sum() + 5.0))
        return classes

    rng: Any = SimpleNamespace(choice=choice)
    found = _own_rows.probabilities_of_labels(likelihood_of(sparse), WEIGHTS, rng)
    assert asked == [(5, 6), (5, 6)]
    scores = with_ones() @ WEIGHTS.T
    shares = (np.bincount(Y, S, 5) + 1.0) / (S.sum() + 5.0)
    for i, label in enumerate(Y):
        others = classes[classes != label]
        rest = logsumexp(scores[i, others] - np.log(6 * shares[others]))
        assert found[i] == pytest.approx(expit(scores[i, label] - rest))


# Spectra and directions


def test_entries_class_after_class():
    one = (np.array([2, 0, 2]), np.array([5, 6, 7]), np.array([0.1, 0.2, 0.3]))
    two = (np.array([0, 1]), np.array([8, 9]), np.array([0.4, 0.5]))
    found = Entries.of([one, two], 4)
    assert found.starts.tolist() == [0, 2, 3, 5, 5]
    assert [part.tolist() for part in found.of_class(0)] == [[6, 8], [0.2, 0.4]]
    assert [part.tolist() for part in found.of_class(2)] == [[5, 7], [0.1, 0.3]]
    assert found.of_class(3)[0].size == 0
    nothing = Entries.none(3)
    assert all(nothing.of_class(k)[0].size == 0 for k in range(3))


def test_the_rows_that_say_most_about_a_class():
    entries = Entries(np.array([0, 3, 3, 5]), np.array([0, 1, 2, 3, 4]),
                      np.array([0.5, 0.1, 0.3, 0.2, 0.4]))  # fmt: skip
    given: Any = (likelihood_of(), np.empty((0, 0)), np.ones((1, 4)), np.zeros((3, 4)), entries)
    found = dict(Curvature(*given)._rows_of_classes(2))
    assert set(found) == {0, 2}  # the class in the middle has none
    z = with_ones()
    np.testing.assert_allclose(
        np.sort(found[0], axis=0), np.sort(z[[0, 2]] * np.sqrt([[0.5], [0.3]]), axis=0)
    )
    np.testing.assert_allclose(found[2], z[[3, 4]] * np.sqrt([[0.2], [0.4]]))
    assert dict(Curvature(*given)._rows_of_classes(0)) == {}


def test_rows_of_classes_come_in_blocks(monkeypatch):
    monkeypatch.setattr(_low_rank_frame, "CHUNK", 8)  # two rows of four columns
    entries = Entries(np.array([0, 1, 2, 3]), np.arange(3), np.ones(3))
    given: Any = (likelihood_of(), np.empty((0, 0)), np.ones((1, 4)), np.zeros((3, 4)), entries)
    gathered: Any = []
    curvature = Curvature(*given)
    kept = Curvature._gathered
    monkeypatch.setattr(
        Curvature, "_gathered", lambda self, some: gathered.append(len(some)) or kept(self, some)
    )
    assert [k for k, _ in curvature._rows_of_classes(5)] == [0, 1, 2]
    assert gathered == [2, 1]


@pytest.mark.parametrize("precision", [1.0, 1e-10])
def test_a_row_that_says_all_of_a_column(precision):
    """What is left of its diagonal is rounding, of which nothing must be divided by nothing."""
    z = np.array([[1e4, 0.0, 0.3], [0.0, 2.0, 1.0]])
    rounded = (np.square(z).sum(axis=0) + precision).astype(np.float32)
    d, own, shrunk = _low_rank_frame._directions(rounded, z, 2)
    assert (d > 0.0).all()
    assert np.isfinite(own).all()
    assert ((shrunk >= 0.0) & (shrunk <= 1.0)).all()
    np.testing.assert_allclose(own @ own.T, np.eye(2), atol=1e-6)


@pytest.mark.parametrize("n_directions", [1, 2, 5])
def test_directions_leave_the_diagonal_as_it_is(n_directions):
    """diag(d)^(1/2) (I + V diag(l) V') diag(d)^(1/2) has the diagonal, and z'z's largest part."""
    z = RNG.normal(size=(3, 6))
    diagonal = np.square(z).sum(axis=0) + RNG.uniform(0.5, 2.0, 6)
    d, own, shrunk = _low_rank_frame._directions(diagonal, z, n_directions)
    kept = min(3, n_directions)
    assert own.shape == (kept, 6)
    np.testing.assert_allclose(own @ own.T, np.eye(kept), atol=1e-9)
    values = shrunk / (1.0 - shrunk)
    matrix = np.sqrt(d)[:, None] * (np.eye(6) + (own.T * values) @ own) * np.sqrt(d)
    np.testing.assert_allclose(np.diag(matrix), diagonal)
    if kept == 3:
        whole = np.diag(diagonal - np.square(z).sum(axis=0)) + z.T @ z
        np.testing.assert_allclose(matrix, whole)


def test_variances_of_scores_under_the_prior():
    prior = np.array([[1.0, 4.0, 0.25, 2.0]])
    for sparse in (False, True):
        likelihood = likelihood_of(sparse)
        given: Any = (likelihood, np.empty((0, 0)), prior, np.zeros((5, 4)), Entries.none(5))
        found = Curvature(*given).prior_variances(likelihood.design)
        np.testing.assert_allclose(found, with_ones() ** 2 @ (1.0 / prior[0]))


# The mode, and the mean


class Identity:
    """A frame in which coordinates are weights."""

    def __init__(self) -> None:
        self.mode = np.zeros((2, 3))

    def to_weights(self, u):
        return u

    def pulled(self, slopes):
        return slopes


def test_steps_to_the_mean_are_short_and_the_last_half_counts():
    frame, rng = Identity(), np.random.RandomState(0)
    seen = []

    def gradients(stack):
        seen.append(stack)
        return None, np.full(stack.shape, 9.0)

    likelihood: Any = SimpleNamespace(gradients=gradients)
    found = _mode.mean_of_gaussian(likelihood, lambda stack: 0.0 * stack, frame, rng)  # type: ignore
    np.testing.assert_allclose(found, np.full((2, 3), (1.5 + 2.0) / 2))  # after 0.5, 1.0
    assert [stack.shape for stack in seen] == [(4, 2, 3)] * 4
    for i, stack in enumerate(seen):  # pairs around what was found so far
        np.testing.assert_allclose(stack[:2] + stack[2:], np.full((2, 2, 3), 2 * 0.5 * i))
    gentle: Any = SimpleNamespace(gradients=lambda stack: (None, np.full(stack.shape, -0.2)))
    found = _mode.mean_of_gaussian(gentle, lambda stack: 0.1 + 0.0 * stack, frame, rng)  # type: ignore
    np.testing.assert_allclose(found, np.full((2, 3), -0.1 * 3.5))


@pytest.mark.parametrize("most_columns", [3, 4])
def test_coordinates_of_the_mode(monkeypatch, most_columns):
    monkeypatch.setattr(_mode, "MOST_COLUMNS", most_columns)
    units = np.array([1.0, 0.5, 2.0, 1.0])
    basis, sizes = _mode._basis(likelihood_of(), units)
    z = with_ones() * units
    gram = z.T @ (S[:, None] * z)
    if most_columns == 3:
        assert basis is None
        np.testing.assert_allclose(sizes, np.diag(gram))
    else:
        assert basis is not None
        np.testing.assert_allclose(basis @ np.diag(sizes) @ basis.T, gram)


@pytest.mark.parametrize("most_columns", [3, 4])
def test_few_gradients_lead_to_the_mode(monkeypatch, most_columns):
    """Slopes vanish there, for precisions and means of every class."""
    monkeypatch.setattr(_mode, "MOST_COLUMNS", most_columns)
    likelihood = likelihood_of()
    precision = RNG.uniform(0.5, 3.0, (5, 4))
    mean = RNG.normal(size=(5, 4))
    found, ended = _mode.find_mode(likelihood, precision, mean, np.zeros((5, 4)), tol=1e-7)
    assert ended
    slopes = likelihood.gradients(found[None])[1][0] - precision * (found - mean)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-4)
    assert likelihood.n_gradients < 60
    before = likelihood.n_gradients
    _mode.find_mode(likelihood, precision, mean, found, tol=1e-5)
    assert likelihood.n_gradients - before <= 3  # where it begins at the mode
    monkeypatch.setattr(_mode, "MOST_ITERATIONS", 2)
    assert not _mode.find_mode(likelihood, precision, mean, np.zeros((5, 4)), tol=1e-7)[1]


# Averages of a softmax


def test_a_class_that_is_hardly_seen_is_in_proportion_to_its_exponential():
    """Far below the others: log p = mean + variance / 2 - log of the mean of 1 / Z."""
    mean = np.array([[0.0, 0.5, -30.0]])
    deviations = np.array([[0.1, 0.2, 1.5]])
    normals = _expected_softmax.spread_normals(400, 3, np.random.default_rng(0))
    found = _expected_softmax.log_expected_softmax(mean, deviations, normals)
    z = np.exp(mean[0, :2] + deviations[0, :2] * normals[:, :2]).sum(axis=1)
    expected = -30.0 + 0.5 * 1.5**2 + np.log(np.mean(1.0 / z))
    assert found[0, 2] == pytest.approx(expected, abs=2e-3)
    assert logsumexp(found) == pytest.approx(0.0, abs=1e-12)


def test_the_logistic_function_of_nearly_certain_scores():
    for mean in (-40.0, -3.0, 0.0, 2.0):
        one = _expected_softmax.log_expected_logistic(np.array([mean]), np.array([1e-9]))
        assert one[0] == pytest.approx(-np.logaddexp(0.0, -mean), rel=1e-9)
    far = _expected_softmax.log_expected_logistic(np.array([-60.0]), np.array([2.0]))
    assert far[0] == pytest.approx(-60.0 + 2.0, abs=1e-9)
    both = _expected_softmax.log_expected_logistic(np.array([1.3, -1.3]), np.array([1.7, 1.7]))
    assert np.exp(both).sum() == pytest.approx(1.0, abs=1e-5)


def test_one_class_per_row_has_the_mean_of_its_draws():
    mean, deviations = RNG.normal(size=(4, 3)), RNG.uniform(0.2, 1.0, (4, 3))
    labels, normals = np.array([0, 2, 1, 0]), RNG.normal(size=(6, 3))
    found = _expected_softmax.log_expected_of(mean, deviations, labels, normals)
    for i, k in enumerate(labels):
        scores = mean[i] + deviations[i] * normals
        away = mean[i, k] - logsumexp(np.delete(scores, k, axis=1), axis=1)
        each = _expected_softmax.log_expected_logistic(away, np.full(6, deviations[i, k]))
        assert found[i] == pytest.approx(logsumexp(each) - np.log(6))


# Histories of the Laplace method


def test_a_row_of_a_history():
    row = _row(3, 0.5, 7)
    assert {name: row[name] for name in ("iteration", "seconds", "gradients")} == {
        "iteration": 3,
        "seconds": 0.5,
        "gradients": 7,
    }
    assert np.isnan([row[name] for name in LEARNT]).all()
    chains = Plan("draws", "class", 4, 10, "", most_every=3)
    assert chains.most_iterations == 128 + 30


def test_batches_add_rows_to_a_history():
    rows, y = four_classes(60)
    began = time.perf_counter()
    options: dict[str, Any] = {"covariance": "class", "prior": GaussianPrior(), "n_threads": 1}
    model = laplace(**options).partial_fit(rows[:30], y[:30], classes=np.unique(y))
    first = model.evidence_
    for start, stop in ((30, 45), (45, 60)):
        before = model.evidence_
        model.partial_fit(rows[start:stop], y[start:stop])
        assert model.evidence_ < before  # more rows to be predicted
    took = time.perf_counter() - began
    history = model.history_
    assert [row["iteration"] for row in history] == [1, 2, 3]
    seconds = [row["seconds"] for row in history]
    assert 0.0 < seconds[0] < seconds[1] < seconds[2] < took
    assert all(row["gradients"] > 0 for row in history)
    assert model.fitted.seen == (60.0, 3)
    assert first < 0.0
    logs = log_softmax(rows @ model.coef_.T + model.intercept_, axis=1)
    assert np.isfinite(logs).all()
