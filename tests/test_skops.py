"""skops, which stores estimators without pickle, takes ours as they are."""

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_iris

from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import IndependentBinary

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearClassifier("gumbel", "exact", solver="lbfgs"),
        BayesianClassifier(IndependentBinary(likelihood="conditioned")),
    ],
    ids=["linear", "bayesian"],
)
def test_predictions_survive(estimator):
    stored = skops.io.dumps(estimator.fit(X, Y))
    ours = skops.io.get_untrusted_types(data=stored)
    assert all(name.startswith("bigcat.") for name in ours)
    loaded = skops.io.loads(stored, trusted=ours)
    np.testing.assert_array_equal(loaded.predict_proba(X), estimator.predict_proba(X))
