"""`lower_bound` is that of the fit: whatever rows it is given, and after a way through a file."""

import copy
from typing import Any

import numpy as np
import pytest
from forms import forms

from bigcat import LinearClassifier, Method, load_model, save_model
from bigcat.bounds import AugmentReduce, Exact, OneVsEach
from bigcat.bounds.exact import TRAINING_QUADRATURE
from bigcat.samplers import Uniform

N_CLASSES = 4
FEW: dict[str, Any] = {"max_epochs": 2, "random_state": 0}


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    scores = X @ np.random.default_rng(9).normal(size=(3, N_CLASSES))
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


@pytest.fixture(scope="module")
def probit():
    return LinearClassifier("gaussian", random_state=0).fit(*rows_of(300, 0))


def test_the_number_of_rows_makes_no_difference(probit):
    """2,000 rows are few and 2,001 are not to a fit that chooses its method."""
    X, y = rows_of(2_001, 1)
    bound = probit.lower_bound(X, y)
    assert (bound[:2_000] == probit.lower_bound(X[:2_000], y[:2_000])).all()
    assert (bound <= probit.log_proba_of(X, y)).all()


def test_the_likelihood_by_few_nodes_is_shown_by_many(probit):
    """The objective of stochastic passes exceeds the log-likelihood for some rows."""
    X, y = rows_of(200, 2)
    model = copy.copy(probit)
    model.bound_ = TRAINING_QUADRATURE
    assert (model.lower_bound(X, y) == probit.log_proba_of(X, y)).all()


def test_it_is_the_bound_of_the_fit_not_of_the_parameters():
    X, y = rows_of(200, 3)
    model = LinearClassifier(method="one-vs-each", **FEW).fit(X, y)
    before = model.lower_bound(X, y)
    assert (before < model.log_proba_of(X, y) - 1e-3).any()
    model.set_params(method="exact")
    assert model.bound_ == OneVsEach()
    assert (model.lower_bound(X, y) == before).all()
    model.set_params(method="augment-reduce").partial_fit(X, y)
    assert model.bound_ == AugmentReduce()
    np.testing.assert_allclose(model.lower_bound(X, y), model.log_proba_of(X, y), atol=1e-6)


class OwnBound(OneVsEach):
    """A bound that model files cannot store, although its kernels exist."""


FITS: dict[str, tuple[dict[str, Any], Any]] = {
    "likelihood": ({}, Exact()),
    "chosen estimator": ({"sampler": Uniform(2)}, AugmentReduce()),
    "named": ({"method": "one-vs-each"}, OneVsEach()),
    "with options": ({"method": AugmentReduce(band=2.0)}, AugmentReduce(band=2.0)),
    "own": ({"method": Method("own", OwnBound())}, OwnBound()),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", forms(FITS, lambda case: case != "chosen estimator"))
def test_a_file_keeps_it(tmp_path, case):
    options, expected = FITS[case]
    X, y = rows_of(200, 4)
    model = LinearClassifier(**options, **FEW).fit(X, y)
    assert (model.bound_, type(model.bound_)) == (expected, type(expected))
    path = save_model(model, tmp_path / "m")
    loaded = load_model(path)
    if case == "own":
        with pytest.raises(ValueError, match=r"could not hold the bound .* set model\.bound_"):
            loaded.lower_bound(X, y)
        loaded.bound_ = model.bound_
    assert (loaded.lower_bound(X, y) == model.lower_bound(X, y)).all()
