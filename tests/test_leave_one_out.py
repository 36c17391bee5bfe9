"""The ridge of few rows, judged by every row without itself."""

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from bigcat import LinearClassifier
from bigcat.auto import Parameters, recipe_for
from bigcat.rows import Sizes
from bigcat.training import leave_one_out, ridge_path
from bigcat.training.leave_one_out import LeaveOneOut
from bigcat.training.data import TrainingData


def clouds(n, n_features=4, n_classes=3, distance=0.7, seed=0):
    rng = np.random.default_rng(seed)
    centres = distance * np.random.default_rng(7).standard_normal((n_classes, n_features))
    y = rng.integers(0, n_classes, n)
    return centres[y] + rng.standard_normal((n, n_features)), y


def judge_of(X, y, weights=None, **parameters):
    weights = np.ones(len(y)) if weights is None else weights
    how = {"fit_intercept": True} | parameters
    return LeaveOneOut(TrainingData(X, y, weights).distinct(), int(y.max()) + 1, **how)


def by_refitting(X, y, l2, weights=None, fit_intercept=True):
    """Each row by a fit to the others."""
    found = np.empty(len(y))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        model = LogisticRegression(
            C=1.0 / l2, tol=1e-8, max_iter=2_000, fit_intercept=fit_intercept
        ).fit(X[others], y[others], None if weights is None else weights[others])
        scores = model.decision_function(X[i : i + 1])
        found[i] = log_softmax(scores, axis=1)[0, y[i]]
    return found


@pytest.mark.parametrize("l2", [slow(0.3), 3.0, slow(30.0)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_without_themselves_as_by_refitting(l2, fit_intercept):
    """Which is what a fit knows better of its own rows than of others, to a sixth."""
    X, y = clouds(80)
    judge = judge_of(X, y, fit_intercept=fit_intercept)
    found = judge.log_likelihoods(l2)
    wanted = by_refitting(X, y, l2, fit_intercept=fit_intercept).mean()
    seen = log_softmax(judge.X @ judge.fitted, axis=1)[np.arange(80), y].mean()
    assert wanted < seen
    assert found.mean() == pytest.approx(wanted, abs=(seen - wanted) / 6)


def test_weights_of_rows_count():
    X, y = clouds(50, seed=1)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 50)
    found = judge_of(X, y, weights).log_likelihoods(1.0)
    wanted = by_refitting(X, y, 1.0, weights)
    unweighted = judge_of(X, y).log_likelihoods(1.0)
    assert np.abs(found - wanted).mean() < 0.3 * np.abs(unweighted - wanted).mean()


def test_a_row_twice_is_a_row_of_weight_2():
    X, y = clouds(50, seed=2)
    once = judge_of(X, y, 1.0 + (np.arange(50) < 20))
    twice = judge_of(np.vstack([X, X[:20]]), np.concatenate([y, y[:20]]))
    np.testing.assert_allclose(once.log_likelihoods(1.0), twice.log_likelihoods(1.0), rtol=1e-9)
    np.testing.assert_array_equal(once.weights, twice.weights)


def test_the_only_row_of_a_class_judges_nothing():
    X, y = clouds(40)
    X, y = np.vstack([X, X[:1] + 1.0]), np.append(y, 3)
    judge = judge_of(X, y)
    assert len(judge.log_likelihoods(1.0)) == len(judge.weights) == 40


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e5, 1e180])
def test_values_of_any_size_and_columns_twice(unit):
    X, y = clouds(60)
    X = np.hstack([X, X])
    found = judge_of(X * unit, y).log_likelihoods(unit * unit if 1e-9 < unit < 1e9 else 1.0)
    assert np.isfinite(found).all()
    if 1e-9 < unit < 1e9:
        np.testing.assert_allclose(found, judge_of(X, y).log_likelihoods(1.0), rtol=1e-5)


def test_few_weights_of_the_softmax_are_judged_so(monkeypatch):
    judged = []
    judge = leave_one_out.judge

    def spied(*args):
        judged.append(judge(*args))
        return judged[-1]

    monkeypatch.setattr(leave_one_out, "judge", spied)
    X, y = clouds(200)
    model = LinearClassifier(random_state=0).fit(X, y)
    assert isinstance(judged[-1], LeaveOneOut)
    assert model.history_.choice is not None
    assert 4 <= len(model.history_.choice["ridge_path"]["tried"]) <= 8
    LinearClassifier(random_state=0).fit(scipy.sparse.csr_array(X), y)
    assert isinstance(judged[-1], LeaveOneOut)
    monkeypatch.setattr(leave_one_out, "MOST_WEIGHTS", 14)  # 3 classes, 4 weights and an intercept
    LinearClassifier(random_state=0).fit(X, y)
    assert judged[-1] is None


