"""Fits that go wrong: they stop or warn, say what to try, and leave what was there before."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import bigcat
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import METHODS as POSTERIORS
from bigcat.bayes import AugmentReducePosterior, Laplace
from bigcat.bayes.laplace import method as laplace
from bigcat.estimators import inputs
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import AdaGrad, DivergedError
from bigcat.training.fit import DivergedFit
from bigcat.training.passes import Passes

N_CLASSES, N_TRAIN = 5, 400


def problem():
    """Return training and test rows; fits reach -0.26 nats."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.standard_normal((N_CLASSES, 8))
    y = np.arange(600) % N_CLASSES
    return centres[y] + rng.standard_normal((600, 8)), y


def one_column(X):
    X = X.copy()
    X[:, 0] *= 1e10
    return X


#: Changes of X, and of the parameters.
HAZARDS = {
    "one column": (one_column, {}),
    "all columns": (lambda X: 1e30 * X, {}),
    "learning rate": (lambda X: X, {"solver": AdaGrad(learning_rate=1e9)}),
}
#: Log-probability per row that counts as having learned something: frequencies give -1.61.
LEARNED = -1.0


def _fits():
    yield {}
    yield {"rank": None}
    yield {"rank": 4}
    for method in bigcat.methods():
        yield {"method": method["name"], "max_epochs": 30}
    for name, solver in SOLVERS.items():
        if solver.bounds is None:
            yield {"method": "exact", "solver": name, "max_epochs": 30}
    yield {"method": "exact", "rank": 4, "max_epochs": 30}
    yield {"method": "exact", "rank": 4, "solver": "lbfgs", "max_epochs": 100}
    for noise in ("gaussian", "logistic"):
        yield {"noise": noise, "method": "augment-reduce", "max_epochs": 30}


def _solver_of(parameters):
    """The solver that a named method comes with, or the one that is given."""
    named = {method["name"]: method["solver"] for method in bigcat.methods()}
    return parameters.get("solver", named.get(parameters.get("method")))


def _marked(parameters):
    """Slow where no other test compiles the same: all methods but two, and all solvers."""
    common = parameters.get("method", "exact") in ("exact", "augment-reduce")
    is_slow = not common or "solver" in parameters or "noise" in parameters
    return pytest.param(parameters, marks=pytest.mark.slow if is_slow else (), id=_name(parameters))


def _name(parameters):
    return " ".join(str(value) for value in parameters.values()) or "auto"


