"""Named methods as they come: on rows of any size they end at the optimum.

A gap is the part of the optimal objective that is missing, (best - found) / |best|, with the
objective sum of log p(y) - l2/2 |W|^2 and `best` by scikit-learn.
"""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from forms import forms, slow
from sklearn.exceptions import ConvergenceWarning

import bigcat
from bigcat import EarlyStopping, LinearClassifier
from bigcat.solvers import SGD
from tests.ridge_problems import RidgeProblem, one_vs_each

#: Largest gap after 200 epochs.
LIMIT = 0.002
#: These have the likelihood's optimum whatever is drawn,
UNBIASED = ("augment-reduce", "implicit", "umax", "vanilla", "raman", "exact")
#: these where all classes are: up to 33, with the 32 that are drawn as they come.
WITH_ALL_CLASSES = ("complementary", "importance")
STOCHASTIC = [m["name"] for m in bigcat.methods() if m["solver"] != "lbfgs"]

PROBLEMS = {
    "short dense rows": RidgeProblem(400, 4, 3, length=0.01, ridge=0.3, seed=101),
    "long sparse rows": RidgeProblem(800, 60, 40, 100.0, 2.0, seed=102, density=0.15),
    "tiny": RidgeProblem(150, 3, 3, length=1.0, ridge=1.0, seed=103),
    "short sparse rows": RidgeProblem(3_000, 120, 12, 0.03, 1.0, seed=104, density=0.05),
    "rows of unequal length": RidgeProblem(2_000, 10, 15, 5.0, 0.5, seed=105, spread=1.0),
    "rare classes": RidgeProblem(5_000, 8, 60, length=0.3, ridge=1.0, seed=106, rare=1.0),
    "300 classes": RidgeProblem(6_000, 10, 300, length=1.0, ridge=1.0, seed=107, rare=0.5),
    "300 classes, sparse": RidgeProblem(
        8_000, 200, 300, 20.0, 2.0, seed=108, density=0.05, rare=0.7
    ),
    "strong ridge": RidgeProblem(1_000, 30, 20, length=100.0, ridge=50.0, seed=109),
    "weak ridge": RidgeProblem(4_000, 12, 30, length=0.1, ridge=0.01, seed=110),
}


def fitted(problem, method, **options):
    options = {"l2": problem.l2, "max_epochs": 200, "random_state": 0} | options
    return LinearClassifier(method=method, **options).fit(*problem.data)


def gaps(problem):
    """The gap of each method that has the likelihood's optimum."""
    methods = UNBIASED + (WITH_ALL_CLASSES if problem.n_classes <= 33 else ())
    for method in methods:
        model = fitted(problem, method)
        missing = problem.best - problem.value(model.coef_, model.intercept_)
        of_gain = missing / (problem.best - problem.frequencies)
        print(f"{method}: {missing / abs(problem.best):.3%}, of what can be gained {of_gain:.3%}")
        yield method, missing / abs(problem.best)


def check_reached(problem):
    found = dict(gaps(problem))
    assert all(-1e-6 < gap < LIMIT for gap in found.values()), found


#: Methods with the same kernels; the others have kernels of their own, or take long.
QUICK = ("short dense rows", "tiny")


@pytest.mark.parametrize("name", forms(PROBLEMS, lambda name: name in QUICK))
def test_the_optimum_is_reached(name):
    check_reached(PROBLEMS[name])


@pytest.mark.parametrize(
    "name", forms(["short dense rows", "rare classes"], lambda name: name != "rare classes")
)
def test_one_vs_each_reaches_its_own_optimum(name):
    problem = PROBLEMS[name]
    best = problem.best_of(one_vs_each)
    model = fitted(problem, "one-vs-each")
    gap = (best - problem.value(model.coef_, model.intercept_, one_vs_each)) / abs(best)
    print(f"{gap:.3%}")
    assert -1e-6 < gap < LIMIT


