"""Fixtures shared by the batteries.

A battery runs for every member of a registry, so that a new member is tested by being registered;
the noises also include one given by plain Python functions, the Student-t with 3 degrees of
freedom: heavy tails, not log-concave, and so the awkward case.
"""

import gc
import math
import os
from dataclasses import replace
from typing import Any, NamedTuple

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its checks

import compile_once
import numba
import numpy as np
import pytest
from clusters import a_cluster

import reference.noise
from bigcat import bounds, combinations, noise
from bigcat.linear import FullRank, FullRankWeights
from bigcat.noise import CustomNoise
from bigcat.rows import Problem, as_rows, class_major
from bigcat.samplers import Uniform
from bigcat.training.state import State
from tests.driving import drive

#: Files that take longest go first: each goes to one worker, and one that is begun last would be
#: waited for.
FIRST = (
    "test_compile.py",
    "test_docs.py",
    "test_bounds.py",
    "test_estimators.py",
    "test_samplers.py",
    "test_solvers.py",
    "test_unbiased.py",
    "test_low_rank.py",
    "test_exact_training.py",
    "test_sklearn_checks.py",
    "test_bayes_classifier.py",
    "test_guards.py",
    "test_shards.py",
    "test_site.py",
    "test_store_bayesian.py",
)


def pytest_collection_modifyitems(items):
    place = {name: i for i, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(FIRST)))


def pytest_collection_finish():
    gc.collect()
    compile_once.keep_what_there_is()


def pytest_runtest_teardown():
    compile_once.release_all()


_ROOT_3 = math.sqrt(3.0)
_LOG_TOP = math.log(2.0 / (math.pi * _ROOT_3))  # of the density, at zero


@numba.njit
def _upper_tail(t):
    """1 - Phi(t), t >= 0: (atan(1/v) - v/(1 + v^2)) / pi, v = t / sqrt(3), a series far out."""
    v = t / _ROOT_3
    if v < 12.0:
        return (math.atan2(1.0, v) - v / (1.0 + v * v)) / math.pi
    r = 1.0 / (v * v)
    series = 2 / 3 - r * (4 / 5 - r * (6 / 7 - r * (8 / 9 - r * (10 / 11 - r * 12 / 13))))
    return r / v * series / math.pi


def _log_cdf(t):
    return math.log(_upper_tail(-t)) if t < 0.0 else math.log1p(-_upper_tail(t))


def _log_cdf_grad(t):
    density = math.exp(_LOG_TOP - 2.0 * math.log1p(t * t / 3.0))
    return density / (_upper_tail(-t) if t < 0.0 else 1.0 - _upper_tail(t))


def _log_pdf(t):
    return _LOG_TOP - 2.0 * math.log1p(t * t / 3.0)


def _log_pdf_grad(t):
    return -4.0 * t / (3.0 + t * t)


STUDENT_T = CustomNoise("student-t", _log_cdf, _log_cdf_grad, _log_pdf, _log_pdf_grad)
NOISES = {**noise.REGISTRY, STUDENT_T.name: STUDENT_T}
TWINS = {
    "gumbel": reference.noise.GUMBEL,
    "gaussian": reference.noise.GAUSSIAN,
    "logistic": reference.noise.LOGISTIC,
    "student-t": reference.noise.STUDENT_T,
}


@pytest.fixture(scope="session")
def student_t():
    return STUDENT_T


class NoisePair(NamedTuple):
    """A noise and its twin in plain NumPy."""

    noise: noise.Noise
    twin: reference.noise.Noise

    @property
    def name(self):
        return self.noise.name


@pytest.fixture(params=list(NOISES), scope="session")
def pair(request):
    """Every noise."""
    return NoisePair(NOISES[request.param], TWINS[request.param])


@pytest.fixture(params=[name for name in NOISES if name != "gumbel"], scope="session")
def quadrature_pair(request):
    """Every noise without a closed form for its probabilities."""
    return NoisePair(NOISES[request.param], TWINS[request.param])


class BoundCase(NamedTuple):
    """A bound with one of the noises that it accepts."""

    bound: bounds.Bound
    pair: NoisePair

    @property
    def tag(self):
        return self.bound.lower(self.pair.noise)


