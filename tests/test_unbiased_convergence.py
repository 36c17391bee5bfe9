"""Limits of methods that sample classes: unbiased ones reach the optimum, others do not.

A ridge problem of 50 classes, small enough for its optimum to be known.  A gap is the part of the
optimal objective that is missing, (best - objective) / |best|, with the objective
sum of log p(y) - l2/2 |W|^2.
"""

import numpy as np
import pytest
from forms import forms, slow
from scipy import optimize
from scipy.special import expit, log_expit, logsumexp

from bigcat import LinearClassifier
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, AdaGrad, Implicit, UMax, Vanilla
from reference import estimators

L2 = 1.0
N_CLASSES, N_NEGATIVES = 50, 5
LIMIT = 1e-3


def problem(n_rows=600, n_features=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) / np.sqrt(n_features)
    scores = 3.0 * X @ rng.normal(size=(n_features, N_CLASSES)) + rng.normal(size=N_CLASSES)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    y[:N_CLASSES] = np.arange(N_CLASSES)
    return X, y


X, Y = problem()
ROWS = np.arange(len(Y))


def objective(coef, intercept):
    W = np.asarray(coef, float)
    scores = X @ W.T + np.asarray(intercept, float)
    log_p = scores[ROWS, Y] - logsumexp(scores, axis=1)
    return log_p.sum() - 0.5 * L2 * np.sum(W**2)


def fitted(method, **options):
    options = {"l2": L2, "random_state": 0, "progress": False, "early_stopping": False} | options
    return LinearClassifier(method=method, **options).fit(X, Y)


@pytest.fixture(scope="module")
def gap():
    """The gap of a model, or of weights and intercepts."""
    best = {}
    for fit_intercept in (False, True):
        options = {"fit_intercept": fit_intercept, "solver": LBFGS(tol=1e-8), "max_epochs": 1000}
        model = fitted("exact", **options)
        best[fit_intercept] = objective(model.coef_, model.intercept_)

    def of(coef, intercept, fit_intercept=True):
        reached = objective(coef, intercept)
        return (best[fit_intercept] - reached) / abs(best[fit_intercept])

    return of


@pytest.mark.parametrize("fit_intercept", [slow(False), True])
@pytest.mark.parametrize(
    ("solver", "batch_size"),
    [
        (Vanilla(0.03, decay=0.997), 1),
        (UMax(0.1, decay=0.997), 1),
        slow(Implicit(0.1, decay=0.997), 1),
        (Implicit(0.2, decay=0.995), 8),
    ],
    ids=["vanilla", "umax", "implicit", "implicit of 8 rows"],
)
def test_unbiased_methods_reach_the_optimum(gap, solver, batch_size, fit_intercept):
    """Five of 49 other classes; with more epochs the gap goes on to fall."""
    epochs = 2000 if batch_size == 1 else 1200
    solver = solver.with_options(batch_size=batch_size)
    options = {"solver": solver, "fit_intercept": fit_intercept}
    model = fitted(solver.name, max_epochs=epochs, sampler=Uniform(N_NEGATIVES), **options)
    reached = gap(model.coef_, model.intercept_, fit_intercept)
    print(f"{solver.name}, batch_size={batch_size}: {reached:.1e}")
    assert -1e-6 < reached < LIMIT / 4.0, f"a gap of {reached:.1e}"


# Objectives of the others, averaged over all draws, as functions of the scores of all rows and
# with their gradients.


def noise_contrastive(scores):
    """Linear in the draws, so that the average is one over all classes."""
    count = (N_CLASSES - 1) / N_NEGATIVES
    delta = scores + np.log(count)
    grads = -expit(delta) / count
    grads[ROWS, Y] += expit(-delta[ROWS, Y])
    return log_expit(-delta).sum() / count + log_expit(delta[ROWS, Y]).sum(), grads


def softmax_over_samples(log_count, n_draws=60):
    """Over the label and the sample: importance sampling (uniform counts cancel, so 0) and
    complementary sampling (the logarithm of the count).  Many draws for each row, always the same,
    instead of all of them."""
    rng = np.random.default_rng(1)
    others = rng.random((len(Y), n_draws, N_CLASSES - 1)).argpartition(N_NEGATIVES, axis=2)
    drawn = others[:, :, :N_NEGATIVES]
    drawn += drawn >= Y[:, None, None]
    flat = (ROWS[:, None, None] * N_CLASSES + drawn).ravel()

    def value(scores):
        psi = scores.ravel()[flat].reshape(drawn.shape) - scores[ROWS, Y][:, None, None]
        terms = np.exp(psi + log_count)
        total = 1.0 + terms.sum(axis=2)
        shares = terms / total[:, :, None] / n_draws
        grads = -np.bincount(flat, shares.ravel(), scores.size).reshape(scores.shape)
        grads[ROWS, Y] -= grads.sum(axis=1)
        return -np.log(total).sum() / n_draws, grads

    return value, drawn


