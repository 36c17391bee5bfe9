"""A row of weight 0 is as if it was not there, bit for bit; its class stays known."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import AugmentReducePosterior, Laplace
from bigcat.samplers import Uniform

pytestmark = pytest.mark.filterwarnings("ignore:on 120 validation rows no candidate gained")

N_CLASSES = 5
DRAWN: dict[str, Any] = {"sampler": Uniform(2), "max_epochs": 2}
FITS: dict[str, Any] = {
    "all at once": LinearClassifier(random_state=0),
    "passes": LinearClassifier(method="augment-reduce", random_state=0, **DRAWN),
    "held out": LinearClassifier(
        method="augment-reduce", early_stopping=True, random_state=0, **DRAWN
    ),
    "balanced": LinearClassifier(class_weight="balanced", random_state=0),
    "independent binary": BayesianClassifier("independent-binary", random_state=0),
    "laplace": BayesianClassifier(Laplace(n_draws=64), random_state=0),
    "augment-reduce posterior": BayesianClassifier(
        AugmentReducePosterior(max_epochs=2), random_state=0
    ),
}


@pytest.fixture(scope="module")
def data():
    """Rows, labels, and weights of 0 for a third of them, which lie far away from the others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(180, 3)), rng.integers(0, N_CLASSES, 180)
    weights = rng.integers(1, 4, 180).astype(float)
    weights[rng.permutation(180)[:60]] = 0.0
    X[weights == 0.0] += 50.0
    return X, y, weights


def assert_same_weights(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("case", FITS)
def test_fit(data, case):
    X, y, weights = data
    counts = weights > 0.0
    with_them = clone(FITS[case]).fit(X, y, sample_weight=weights)
    without = clone(FITS[case]).fit(X[counts], y[counts], sample_weight=weights[counts])
    assert with_them.n_iter_ == without.n_iter_
    assert_same_weights(with_them, without)


STREAMS = {
    "linear": LinearClassifier(method="augment-reduce", random_state=0, sampler=Uniform(2)),
    "bayesian": BayesianClassifier(Laplace(covariance="full"), "gaussian", random_state=0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_partial_fit(data, name):
    X, y, weights = data
    with_them, without = clone(STREAMS[name]), clone(STREAMS[name])
    for batch in (np.arange(100), np.arange(100, 180)):
        counted = batch[weights[batch] > 0.0]
        classes = np.arange(N_CLASSES)
        with_them.partial_fit(X[batch], y[batch], classes, sample_weight=weights[batch])
        without.partial_fit(X[counted], y[counted], classes, sample_weight=weights[counted])
    assert_same_weights(with_them, without)


def test_a_class_of_weight_0(data):
    X, y, weights = data
    model, without = clone(FITS["passes"]), clone(FITS["passes"])
    model.set_params(class_weight={2: 0.0}).fit(X, y, sample_weight=weights)
    assert_same_weights(model, without.fit(X, y, sample_weight=np.where(y == 2, 0.0, weights)))
    with pytest.raises(
        ValueError, match=r"class_weight=\{.*\} leaves no row a positive weight; give"
    ):
        model.set_params(class_weight=dict.fromkeys(range(N_CLASSES), 0.0)).fit(X, y)


@pytest.mark.parametrize("case", FITS)
def test_a_class_without_rows_that_count_is_known_and_rare(data, case):
    X, y, weights = data
    weights = np.where(y == 3, 0.0, weights)
    model = clone(FITS[case]).fit(X, y, sample_weight=weights)
    assert model.classes_.tolist() == list(range(N_CLASSES))
    assert np.isfinite(model.intercept_).all()
    mean = model.predict_proba(np.zeros((1, 3)))[0]
    assert mean.argmin() == 3
    assert 0.0 < mean[3] < 0.1


def test_class_weights_count_in_partial_fit(data):
    X, y, _ = data
    classes, factors = np.arange(N_CLASSES), np.array([1.0, 5.0, 1.0, 1.0, 1.0])
    by_class = clone(STREAMS["linear"]).set_params(class_weight={1: 5.0})
    by_row, plain = clone(STREAMS["linear"]), clone(STREAMS["linear"])
    by_class.partial_fit(X, y, classes)
    by_row.partial_fit(X, y, classes, sample_weight=factors[y])
    assert_same_weights(by_class, by_row)
    plain.partial_fit(X, y, classes)
    assert (by_class.coef_ != plain.coef_).any()


def test_class_weights_of_classes_that_a_batch_has_not(data):
    """A part of the rows may lack the classes that have a weight."""
    X, y, _ = data
    some = y < 3
    model = clone(STREAMS["linear"]).set_params(class_weight={1: 2.0, 4: 3.0})
    model.partial_fit(X[some], y[some], np.arange(N_CLASSES))
    by_row = clone(STREAMS["linear"])
    by_row.partial_fit(X[some], y[some], np.arange(N_CLASSES), sample_weight=1.0 + (y[some] == 1))
    assert_same_weights(model, by_row)


@pytest.mark.parametrize("model", [LinearClassifier(), BayesianClassifier()])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e300, r"from 1 to 1e\+300, and a weight counts rows.*divide the weights by their mean"),
        (1e-30, "from 1e-30 to 1, and a weight counts rows"),
        (1e8, r"from 1e-08 to 1e\+08, and next to the largest.*set those to 0"),
    ],
)
def test_weights_that_no_sum_can_hold_are_refused(data, model, value, message):
    X, y, _ = data
    weights = np.ones(len(y))
    weights[3:5] = value, 1e-8 if value == 1e8 else 1.0
    with pytest.raises(ValueError, match=f"^sample_weight goes {message}"):
        clone(model).fit(X, y, sample_weight=weights)
    assert not hasattr(model, "classes_")
