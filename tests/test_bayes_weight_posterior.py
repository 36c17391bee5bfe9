"""The Gaussian posterior over the weights: its twin, unbiasedness, exact answers, the optimum."""

import copy
import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import softmax

import reference.noise
import reference.weight_posterior as twin
from bigcat import EarlyStopping
from bigcat.bayes.augment_reduce import passes as module
from bigcat.bayes.augment_reduce.passes import fit_weight_posterior
from bigcat.bounds import AugmentReduce
from bigcat.combinations import Parts
from bigcat.noise import Gaussian, Gumbel
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows
from bigcat.samplers import Uniform
from bigcat.samplers._base import sample_many
from bigcat.solvers import SGD, AdaGrad
from bigcat.training.snapshot import Place
from bigcat.verbs import expected_step

N_NODES = 8


def data(n_rows=150, n_features=3, n_classes=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=(n_features, n_classes)) + rng.normal(size=n_classes)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def with_ones(X):
    return np.column_stack([X, np.ones(len(X))])


def problem(X, y, n_classes, fit_intercept=True, row_weights=None):
    weights = np.ones(len(y)) if row_weights is None else row_weights
    rows = as_rows(X, X.dtype)
    return Problem(rows, y.astype(np.int64), weights, X.shape[1], n_classes, 0.0, fit_intercept)


def parts(n_negatives=3, noise=None, solver=None, **bound):
    solver = solver or AdaGrad(learning_rate=0.3)
    return Parts(noise or Gumbel(), AugmentReduce(**bound), Uniform(n_negatives), solver)


def together(posterior) -> tuple[np.ndarray, np.ndarray]:
    """Means and scales with the intercept as the last feature."""
    return (
        np.column_stack([posterior.mean, posterior.intercept_mean]),
        np.column_stack([posterior.scale, posterior.intercept_scale]),
    )


# One row


def row(seed=0, n=6):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n + 1), rng.gamma(1.0, size=n + 1), rng.uniform(1.0, 3.0, size=n + 1)


def library_row(tag, local, m, v, counts, progress=0.0):
    n = len(m) - 1
    grads, curvatures, local = np.empty(n + 1), np.empty(n + 1), np.array(local, dtype=float)
    rng = np.zeros(1, np.uint64)
    value = expected_step(
        tag, rng, local, progress, m, v, counts, n, 0, np.empty(n + 1), grads, curvatures
    )
    return value, grads, curvatures, local


def tag_of(noise):
    return module.bound_tag(parts(noise=noise, n_nodes=N_NODES))


def twin_row(pair, local, m, v, counts, n_nodes=N_NODES):
    scores = m[-1], v[-1], m[:-1], v[:-1], counts[:-1]
    if pair.name == "gumbel":
        return twin.softmax(*scores, local[0])
    return twin.gaussian_q(pair.twin, *scores, local[0], local[1], n_nodes)


def test_row_equals_its_twin(pair):
    m, v, counts = row()
    value, grads, curvatures, local = library_row(tag_of(pair.noise), [1.2, 0.7], m, v, counts)
    expected = twin_row(pair, [1.2, 0.7], m, v, counts)
    np.testing.assert_allclose(value, expected.value, rtol=1e-9)
    np.testing.assert_allclose(grads, expected.grads, rtol=1e-9)
    np.testing.assert_allclose(curvatures, expected.curvatures, rtol=1e-7, atol=1e-12)
    assert local.tolist() == [1.2, 0.7]


def test_slopes_and_curvatures_are_derivatives(pair):
    m, v, counts = row(seed=1)

    def value(m, v):
        return twin_row(pair, [1.2, 0.7], m, v, counts, n_nodes=60).value

    found = twin_row(pair, [1.2, 0.7], m, v, counts, n_nodes=60)
    for c, unit in enumerate(1e-5 * np.eye(len(m))):
        grad = (value(m + unit, v) - value(m - unit, v)) / 2e-5
        curvature = -2.0 * (value(m, v + unit) - value(m, v - unit)) / 2e-5
        assert found.grads[c] == pytest.approx(grad, rel=1e-5)
        assert found.curvatures[c] == pytest.approx(curvature, rel=1e-3)