LOG_COUNT = np.log((N_CLASSES - 1) / N_NEGATIVES)
EXPECTED = {
    "nce": noise_contrastive,
    "importance": softmax_over_samples(0.0)[0],
    "complementary": softmax_over_samples(LOG_COUNT)[0],
}


def own_optimum(value, l2):
    features = np.hstack([X, np.ones((len(Y), 1))])
    shape, ridge = (N_CLASSES, features.shape[1]), np.append(np.full(X.shape[1], l2), 0.0)

    def negative(theta):
        W = theta.reshape(shape)
        total, grads = value(features @ W.T)
        gradient = grads.T @ features - ridge * W
        return 0.5 * np.sum(ridge * W**2) - total, -gradient.ravel()

    options = {"maxiter": 1000, "maxfun": 2000, "ftol": 1e-10, "gtol": 1e-4}
    start = np.zeros(np.prod(shape))
    found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    W = found.x.reshape(shape)
    return W[:, :-1], W[:, -1]


def test_what_the_others_maximise_is_what_the_twins_say():
    scores, count = np.random.default_rng(0).normal(size=(len(Y), N_CLASSES)), np.exp(LOG_COUNT)
    others = np.arange(N_CLASSES) != Y[:, None]
    counts = np.full(N_NEGATIVES, count)
    total = 0.0
    for i in ROWS:
        # The sum over all draws of what is linear in them, over their number.
        row = (scores[i, Y[i]], scores[i, others[i]], np.full(N_CLASSES - 1, count), count)
        none = (scores[i, Y[i]], np.empty(0), np.empty(0), count)
        everything, label = (estimators.noise_contrastive(*r).value for r in (row, none))
        total += label + (everything - label) / count
    assert noise_contrastive(scores)[0] == pytest.approx(total, rel=1e-12)
    drawn = softmax_over_samples(0.0, n_draws=2)[1]
    for log_count, twin in [
        (0.0, lambda psi_y, psi: estimators.importance(psi_y, psi, counts, count)),
        (LOG_COUNT, lambda psi_y, psi: estimators.complementary(psi_y, psi, counts)),
    ]:
        found = softmax_over_samples(log_count, n_draws=2)[0](scores)[0]
        values = [twin(scores[i, Y[i]], scores[i, d]).value for i in ROWS for d in drawn[i]]
        assert found == pytest.approx(np.sum(values) / 2.0, rel=1e-12)


@pytest.mark.parametrize("method", forms(EXPECTED, lambda method: method == "complementary"))
def test_estimators_stop_beside_the_optimum(gap, method):
    """More steps do not help: their own optimum is as far off, at any strength of the ridge."""
    model = fitted(
        method, max_epochs=600, solver=AdaGrad(learning_rate=0.3), sampler=Uniform(N_NEGATIVES)
    )
    reached = gap(model.coef_, model.intercept_)
    own = {l2: gap(*own_optimum(EXPECTED[method], l2)) for l2 in (0.2, 0.5, L2, 2.0)}
    message = f"{method}: fit {reached:.4f}, own optimum {own}"
    print(message)
    assert reached > 10.0 * LIMIT, message
    assert reached == pytest.approx(own[L2], rel=0.15), message
    assert min(own.values()) > 5.0 * LIMIT, message


def test_one_vs_each_and_all_of_nce_stop_beside_the_optimum(gap):
    """L-BFGS over all classes: nothing sampled, and nothing left to gain."""
    for method, ridges in [("one-vs-each", (1.0, 5.0, 10.0, 20.0)), ("nce", (0.2, 0.5, 1.0, 2.0))]:
        gaps = {}
        for l2 in ridges:
            model = fitted(method, solver=LBFGS(tol=1e-6), l2=l2, max_epochs=500)
            gaps[l2] = gap(model.coef_, model.intercept_)
        message = f"{method}: {gaps}"
        print(message)
        assert gaps[L2] > 5.0 * LIMIT, message
        assert min(gaps.values()) > 2.0 * LIMIT, message
