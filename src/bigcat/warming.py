"""Kernels compiled ahead of time: small fits that go the ways of large ones.

A kernel is compiled when it is first called, and kept on the disk.  Which kernels a default fit
calls depends on the sizes of the data; so each case here asks for the plan of a large problem and
runs it, for an epoch, on a few made-up rows.  Predictions are asked of made-up models, since what
they call depends on the kind of the weights and on how many there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.auto import Parameters, plan_for
from bigcat.compile import watching
from bigcat.estimators import BayesianClassifier, History, LinearClassifier
from bigcat.linear import weights_from
from bigcat.linear.model import DOUBLE_BELOW
from bigcat.rows import Sizes
from bigcat.training.data import TrainingData
from bigcat.training.ensemble import train

__all__ = ["warm"]

#: Of the made-up rows: as many classes as batches draw, so that nothing is taken for small.
N_ROWS, N_FEATURES, N_CLASSES, ROW_NONZEROS = 2_048, 64, 1_024, 8
#: Classes and features of models that predict in double precision, and in single precision, which
#: all weights of which there are many do (those of low rank, too: vectors of so many classes).
MODELS = ((3, 8), (DOUBLE_BELOW // 4, 4))


@dataclass(frozen=True)
class Case:
    """A size of data whose default fit goes its own way."""

    name: str
    n_rows: int
    n_features: int
    n_classes: int
    sparse: bool

    def sizes(self) -> Sizes:
        longest = 100 if self.sparse else self.n_features
        n_values = self.n_rows * longest
        return Sizes(self.n_rows, self.n_features, self.n_classes, n_values, self.sparse, longest)


CASES = (
    Case("few rows of numbers", 500, 10, 3, sparse=False),
    Case("many rows of numbers", 50_000, 50, 10, sparse=False),
    Case("many rows and classes", 50_000, 500, 2_000, sparse=False),
    Case("few texts", 500, 2_000, 5, sparse=True),
    Case("texts", 10_000, 20_000, 20, sparse=True),
    Case("texts of many classes", 80_000, 40_000, 1_000, sparse=True),
    Case("texts of very many classes", 80_000, 40_000, 20_000, sparse=True),
)


def warm(
    *,
    noises: tuple[str, ...] = ("gumbel",),
    dtypes: tuple[str, ...] = ("float32",),
    bayesian: bool = True,
    on_case: Callable[[str], object] = lambda name: None,
) -> list[str]:
    """Compile what default fits and predictions call, and keep it on the disk.

    Kernels of named methods, solvers and samplers, and of parts of your own, are compiled when they
    are first used.

    Parameters
    ----------
    noises : tuple of str, default=("gumbel",)
    dtypes : tuple of str, default=("float32",)
        Of rows: the command line reads float32; NumPy and scikit-learn make float64.
    bayesian : bool, default=True
        Also what `BayesianClassifier` calls.
    on_case : callable, optional
        Told what comes next.

    Returns
    -------
    list of str
        Names of the kernels that were compiled; those in the cache are not.
    """
    compiled: list[str] = []

    def told(name: str | None) -> None:
        if name is not None:
            compiled.append(name)

    with watching(told), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of made-up rows, which nobody wants to know about
        for name, run in _cases(noises, dtypes, bayesian):
            on_case(name)
            run()
    return compiled


def _cases(
    noises: tuple[str, ...], dtypes: tuple[str, ...], bayesian: bool
) -> Iterator[tuple[str, Callable[[], None]]]:
    for dtype in dtypes:
        for noise in noises:
            for case in CASES:
                name = f"{case.name}, {noise}, {dtype}"
                yield name, partial(_fit, case, noise, dtype)
            for n_classes, n_features in MODELS:
                name = f"predictions of {n_classes:,} classes, {noise}, {dtype}"
                yield name, partial(_ask, n_classes, n_features, noise, dtype)
        if bayesian:
            for sparse in (False, True):
                kind = "sparse" if sparse else "dense"
                yield f"a posterior of {kind} rows, {dtype}", partial(_fit_posterior, sparse, dtype)


def _rows(sparse: bool, dtype: str, n_rows: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Rows that look a little like their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    X = rng.random((n_rows, N_FEATURES))
    X[np.arange(n_rows), y % N_FEATURES] += 1.0
    if not sparse:
        return X.astype(dtype), y
    X[np.arange(N_FEATURES) >= ROW_NONZEROS + (y % N_FEATURES)[:, None]] = 0.0
    return scipy.sparse.csr_matrix(X.astype(dtype)), y


def _fit(case: Case, noise: str, dtype: str) -> None:
    """A fit by the plan of the case."""
    model = LinearClassifier(noise, random_state=0, progress=False)
    plan = plan_for(Parameters.of(model.get_params(deep=False)), case.sizes())
    few = not plan.first.parts.solver.stochastic
    X, y = _rows(case.sparse, dtype, *((60, 3) if few else (N_ROWS, N_CLASSES)))
    classes = np.arange(y.max() + 1)
    random_state = np.random.RandomState(0)
    sample = TrainingData(X, y, np.ones(len(y)))
    plan = plan.mapped(lambda config: replace(config, max_epochs=1))
    train(plan, sample, classes, random_state)


def _ask(n_classes: int, n_features: int, noise: str, dtype: str) -> None:
    """All predictions, of weights of every kind, for rows of both forms."""
    rng = np.random.default_rng(0)
    rank = 4
    full: dict[str, np.ndarray] = {"coef": rng.random((n_classes, n_features), np.float32)}
    low: dict[str, np.ndarray] = {
        "embedding": rng.random((n_features, rank), np.float32),
        "class_embedding": rng.random((n_classes, rank), np.float32),
    }
    paired = {
        **low,
        "pair_offset": np.arange(n_features + 1),
        "pair_class": np.zeros(n_features, np.int32),
        "pair_coef": np.ones(n_features, np.float32),
    }
    X = rng.random((2, n_features)).astype(dtype)
    intercept = np.zeros(n_classes, np.float32)
    for arrays in (full, low, paired):
        model = LinearClassifier(noise)
        model.restore(weights_from(arrays.get), intercept, np.arange(n_classes), History())
        model.n_features_in_ = n_features
        for rows in (X, scipy.sparse.csr_matrix(X)):
            _predict(model, rows, np.arange(2))


def _fit_posterior(sparse: bool, dtype: str) -> None:
    X, y = _rows(sparse, dtype, 60, 3)
    _predict(BayesianClassifier(random_state=0, progress=False).fit(X, y), X, y)


def _predict(model: Any, X: Any, y: np.ndarray) -> None:
    model.predict(X)
    model.predict_proba(X)
    model.predict_top_k(X, k=2)
    model.log_proba_of(X, y)
