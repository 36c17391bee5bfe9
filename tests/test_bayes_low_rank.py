"""A spectrum and a few directions per class, and posteriors of last layers."""

import numpy as np
import pytest
import scipy.sparse

import reference.laplace as twin
import reference.noise as reference_noise
from bigcat import LinearClassifier, load_model, save_model
from bigcat import noise as noises
from bigcat.bayes import GaussianPrior, Laplace, _low_rank
from bigcat.bayes._design import Design
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank import low_rank_gaussian
from bigcat.bayes._mode import find_mode
from bigcat.bayes._whitening import class_precisions, make_whitening
from bigcat.bayes.covariance import LowRank, few_pairs
from tests.bayesian import check_intervals, check_predictions, laplace

EVERYONE = slice(0, 4)


def problem(n=30, n_features=5, seed=0, sparse=False, noise="gumbel"):
    """A likelihood of four classes with correlated columns, and weights near its mode."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) @ rng.standard_normal((n_features, n_features))
    if sparse:
        X *= rng.random(X.shape) < 0.4
    y = np.append(np.arange(4), rng.integers(0, 4, n - 4))
    rows = scipy.sparse.csr_array(X) if sparse else X
    design = Design(rows, True, rng.integers(1, 3, n).astype(float))
    weights = 0.4 * rng.standard_normal((4, n_features + 1))
    return Likelihood(design, y, noises.resolve(noise), 4, 1), weights


def prior_of(likelihood):
    return np.linspace(0.5, 2.0, likelihood.design.n_columns)[None]


@pytest.fixture
def wide(monkeypatch):
    """Few columns are treated as many."""
    monkeypatch.setattr(_low_rank, "EXACT_UP_TO", 0)


# The form


@pytest.mark.parametrize("noise", ["gumbel", "gaussian"])
@pytest.mark.usefixtures("wide")
def test_the_covariance_is_the_twins(noise):
    likelihood, weights = problem(noise=noise)
    prior = prior_of(likelihood)
    found = low_rank_gaussian(likelihood, weights, prior, 2).covariance()
    X, s = likelihood.design.dense(slice(None)), likelihood.design.row_weights
    reference = {"gumbel": reference_noise.GUMBEL, "gaussian": reference_noise.GAUSSIAN}[noise]
    expected = twin.low_rank_covariances(reference, weights, X, s, prior[0], 2, 8, 0.01)
    np.testing.assert_allclose(found.array(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.usefixtures("wide")
def test_rows_that_are_all_kept_give_the_inverse(monkeypatch, sparse, turned):
    monkeypatch.setattr(_low_rank, "RELEVANT_CURVATURE", 0.0)
    monkeypatch.setattr(_low_rank, "MOST_TURNED", 100 if turned else 0)
    likelihood, weights = problem(n=8, n_features=12, sparse=sparse)
    prior = prior_of(likelihood)
    found = low_rank_gaussian(likelihood, weights, prior, 8).covariance()
    assert bool(found.basis.size) == turned
    exact = np.linalg.inv(class_precisions(likelihood, weights, prior))
    np.testing.assert_allclose(found.array(), exact, rtol=1e-4, atol=1e-6)


def test_a_basis_and_directions_are_near_the_inverse_where_a_diagonal_is_not():
    rng = np.random.default_rng(0)
    d, n = 40, 600
    X = (rng.standard_normal((n, d)) / np.arange(1, d + 1)) @ np.linalg.qr(
        rng.standard_normal((d, d))
    )[0]
    y = np.append(np.arange(4), rng.integers(0, 4, n - 4))
    likelihood = Likelihood(Design(X, True), y, noises.resolve("gumbel"), 4, 1)
    prior = np.full((1, d + 1), 0.05)
    weights, _ = find_mode(likelihood, prior, np.zeros((1, d + 1)), np.zeros((4, d + 1)))
    exact, diagonal, low_rank = (
        np.sqrt(covariance.row_variances(likelihood.design, EVERYONE))
        for covariance in (
            make_whitening("class", likelihood, weights, prior).covariance(),
            make_whitening("diagonal", likelihood, weights, prior).covariance(),
            low_rank_gaussian(likelihood, weights, prior).covariance(),
        )
    )
    assert np.abs(low_rank / exact - 1.0).max() < 0.1
    assert np.abs(np.mean(low_rank / exact) - 1.0) < 0.02
    assert np.abs(diagonal / exact - 1.0).max() > 0.2


def covariances() -> dict[str, LowRank]:
    rng = np.random.default_rng(4)
    directions = np.linalg.qr(rng.standard_normal((4, 6, 3)))[0].transpose(0, 2, 1)
    scales, shrinkage = rng.uniform(0.5, 2.0, (4, 6)), rng.uniform(0.1, 0.9, (4, 3))
    turned = LowRank(scales, directions, shrinkage, rng.standard_normal((6, 6)))
    plain = LowRank(turned.scales, turned.directions, turned.shrinkage, np.empty((0, 0)))
    basis = np.random.default_rng(5).standard_normal((9, 6))
    embedded = LowRank(turned.scales, turned.directions, turned.shrinkage, basis)
    return {"turned": turned, "plain": plain, "embedded": embedded}


@pytest.mark.parametrize("kind", ["turned", "plain", "embedded"])
def test_all_answers_are_those_of_the_matrices(kind):
    form = covariances()[kind]
    matrices = form.array()
    m = matrices.shape[1]
    some = np.array([3, 1])
    np.testing.assert_allclose(
        form.variances(some), np.diagonal(matrices[some], axis1=1, axis2=2), rtol=1e-5
    )
    X = np.random.default_rng(1).standard_normal((7, m))
    expected = np.einsum("nm,kml,nl->nk", X, matrices[some], X)
    for rows in (X, scipy.sparse.csr_array(X)):
        np.testing.assert_allclose(
            form.row_variances(Design(rows, False), some), expected, rtol=1e-5
        )
    if kind == "embedded":
        assert np.isneginf(form.log_determinants(EVERYONE)).all()
    else:
        logs = np.linalg.slogdet(matrices)[1]
        np.testing.assert_allclose(form.log_determinants(EVERYONE), logs, rtol=1e-4)
    matrix = np.random.default_rng(2).standard_normal((m, m))
    np.testing.assert_allclose(
        form.traces(matrix, some), np.einsum("kij,ij->k", matrices[some], matrix), rtol=1e-5
    )
    ends = form.colour(np.eye(m)[:, None].repeat(4, axis=1), EVERYONE)  # G e_j, one after another
    np.testing.assert_allclose(np.einsum("jki,jkl->kil", ends, ends), matrices, atol=1e-5)


def test_arrays_that_do_not_belong_together():
    form = covariances()["turned"]
    with pytest.raises(ValueError, match="do not belong together"):
        LowRank(form.scales, form.directions[:, :, :-1], form.shrinkage, form.basis)
    with pytest.raises(ValueError, match="do not belong together"):
        LowRank(form.scales, form.directions, form.shrinkage, form.basis[:, :-1])


def test_blocks_of_sparse_rows_are_those_of_dense_ones():
    likelihood, weights = problem(n=25, n_features=40, sparse=True)
    rows = likelihood.design.dense(slice(None))[:, :40]
    rows[:, 3:] = 0.0
    sparse = Design(scipy.sparse.csr_array(rows), True)
    assert few_pairs(sparse.rows)
    prior, noise = np.ones((1, 41)), noises.resolve("gumbel")
    found = class_precisions(Likelihood(sparse, likelihood.labels, noise, 4), weights, prior)
    dense = Design(sparse.dense(slice(None))[:, :40], True)
    expected = class_precisions(Likelihood(dense, likelihood.labels, noise, 4), weights, prior)
    np.testing.assert_allclose(found, expected, atol=1e-10)


# The method


def grouped(n=240, n_features=12, n_classes=8, seed=0):
    """Rows whose scores are of rank 2, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) + 1.0
    weights = rng.standard_normal((n_classes, 2)) @ rng.standard_normal((2, n_features))
    scores = X @ weights.T
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def test_low_rank_fits_have_the_mode_and_about_the_spread_of_the_diagonal_ones():
    X, y = grouped(n_features=40)
    low, diagonal = (
        laplace(covariance=form, prior=GaussianPrior(0.5)).fit(X, y)
        for form in ("low-rank", "diagonal")
    )
    np.testing.assert_allclose(low.posterior_.mean, diagonal.posterior_.mean, atol=1e-6)
    ratio = low.posterior_.scale / diagonal.posterior_.scale
    assert 0.8 < ratio.mean() < 1.5  # what other columns explain is uncertain, too
    check_predictions(low, X[:20], y[:20], "averaged")
    check_intervals(low, X[:20])
    assert low.evidence_ == pytest.approx(diagonal.evidence_, abs=1e-6)


