"""Warnings name the line that called bigcat, whatever lies between that line and the warning.

What is called is a function of one line, so that its first line is the one to be named.
"""

import ast
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_val_score

import bigcat
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import IndependentBinary, Laplace
from bigcat.inference import mixing as _mixing
from bigcat.solvers import LBFGS, SGD, AdaGrad

PACKAGE = Path(bigcat.__file__).parent
SHORT: dict[str, Any] = {"method": "exact", "l2": 1.0, "max_epochs": 2, "solver": LBFGS(tol=1e-12)}
BINARY = IndependentBinary(solver="newton", max_iter=1, tol=1e-14)


def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    return X, np.digitize(X[:, 0] + rng.standard_normal(300), [-1.0, 1.0])


def with_one_far_out():
    X, y = rows()
    X[17] *= 1e4
    return X, y


def with_a_large_column():
    X, y = rows()
    X[:, 3] *= 1e3
    return X, y


def of_noise(n=300, n_features=4, n_classes=3):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, n_features)), rng.integers(n_classes, size=n)


def default():
    return LinearClassifier(random_state=0, n_threads=1)


def sampled(**options):
    return LinearClassifier(method="augment-reduce", random_state=0, **options)


def where(call, match):
    """Files and lines that the warnings of a call name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert any(match in str(warning.message) for warning in caught)
    return {(warning.filename, warning.lineno) for warning in caught}


def check_line(call, match):
    assert where(call, match) == {(__file__, call.__code__.co_firstlineno)}


# Fits and attributes

CALLS = {
    "no candidate gained anything": lambda: default().fit(*of_noise(2_000, 60, 20)),
    "very far from all others": lambda: default().fit(*with_one_far_out()),
    "stopped after 2 iterations": lambda: LinearClassifier(**SHORT).fit(*rows()),
    "still growing": lambda: sampled(solver=SGD(0.01, decay=1.0), max_epochs=12).fit(*rows()),
    "one column is": lambda: sampled(max_epochs=2, early_stopping=False).fit(
        *with_a_large_column()
    ),
    "worse than no fit": lambda: sampled(
        solver=AdaGrad(learning_rate=1e9), early_stopping=False
    ).fit(*rows()),
    "the ELBO still grows": lambda: BayesianClassifier(BINARY).fit(*rows()),
}


@pytest.mark.parametrize("match", CALLS)
def test_fits(match):
    check_line(CALLS[match], match)


def test_posteriors(monkeypatch):
    X, y = rows()
    monkeypatch.setattr("bigcat.bayes.laplace.method.LONG_PRODUCTS", 0.0)
    monkeypatch.setattr(_mixing, "TOO_FEW", 1e6)
    model = BayesianClassifier(Laplace(n_draws=64), random_state=0)
    check_line(lambda: model.fit(X, y), "have not mixed")
    first = {"classes": np.arange(3)}
    check_line(lambda: BayesianClassifier().partial_fit(X, y, **first), "visits all classes")
    model._evidence, model.evidence_reason_ = np.nan, "rows are few"
    check_line(lambda: model.evidence_, "evidence_ is NaN")


# Other packages on the stack

#: Functions that could be bigcat's, with code of others between them and the warning.
PRETENDED = """
from contextlib import contextmanager
from bigcat._warnings import warn_caller

@contextmanager
def block():
    yield
    warn_caller("told")

def after_a_block(then=lambda: None):
    with block():
        pass
    then()

def calls(function):
    function()
"""


@pytest.fixture
def pretended():
    space = {"__name__": "bigcat.pretended"}
    exec(compile(PRETENDED, "pretended.py", "exec"), space)
    return space


def test_code_of_others_between_functions_of_bigcat(pretended):
    check_line(lambda: pretended["after_a_block"](), "told")


def test_a_callback_that_calls_bigcat_is_not_who_began(pretended):
    def callback():
        pretended["after_a_block"]()

    check_line(lambda: pretended["calls"](callback), "told")


def test_scikit_learn_that_calls_bigcat():
    X, y = rows()
    ((file, _),) = where(lambda: cross_val_score(LinearClassifier(**SHORT), X, y), "iterations")
    assert Path(file).is_relative_to(Path(sklearn.__file__).parent)


def test_threads(pretended):
    def run(target):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()

    def call():
        pretended["after_a_block"]()

    assert where(lambda: run(call), "told") == {(__file__, call.__code__.co_firstlineno + 1)}
    ((file, _),) = where(lambda: run(pretended["after_a_block"]), "told")
    assert file == threading.__file__


# Filters


def test_a_line_is_told_once(pretended):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            pretended["after_a_block"]()
        pretended["after_a_block"]()
    first, second = (warning.lineno for warning in caught)
    assert second == first + 1


# All of it


def test_nothing_else_warns():
    names = {"warn", "warn_explicit"}
    found = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            used = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.ImportFrom) and node.module == "warnings":
                used = {alias.name for alias in node.names}
            if used & names:
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found == {"_warnings.py"}