def test_expectation_is_the_average_over_drawn_scores(pair):
    m, v, counts = row(seed=2, n=3)
    local = [0.8, 0.6]
    psi = m + np.sqrt(v) * np.random.default_rng(0).standard_normal((40_000, 4))
    values = [twin_row(pair, local, p, 0.0 * v, counts, n_nodes=20).value for p in psi[:1500]]
    if pair.name == "gumbel":
        d = psi[:, :-1] - psi[:, -1:] - local[0]
        values = 1.0 - local[0] - np.exp(-local[0]) - np.exp(d) @ counts[:-1]
    expected = twin_row(pair, local, m, v, counts, n_nodes=60).value
    error = np.std(values) / math.sqrt(len(values))
    assert abs(np.mean(values) - expected) < 4.0 * error  # false alarms: 6e-5 a noise


def test_sampled_classes_are_unbiased(pair):
    """Every subset of the other classes, at fixed local parameters."""
    m, v, _ = row(seed=3, n=5)
    tag, ones = tag_of(pair.noise), np.ones(6)
    value, grads, curvatures, _ = library_row(tag, [1.0, 0.5], m, v, ones)
    means = np.zeros((3, 6))
    subsets = list(itertools.combinations(range(5), 2))
    for subset in subsets:
        chosen = [*subset, 5]
        got = library_row(tag, [1.0, 0.5], m[chosen], v[chosen], np.full(3, 5 / 2))
        means[0] += got[0] / len(subsets)
        means[1, chosen] += got[1] / len(subsets)
        means[2, chosen] += got[2] / len(subsets)
    np.testing.assert_allclose(means[0], value, rtol=1e-12)
    np.testing.assert_allclose(means[1], grads, rtol=1e-12)
    np.testing.assert_allclose(means[2], curvatures, rtol=1e-10, atol=1e-14)


def test_local_steps_lead_to_the_best_local_parameters(pair):
    m, v, counts = row(seed=4)
    tag, local = tag_of(pair.noise), np.array([1.0, 0.5])
    best = -math.inf
    for _ in range(300):
        value, _, _, local = library_row(tag, local, m, v, counts, progress=0.3)
        best = max(best, value)
    for shift in ([1e-2, 0.0], [-1e-2, 0.0], [0.0, 1e-2], [0.0, -1e-2]):
        assert library_row(tag, local + shift, m, v, counts)[0] <= best + 1e-9
    if pair.name == "gumbel":
        log_eta = twin.softmax_log_eta(m[-1], v[-1], m[:-1], v[:-1], counts[:-1])
        np.testing.assert_allclose(local[0], log_eta, rtol=1e-10)


@pytest.mark.parametrize("spread", [1e3, 1e9])
def test_extreme_scores_stay_finite(pair, spread):
    m, v, counts = row(seed=5)
    for signs in (spread, -spread):
        for variance in (0.0 * v, v, min(spread, 1e6) * v):
            got = library_row(tag_of(pair.noise), [1.0, 0.5], signs * m, variance, counts, 0.5)
            assert all(np.all(np.isfinite(piece)) for piece in got)


# The twin's own ELBO


def test_gradients_of_the_elbo_are_derivatives():
    X, y = data(n_rows=12, n_features=2, n_classes=4)
    rng = np.random.default_rng(0)
    mean, log_scale, prior = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), np.full((4, 2), 0.7)
    _, *gradients = twin.softmax_elbo(mean, np.exp(log_scale), X, y, prior)
    for which, gradient in enumerate(gradients):
        for place in np.ndindex(4, 2):
            values = []
            for sign in (1.0, -1.0):
                moved = [mean.copy(), log_scale.copy()]
                moved[which][place] += sign * 1e-6
                values.append(twin.softmax_elbo(moved[0], np.exp(moved[1]), X, y, prior)[0])
            assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_elbo_is_below_the_log_marginal_likelihood():
    X, y = np.array([[-1.0], [0.3], [0.8], [1.5], [-0.4]]), np.array([0, 1, 2, 2, 0])
    elbo = twin.fit_softmax(X, y, 3, 1.0)[2]
    exact = twin.log_marginal_likelihood(X, y, 3, 1.0, np.random.default_rng(0))
    assert elbo < exact < elbo + 0.5
    q = fit_weight_posterior(
        problem(X, y, 3, fit_intercept=False), parts(n_negatives=2), max_epochs=400
    )
    fitted = twin.softmax_elbo(q.mean, q.scale, X, y, np.ones((3, 1)))[0]
    assert elbo - 0.01 * abs(elbo) < fitted <= elbo + 1e-9


