"""The reference samplers, solvers, training loops and count models."""

from collections import Counter

import numpy as np
import pytest
import statsmodels.api as sm
from forms import slow
from sklearn.linear_model import LogisticRegression

from reference import bounds, categorical, samplers, solvers, train
from reference.noise import GAUSSIAN, LOGISTIC
from reference.probabilities import log_prob_of

EXACT = solvers.over_all_classes(lambda psi_y, psi, weights: bounds.exact(psi_y, psi))
ONE_VS_EACH = solvers.over_all_classes(bounds.one_vs_each)
BOUCHARD = solvers.over_all_classes(bounds.bouchard)


def augment_reduce_row(psi, y):
    """Softmax augment-reduce with eta at its optimum, so equal to the exact softmax."""

    def bound(psi_y, psi, weights):
        log_eta = bounds.log_eta_estimate(psi_y, psi, weights)
        return bounds.softmax_augment_reduce(psi_y, psi, weights, log_eta)

    return solvers.over_all_classes(bound)(psi, y)


def blobs(n_rows, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 2))
    scores = X @ rng.normal(0, 1.5, (2, n_classes)) + rng.gumbel(size=(n_rows, n_classes))
    return X, scores.argmax(axis=1)


def mean_log_likelihood(W, b, X, y):
    return np.mean([EXACT(W @ x + b, label)[0] for x, label in zip(X, y)])


# Samplers


def test_uniform_sampler():
    rng, counts = np.random.default_rng(1), Counter[int]()
    for _ in range(3000):
        drawn, weights = samplers.uniform(rng, 6, 2, 3)
        assert 2 not in drawn
        assert len(set(drawn)) == 3
        np.testing.assert_array_equal(weights, 5 / 3)
        counts.update(drawn.tolist())
    assert sorted(counts) == [0, 1, 3, 4, 5]
    # Each class is in a draw with probability 3/5: within 4 standard deviations.
    expected, deviation = 3000 * 0.6, np.sqrt(3000 * 0.6 * 0.4)
    assert all(abs(count - expected) < 4 * deviation for count in counts.values())


# Step rules


def test_adaptive_step_by_hand():
    rule = solvers.AdaptiveStep(2, rho0=0.5)
    np.testing.assert_allclose(rule(np.array([3.0, 0.0])), [0.5 * 3.0 / 4.0, 0.0])
    second = rule(np.array([-1.0, 2.0]))
    s = 0.1 * np.array([1.0, 4.0]) + 0.9 * np.array([9.0, 0.0])
    np.testing.assert_allclose(second, 0.5 / np.sqrt(2) * np.array([-1.0, 2.0]) / (1 + np.sqrt(s)))
    rule(np.zeros(2))
    np.testing.assert_allclose(rule.s, s)  # untouched coordinates remember


def test_adaptive_step_when_a_coordinate_comes_late():
    rule = solvers.AdaptiveStep(1, rho0=1.0, first="coordinate")
    rule(np.zeros(1))
    assert rule(np.array([2.0]))[0] == pytest.approx(2.0 / (1.0 + 2.0) / np.sqrt(2))


def test_adaptive_step_decays_every_2000_iterations():
    rule = solvers.AdaptiveStep(1)
    rule.t, rule.s[:] = 1999, 1.0
    assert rule(np.ones(1))[0] == pytest.approx(0.02 * 0.9 * 2000**-0.5 / 2.0)


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


@pytest.mark.slow
def test_two_class_probit_equals_statsmodels():
    # The difference of two standard Gaussians has the standard deviation sqrt(2).
    X, y = blobs(120, 2)
    W, b, value = solvers.lbfgs(lambda psi, y: log_prob_of(GAUSSIAN, psi, y), X, y, 2)
    peer = sm.Probit(y, sm.add_constant(X)).fit(disp=0)
    found = np.append(b[1] - b[0], W[1] - W[0]) / np.sqrt(2)
    np.testing.assert_allclose(found, peer.params, atol=1e-4)
    assert value == pytest.approx(peer.llf, abs=1e-7)


def test_bounds_are_ordered_on_data_and_augment_reduce_is_exact():
    X, y = blobs(60, 4, seed=2)
    rows = {"exact": EXACT, "ar": augment_reduce_row, "ove": ONE_VS_EACH, "bouchard": BOUCHARD}
    value = {name: solvers.lbfgs(row, X, y, 4, l2=1.0)[2] for name, row in rows.items()}
    assert value["ar"] == pytest.approx(value["exact"], abs=1e-6)
    assert value["ove"] < value["exact"] - 0.1
    assert value["bouchard"] < value["exact"] - 0.1


# No covariates


COUNTS = np.array([40.0, 7.0, 19.0, 3.0, 11.0])