def works_or_tells(model, X, y, words):
    """Check that the model learns, or else that the fit warned or failed with a remedy."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X[:N_TRAIN], y[:N_TRAIN])
            log_p = model.predict_log_proba(X[N_TRAIN:])
            value = log_p[np.arange(len(log_p)), y[N_TRAIN:]].mean()
        except DivergedError as error:
            value, told = -np.inf, [str(error)]
        else:
            told = [str(w.message) for w in caught]
    if value > LEARNED:
        return
    assert any(any(word in text for word in words) for text in told), (value, told)


REMEDIES = {
    "one column": ("scale the columns",),
    "all columns": ("scale the columns",),
    "learning rate": ("lower learning_rate", "scale the columns"),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("parameters", [_marked(fit) for fit in _fits()])
@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_fit_works_or_tells_what_to_do(hazard, parameters, sparse):
    change, more = HAZARDS[hazard]
    X, y = problem()
    X = change(X)
    if more and _solver_of(parameters) == "lbfgs":
        pytest.skip("L-BFGS has no learning rate")
    model = LinearClassifier(random_state=0, progress=False, **{**parameters, **more})
    if more and parameters.get("method") == "implicit":
        # They stay finite at any rate, and training rows do not tell: refused before any work.
        with pytest.raises(ValueError, match="discard the rows before it; lower learning_rate, 1 "):
            model.fit(X, y)
        return
    works_or_tells(model, scipy.sparse.csr_array(X) if sparse else X, y, REMEDIES[hazard])


@pytest.mark.parametrize("hazard", ["one column", "all columns"])
@pytest.mark.parametrize("method", [Laplace(n_draws=32), *list(POSTERIORS)[1:]], ids=str)
def test_a_posterior_works_or_tells_what_to_do(hazard, method):
    X, y = problem()
    model = BayesianClassifier(method, random_state=0, progress=False)
    works_or_tells(model, HAZARDS[hazard][0](X), y, REMEDIES[hazard])


def test_a_fit_that_is_worse_than_no_fit_says_so():
    X, y = problem()
    model = LinearClassifier(
        method="one-vs-each", random_state=0, solver=AdaGrad(learning_rate=1e9)
    )
    with pytest.warns(UserWarning, match=r"is worse than no fit: .* is -\d.*e\+0\d, .* -1\.609;"):
        model.fit(X, y)


# Sizes that weights in float32 cannot go with


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("estimator", [LinearClassifier(), BayesianClassifier()])
def test_values_that_are_too_large_or_too_small_are_refused(estimator, kind):
    X, y = problem()
    too_large, too_small = X.copy(), 1e-38 * X
    too_large[3, 2] = -1e39
    with pytest.raises(ValueError, match=r"X holds -1e\+39 in row 3, column 2, and weights, which"):
        estimator.fit(kind(too_large), y)
    with pytest.raises(ValueError, match=r"no value of X is larger than 6\.\de-38, and weights"):
        estimator.fit(kind(too_small), y)
    assert not hasattr(estimator, "classes_")


@pytest.mark.parametrize(
    "estimator",
    [LinearClassifier(), LinearClassifier(rank=4), BayesianClassifier(Laplace(n_draws=32))],
    ids=["auto", "low rank", "posterior"],
)
def test_a_column_that_is_too_small_says_nothing(estimator):
    """Its weights would be infinite, and predictions NaN."""
    X, y = problem()
    without = estimator.set_params(random_state=0).fit(X[:, 1:], y).predict_log_proba(X[:, 1:])
    X[:, 0] *= 1e-45
    found = estimator.fit(X, y).predict_log_proba(X)
    assert np.isfinite(found).all()
    labels = np.arange(len(y)), y
    assert abs(found[labels].mean() - without[labels].mean()) < 0.1  # other random vectors


def test_a_fit_that_has_learned_nothing_says_so():
    X, y = problem()
    options: dict[str, Any] = {"method": "exact", "solver": "sgd", "random_state": 0}
    said = "learned nothing from the features: .* whose largest value there is .*e-06, or raise"
    with pytest.warns(UserWarning, match=said):
        LinearClassifier(**options).fit(1e-6 * X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier(l2=1.0, early_stopping=False, **options).fit(
            1e-6 * X, y
        )  # the ridge's own optimum
        LinearClassifier(early_stopping=False, **options).fit(
            0.0 * X, y
        )  # there is nothing to learn
        noise = np.random.default_rng(1).permutation(y)
        LinearClassifier(early_stopping=False, **options).fit(X, noise)  # chance is learned, too


# Numbers that are not finite


def ruin_after(n_epochs, passes):
    """Weights that become NaN in the epoch after so many, whatever the method."""
    train = passes.train

    def ruined(self, first, last):
        value = train(self, first, last)
        if self.epochs_made >= n_epochs and last > first:
            self.state.weights[:] = np.nan
            return float("nan")
        return value

    return ruined


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_last_finite_model_is_at_hand(monkeypatch, rank, early_stopping):
    X, y = problem()
    options: dict[str, Any] = {
        "method": "augment-reduce" if rank is None else "exact",
        "solver": "adagrad",
        "rank": rank,
        "random_state": 0,
        "early_stopping": early_stopping,
    }
    model = LinearClassifier(max_epochs=9, **options)
    with monkeypatch.context() as patched:
        patched.setattr(Passes, "train", ruin_after(3, Passes))
        told = rf"{options['method']} bound became nan in epoch 4; "
        with pytest.raises(DivergedFit, match=told) as caught:
            model.fit(X, y)
    assert not hasattr(model, "classes_")
    last = caught.value.last_model
    assert isinstance(last, LinearClassifier)
    assert last.n_iter_ == 3
    assert last.score(X, y) > 0.7
    assert last.get_params() == model.get_params()


@pytest.fixture
def any_size(monkeypatch):
    """Sizes of X that are refused, to see that what comes after holds them off as well."""
    monkeypatch.setattr(inputs, "check_sizes", lambda X: None)


@pytest.mark.parametrize("rank", [None, 4])
def test_lbfgs_stops_at_numbers_that_are_not_finite(rank, any_size):
    X, y = problem()
    model = LinearClassifier(method="exact", solver="lbfgs", rank=rank, random_state=0)
    with np.errstate(all="ignore"), pytest.raises(DivergedFit, match="scale the columns of X"):
        model.fit(1e200 * X, y)
    assert not hasattr(model, "classes_")


# partial_fit


def _interrupt(monkeypatch, error):
    train = Passes.train
    calls = []

    def interrupted(self, first, last):
        value = train(self, first, last)
        if last:
            calls.append(last)
            if len(calls) == 2:
                raise error
        return value

    monkeypatch.setattr(Passes, "train", interrupted)
    monkeypatch.setattr(Passes, "chunk", lambda self, first, seconds: first + self.block)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), DivergedError("nan")], ids=["ctrl-c", "nan"]
)
@pytest.mark.parametrize("rank", [None, 4])
def test_an_interrupted_partial_fit_leaves_the_weights_as_they_were(monkeypatch, rank, error):
    X, y = problem()

    def model():
        solver = "sgd" if rank is None else "adagrad"
        options = {"method": "exact", "rank": rank, "solver": solver, "random_state": 0}
        return LinearClassifier(**options).partial_fit(X[:200], y[:200], classes=np.arange(5))

    never, cut = model(), model()
    before = {name: array.copy() for name, array in cut._weights().arrays().items()}
    with monkeypatch.context() as patched:
        _interrupt(patched, error)
        with pytest.raises(type(error)):
            cut.partial_fit(X[200:], y[200:])
    for name, array in cut._weights().arrays().items():
        np.testing.assert_array_equal(array, before[name])
    # Nothing else has moved either: the same batch again gives what it would have given.
    never.partial_fit(X[200:], y[200:])
    cut.partial_fit(X[200:], y[200:])
    for name, array in cut._weights().arrays().items():
        np.testing.assert_array_equal(array, never._weights().arrays()[name])
    assert cut.n_iter_ == never.n_iter_ == 2


def test_an_interrupted_partial_fit_leaves_the_posterior_as_it_was(monkeypatch):
    """In the last moment, when all is computed."""
    X, y = problem()

    def model():
        known = BayesianClassifier(random_state=0)
        return known.partial_fit(X[:200], y[:200], classes=np.arange(5))

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    never, cut = model(), model()
    mean, scale = cut.posterior_.mean.copy(), cut.posterior_.scale.copy()
    with monkeypatch.context() as patched:
        patched.setattr(laplace, "FittedPosterior", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(cut.posterior_.mean, mean)
    np.testing.assert_array_equal(cut.posterior_.scale, scale)
    never.partial_fit(X[200:], y[200:])
    cut.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(cut.posterior_.mean, never.posterior_.mean)


def test_posteriors_by_passes_stop_too(monkeypatch):
    from bigcat.bayes.augment_reduce import passes as weight_posterior

    X, y = problem()
    train = weight_posterior.PosteriorPasses.train

    def ruined(self, first, last):
        value = train(self, first, last)
        return float("nan") if last and self.epochs_made >= 2 else value

    monkeypatch.setattr(weight_posterior.PosteriorPasses, "train", ruined)
    model = BayesianClassifier(AugmentReducePosterior(max_epochs=5), random_state=0)
    with pytest.raises(DivergedError, match="in epoch 3; "):
        model.fit(X, y)
    assert not hasattr(model, "posterior_")
