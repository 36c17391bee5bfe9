"""The reference samplers, solvers, training loops and count models."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from reference import bounds, categorical, solvers

EXACT = solvers.over_all_classes(lambda psi_y, psi, weights: bounds.exact(psi_y, psi))
BOUCHARD = solvers.over_all_classes(bounds.bouchard)


def blobs(n_rows, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 2))
    scores = X @ rng.normal(0, 1.5, (2, n_classes)) + rng.gumbel(size=(n_rows, n_classes))
    return X, scores.argmax(axis=1)


# Step rules


def test_adaptive_step_by_hand():
    rule = solvers.AdaptiveStep(2, rho0=0.5)
    np.testing.assert_allclose(rule(np.array([3.0, 0.0])), [0.5 * 3.0 / 4.0, 0.0])
    second = rule(np.array([-1.0, 2.0]))
    s = 0.1 * np.array([1.0, 4.0]) + 0.9 * np.array([9.0, 0.0])
    np.testing.assert_allclose(second, 0.5 / np.sqrt(2) * np.array([-1.0, 2.0]) / (1 + np.sqrt(s)))
    rule(np.zeros(2))
    np.testing.assert_allclose(rule.s, s)  # untouched coordinates remember


def test_adagrad_and_decay_by_hand():
    rule = solvers.AdaGrad(2, rate=0.1)
    np.testing.assert_allclose(rule(np.array([4.0, 0.0])), [0.1, 0.0])
    np.testing.assert_allclose(rule(np.array([3.0, -2.0])), [0.1 * 3.0 / 5.0, -0.1])
    decaying = solvers.DecayingStep(2.0, iterations_per_epoch=2)
    assert [float(decaying(np.ones(1))[0]) for _ in range(4)] == pytest.approx([2.0, 2.0, 1.8, 1.8])


# L-BFGS


def test_exact_softmax_equals_scikit_learn():
    X, y = blobs(80, 4)
    W, b, _ = solvers.lbfgs(EXACT, X, y, 4, l2=0.7)
    peer = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(W, peer.coef_, atol=2e-4)
    np.testing.assert_allclose(b - b.mean(), peer.intercept_ - peer.intercept_.mean(), atol=2e-4)


# No covariates


def test_bouchard_doubles_the_scores_of_two_classes():
    # OVE, Proposition 3.
    counts = np.array([9.0, 4.0])
    scores, _ = categorical.fit_counts(BOUCHARD, counts)
    assert scores[0] - scores[1] == pytest.approx(2 * np.log(9 / 4), abs=1e-6)


# Training
