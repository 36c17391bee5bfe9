"""Generators: sizes, truth, and the same data for the same seed."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.datasets import synthetic


def test_categorical_counts():
    toy = synthetic.categorical_counts(seed=1)
    assert toy.y.shape == (300_000,)
    assert toy.probabilities.shape == (10_000,)
    assert toy.probabilities.sum() == pytest.approx(1)
    # u squared: mean 1/3, mean square 1/5, so that K * sum p^2 is 9/5
    assert 10_000 * (toy.probabilities**2).sum() == pytest.approx(9 / 5, rel=0.05)
    counts = np.bincount(toy.y, minlength=10_000)
    # Pearson's statistic has mean K - 1 and standard deviation near sqrt(2 K) for N p large
    expected = 300_000 * toy.probabilities
    big = expected > 5
    chi2 = ((counts - expected) ** 2 / expected)[big].sum()
    assert abs(chi2 - big.sum()) < 6 * np.sqrt(2 * big.sum())


def test_titsias_small():
    toy = synthetic.titsias_small()
    assert np.array_equal(np.unique(toy.values), np.arange(10))
    assert len(toy.values) == len(toy.y) == len(toy.X) == 200
    assert toy.X.dtype == np.float32
    assert np.bincount(toy.y).tolist() == [40] * 5


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


def test_linear_utilities_sparse_and_chunked(monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_CELLS", 100)
    toy = synthetic.linear_utilities(60, 40, 7, density=0.1, scale=50.0, seed=2)
    assert sp.issparse(toy.X)
    assert toy.X.has_canonical_format
    assert (np.diff(toy.X.indptr) == 4).all()
    best = np.argmax(toy.X @ toy.coef.T + toy.intercept, axis=1)
    assert (best == toy.y).mean() > 0.8  # large utilities, little noise
    again = synthetic.linear_utilities(60, 40, 7, density=0.1, scale=50.0, seed=2)
    assert np.array_equal(again.y, toy.y)


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


def test_zipf_rows_look_like_their_class():
    toy = synthetic.zipf_classes(2_000, 50, n_features=1_000, signal=0.9)
    similar = (toy.X @ toy.X.T).toarray()
    same = toy.y[:, None] == toy.y
    np.fill_diagonal(same, False)
    different = toy.y[:, None] != toy.y
    assert similar[same].mean() > 5 * similar[different].mean()


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


def test_predictable_classes_follow_their_probabilities(monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_CELLS", 999)
    drawn = synthetic.predictable_classes(20_000, 5, 8, 4.0, seed=3)
    p = drawn.probabilities()
    observed = np.bincount(drawn.y, minlength=5)
    z = (observed - p.sum(0)) / np.sqrt((p * (1 - p)).sum(0))
    assert abs(z).max() < 4.5
    mean_log = np.log(p[np.arange(20_000), drawn.y]).mean()
    assert mean_log == pytest.approx((p * np.log(np.maximum(p, 1e-300))).sum(1).mean(), abs=0.02)
    again = synthetic.predictable_classes(20_000, 5, 8, 4.0, seed=3)
    assert np.array_equal(again.y, drawn.y)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: synthetic.linear_utilities(9, 2, 2, noise="cauchy"),
            "noise must be one of gumbel",
        ),
        (lambda: synthetic.linear_utilities(9, 2, 2, density=0), "density must lie above 0"),
        (lambda: synthetic.linear_utilities(9, 0, 2), "n_features must be at least 1, got 0"),
        (lambda: synthetic.zipf_classes(0, 2), "n must be at least 1, got 0"),
        (lambda: synthetic.zipf_classes(5, 2, signal=2), "signal must lie between 0 and 1, got 2"),
        (lambda: synthetic.categorical_counts(n_classes=0), "n_classes must be at least 1, got 0"),
        (lambda: synthetic.predictable_classes(9, 1, 2), "n_classes must be at least 2, got 1"),
        (lambda: synthetic.predictable_classes(9, 3, 2, 0.0), "sigma_high must be at least"),
        (lambda: synthetic.predictable_classes(9, 3, 2, sigma_intercept=-1), "sigma_intercept"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
