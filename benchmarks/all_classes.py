"""Seconds per 1,000 rows of exact training and prediction, which visit all classes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._passes import new_state, run_passes
from benchmarks._report import save, show
from benchmarks.roofline import EXACT, sparse_problem
from bigcat.linear import FullRankWeights, LinearModel
from bigcat.linear.top_k import top_k
from bigcat.noise import Gumbel
from bigcat.probabilities import log_probabilities, log_probabilities_of
from bigcat.rows import Problem, SparseRows
from bigcat.training.strategies import AllClasses

REPEATS = 5
N_ROWS = 1000
#: Classes, features and non-zeros a row: WordNet, and the two words before a word of Penn Treebank.
SIZES = {"wordnet": (18_964, 26_041, 11), "ptb2": (10_000, 20_000, 2)}


def _training(problem: Problem, general: bool) -> Callable[[int], Any]:
    state = new_state(problem, EXACT)
    route: Any = AllClasses
    applies = AllClasses.applies

    def run(n_threads: int) -> None:
        if general:
            route.applies = staticmethod(lambda workload: False)
        try:
            run_passes(problem, EXACT, state, n_threads)
        finally:
            route.applies = staticmethod(applies)

    return run


def _plain(X: Any, model: LinearModel, labels: np.ndarray) -> dict[str, Callable[[int], Any]]:
    """Predictions from arrays of scores, by NumPy."""

    def of_labels(n_threads: int) -> None:
        for rows, scores in model.score_blocks(X):
            log_probabilities_of(Gumbel(), scores, labels[rows])

    def best_five(n_threads: int) -> None:
        top_k(model.score_blocks(X), lambda s: log_probabilities(Gumbel(), s), 5)

    return {"log_proba_of": of_labels, "predict_top_k": best_five}


def _kernels(X: Any, model: LinearModel, labels: np.ndarray) -> dict[str, Callable[[int], Any]]:
    def on(n_threads: int) -> LinearModel:
        return LinearModel(model.weights, model.intercept, Gumbel(), n_threads)

    return {
        "log_proba_of": lambda n: on(n).log_proba_of(X, labels),
        "predict_top_k": lambda n: on(n).top_k(X, 5),
        "predict": lambda n: on(n).best(X),
    }


def _seconds(run: Callable[[int], Any], n_threads: int) -> dict[str, float]:
    """Return the best wall seconds and the best CPU seconds."""
    run(n_threads)
    wall, cpu = np.inf, np.inf
    for _ in range(REPEATS):
        started, busy = time.perf_counter(), time.process_time()
        run(n_threads)
        wall = min(wall, time.perf_counter() - started)
        cpu = min(cpu, time.process_time() - busy)
    return {"seconds": float(wall), "processor seconds": float(cpu)}


def all_classes() -> None:
    """Print seconds per 1,000 rows, by the general code and by kernels, on 1 and 2 threads."""
    rows = []
    for name, (n_classes, n_features, nonzeros) in SIZES.items():
        problem = sparse_problem(n_classes, n_features, nonzeros, N_ROWS)
        assert isinstance(problem.rows, SparseRows)
        X = scipy.sparse.csr_array(
            (problem.rows.values, problem.rows.indices, problem.rows.indptr),
            shape=(N_ROWS, n_features),
        )
        rng = np.random.default_rng(1)
        coef = rng.standard_normal((n_features, n_classes), np.float32).T
        intercept = rng.standard_normal(n_classes, np.float32)
        model = (X, LinearModel(FullRankWeights(coef), intercept, Gumbel()), problem.labels)
        runs = [("a training pass", "general", 1, _training(problem, True))]
        runs += [("a training pass", "all classes", n, _training(problem, False)) for n in (1, 2)]
        runs += [(what, "arrays of scores", 1, run) for what, run in _plain(*model).items()]
        runs += [
            (what, "all classes", n, run) for what, run in _kernels(*model).items() for n in (1, 2)
        ]
        for what, code, n, run in runs:
            row = {"size": name, "what": what, "code": code, "threads": n}
            rows.append({**row, **_seconds(run, n)})
    show(rows)
    save("all_classes", rows)