@pytest.mark.parametrize("row", [EXACT, ONE_VS_EACH, augment_reduce_row])
def test_counts_are_recovered(row):
    # OVE, equation 8 and Proposition 2.
    scores, _ = categorical.fit_counts(row, COUNTS)
    np.testing.assert_allclose(scores, np.log(COUNTS) - np.log(COUNTS).mean(), atol=1e-6)


def test_bouchard_doubles_the_scores_of_two_classes():
    # OVE, Proposition 3.
    counts = np.array([9.0, 4.0])
    scores, _ = categorical.fit_counts(BOUCHARD, counts)
    assert scores[0] - scores[1] == pytest.approx(2 * np.log(9 / 4), abs=1e-6)


def test_bouchard_exaggerates_with_more_classes():
    scores, _ = categorical.fit_counts(BOUCHARD, COUNTS)
    assert scores[0] - scores[3] > np.log(40 / 3) + 0.3


def test_probit_recovers_the_frequencies():
    scores, value = categorical.fit_counts(lambda psi, y: log_prob_of(GAUSSIAN, psi, y), COUNTS[:3])
    frequencies = COUNTS[:3] / COUNTS[:3].sum()
    found = np.exp([log_prob_of(GAUSSIAN, scores, k)[0] for k in range(3)])
    np.testing.assert_allclose(found, frequencies, atol=1e-6)
    assert value == pytest.approx(categorical.log_likelihood(frequencies, COUNTS[:3]))


def test_one_vs_each_bound_of_counts():
    scores, value = categorical.fit_counts(ONE_VS_EACH, COUNTS)
    assert categorical.one_vs_each_bound(scores, COUNTS) == pytest.approx(value)
    assert value < categorical.log_likelihood(COUNTS / COUNTS.sum(), COUNTS)


# Training


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (train.OneVsEach, 0.05),
        slow(lambda: train.SoftmaxAugmentReduce(120), 0.05),
    ],
    ids=["one-vs-each", "algorithm 1"],
)
def test_softmax_training_comes_near_the_optimum(make, tolerance):
    X, y = blobs(120, 5, seed=3)
    best = solvers.lbfgs(EXACT, X, y, 5, l2=1e-3)[:2]
    W, b, history = train.train(
        make(),
        X,
        y,
        5,
        n_negatives=2,
        batch_size=12,
        n_epochs=25,
        rng=np.random.default_rng(6),
        make_step=lambda shape: solvers.AdaGrad(shape, 0.5),
    )
    reached = mean_log_likelihood(W, b, X, y)
    assert mean_log_likelihood(best[0], best[1], X, y) - reached < tolerance
    assert history[-1] > history[0]


@pytest.mark.parametrize("noise", [GAUSSIAN, LOGISTIC], ids=lambda noise: noise.name)
@pytest.mark.parametrize(("n_nodes", "natural"), [(None, False), (5, False), (8, True)])
@pytest.mark.slow
def test_algorithm_2_improves_the_likelihood(noise, n_nodes, natural):
    X, y = blobs(60, 4, seed=4)
    method = train.AugmentReduce(noise, 60, n_nodes=n_nodes, natural=natural)
    W, b, _ = train.train(
        method,
        X,
        y,
        4,
        n_negatives=2,
        batch_size=10,
        n_epochs=15,
        rng=np.random.default_rng(7),
        make_step=lambda shape: solvers.AdaGrad(shape, 0.5),
    )
    reached = np.mean([log_prob_of(noise, W @ x + b, label)[0] for x, label in zip(X, y)])
    assert reached > -np.log(4) + 0.3


@pytest.mark.slow
def test_the_papers_step_sequence_on_counts():
    # No covariates: X has no columns, the biases learn log frequencies (A&R, section 4.1).
    y = np.repeat(np.arange(5), COUNTS.astype(int))
    _, b, _ = train.train(
        train.SoftmaxAugmentReduce(y.size),
        np.empty((y.size, 0)),
        y,
        5,
        n_negatives=2,
        batch_size=20,
        n_epochs=100,
        rng=np.random.default_rng(8),
        make_step=lambda shape: solvers.AdaptiveStep(shape, rho0=1.0),
    )
    found = np.exp(b) / np.exp(b).sum()
    np.testing.assert_allclose(found, COUNTS / COUNTS.sum(), atol=0.03)


def test_same_seed_same_result():
    X, y = blobs(30, 3)
    runs = [
        train.train(
            train.OneVsEach(),
            X,
            y,
            3,
            n_negatives=1,
            batch_size=7,
            n_epochs=2,
            rng=np.random.default_rng(9),
        )
        for _ in range(2)
    ]
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