def _bound_cases():
    """Each bound with each noise; those that most noises have in common go through two of them,
    and through all where time does not matter: each is a handful of kernels of its own."""
    for name, kind in bounds.REGISTRY.items():
        for noise_name in kind.noises or NOISES:
            both = name == "augment-reduce" and noise_name != "gumbel"
            for expectation in ("quadrature", "sample") if both else ("",):
                bound = bounds.AugmentReduce(expectation=expectation) if both else kind()
                case = BoundCase(bound, NoisePair(NOISES[noise_name], TWINS[noise_name]))
                quick = noise_name in ("gumbel", "gaussian")
                marks = () if quick else pytest.mark.slow
                name_of_case = f"{name}-{noise_name}-{expectation}".rstrip("-")
                yield pytest.param(case, id=name_of_case, marks=marks)


BOUND_CASES = list(_bound_cases())


@pytest.fixture(params=BOUND_CASES, scope="session")
def case(request):
    """Every bound with every noise that it accepts."""
    return request.param


def _cases_where(condition):
    return [param for param in BOUND_CASES if condition(param.values[0].bound)]


@pytest.fixture(params=_cases_where(lambda b: b.deterministic), scope="session")
def deterministic_case(request):
    """Every bound and estimator without randomness of its own."""
    return request.param


@pytest.fixture(params=_cases_where(lambda b: b.deterministic and b.is_bound), scope="session")
def deterministic_bound_case(request):
    return request.param


@pytest.fixture(params=_cases_where(lambda b: not b.deterministic), scope="session")
def monte_carlo_case(request):
    return request.param


@pytest.fixture(params=_cases_where(lambda b: b.can_sample and b.is_bound), scope="session")
def sampling_case(request):
    """Every bound that promises to be right on average over a sample of classes."""
    return request.param


@pytest.fixture(params=_cases_where(lambda b: not b.can_sample), scope="session")
def unsampled_case(request):
    return request.param


@pytest.fixture(params=_cases_where(lambda b: not b.is_bound), scope="session")
def estimator_case(request):
    """Return every objective that is not a bound."""
    return request.param


@pytest.fixture(params=_cases_where(lambda b: b.n_local), scope="session")
def local_case(request):
    """Every bound that has local parameters for that noise."""
    return request.param


class Trained(NamedTuple):
    coef: np.ndarray  # (n_classes, n_features), in the working precision
    intercept: np.ndarray
    local: np.ndarray
    values: list[float]  # mean a row, of each epoch
    coefs: list[np.ndarray]  # as seen after each epoch


@pytest.fixture(scope="session")
def train():
    """Run the training loop itself, whose weights keep the precision of X."""

    def run(
        X: Any,
        y: np.ndarray,
        *,
        method: str = "augment-reduce",
        noise_name: str = "gumbel",
        solver: Any = "sgd",
        n_negatives: int = 3,
        batch_size: int = 4,
        epochs: int = 2,
        l2: float = 0.0,
        row_weights: np.ndarray | None = None,
        n_classes: int | None = None,
        head: Any = (),
        shuffle: bool = True,
        fit_intercept: bool = True,
        seed: int = 0,
        start: tuple[np.ndarray, np.ndarray] | None = None,
        **bound_options: Any,
    ) -> Trained:
        bound = combinations.resolve_method(method).bound
        parts = combinations.resolve(
            replace(bound, **bound_options),
            NOISES[noise_name],
            solver=solver,
            sampler=Uniform(n_negatives),
        )
        n_classes = n_classes or int(y.max()) + 1
        problem = Problem(
            as_rows(X, X.dtype),
            y.astype(np.int64),
            np.ones(len(y)) if row_weights is None else np.asarray(row_weights, float),
            X.shape[1],
            n_classes,
            l2=l2,
            fit_intercept=fit_intercept,
            head=np.asarray(head, np.int64),
        )
        coef, intercepts = np.zeros((n_classes, X.shape[1]), X.dtype), np.zeros(n_classes, X.dtype)
        if start is not None:
            coef[:], intercepts[:] = start
        random_state = np.random.RandomState(seed)
        begin = (FullRankWeights(coef), intercepts)
        state = State.new(problem, parts, FullRank(), begin, random_state)
        values: list[float] = []
        coefs: list[np.ndarray] = []

        def on_epoch(value: float) -> None:
            values.append(value)
            coefs.append(np.ascontiguousarray(class_major(state.weights, problem.rows)).copy())

        drive(
            problem,
            parts,
            state,
            on_epoch,
            batch_size=batch_size,
            epochs=epochs,
            seed=random_state,
            shuffle=shuffle,
        )
        coef = np.ascontiguousarray(class_major(state.weights, problem.rows))
        return Trained(coef, state.intercepts, state.local, values, coefs)

    return run


@pytest.fixture(scope="module")
def client():
    """Two workers of a Dask cluster within this process."""
    with a_cluster() as found:
        yield found