@pytest.mark.parametrize("method", STOCHASTIC)
def test_the_size_of_rows_makes_no_difference(method):
    """Up to rounding, and what AdaGrad adds to small gradients."""
    small = RidgeProblem(300, 4, 5, length=2.0**-40, ridge=0.5, seed=111)
    large = RidgeProblem(300, 4, 5, length=2.0**40, ridge=0.5, seed=111)
    a, b = (fitted(problem, method, max_epochs=5) for problem in (small, large))
    np.testing.assert_allclose(a.coef_ * 2.0**-40, b.coef_ * 2.0**40, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", STOCHASTIC)
def test_one_huge_row_does_not_stop_them_from_learning(method):
    """Held-out rows are predicted nearly as well as without it."""
    X, y = RidgeProblem(900, 5, 5, length=1.0, ridge=1.0, seed=112).data
    train, new = slice(0, 600), slice(600, None)
    frequencies = np.log(np.bincount(y[train]) / 600.0)[y[new]].mean()
    gains = []
    for factor in (1.0, 1e4):
        rows = X[train].copy()
        rows[7] *= factor
        model = LinearClassifier(method=method, l2=1.0, max_epochs=20, random_state=0)
        gains.append(model.fit(rows, y[train]).log_proba_of(X[new], y[new]).mean() - frequencies)
    print(f"{method}: {gains}")
    assert gains[0] > 0.2
    assert gains[1] > 0.85 * gains[0]


# One pass of `partial_fit`


@pytest.mark.parametrize("method", [*STOCHASTIC, "auto"])
@pytest.mark.parametrize("length", [0.01, 100.0])
def test_a_pass_in_parts_is_as_good_as_a_pass_of_fit(method, length):
    """On held-out rows: at least three quarters of what `fit` gains over class frequencies."""
    gains = []
    for seed in range(3):
        X, y = RidgeProblem(2_400, 6, 8, length, ridge=1.0, seed=200 + seed).data
        train, new = slice(0, 2_000), slice(2_000, None)
        frequencies = np.log(np.bincount(y[train]) / 2_000.0)[y[new]].mean()
        options: dict[str, Any] = {"method": method, "rank": None, "random_state": seed}
        # The choice of "auto" for more rows, in place of L-BFGS for these.
        chosen: dict[str, Any] = {"solver": "damped"} if method == "auto" else {}
        whole = LinearClassifier(max_epochs=1, **chosen, **options).fit(X[train], y[train])
        parts = LinearClassifier(**options)
        for first in range(0, 2_000, 100):
            rows = slice(first, first + 100)
            parts.partial_fit(X[rows], y[rows], classes=np.unique(y))
        gains.append([m.log_proba_of(X[new], y[new]).mean() - frequencies for m in (whole, parts)])
    of_fit, of_parts = np.mean(gains, axis=0)
    print(f"{method}: fit {of_fit:.3f}, parts {of_parts:.3f}")
    assert of_fit > 0.2
    assert of_parts > 0.75 * of_fit


# Warnings


def warned(**options):
    X, y = RidgeProblem(300, 4, 5, length=1.0, ridge=1.0, seed=113).data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LinearClassifier(random_state=0, **options).fit(X, y)
    found = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert all(w.filename == __file__ for w in found)  # where `fit` was called
    return [str(w.message) for w in found]


def test_a_fit_that_the_limit_of_epochs_ended_warns():
    slow = {"method": "augment-reduce", "solver": SGD(0.01, decay=1.0), "max_epochs": 12}
    (message,) = warned(**slow)
    assert message.startswith("the objective was still growing by more than tol=0.0001 an epoch")
    assert "max_epochs=12" in message
    (message,) = warned(**slow, early_stopping=True)
    assert message.startswith("the held-out log-likelihood was still growing")
    assert warned(early_stopping=False, **slow) == []
    assert warned(**slow | {"max_epochs": 200, "solver": SGD(0.5, decay=0.9)}) == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (EarlyStopping(None, patience=2, tol=0.01), [False, False, False, False, False, True]),
        (EarlyStopping(None, patience=2, tol=0.0), [False] * 6),
        (EarlyStopping(patience=2, tol=0.01), [False, False, False, False, True, True]),
    ],
    ids=repr,
)
def test_a_rule_stops_what_no_longer_grows(rule, expected):
    values = [-3.0, -2.0, -1.0, -1.0, -1.0, -1.0]
    assert [rule.is_over(values[:n]) for n in range(1, 7)] == expected
    assert rule.is_moving([-3.0, -2.0, -1.5, -1.0]) is (rule.tol > 0.0)


@pytest.mark.parametrize("method", STOCHASTIC)
def test_a_planned_end_does_not_warn(method):
    assert warned(method=method, max_epochs=12) == []


@pytest.mark.parametrize("method", ["augment-reduce", slow("implicit")])
def test_sparse_rows_of_which_most_are_empty(method):
    """They do not decide what a typical row is."""
    X, y = RidgeProblem(600, 20, 4, 10.0, ridge=1.0, seed=114, density=0.3).data
    empty = scipy.sparse.csr_array((900, 20))
    rows = scipy.sparse.csr_array(scipy.sparse.vstack([X[:400], empty]))
    labels = np.concatenate([y[:400], np.resize(np.arange(4), 900)])
    model = LinearClassifier(method=method, l2=100.0, max_epochs=20, random_state=0)
    model.fit(rows, labels)
    assert model.score(X[400:], y[400:]) > 1.5 * np.bincount(y[400:]).max() / 200.0