# Training


@pytest.mark.parametrize("sparse", [False, True])
def test_training_equals_its_twin(sparse):
    """The twin applies the KL to all coordinates after every row; the library when it must."""
    X, y = data(n_rows=25, n_features=4, n_classes=7)
    if sparse:
        X[np.random.default_rng(1).uniform(size=X.shape) < 0.5] = 0.0
    p, chosen = problem(scipy.sparse.csr_array(X) if sparse else X, y, 7), parts(n_negatives=2)
    start = module.Start(p, chosen, 0.8, 2.0)
    w, b = start.weights, start.intercepts
    shape = (4, 7) if sparse else (7, 4)
    pieces = [a.reshape(shape).T if sparse else a.reshape(shape) for a in (w.mean, w.information)]
    begin = [np.column_stack([a, c]) for a, c in zip(pieces, (b.mean, b.information))]
    state = new_state(np.random.RandomState(0))

    def draws():
        for i, label in itertools.cycle(enumerate(y)):
            classes, counts = np.empty((1, 2), np.int64), np.empty((1, 3))
            sample_many.plain(chosen.sampler.lower(p), state, p.rows, i, label, classes, counts)
            yield classes[0], counts[0, :2]

    prior = np.broadcast_to([0.8] * 4 + [2.0], (7, 5))
    mean, scale, values = twin.train_softmax(
        with_ones(X), y, 7, prior, draws(), (*begin, start.local[:, 0]), rate=0.3, n_epochs=3
    )
    q = fit_weight_posterior(
        p, chosen, prior_scale=0.8, intercept_scale=2.0, max_epochs=3, shuffle=False
    )
    np.testing.assert_allclose([r["expected_bound"] for r in q.history], values / 25, rtol=1e-8)
    np.testing.assert_allclose(together(q)[0], mean, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(together(q)[1], scale, rtol=1e-8)
    assert q.history[-1]["kl"] == pytest.approx(twin.kl(mean, scale, prior) / 25)


@pytest.mark.parametrize("sparse", [False, True])
def test_softmax_reaches_the_optimum(sparse):
    X, y = data()
    X = np.round(X, 1)
    _, scale, best = twin.fit_softmax(with_ones(X), y, 6, 1.0)
    p = problem(scipy.sparse.csr_array(X) if sparse else X, y, 6)
    q = fit_weight_posterior(p, parts(), intercept_scale=1.0, max_epochs=150)
    found = twin.softmax_elbo(*together(q), with_ones(X), y, np.ones((6, 4)))[0]
    assert best - 0.01 * abs(best) < found <= best + 1e-9
    np.testing.assert_allclose(together(q)[1], scale, rtol=0.1)
    recent = np.mean([r["elbo"] for r in q.history[-20:]])
    assert recent == pytest.approx(best / len(y), rel=0.03)


def test_weighted_rows_are_rows_that_appear_more_often():
    X, y = data(n_rows=80)
    times = np.random.default_rng(0).integers(1, 4, size=80)
    X_often, y_often = np.repeat(X, times, axis=0), np.repeat(y, times)
    best = twin.fit_softmax(with_ones(X_often), y_often, 6, 1.0)[2]
    p = problem(X, y, 6, row_weights=times.astype(float))
    q = fit_weight_posterior(p, parts(), intercept_scale=1.0, max_epochs=200)
    found = twin.softmax_elbo(*together(q), with_ones(X_often), y_often, np.ones((6, 4)))[0]
    assert best - 0.01 * abs(best) < found <= best + 1e-9


def test_other_noise_reaches_the_optimum():
    X, y = data(n_rows=60)
    mean, scale, _ = twin.fit_gaussian_q(reference.noise.GAUSSIAN, with_ones(X), y, 6, 1.0)
    p = problem(X, y, 6)
    q = fit_weight_posterior(
        p, parts(n_negatives=5, noise=Gaussian()), intercept_scale=1.0, max_epochs=300
    )
    np.testing.assert_allclose(together(q)[1], scale, rtol=0.02)
    np.testing.assert_allclose(together(q)[0], mean, atol=0.1)


def test_without_data_the_posterior_is_the_prior():
    X, y = data(n_rows=40)
    X = scipy.sparse.csr_array(np.column_stack([X, np.zeros(40)]))  # a feature never seen
    p = problem(X, y, 8)
    q = fit_weight_posterior(p, parts(), prior_scale=0.7, intercept_scale=5.0, max_epochs=30)
    assert np.all(q.mean[:, 3] == 0.0)
    np.testing.assert_allclose(q.scale[:, 3], 0.7, rtol=1e-12)
    # A class without rows is known not to be the others: a little information.
    without = np.bincount(y, minlength=8) == 0
    assert without.sum() >= 2
    assert np.all(q.scale[without] > 0.9 * 0.7)
    assert np.all(q.scale[~without, :3] < 0.9 * 0.7)
    assert np.all(q.scale <= 0.7)


def test_with_much_data_the_posterior_is_the_complete_data_information():
    """Twice the Fisher information for the softmax: q(e) and q(w) are independent.

    A row's bound has curvature p_k for another class and 1 - p_y for the label, the softmax
    itself p_k (1 - p_k); the former's expectation over the label is twice the latter.
    """
    X, y = data(n_rows=4000, n_features=2, n_classes=4)
    q = fit_weight_posterior(problem(X, y, 4), parts(), intercept_scale=1.0, max_epochs=30)
    p = softmax(X @ q.mean.T + q.intercept_mean, axis=1)
    label = np.eye(4)[y]
    complete = 1.0 + ((1 - label) * p + label * (1 - p)).T @ X**2
    fisher = 1.0 + (p * (1 - p)).T @ X**2
    np.testing.assert_allclose(q.scale, complete**-0.5, rtol=0.03)
    np.testing.assert_allclose(q.scale**2 * fisher, 0.5, rtol=0.1)


def test_large_features_stay_finite():
    X, y = data(n_rows=60)
    q = fit_weight_posterior(problem(1e3 * X, y, 6), parts(), prior_scale=10.0, max_epochs=3)
    assert np.all(np.isfinite(together(q)))
    assert all(np.isfinite(r["elbo"]) for r in q.history)


@pytest.mark.parametrize(
    "solver",
    [
        AdaGrad(learning_rate=0.3),
        pytest.param(SGD(learning_rate=0.1), marks=pytest.mark.slow),  # one without memory
    ],
    ids=str,
)
def test_a_rule_stops(solver):
    X, y = data()
    stop = EarlyStopping(validation_fraction=None, patience=2, tol=1e3)
    q = fit_weight_posterior(problem(X, y, 6), parts(solver=solver), max_epochs=9, stop=stop)
    assert len(q.history) == 4
    seen = q.history["elbo"].tolist()
    assert seen[-1] > seen[0]
    assert q.elbo == pytest.approx(len(y) * seen[-1])


def test_the_best_epoch_is_kept():
    """With validation scores that are best in the third of six epochs."""
    X, y = data()
    seen = []

    def validation_score(mean, intercept):
        seen.append((mean.copy(), intercept.copy()))
        return -abs(len(seen) - 3.0)

    q = fit_weight_posterior(
        problem(X, y, 6), parts(), max_epochs=6, validation_score=validation_score
    )
    assert q.history["validation_log_likelihood"].tolist() == [-2, -1, 0, -1, -2, -3]
    np.testing.assert_array_equal(q.mean, seen[2][0])
    np.testing.assert_array_equal(q.intercept_mean, seen[2][1])
    assert q.elbo == pytest.approx(len(y) * q.history["elbo"][2])
    # The epochs before it are those of a fit that ends there.
    short = fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=3)
    np.testing.assert_array_equal(short.scale, q.scale)


