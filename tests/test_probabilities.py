"""Class probabilities: they add up to one, and equal closed forms and the plain-NumPy twin."""

import numpy as np
import pytest
from scipy.special import log_expit, log_ndtr, log_softmax
from sklearn.metrics import log_loss

from bigcat.noise import Gumbel, Logistic, resolve
from bigcat.probabilities import (
    log_probabilities,
    log_probabilities_of,
    max_scale,
)
from reference import probabilities as twin

SCORES = np.array(
    [
        [0.3, -1.2, 2.1, 0.9, -0.4],
        [4.0, 3.5, -6.0, 0.0, 1.0],
        [-0.1, 0.0, 0.1, 0.25, 7.0],
    ]
)


@pytest.fixture(scope="module")
def many():
    """Three rows of 10,000 scores: spread, concentrated, one far ahead."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 10_000)) * np.array([[2.0], [0.01], [1.0]])
    scores[2, 77] = 25.0
    return scores


def test_ten_thousand_classes_add_up_to_one(pair, many):
    log_p = log_probabilities(pair.noise, many)
    assert log_p.shape == many.shape
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=0, atol=1e-9)
    # No normalisation hides an error: a class computed alone agrees.
    labels = np.array([5, 123, 77])
    alone = log_probabilities_of(pair.noise, many, labels)
    np.testing.assert_allclose(alone, log_p[np.arange(3), labels], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_no_probability_is_above_one(pair, n_classes):
    """Not by a rounding error either: scikit-learn's log_loss refuses 1 + 2e-16."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, n_classes)) * rng.choice([0.1, 1.0, 5.0, 30.0], size=(300, 1))
    log_p = log_probabilities(pair.noise, scores)
    best = scores.argmax(axis=1)
    assert log_p.max() <= 0.0
    assert log_probabilities_of(pair.noise, scores, best).max() <= 0.0
    assert log_loss(best, np.exp(log_p), labels=np.arange(n_classes)) > 0.0
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, rtol=0, atol=1e-15)


def test_agrees_with_the_twin(pair):
    log_p = log_probabilities(pair.noise, SCORES)
    for i, psi in enumerate(SCORES):
        expected = twin.class_log_probabilities(pair.twin, psi)
        np.testing.assert_allclose(log_p[i], expected, rtol=0, atol=1e-10)
        for k in range(psi.size):
            alone = log_probabilities_of(pair.noise, SCORES[[i]], [k])[0]
            assert alone == pytest.approx(twin.log_prob_of(pair.twin, psi, k)[0], abs=1e-11)


def two_class_logistic(d):
    """P(e_1 - e_0 <= d) for logistic noise: x (x - 1 - log x) / (x - 1)^2 with x = exp(d)."""
    x = np.exp(d)
    return d + np.log(x - 1.0 - d) - 2.0 * np.log(np.abs(x - 1.0))


TWO_CLASSES = {  # log P(e_1 - e_0 <= d)
    "gumbel": log_expit,
    "gaussian": lambda d: log_ndtr(d / np.sqrt(2.0)),
    "logistic": two_class_logistic,
}


@pytest.mark.parametrize("d", [-700.0, -60.0, -9.0, -1.3, 0.4, 3.0])
def test_two_classes_in_closed_form(pair, d):
    scores = np.array([[1.0, 1.0 + d]])
    log_p = log_probabilities(pair.noise, scores)[0]
    if pair.name in TWO_CLASSES:
        expected = TWO_CLASSES[pair.name](d)
        assert log_p[1] == pytest.approx(expected, rel=1e-11)
        assert log_probabilities_of(pair.noise, scores, [1])[0] == pytest.approx(
            expected, rel=1e-11
        )
    else:  # no closed form: the two must add up, and swap with the sign
        swapped = log_probabilities(pair.noise, -scores)[0]
        np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, atol=1e-9)
        np.testing.assert_allclose(np.exp(swapped[::-1]), np.exp(log_p), atol=1e-9)


