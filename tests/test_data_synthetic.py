"""Generators: sizes, truth, and the same data for the same seed."""

import numpy as np
import pytest

from benchmarks.datasets import synthetic


@pytest.mark.parametrize("noise", ["gumbel", "gaussian", "logistic"])
def test_linear_utilities_follow_their_noise(noise):
    """With two classes, P(y = 1) is the distribution function of the difference of two noises."""
    from scipy import stats

    toy = synthetic.linear_utilities(200_000, 1, 2, noise=noise, scale=1.0, seed=3)
    d = toy.X @ (toy.coef[1] - toy.coef[0]) + toy.intercept[1] - toy.intercept[0]
    one = {"gumbel": stats.gumbel_r, "gaussian": stats.norm, "logistic": stats.logistic}[noise]
    grid, nodes = np.linspace(d.min(), d.max(), 41), np.linspace(-12.0, 30.0, 4_201)
    both = one.pdf(nodes) * one.cdf(nodes + grid[:, None])
    p = np.interp(d, grid, np.trapezoid(both, nodes))
    for low, high in ((-9, -0.3), (-0.3, 0.3), (0.3, 9)):
        rows = (low <= d) & (d < high)
        if rows.sum() > 1000:
            z = (toy.y[rows] - p[rows]).sum() / np.sqrt((p * (1 - p))[rows].sum())
            assert abs(z) < 4.5


def test_zipf_classes():
    toy = synthetic.zipf_classes(20_000, 1_000_000, n_features=500, row_entries=10, seed=4)
    assert toy.X.shape == (20_000, 500)
    assert toy.X.dtype == np.float32
    assert toy.X.has_canonical_format
    np.testing.assert_allclose(toy.X.multiply(toy.X).sum(1), 1, rtol=1e-5)
    p0 = toy.probabilities[0]
    assert p0 / toy.probabilities[9] == pytest.approx(10)
    z = ((toy.y == 0).sum() - 20_000 * p0) / np.sqrt(20_000 * p0 * (1 - p0))
    assert abs(z) < 4.5


def test_predictable_classes_are_the_authors_data():
    """The authors' program, seed 1, N = 120, K = 3, M = 3, sigma_high = 2: its random stream."""
    drawn = synthetic.predictable_classes(120, 3, 3, 2.0, seed=1)
    rng = np.random.RandomState(1)
    np.testing.assert_array_equal(drawn.intercept[:2], [rng.normal(0, 0.25) for _ in range(2)])
    # three features for two groups: 1.5 each, so that the second one is the first group's
    scales = [[2.0, 2.0, 0.001], [0.001, 0.001, 2.0]]
    coef = [[rng.normal(0, scale) for scale in row] for row in scales]
    np.testing.assert_array_equal(drawn.coef, [*coef, [0, 0, 0]])
    X = np.array([rng.normal(size=3) for _ in range(120)])
    np.testing.assert_array_equal(drawn.X, X)
    p = drawn.probabilities()
    y = [int(np.argmax(rng.multinomial(1, row))) for row in p]
    assert drawn.y.tolist() == y
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(drawn.probabilities(X[:7]), p[:7])