def test_history_has_its_columns_and_pieces_do_not_change_a_bit(monkeypatch):
    X, y = data(n_rows=40)
    whole = fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=2)
    assert list(whole.history[0]) == [
        *("epoch", "seconds", "compile_seconds", "elbo", "expected_bound", "kl"),
        "validation_log_likelihood",
    ]
    assert (np.diff(whole.history["seconds"]) > 0.0).all()
    monkeypatch.setattr(module, "CHUNK_COORDINATES", 7 * 3 * 4)  # seven rows at a time
    pieces = fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=2)
    np.testing.assert_array_equal(pieces.mean, whole.mean)
    np.testing.assert_allclose(pieces.history["elbo"], whole.history["elbo"], rtol=1e-12)


def test_same_seed_same_bits():
    X, y = data()

    def fit(seed):
        state = np.random.RandomState(seed)
        return fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=2, random_state=state)

    np.testing.assert_array_equal(fit(3).scale, fit(3).scale)
    assert np.any(fit(3).scale != fit(4).scale)


# Interrupted fits, and pieces of passes


class Cut(Exception):
    """End of a process, as a fit sees it."""


class Notebook:
    """Keeps the state of a fit after so many calls, ends it, and lets another go on."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.kept: Any = None

    def begin(self, process, listener, n_epochs):
        process.remembers = True
        self.process, self.listener = process, listener
        if self.kept is None:
            return Place()
        place, of_process, of_listener = self.kept
        process.restore(of_process, place, n_epochs)
        listener.restore(of_listener)
        return place

    def chunk_done(self, place):
        self.cut -= 1
        if self.cut == 0:
            now = place, self.process.snapshot(ended=False), self.listener.snapshot()
            self.kept = copy.deepcopy(now)
            raise Cut

    def end(self, place):
        pass


@pytest.mark.parametrize("cut", [1, 6, 20], ids=["first chunk", "whole epoch", "after the best"])
def test_an_interrupted_fit_goes_on_with_the_same_bits(monkeypatch, cut):
    """Six epochs of six calls, the second being the best; the validation state resumes as well."""
    X, y = data(n_rows=40)
    monkeypatch.setattr(module, "CHUNK_COORDINATES", 7 * 3 * 4)  # seven rows at a time

    def fit(scores, **options):
        return fit_weight_posterior(
            problem(X, y, 6),
            parts(),
            intercept_scale=2.0,
            learns_scales=True,
            max_epochs=6,
            validation_score=lambda mean, intercept: next(scores),
            **options,
        )

    scores = [-3.0, -1.0, -2.0, -2.0, -4.0, -5.0]
    never, notebook, rest = fit(iter(scores)), Notebook(cut), iter(scores)
    with pytest.raises(Cut):
        fit(rest, checkpointer=notebook)
    resumed = fit(rest, checkpointer=notebook)
    for name in ("mean", "scale", "intercept_mean", "intercept_scale"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(never, name))
    assert resumed.prior_scale == never.prior_scale
    assert resumed.prior_intercept_scale == never.prior_intercept_scale
    assert resumed.elbo == never.elbo
    for column in ("epoch", "elbo", "expected_bound", "kl", "validation_log_likelihood"):
        np.testing.assert_array_equal(resumed.history[column], never.history[column])


def test_a_fit_is_silent_unless_asked(capfd):
    X, y = data(n_rows=40)
    fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=1)
    assert capfd.readouterr() == ("", "")
    fit_weight_posterior(problem(X, y, 6), parts(), max_epochs=1, progress=True)
    assert capfd.readouterr().err
