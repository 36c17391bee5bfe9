"""The reference estimators: gradients, exact with all classes, bias with some, optimum of NCE."""

from itertools import chain, combinations

import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp

from reference import estimators


def test_values_by_hand():
    psi, weights = np.array([0.5, -1.0]), np.array([2.0, 4.0])
    label, others = 3.0 * np.exp(0.2), weights * np.exp(psi)
    found = estimators.importance(0.2, psi, weights, 3.0).value
    assert found == pytest.approx(np.log(label / (label + others.sum())))
    found = estimators.complementary(0.2, psi, weights).value
    assert found == pytest.approx(-np.log(1 + others.sum() / np.exp(0.2)))
    # e^psi / (e^psi + Q) is the probability of data, Q = 1 / c.
    data, noise = label / (label + 1), 1 / (others + 1)
    found = estimators.noise_contrastive(0.2, psi, weights, 3.0).value
    assert found == pytest.approx(np.log(data) + np.log(1 - data) / 3 + np.log(noise).sum())


@pytest.mark.parametrize(
    "expected_counts",
    [np.full(4, 2 / 3), np.array([0.9, 0.05, 0.4, 0.6])],
    ids=["uniform", "unequal"],
)
def test_noise_contrastive_scores_become_log_probabilities(expected_counts):
    # Every class but the label is noise with probability Q_k, independently: the expectation is
    # a sum over all subsets. The noise has to be the same for every label, so the label's own share
    # counts: without it exp(psi) would not be p.
    p = np.array([0.5, 0.1, 0.3, 0.1])

    def objective(psi):
        value, grads = 0.0, np.zeros(4)
        for y in range(4):
            others = [k for k in range(4) if k != y]
            for some in chain.from_iterable(combinations(others, size) for size in range(4)):
                drawn, Q = list(some), expected_counts
                missed = [k for k in others if k not in drawn]
                probability = p[y] * np.prod(Q[drawn]) * np.prod(1 - Q[missed])
                found = estimators.noise_contrastive(psi[y], psi[drawn], 1 / Q[drawn], 1 / Q[y])
                value += probability * found.value
                grads[y] += probability * found.grad_y
                grads[drawn] += probability * found.grads
        return -value, -grads

    options = {"ftol": 1e-16, "gtol": 1e-10}
    found = optimize.minimize(objective, np.zeros(4), jac=True, method="L-BFGS-B", options=options)
    np.testing.assert_allclose(np.exp(found.x), p, atol=1e-7)
    assert logsumexp(found.x) == pytest.approx(0.0, abs=1e-6)
