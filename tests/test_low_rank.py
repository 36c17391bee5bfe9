"""Scores of low rank inside the solvers: the twin's steps, gradients, shared draws, tails, bits."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from bigcat.bounds import Complementary, Exact, NoiseContrastive
from bigcat.bounds._base import full_rows
from bigcat.combinations import Parts
from bigcat.compile import kernel
from bigcat.linear import LowRank, LowRankWeights
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows
from bigcat.samplers import Everything, Frequency, Shared
from bigcat.solvers import LBFGS, AdaGrad, DivergedError
from bigcat.training.lbfgs import Objective
from bigcat.training.state import State
from bigcat.training.strategies import SharedClasses, Workload
from bigcat.verbs import draw, label_count
from reference import estimators as twin_bounds
from reference import low_rank as twin
from tests.driving import drive

N_ROWS, N_FEATURES, N_CLASSES, RANK = 23, 6, 9, 3
SOLVER = AdaGrad(0.3, schedule="linear")
KIND = LowRank(RANK)
ROWS = {
    "complementary": lambda label, others, d: twin_bounds.complementary(label, others, d.counts),
    "exact": lambda label, others, d: twin_bounds.complementary(label, others, d.counts),
    "nce": lambda label, others, d: twin_bounds.noise_contrastive(
        label, others, d.counts, d.label_count
    ),
}


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    row_weights: np.ndarray


@pytest.fixture(scope="module")
def data():
    """Rows with zeros, one of them empty; a class without rows; weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.6)
    X[4] = 0.0
    return Data(3.0 * X, rng.integers(N_CLASSES - 1, size=N_ROWS), rng.uniform(0.2, 2.0, N_ROWS))


def problem_of(data, sparse=True, dtype=np.float64, **options):
    X = scipy.sparse.csr_array(data.X) if sparse else data.X
    return Problem(
        as_rows(X, dtype),
        data.y,
        data.row_weights,
        data.X.shape[1],
        N_CLASSES,
        **{"unit_rows": True, **options},
    )


def some_model(seed=1, size=1.0):
    rng = np.random.default_rng(seed)
    shapes = ((N_CLASSES, RANK), (N_FEATURES, RANK), N_CLASSES)
    return twin.Model(*(size * rng.normal(size=shape) for shape in shapes))


class Trained(NamedTuple):
    vectors: np.ndarray
    intercepts: np.ndarray
    values: list[float]


def train(problem, parts, model, batch_size, epochs=1, n_threads=1) -> Trained:
    """The compiled loop, rows in their order."""
    dtype = problem.rows.values.dtype
    vectors = np.concatenate([model.V, model.U]).astype(dtype)
    stateful, state_width = parts.solver.has_state, parts.solver.state_width(RANK)
    state = State(
        weights=vectors,
        intercepts=model.b.astype(dtype),
        weights_state=np.zeros((len(vectors), state_width), dtype),
        intercepts_state=np.zeros(N_CLASSES if stateful else 0, dtype),
        local=parts.bound.initial_local(parts.noise, model.b)[problem.labels],
        rng=new_state(np.random.RandomState(4)),
    )
    values: list[float] = []
    sizes = {"batch_size": batch_size, "epochs": epochs, "n_threads": n_threads}
    drive(problem, parts, state, values.append, kind=KIND, shuffle=False, **sizes)
    return Trained(state.weights, state.intercepts, values)


@kernel
def draw_once(sampler, rng, rows, i, label, classes, counts):
    return draw(sampler, rng, rows, i, label, classes, counts)


@kernel
def label_counts(sampler, counts):
    for k in range(counts.shape[0]):
        counts[k] = label_count(sampler, k)


def batches_with_draws(problem, sampler, batch_size, epochs, shared):
    """Return the draws of the loop in order: for each row, or once per batch."""
    tag, rng = sampler.lower(problem), new_state(np.random.RandomState(4))
    of_labels = np.empty(N_CLASSES)
    label_counts(tag, of_labels)

    def drawn(i, label):
        classes, counts = np.empty(N_CLASSES + 1, np.int64), np.empty(N_CLASSES + 1)
        n, _ = draw_once(tag, rng, problem.rows, i, label, classes, counts)
        return twin.Draw(classes[:n], counts[:n], counts[n])

    for _ in range(epochs):
        for start in range(0, N_ROWS, batch_size):
            rows = np.arange(start, min(start + batch_size, N_ROWS))
            labels = problem.labels[rows]
            if shared:
                yield rows, twin.shared_by(labels, drawn(0, -1), of_labels)
            else:
                yield rows, [drawn(i, label) for i, label in zip(rows, labels)]


