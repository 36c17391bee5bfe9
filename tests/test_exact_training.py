"""The kernels that visit all classes at vector speed, against the general one."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from forms import slow

from bigcat import LinearClassifier
from bigcat.bounds import AugmentReduce, Exact
from bigcat.combinations import Parts
from bigcat.linear import FullRank, LowRank
from bigcat.noise import Gaussian, Gumbel
from bigcat.numerics import random as _random
from bigcat.rows import Problem, Sizes, as_rows, class_major
from bigcat.samplers import Everything, Uniform
from bigcat.solvers import SGD, AdaGrad
from bigcat.training import passes as _threads
from bigcat.training.state import State
from bigcat.training.strategies import AllClasses, Workload
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
def test_one_thread_gives_the_same_bits(sparse):
    first, second = (train(sparse, np.float64, 300, 8) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("batch_size", "l2"), [(1, 0.0), (1, 5.0), (8, 5.0), (1, 3000.0)])
def test_threads_reach_about_the_same(sparse, batch_size, l2):
    one = train(sparse, np.float64, 20, batch_size, l2=l2)
    three = train(sparse, np.float64, 20, batch_size, n_threads=3, l2=l2)
    assert three[3] == one[3]  # steps
    # Another order of the rows, and now and then a lost update: a few percent of what was gained.
    np.testing.assert_allclose(three[2], one[2], atol=0.05)
    assert np.abs(three[0] - one[0]).max() < 0.4


@pytest.mark.parametrize(("n_batches", "n_parts"), [(1, 2), (2, 2), (7, 3), (8, 5)])
def test_cuts_are_whole_batches(n_batches, n_parts):
    first, last, batch_size = 40, 40 + 8 * n_batches - 3, 8
    cuts = _threads._cut(first, last, batch_size, n_parts)
    assert len(cuts) == min(n_batches, n_parts)
    assert cuts[0][0] == first
    assert cuts[-1][1] == last
    for (_, end), (start, _) in itertools.pairwise(cuts):
        assert end == start
        assert (start - first) % batch_size == 0


@pytest.mark.slow
def test_a_large_row_keeps_its_small_gradients():
    """1 - p would be rounding for p near 1; the label's gradient is minus the sum of the others."""
    X = scipy.sparse.csr_array(np.ones((1, 1), np.float32))
    problem = Problem(as_rows(X, np.float32), np.zeros(1, np.int64), np.ones(1), 1, 3)
    state = State(
        weights=np.array([[25.0, 0.0, -1.0]], np.float32),
        intercepts=np.zeros(3, np.float32),
        weights_state=np.zeros((1, 0), np.float32),
        intercepts_state=np.zeros(0, np.float32),
        local=np.zeros((1, 0)),
        rng=_random.new_state(np.random.RandomState(0)),
    )
    values: list[float] = []
    passes = drive(problem, PARTS, state, values.append)
    value, scale = values[0], passes.scale
    others = np.exp([-25.0, -26.0])
    assert scale == 1.0
    assert value == pytest.approx(-others.sum(), abs=1e-14)
    np.testing.assert_allclose(
        state.intercepts, 0.5 * np.array([others.sum(), *-others]), rtol=1e-5
    )


@pytest.mark.slow  # a training loop of its own
def test_nan_is_seen():
    X = np.full((4, 2), 1e30, np.float32)
    model = LinearClassifier(
        method="exact", solver=SGD(learning_rate=1e30), random_state=0, max_epochs=5
    )
    with pytest.raises(FloatingPointError, match="exact bound became"):
        model.fit(X, [0, 1, 2, 0])


def test_applies_to_the_exact_softmax_with_plain_steps_only():
    def applies(*parts, kind=FullRank()):  # noqa: B008
        return AllClasses.applies(Workload(Parts(*parts), kind, Sizes(9, 2, 5, 18, False, 2), 1))

    assert applies(Gumbel(), Exact(), Everything(), SGD())
    assert not applies(Gumbel(), Exact(), Everything(), SGD(), kind=LowRank(2))
    assert not applies(Gaussian(), Exact(), Everything(), SGD())
    assert not applies(Gumbel(), AugmentReduce(), Everything(), SGD())
    assert not applies(Gumbel(), Exact(), Uniform(3), SGD())
    assert not applies(Gumbel(), Exact(), Everything(), AdaGrad())
