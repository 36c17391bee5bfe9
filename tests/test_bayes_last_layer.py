"""Posteriors of last layers: of the class vectors of a low-rank model."""

import numpy as np
import pytest
import scipy.sparse

from bigcat import LinearClassifier, load_model, save_model
from bigcat.bayes import Laplace
from bigcat.bayes.laplace.forms import Shape, resolve_rank
from tests.bayesian import check_intervals, check_predictions, laplace


def grouped(n=240, n_features=12, n_classes=8, seed=0):
    """Rows whose scores are of rank 2, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) + 1.0
    weights = rng.standard_normal((n_classes, 2)) @ rng.standard_normal((2, n_features))
    scores = X @ weights.T
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


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
    assert model.history_.selection["rank"] == 3
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


def test_matrices_that_do_not_fit_make_a_last_layer():
    """The rank is the largest that fits, by the sizes alone."""
    fits = Shape(10_000, 301, 1_000, 301.0, True)
    assert resolve_rank("auto", "auto", fits, True) is None
    wide = fits._replace(n_columns=20_001, row_values=50.0)
    assert resolve_rank("auto", "auto", wide, True) == 32
    many = fits._replace(n_classes=1_000_000)
    assert resolve_rank("auto", "auto", many, True) == 10
    assert resolve_rank(None, "auto", wide, True) is None
    assert resolve_rank("auto", "class", wide, True) is None
    with pytest.raises(ValueError, match=r"noise other than 'gumbel'.*method='augment-reduce'"):
        resolve_rank("auto", "auto", wide._replace(softmax=False), True)


def test_the_default_takes_a_last_layer_of_wide_rows(monkeypatch):
    monkeypatch.setattr("bigcat.bayes.laplace.forms.MAX_CLASS_NUMBERS", 1_000)
    X, y = grouped()
    model = laplace(n_threads=1).fit(scipy.sparse.csr_array(X), y)
    selection = model.history_.selection
    assert selection is not None
    assert selection["rank"] == 10
    check_predictions(model, X[:20], y[:20], "averaged")
    assert "rank" not in (laplace(rank=None).fit(X, y).history_.selection or {})