def test_gumbel_is_the_softmax(many):
    expected = log_softmax(many, axis=1)
    np.testing.assert_allclose(log_probabilities(Gumbel(), many), expected, rtol=1e-13, atol=1e-12)
    labels = np.array([9_999, 0, 78])
    found = log_probabilities_of(Gumbel(), many, labels)
    np.testing.assert_allclose(found, expected[np.arange(3), labels], rtol=1e-13)
    small = log_probabilities(Gumbel(), SCORES.astype(np.float32))
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, log_softmax(SCORES, axis=1), rtol=0, atol=2e-6)


@pytest.mark.parametrize("gap", [5.0, 20.0, 38.0, 45.0])
def test_unlikely_classes_keep_their_relative_accuracy(quadrature_pair, gap):
    """Far below what the shared nodes can see: 38 Gaussian gaps are 1e-157, 45 are 1e-220."""
    psi = np.array([0.0, -gap, 0.6, -0.5 * gap])
    log_p = log_probabilities(quadrature_pair.noise, psi[None])[0]
    # Two peaks of a heavy-tailed noise share the nodes: some digits fewer.
    tolerance = 1e-6 if quadrature_pair.name == "student-t" else 1e-10
    for k in range(psi.size):
        expected = twin.log_prob_of(quadrature_pair.twin, psi, k)[0]
        assert log_p[k] == pytest.approx(expected, rel=tolerance)


def test_shift_and_permutation(pair):
    log_p = log_probabilities(pair.noise, SCORES)
    for shift in (-1e3, 37.5):
        moved = log_probabilities(pair.noise, SCORES + shift)
        np.testing.assert_allclose(moved, log_p, rtol=1e-9, atol=1e-11)
        labels = np.array([3, 2, 0])
        np.testing.assert_allclose(
            log_probabilities_of(pair.noise, SCORES + shift, labels),
            log_p[np.arange(3), labels],
            rtol=1e-9,
        )
    order = [3, 0, 4, 1, 2]
    permuted = log_probabilities(pair.noise, SCORES[:, order])
    np.testing.assert_allclose(permuted, log_p[:, order], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("size", [1e3, 1e9])
def test_extreme_scores_stay_finite(pair, size):
    scores = size * np.array([[1.0, -1.0, 0.0, 0.5], [1.0, 1.0, -1.0, -1.0]])
    log_p = log_probabilities(pair.noise, scores)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_allclose(np.exp(log_p[1, :2]), 0.5, atol=1e-9)
    alone = [log_probabilities_of(pair.noise, scores, [k, k]) for k in range(4)]
    assert np.isfinite(alone).all()
    assert (np.array(alone) <= 1e-9).all()
    assert (log_p[0, 0] > log_p[0, 3] > log_p[0, 2]) or pair.name == "student-t"


def test_largest_of_many_noises_is_nearly_gumbel():
    assert max_scale(Gumbel(), 500) == pytest.approx(1.0, abs=0.01)
    assert max_scale(Logistic(), 100_000) == pytest.approx(1.0, abs=0.01)
    # P(y = k) is nearly the softmax of scores / scale.
    scale = max_scale(Logistic(), 5000)
    scores = np.random.default_rng(1).normal(size=(1, 5000))
    found = log_probabilities(Logistic(), scores)
    np.testing.assert_allclose(found, log_softmax(scores / scale, axis=1), atol=0.05)


@pytest.mark.parametrize("name", ["gaussian", "logistic"])
@pytest.mark.parametrize("n_classes", [5, 20_000])
def test_a_quick_look_is_nearly_exact(name, n_classes):
    rng = np.random.default_rng(0)
    scores, labels = 2.0 * rng.normal(size=(20, n_classes)), rng.integers(n_classes, size=20)
    exact = log_probabilities_of(resolve(name), scores, labels)
    quick = log_probabilities_of(resolve(name), scores, labels, quick=True)
    assert (quick != exact).any()  # another rule
    np.testing.assert_allclose(quick, exact, rtol=0.0, atol=2e-5)