@pytest.mark.parametrize("seed", range(3))
def test_the_ridge_is_nearly_the_best_for_new_rows(seed):
    X, y = clouds(120, n_features=12, n_classes=4, distance=0.4, seed=seed)
    X_new, y_new = clouds(4_000, n_features=12, n_classes=4, distance=0.4, seed=10 + seed)
    model = LinearClassifier(random_state=0).fit(X, y)
    at = {l2: LinearClassifier(l2=l2).fit(X, y) for l2 in (0.01, 0.1, 1.0, 10.0, 100.0, 1e3)}
    best = max(m.log_proba_of(X_new, y_new).mean() for m in at.values())
    frequencies = -np.log(4)
    found = model.log_proba_of(X_new, y_new).mean()
    assert found > best - 0.05 * (best - frequencies)


class Told:
    """A judge that knows its answers."""

    weights = np.ones(100)
    groups = None

    def __init__(self, values):
        self.values = values

    def log_likelihoods(self, l2, best=None):
        return self.values(np.log10(l2))

    def of_frequencies(self):
        return np.full(100, -1e-3)


def test_a_ridge_that_is_stronger_and_as_good_is_taken(recipe_of_few_rows):
    noise = np.random.default_rng(0).standard_normal(100)
    noise -= noise.mean()

    def lost(log_l2, spread):
        """The best is 0.1; each decade away costs 0.01, and rows differ in what it costs them."""
        return -0.01 * abs(log_l2 + 1.0) + spread * noise * log_l2

    def chosen(spread, caution=0.25):
        judge = Told(lambda log_l2: lost(log_l2, spread))
        return ridge_path.choose_quickly(recipe_of_few_rows, judge, caution=caution)[0].l2

    assert chosen(0.0) == pytest.approx(0.1)
    assert chosen(5.0) == 1.0
    assert chosen(5.0, caution=0.0) == pytest.approx(0.1)


def payments(n, sigma, seed=0, n_payees=60, n_classes=5):
    """What was paid to whom, five payees a row; labels by who was paid, not by how much."""
    rng = np.random.default_rng(seed)
    effects = np.random.default_rng(1).standard_normal((n_payees, n_classes))
    payees = rng.integers(0, n_payees, (n, 5))
    paid = np.exp(rng.normal(3.0, sigma, (n, 5)))
    where = (np.repeat(np.arange(n), 5), payees.ravel())
    X = scipy.sparse.csr_array((paid.ravel(), where), shape=(n, n_payees))
    return X, (effects[payees].sum(axis=1) + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


def test_ridges_of_sparse_values_are_in_their_units():
    """A ridge of 1 is none for values around 20: trials of it end anywhere."""
    X, y = payments(1_500, 0.5)
    X_new, y_new = payments(2_000, 0.5, seed=2)
    model = LinearClassifier(random_state=0).fit(X, y)
    frequencies = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, y_new).mean() > frequencies + 0.2
    assert model.history_.choice is not None
    assert model.history_.choice["l2"] > 100.0
    assert model.history_.choice["ridge_path"]["gain"] > 0.2


def test_where_no_ridge_gains_class_frequencies_are_left():
    X, y = payments(1_000, 2.5)
    X_new, y_new = payments(2_000, 2.5, seed=2)
    with pytest.warns(UserWarning, match="nothing was gained over class frequencies"):
        model = LinearClassifier(random_state=0).fit(X, np.random.default_rng(0).permutation(y))
    frequencies = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, y_new).mean() == pytest.approx(frequencies, abs=1e-3)


@pytest.mark.parametrize(
    ("values", "unit"), [(1.0, 1.0), (0.3, 1.0), (30.0, 1e3), (1e-4, 1e-7), (0.0, 1.0)]
)
def test_the_unit_of_ridges(values, unit):
    X = scipy.sparse.csr_array(np.full((20, 10), values))
    sample = TrainingData(X, np.arange(20) % 3, np.ones(20))
    assert ridge_path.unit_of(sample) == pytest.approx(unit)
    dense = TrainingData(X.toarray(), np.arange(20) % 3, np.ones(20))
    assert ridge_path.unit_of(dense) == 1.0


@pytest.fixture
def recipe_of_few_rows():
    parameters = Parameters.of(LinearClassifier().get_params(deep=False))
    return recipe_for(parameters, Sizes(200, 4, 3, 800, False))
