"""Priors: defaults, and their part of the ELBO, by definition."""

import numpy as np
import pytest

from bigcat.bayes import GaussianPrior, LearnedScale

RNG = np.random.default_rng(4)
K, M = 5, 3
MEAN, VARIANCES = RNG.normal(size=(K, M)), RNG.uniform(0.1, 0.6, (K, M))


def test_a_gaussian_prior_has_its_density():
    """E[log N(b; mean, 1 / P)] up to the 2 pi."""
    mean, P = np.array([0.1, 0.2, -0.3]), np.array([0.5, 2.0, 3.0])
    prior = GaussianPrior(mean=mean, precision=P).bind(K, M, False)
    squares = np.square(MEAN - mean) + VARIANCES
    expected = 0.5 * (np.log(P) - P * squares).sum()
    assert prior.energy(squares.sum(axis=0)) == pytest.approx(expected)
    assert not prior.learned


@pytest.mark.parametrize("per", ["all", "feature"])
@pytest.mark.parametrize("intercept", [True, False])
def test_learned_precisions_maximise_their_part_of_the_elbo(per, intercept):
    prior = LearnedScale(per).bind(K, M, intercept)
    squares = (np.square(MEAN) + VARIANCES).sum(axis=0)
    best = prior.energy(squares)
    found = prior.precision.copy()
    n = M - intercept
    assert (np.ptp(found[:n]) == 0.0) == (per == "all")
    for factor in (0.8, 1.25):
        for part in (slice(0, n), slice(n, M)):
            changed = found.copy()
            changed[part] *= factor
            if part.start < M:
                assert 0.5 * (K * np.log(changed) - changed * squares).sum() < best


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (GaussianPrior(scale=2.0), [0.25, 0.25, 0.25]),
        (GaussianPrior(scale=2.0, intercept_scale=10.0), [0.25, 0.25, 0.01]),
        (GaussianPrior(precision=[4.0, 9.0]), [4.0, 9.0, 1.0]),
        (GaussianPrior(precision=[4.0, 9.0, 2.0]), [4.0, 9.0, 2.0]),
        (LearnedScale(), [1.0, 1.0, 1.0]),
    ],
)
def test_the_intercept_is_the_last_column(prior, expected):
    np.testing.assert_allclose(prior.bind(K, M, True).precision, expected)