# The twin


class Case(NamedTuple):
    bound: Any
    sampler: Any
    batch_size: int
    sparse: bool = True


CASES = {
    "a row a step": Case(Complementary(), Shared(5), 1),
    "own draws a row": Case(Complementary(), Frequency(5), 4),
    "products, shared draws": Case(Complementary(), Shared(5), 4),
    "products, one batch": Case(Complementary(), Shared(5), N_ROWS),
    "products, the label's own count": Case(NoiseContrastive(), Shared(5), 4),
    "products, all classes": Case(Exact(), Everything(), 4, sparse=False),
}


QUICK = ("products, shared draws", "vector")


def steps_to_compare():
    """The case of `auto`; the rest takes long."""
    for name in CASES:
        for per in ("coordinate", "vector"):
            marks = () if (name, per) == QUICK else pytest.mark.slow
            yield pytest.param(name, per, id=f"{per}-{name}", marks=marks)


@pytest.mark.parametrize(("name", "per"), list(steps_to_compare()))
@pytest.mark.parametrize("head", [(), (2, 7)], ids=["", "exact classes"])
def test_steps_are_those_of_the_twin(data, name, head, per):
    bound, sampler, batch_size, sparse = CASES[name]
    problem = problem_of(data, sparse, head=np.array(head, np.int64))
    solver = replace(SOLVER, per=per)
    parts = Parts(Gumbel(), bound, sampler, solver)
    shared = SharedClasses.applies(Workload(parts, KIND, problem.sizes, batch_size))
    assert shared == name.startswith("products")
    epochs, n_steps = 2, 2 * -(-N_ROWS // batch_size)
    found = train(problem, parts, some_model(), batch_size, epochs)
    model, values = twin.train(
        data.X,
        data.y,
        data.row_weights,
        some_model(),
        batches_with_draws(problem, sampler, batch_size, epochs, shared),
        ROWS[bound.name],
        rate=0.3,
        n_steps=n_steps,
        per_vector=per == "vector",
    )
    tight: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(found.vectors, np.concatenate([model.V, model.U]), **tight)
    np.testing.assert_allclose(found.intercepts, model.b, **tight)
    means = np.reshape(values, (epochs, -1)).sum(axis=1) / data.row_weights.sum()
    np.testing.assert_allclose(found.values, means, **tight)


# Gradients


@pytest.mark.parametrize("head", [(), (2, 7)], ids=["", "exact classes"])
def test_gradients_are_differences_of_the_objective(data, monkeypatch, deterministic_case, head):
    monkeypatch.setattr("bigcat.training.lbfgs.full_rows", full_rows.plain)
    bound, noise = deterministic_case.bound, deterministic_case.pair.noise
    few = Data(*(part[:4] for part in data))
    problem = problem_of(few, sparse=not head, l2=0.3, head=np.array(head, np.int64))
    parts = Parts(noise, bound, Everything(), LBFGS())
    objective = Objective(problem, parts, KIND)
    model = some_model(seed=2, size=0.7)
    weights = np.concatenate([model.V, model.U])

    def value(theta):
        return objective(theta[: weights.size].reshape(weights.shape), theta[weights.size :])[0]

    _, grad_w, grad_b = objective(weights, model.b)
    theta, step = np.concatenate([weights.ravel(), model.b]), 1e-5
    directions = np.random.default_rng(0).normal(size=(6, theta.size))  # each moves all weights
    numeric = [(value(theta + step * d) - value(theta - step * d)) / (2 * step) for d in directions]
    found = directions @ np.concatenate([grad_w.ravel(), grad_b])
    # The best q is that of the expectation, not quite that of its few nodes.
    limit = 2e-3 if bound.n_local and noise.name != "gumbel" else 2e-6
    np.testing.assert_allclose(found, numeric, rtol=10 * limit, atol=limit)


# Draws that a batch shares


@kernel
def draw_for_batches(sampler, rng, rows, classes, counts, sizes, always):
    for r in range(classes.shape[0]):
        sizes[r], always[r] = draw(sampler, rng, rows, 0, -1, classes[r], counts[r])


@pytest.mark.parametrize("n_negatives", [1, 5, 40])
@pytest.mark.parametrize("head", [(), (3,), (0, 5, 8)], ids=str)
def test_a_shared_draw_is_unbiased_for_every_label(data, n_negatives, head):
    """Without the label, a class stands for one on average, and none comes twice."""
    repeats, problem = 20_000, problem_of(data, head=np.array(head, np.int64))
    sampler = Shared(n_negatives)
    width = sampler.width(N_CLASSES, problem.head) + 1  # all classes may come, the label too
    classes, counts = np.full((repeats, width + 1), -1), np.empty((repeats, width + 1))
    sizes, always = np.empty(repeats, np.int64), np.empty(repeats, np.int64)
    tag, rng = sampler.lower(problem), new_state(np.random.RandomState(6))
    draw_for_batches(tag, rng, problem.rows, classes, counts, sizes, always)
    assert (always == len(head)).all()
    assert (classes[:, : len(head)] == head).all()
    weight = np.zeros((repeats, N_CLASSES))
    for r in range(repeats):
        drawn = classes[r, : sizes[r]]
        assert len(set(drawn)) == sizes[r]
        weight[r, drawn] = counts[r, : sizes[r]]
    limit = stats.norm.isf(1e-6 / 2 / N_CLASSES) * weight.std(axis=0) / np.sqrt(repeats)
    assert (np.abs(weight.mean(axis=0) - 1.0) <= limit + 1e-7).all()
    # Draws of the label are left out after the fact, as `Frequency` does: so each row's sample
    # has the counts of one, and the label stands for what it would have stood for.
    of_labels = np.empty(N_CLASSES)
    label_counts(tag, of_labels)
    for label in range(N_CLASSES):
        own, own_counts = np.empty(width + 1, np.int64), np.empty(width + 1)
        n, _ = draw_once(tag, rng, problem.rows, 0, label, own, own_counts)
        assert own_counts[n] == of_labels[label]
        assert label not in own[:n]
        whole = weight[:, label] / of_labels[label]
        np.testing.assert_allclose(whole, np.rint(whole), atol=1e-5)


# Tails, bits, threads


PRODUCTS = Parts(Gumbel(), Complementary(), Shared(5), replace(SOLVER, per=QUICK[1]))


@pytest.mark.parametrize("size", [1e9, -1e9])
def test_huge_scores_stay_finite(data, size):
    model = some_model()
    vectors = [
        train(problem_of(data), PRODUCTS, huge, 4)
        for huge in (
            model._replace(V=size * model.V),
            model._replace(U=size * model.U),
            model._replace(b=size * model.b),
        )
    ]
    for found in vectors:
        assert np.isfinite(found.vectors).all()
        assert np.isfinite(found.intercepts).all()
        assert np.isfinite(found.values).all()
        assert (np.array(found.values) < -1e6).all()


def test_scores_that_overflow_are_an_error_with_advice(data):
    model = some_model()
    huge = model._replace(V=1e200 * model.V, U=1e200 * model.U)
    with pytest.raises(DivergedError, match=r"complementary objective became .* lower learning_r"):
        train(problem_of(data), PRODUCTS, huge, 4)


def test_one_thread_gives_the_same_bits_and_two_run(data):
    one, again = (train(problem_of(data), PRODUCTS, some_model(), 4, epochs=3) for _ in range(2))
    for name in Trained._fields:
        assert np.array_equal(getattr(one, name), getattr(again, name))
    two = train(problem_of(data), PRODUCTS, some_model(), 4, epochs=3, n_threads=2)
    np.testing.assert_allclose(two.values, one.values, atol=0.5)


# When products apply, and the two ways to see the weights


def test_weights_as_people_see_them_give_the_same_scores(data):
    problem, model = problem_of(data), some_model()
    seen = KIND.as_weights(np.concatenate([model.V, model.U]), problem)
    X = twin.unit(data.X, data.row_weights) * data.X
    scores = np.array([model.scores(x) - model.b for x in X])
    np.testing.assert_allclose(data.X @ seen.features @ seen.classes.T, scores, rtol=1e-12)
    np.testing.assert_allclose(
        KIND.as_trained(seen, problem, np.float64),
        np.concatenate([model.V, model.U]),
        rtol=1e-14,
    )
    assert seen.shape == (N_CLASSES, N_FEATURES)
    assert (seen.kind, seen.size) == (KIND, RANK * (N_CLASSES + N_FEATURES))
    some = seen.take(np.array([1, 0]))
    assert isinstance(some, LowRankWeights)
    assert some.shape == (2, N_FEATURES)
