"""The categorical distribution without covariates: where each method's own error can be seen."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import bigcat
import reference.bounds as twin
import reference.categorical
from benchmarks.categorical_distribution import CategoricalDistribution
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, AdaGrad
from reference.estimators import noise_contrastive
from reference.solvers import over_all_classes

COUNTS = np.array([90, 40, 25, 3, 12])
NAMES = np.array(["e", "a", "d", "b", "c"])
LABELS = np.repeat(NAMES, COUNTS)
FREQUENCIES = COUNTS[np.argsort(NAMES)] / COUNTS.sum()
EXACT = over_all_classes(lambda psi_y, psi, weights: twin.exact(psi_y, psi))
ROWS = {
    "exact": EXACT,
    "one-vs-each": over_all_classes(twin.one_vs_each),
    "bouchard": over_all_classes(twin.bouchard),
    **dict.fromkeys(["augment-reduce", "implicit", "umax", "vanilla", "raman"], EXACT),  # tight
    **dict.fromkeys(["importance", "complementary"], EXACT),  # with all classes in
    "nce": over_all_classes(lambda y, psi, w: noise_contrastive(y, psi, w, 1.0)),
}
BOUNDS = [row["name"] for row in bigcat.methods() if row["is_bound"]]


def fit(method, **options):
    options = {"max_epochs": 500, "solver": LBFGS(tol=1e-9), **options}
    return CategoricalDistribution(method, **options).fit(LABELS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", [row["name"] for row in bigcat.methods()])
def test_optimum_of_every_method_is_the_twins(method):
    model = fit(method, solver=LBFGS(tol=1e-9, init="zero"))
    assert (model.classes_ == np.sort(NAMES)).all()
    counts = COUNTS[np.argsort(NAMES)]
    scores, best = reference.categorical.fit_counts(ROWS[method], counts)
    np.testing.assert_allclose(model.scores_, scores, atol=1e-4)
    assert model.probabilities_.sum() == pytest.approx(1.0, abs=1e-12)
    likelihood = counts @ np.log(model.probabilities_)
    last = model.history_[-1]
    if method in BOUNDS:
        assert model.lower_bound_ == pytest.approx(best, rel=1e-6)
        assert model.lower_bound_ <= likelihood + 1e-4
        assert last["bound"] == last["objective"] == pytest.approx(best / counts.sum(), rel=1e-6)
    else:  # what it maximises is no bound, and so not reported as one
        assert np.isnan(model.lower_bound_)
        assert np.isnan(last["bound"])
        assert last["objective"] == pytest.approx(best / counts.sum(), rel=1e-6)
        assert last["log_likelihood"] == pytest.approx(likelihood / counts.sum(), rel=1e-6)
    if method != "bouchard":  # Proposition 2 of one-vs-each: the frequencies
        np.testing.assert_allclose(model.probabilities_, FREQUENCIES, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bouchard_squares_two_counts():
    """Proposition 3 of one-vs-each: its scores are 2 log N_k at two classes."""
    model = CategoricalDistribution("bouchard", max_epochs=500, solver=LBFGS(tol=1e-9))
    model.fit(np.repeat([0, 1], [30, 70]))
    assert model.scores_[1] - model.scores_[0] == pytest.approx(2 * np.log(70 / 30), abs=1e-4)
    np.testing.assert_allclose(model.probabilities_[1], 70**2 / (70**2 + 30**2), atol=1e-5)


METHODS = ("augment-reduce", "one-vs-each", "implicit", "nce")


@pytest.mark.slow  # training loops of their own
@pytest.mark.parametrize("method", METHODS)
def test_sampled_classes_find_the_frequencies(method):
    model = CategoricalDistribution(
        method,
        max_epochs=150,
        random_state=0,
        solver=AdaGrad(batch_size=10, init="zero"),
        sampler=Uniform(2),
        early_stopping=False,
    )
    model.fit(LABELS)
    np.testing.assert_allclose(model.probabilities_, FREQUENCIES, atol=0.02)
    assert np.isnan(model.lower_bound_) == (method not in BOUNDS)
    assert model.n_iter_ == len(model.history_) == 150
    again = clone(model).fit(LABELS)
    assert (again.probabilities_ == model.probabilities_).all()


def test_weights_are_counts():
    model = CategoricalDistribution("exact").fit(["x", "y", "z"], sample_weight=[3.0, 1.0, 0.0])
    assert (model.classes_ == ["x", "y"]).all()
    np.testing.assert_allclose(model.probabilities_, [0.75, 0.25], atol=1e-4)
    repeated = CategoricalDistribution("exact").fit(["x", "x", "x", "y"])
    np.testing.assert_allclose(repeated.probabilities_, model.probabilities_, atol=1e-6)
    assert repeated.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-6)


@pytest.mark.parametrize(
    ("labels", "parameters", "text"),
    [
        (["a", "a"], {}, "y holds one class only, 'a'; a classifier needs at least 2 classes"),
        ([[0, 1]], {}, "y has shape (1, 2); give a non-empty list of labels"),
        (LABELS, {"method": "softmax"}, "method='softmax' is not known; choose one of"),
    ],
    ids=["one class", "two dimensions", "method"],
)
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_input_changes_nothing(labels, parameters, text, fitted):
    model = CategoricalDistribution("exact")
    if fitted:
        model.fit(LABELS)
    model.set_params(**parameters)
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError) as caught:
        model.fit(labels)
    assert text in str(caught.value)
    assert pickle.dumps(vars(model)) == before
