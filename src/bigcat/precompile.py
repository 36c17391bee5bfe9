"""Kernel precompilation: small fits and predictions that take the code paths of large ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from bigcat.auto import Parameters, plan_for
from bigcat.compile import compiling_always, watching
from bigcat.estimators import BayesianClassifier, LinearClassifier
from bigcat.linear.model import MIN_FLOAT32_WEIGHTS
from bigcat.rows import Sizes
from bigcat.training.data import TrainingData
from bigcat.training.ensemble import train

__all__ = ["precompile"]

#: Sizes of the synthetic rows; as many classes as batches draw, so that none counts as small.
N_ROWS, N_FEATURES, N_CLASSES, ROW_NONZEROS = 2_048, 64, 1_024, 8
#: Sizes of data whose default fits need different kernels.
CASES = {
    "rows of numbers": (50_000, 50, 10, False),
    "rows of numbers, many classes": (50_000, 500, 5_000, False),
    "texts": (80_000, 40_000, 1_000, True),
    "texts, many classes": (80_000, 40_000, 20_000, True),
}


def precompile(
    *,
    noises: tuple[str, ...] = ("gumbel",),
    dtypes: tuple[str, ...] = ("float32",),
    bayesian: bool = True,
    on_case: Callable[[str], object] = lambda name: None,
) -> list[str]:
    """Compile and cache the kernels that default fits and predictions call.

    Kernels of other methods, solvers, samplers and user-defined parts are compiled on first use.

    Parameters
    ----------
    noises : tuple of str, default=("gumbel",)
        Noises to compile for.
    dtypes : tuple of str, default=("float32",)
        Types of the rows: the command line reads float32; NumPy and scikit-learn create float64.
    bayesian : bool, default=True
        Include kernels of `BayesianClassifier`.
    on_case : callable, optional
        Called with the name of each case before it is compiled.

    Returns
    -------
    list of str
        Names of the compiled kernels; cached ones are not listed.

    Examples
    --------
    >>> from bigcat.precompile import precompile
    >>> compiled = precompile(noises=("gumbel", "gaussian"))  # doctest: +SKIP
    """
    compiled: list[str] = []

    def record(name: str | None) -> None:
        if name is not None:
            compiled.append(name)

    with watching(record), compiling_always(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of made-up rows
        for dtype in dtypes:
            for noise in noises:
                for name, sizes in CASES.items():
                    on_case(f"{name}, {noise}, {dtype}")
                    _fit(noise, dtype, *sizes)
            if bayesian:
                on_case(f"a posterior, {dtype}")
                X, y = _rows(False, dtype, 60, 3)
                _predict(BayesianClassifier(random_state=0, progress=False).fit(X, y), X, y)
    return compiled


def _rows(sparse: bool, dtype: str, n_rows: int, n_classes: int) -> tuple[Any, np.ndarray]:
    """Return random rows that depend weakly on their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    X = rng.random((n_rows, N_FEATURES))
    X[np.arange(n_rows), y % N_FEATURES] += 1.0
    if not sparse:
        return X.astype(dtype), y
    X[np.arange(N_FEATURES) >= ROW_NONZEROS + (y % N_FEATURES)[:, None]] = 0.0
    return scipy.sparse.csr_matrix(X.astype(dtype)), y


def _fit(
    noise: str, dtype: str, n_rows: int, n_features: int, n_classes: int, sparse: bool
) -> None:
    """Fit one epoch with the plan for data of these sizes, then predict."""
    longest = 100 if sparse else n_features
    sizes = Sizes(n_rows, n_features, n_classes, n_rows * longest, sparse, longest)
    model = LinearClassifier(noise, random_state=0, progress=False)
    plan = plan_for(Parameters.of(model.get_params(deep=False)), sizes)
    plan = plan.mapped(lambda config: replace(config, max_epochs=1))
    X, y = _rows(sparse, dtype, N_ROWS, N_CLASSES)
    data, classes = TrainingData(X, y, np.ones(len(y))), np.arange(N_CLASSES)
    result = train(plan, data, classes, np.random.RandomState(0))
    few, twice = (result.weights.take(np.tile(classes[:256], n)) for n in (1, 2))
    n_copies = -(-MIN_FLOAT32_WEIGHTS // (twice.size - few.size))
    for many in (few, result.weights.take(np.tile(classes[:256], n_copies))):  # both precisions
        model.restore(many, np.zeros(len(many), np.float32), np.arange(len(many)), result.history)
        model.n_features_in_ = N_FEATURES
        _predict(model, X[:2], y[:2])


def _predict(model: Any, X: Any, y: np.ndarray) -> None:
    model.predict(X)
    model.predict_proba(X)
    model.log_proba_of(X, y)
