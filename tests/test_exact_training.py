"""The kernels that visit all classes at vector speed, against the general one."""

import numpy as np
import pytest
import scipy.sparse
from forms import slow

from bigcat.bounds import Exact
from bigcat.combinations import Parts
from bigcat.noise import Gumbel
from bigcat.numerics import random as _random
from bigcat.rows import Problem, as_rows, class_major
from bigcat.samplers import Everything
from bigcat.solvers import SGD
from bigcat.training.state import State
from bigcat.training.strategies import AllClasses
from tests.driving import drive

N_ROWS, N_FEATURES = 90, 12
PARTS = Parts(Gumbel(), Exact(), Everything(), SGD(0.5))


def data(n_classes, seed=0):
    rng = np.random.RandomState(seed)
    X = (rng.random_sample((N_ROWS, N_FEATURES)) - 0.3) * (rng.random_sample(N_FEATURES) < 0.6)
    X[5] = 0.0  # a row without features
    return (
        scipy.sparse.csr_array(X),
        rng.randint(n_classes, size=N_ROWS),
        0.5 + rng.random_sample(N_ROWS),
    )


def train(sparse, dtype, n_classes, batch_size=1, n_threads=1, n_epochs=3, **options):
    """Weights (class-major), intercepts and the value of each epoch."""
    X, labels, row_weights = data(n_classes)
    rows = as_rows(X if sparse else X.toarray(), dtype)
    problem = Problem(rows, labels, row_weights, N_FEATURES, n_classes, **options)
    start = 0.1 * np.random.RandomState(1).standard_normal((n_classes, N_FEATURES))
    weights = np.ascontiguousarray(start.T if sparse else start, dtype)
    state = State(
        weights=weights,
        intercepts=np.zeros(n_classes, dtype),
        weights_state=np.zeros((len(weights), 0), dtype),
        intercepts_state=np.zeros(0, dtype),
        local=np.zeros((N_ROWS, 0)),
        rng=_random.new_state(np.random.RandomState(2)),
    )
    values: list[float] = []
    sizes = {"batch_size": batch_size, "epochs": n_epochs, "n_threads": n_threads}
    drive(problem, PARTS, state, values.append, **sizes)
    return class_major(state.weights, rows), state.intercepts, values, state.iteration


@pytest.mark.parametrize(
    ("sparse", "dtype"),
    [
        (False, np.float64),
        slow(True, np.float64),
        slow(False, np.float32),
        slow(True, np.float32),
    ],
)
@pytest.mark.parametrize(
    ("n_classes", "batch_size", "problem"),
    [
        slow(2, 1, {}),
        slow(7, 1, {"l2": 2.0}),
        (7, 8, {"l2": 2.0, "fit_intercept": False}),
        slow(7, 1, {"l2": 3000.0}),  # the scale of the weights is multiplied out many times
        slow(4500, 1, {}),  # more than one block of classes
        (4500, 64, {"l2": 1.0}),
        (4097, N_ROWS, {}),  # a block of one class
    ],
)
def test_same_numbers_as_the_general_kernel(
    monkeypatch, sparse, dtype, n_classes, batch_size, problem
):
    fast = train(sparse, dtype, n_classes, batch_size, **problem)
    monkeypatch.setattr(AllClasses, "applies", lambda workload: False)
    general = train(sparse, dtype, n_classes, batch_size, **problem)
    tolerance = 1e-12 if dtype is np.float64 else 3e-6
    for ours, theirs in zip(fast, general):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("batch_size", "l2"), [(1, 0.0), (1, 5.0), (8, 5.0), (1, 3000.0)])
def test_threads_reach_about_the_same(sparse, batch_size, l2):
    one = train(sparse, np.float64, 20, batch_size, l2=l2)
    three = train(sparse, np.float64, 20, batch_size, n_threads=3, l2=l2)
    assert three[3] == one[3]  # steps
    # Another order of the rows, and now and then a lost update: a few percent of what was gained.
    np.testing.assert_allclose(three[2], one[2], atol=0.05)
    assert np.abs(three[0] - one[0]).max() < 0.4