# Last layers


@pytest.fixture(scope="module")
def last_layer():
    """The posterior of class vectors of length 3."""
    X, y = grouped()
    return X, y, laplace(rank=3, n_threads=1).fit(X, y)


def test_a_last_layer_predicts_as_well_as_its_model(last_layer):
    X, y, model = last_layer
    X_new, y_new = grouped(seed=0, n=480)
    X_new, y_new = X_new[240:], y_new[240:]
    linear = LinearClassifier(rank=3, random_state=0, n_threads=1).fit(X, y)
    own = model.log_proba_of(X, y).mean()
    assert own > linear.log_proba_of(X, y).mean() - 0.05
    assert model.history_.choice["rank"] == 3
    check_predictions(model, X[:20], y[:20], "averaged")
    check_intervals(model, X[:20])


def test_weights_of_a_last_layer_are_vectors_times_the_embedding(last_layer):
    X, _, model = last_layer
    assert model.coef_.shape == (8, 12)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-6 * np.abs(model.coef_).max()) == 3
    q = model.posterior_
    scores = X @ model.coef_.T + model.intercept_
    expected = q.design(X).product(q.scaled_mean.T)
    np.testing.assert_allclose(scores, expected, atol=1e-8)
    np.testing.assert_allclose(q.sample(400, 0).std(axis=0), q.scale, rtol=0.2)


def test_files_of_last_layers(last_layer, tmp_path):
    X, _, model = last_layer
    save_model(model, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_a_last_layer_is_for_the_softmax():
    with pytest.raises(ValueError, match="rank=3 is for the softmax"):
        Laplace(noise="gaussian", rank=3)
